//! More than there is room for.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use alphorn_net::{DropReason, Event, Transport};
use tokio::net::{TcpSocket, TcpStream};

use crate::machine::{Machine, bytes, connect};

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
    // Two hundred machines of one network that say nothing, and come again as soon as they are refused.
    let silent = tokio::spawn(async move {
        let mut held: Vec<Option<TcpStream>> = (0..200).map(|_| None).collect();
        loop {
            for (host, held) in (1_u8..).zip(&mut held) {
                let is_gone = held.as_ref().is_none_or(|stream| {
                    let read = stream.try_read(&mut [0; 64]);
                    !matches!(read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
                });
                if is_gone {
                    *held = from(host, tcp).await.ok();
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    b.until("most of them refused", |status| {
        status.dropped(DropReason::Connections) >= 300
    })
    .await;
    let started = Instant::now();
    let id = b.handle.id();
    let quic = quic.expect("a QUIC listener");
    let quic = alphorn_net::Address::new(quic, Transport::Quic, id);
    let tcp = alphorn_net::Address::new(tcp, Transport::Tcp, id);
    for address in quic.into_iter().chain(tcp) {
        a.handle.dial(address).expect("room");
    }
    b.up(&a.handle).await;
    assert!(
        started.elapsed() < Duration::from_secs(3),
        "{:?}",
        started.elapsed()
    );
    silent.abort();
}

/// A connection from a host of another network than that of honest machines.
async fn from(host: u8, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 9, 0, host], 0).into())?;
    socket.connect(to).await
}

#[tokio::test]
async fn what_is_served_is_bounded_for_all_peers_together() {
    const RATE: u64 = 64 << 10;
    let mut machines: [Machine; 4] = Machine::several(|index, config| {
        if index == 3 {
            config.limits.serve_bytes_per_s_max = RATE;
            config.limits.serve_all_bytes_per_s_max = RATE;
        }
        config.requests[0].chunk_bytes_max = 64 << 10;
        config.requests[0].response_bytes_max = 64 << 10;
    });
    let [a, b, c, server] = &mut machines;
    let address = server.address().await;
    let started = Instant::now();
    for asker in [&mut *a, b, c] {
        asker.handle.dial(address.clone()).expect("room");
        let to = asker.up(&server.handle).await;
        asker
            .handle
            .request(to, "echo", bytes(1, 1), 1)
            .expect("room");
    }
    for _ in 0..3 {
        let channel = server
            .wait("question", |event| match event {
                Event::Request { channel, .. } => Some(*channel),
                _ => None,
            })
            .await;
        let answer = server.handle.respond(channel, Ok(vec![bytes(7, 64 << 10)]));
        answer.expect("room");
    }
    for asker in [a, b, c] {
        let answer = asker.wait("answer", |event| match event {
            Event::Response { result, .. } => Some(result.clone()),
            _ => None,
        });
        assert_eq!(answer.await.map(|chunks| chunks.len()), Ok(1));
    }
    // A bucket was full; two more had to flow in, although each connection has a full one of its own.
    assert!(
        started.elapsed() >= Duration::from_millis(1_900),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn a_peer_that_asks_without_end_reaches_the_driver_at_its_rate() {
    let [mut a, mut b] = Machine::several(|index, config| {
        config.limits.requests_per_peer_max = 64;
        if index == 1 {
            config.limits.requests_per_s_max = 4;
        }
    });
    let (to, _) = connect(&mut a, &mut b).await;
    let started = Instant::now();
    let served = tokio::spawn(async move {
        let mut served = 0_u64;
        while let Some(event) = b.events.recv().await {
            if let Event::Request { channel, .. } = event {
                served += 1;
                b.handle.respond(channel, Ok(vec![])).expect("room");
            }
        }
        served
    });
    let (mut answered, mut refused) = (0_u64, 0_u64);
    for id in 0..100 {
        a.handle.request(to, "echo", bytes(1, 1), id).expect("room");
        let answer = a.wait("answer", |event| match event {
            Event::Response { result, .. } => Some(result.is_ok()),
            _ => None,
        });
        match answer.await {
            true => answered += 1,
            false => refused += 1,
        }
    }
    let rate = 4 * (2 + started.elapsed().as_secs() + 1);
    assert!(answered >= 8 && answered <= rate, "{answered} of {rate}");
    assert_eq!(answered + refused, 100);
    a.handle.shutdown();
    served.abort();
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
    while handle.report(peer, 1).is_ok() && started.elapsed() < Duration::from_secs(5) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(handle.report(peer, 1), Err(alphorn_net::Refused::Closed));
    b.handle.shutdown();
    while b.events.recv().await.is_some() {}
}
