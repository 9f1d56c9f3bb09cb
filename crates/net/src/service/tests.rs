//! The service without its thread: a test handles its events one by one.

use super::*;
use crate::event::Event;
use crate::{Config, Listen, NetworkDigest, NodeKey, Transport};

/// Handles events until one reaches the driver.
async fn next(service: &mut Service) -> Event {
    loop {
        if let Some(event) = service.shared.inbox.pop() {
            return event;
        }
        let event = service.swarm.select_next_some().await;
        service.on_event(event);
    }
}

#[test]
fn a_socket_that_dies_is_reported_and_opened_again() {
    let mut config = Config::new(NodeKey::generate(), NetworkDigest([1, 2, 3, 4]));
    config.listen = vec![Listen {
        transport: Transport::Tcp,
        address: ([127, 0, 0, 1], 0).into(),
    }];
    let shared = Arc::new(Shared::new(config));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let runtime = Background(Some(runtime));
    let mut service = Service::new(&shared, &runtime).unwrap();
    runtime.0.as_ref().unwrap().block_on(async {
        let Event::Listening { address, .. } = next(&mut service).await else {
            panic!("it listens first");
        };
        let id = service.listeners.only();
        assert!(service.swarm.remove_listener(id));
        let Event::ListenerLost {
            address: lost,
            transport,
            reason,
        } = next(&mut service).await
        else {
            panic!("the driver is not told");
        };
        assert_eq!(lost.ip(), address.ip());
        assert_eq!((transport, reason.as_str()), (Transport::Tcp, "closed"));
        service.on_slow_tick(Instant::now());
        let Event::Listening { address, .. } = next(&mut service).await else {
            panic!("it listens again");
        };
        std::net::TcpStream::connect(address).unwrap();
        assert_ne!(service.listeners.only(), id);
    });
}
