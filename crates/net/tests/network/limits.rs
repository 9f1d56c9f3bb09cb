//! More than there is room for.

use std::time::{Duration, Instant};

use alphorn_net::{DropReason, Event, Transport};
use tokio::net::TcpStream;

use crate::machine::{Machine, connect};

#[tokio::test]
async fn one_peer_more_than_allowed_stays_outside() {
    let mut machines: [Machine; 4] = Machine::several(|index, config| {
        if index == 3 {
            config.limits.peers_max = 2;
            config.limits.peers_in_max = 2;
        }
    });
    let [a, b, c, server] = &mut machines;
    let address = server.address().await;
    for dialler in [&a, &b] {
        dialler.handle.dial(address.clone()).expect("room");
    }
    server.up(&a.handle).await;
    server.up(&b.handle).await;
    c.handle.dial(address).expect("room");
    server
        .until("a third connection refused", |status| {
            status.dropped(DropReason::Connections) >= 1
        })
        .await;
    assert_eq!(server.handle.status().connections, [0, 2]);
    // Where one goes, there is room for another.
    a.handle.shutdown();
    server.up(&c.handle).await;
}

#[tokio::test]
async fn silent_connections_do_not_keep_a_peer_out() {
    let mut machines: [Machine; 2] = Machine::several(|_, config| {
        config.listen[0].transport = Transport::Both;
        config.limits.pending_in_max = 16;
    });
    let [a, b] = &mut machines;
    let mut tcp = None;
    let mut quic = None;
    while tcp.is_none() || quic.is_none() {
        let (address, transport) = b
            .wait("listening address", |event| match event {
                Event::Listening { address, transport } => Some((*address, *transport)),
                _ => None,
            })
            .await;
        match transport {
            Transport::Tcp => tcp = Some(address),
            _ => quic = Some(address),
        }
    }
    let tcp = tcp.expect("a TCP listener");
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(tcp).await);
    }
    assert!(silent.iter().filter(|stream| stream.is_ok()).count() >= 100);
    b.until("most of them refused", |status| {
        status.dropped(DropReason::Connections) >= 150
    })
    .await;
    let started = Instant::now();
    let id = b.handle.id();
    let quic = quic.expect("a QUIC listener");
    for address in alphorn_net::Address::new(quic, Transport::Quic, id) {
        a.handle.dial(address).expect("room");
    }
    b.up(&a.handle).await;
    assert!(started.elapsed() < Duration::from_secs(9));
}

#[tokio::test]
async fn a_stopped_network_ends_its_events_and_refuses_everything() {
    let [mut a, mut b] = Machine::several(|_, _| {});
    let (peer, _) = connect(&mut a, &mut b).await;
    let handle = a.handle.clone();
    drop(a.events);
    b.wait("the farewell", |event| {
        matches!(event, Event::PeerDown { .. }).then_some(())
    })
    .await;
    let started = Instant::now();
    while handle.ban(peer).is_ok() && started.elapsed() < Duration::from_secs(5) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(handle.ban(peer), Err(alphorn_net::Refused::Closed));
    b.handle.shutdown();
    while b.events.recv().await.is_some() {}
}
