//! Who is connected to whom.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use alphorn_net::{Address, DownReason, Event, Listen, NetworkDigest, Transport, start};

use crate::machine::{Machine, bytes, config, connect, keys};

async fn down(machine: &mut Machine) -> DownReason {
    machine
        .wait("end of a connection", |event| match event {
            Event::PeerDown { reason, .. } => Some(*reason),
            _ => None,
        })
        .await
}

#[tokio::test]
async fn a_banned_peer_goes_and_comes_back_when_its_time_is_over() {
    let [mut a, mut b] = Machine::several(|_, config| config.limits.ban_ms = 1200);
    let (_, from) = connect(&mut a, &mut b).await;
    b.handle.report(from, 100).expect("room");
    assert_eq!(down(&mut b).await, DownReason::Banned);
    // The other side may believe for a moment that it is connected again; this one never does.
    let handle = a.handle.clone();
    let again = tokio::time::timeout(Duration::from_millis(500), b.up(&handle)).await;
    assert!(again.is_err(), "banned for 1.2 s");
    let number = b.up(&handle).await;
    assert!(number > from, "no number is used twice");
}

#[tokio::test]
async fn a_hundred_points_are_a_ban_and_fewer_a_score() {
    let [mut a, mut b] = Machine::several(|_, _| {});
    let (_, from) = connect(&mut a, &mut b).await;
    b.handle.report(from, 50).expect("room");
    b.until("a score of -50", |status| {
        let peer = status.peers.first();
        peer.is_some_and(|peer| (-50.0..-45.0).contains(&peer.score))
    })
    .await;
    b.handle.report(from, 60).expect("room");
    assert_eq!(down(&mut b).await, DownReason::Banned);
}

#[tokio::test]
async fn a_partition_is_made_and_healed() {
    let [mut a, mut b] = Machine::several(|_, _| {});
    connect(&mut a, &mut b).await;
    a.handle.block(b.handle.id(), true).expect("room");
    assert_eq!(down(&mut a).await, DownReason::Blocked);
    assert_eq!(down(&mut b).await, DownReason::Lost);
    a.handle.block(b.handle.id(), false).expect("room");
    a.up(&b.handle).await;
    b.up(&a.handle).await;
}

#[tokio::test]
async fn a_machine_of_another_network_is_sent_away() {
    let [a, mut b] = Machine::several(|index, config| {
        config.network = NetworkDigest([index as u8; 4]);
    });
    a.handle.dial(b.address().await).expect("room");
    // Either may be the first to notice.
    let ended = |machine: &Machine| {
        machine.handle.status().disconnections[DownReason::OtherNetwork as usize]
    };
    let started = Instant::now();
    while ended(&a) + ended(&b) == 0 {
        assert!(
            started.elapsed() < Duration::from_secs(9),
            "still connected"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_peer_says_its_name() {
    let [mut a, mut b] = Machine::several(|index, config| {
        config.agent = format!("test/{index}");
    });
    let (theirs, _) = connect(&mut a, &mut b).await;
    a.until("its name", |status| {
        let mut peers = status.peers.iter();
        peers.any(|peer| peer.peer == theirs && &*peer.client == "test/1")
    })
    .await;
}

#[tokio::test]
async fn a_machine_that_restarts_is_dialled_again() {
    let keys = keys(2);
    let mut a = Machine::start(config(&keys[0]));
    let mut b = Machine::start(config(&keys[1]));
    let address = b.address().await;
    a.handle.dial(address.clone()).expect("room");
    a.up(&b.handle).await;
    // Only who knows of a connection can close it.
    b.up(&a.handle).await;
    b.handle.shutdown();
    while b.events.recv().await.is_some() {}
    assert_eq!(down(&mut a).await, DownReason::Lost);
    let mut second = config(&keys[1]);
    let port = address.to_string();
    let port = port.split('/').nth(4).and_then(|port| port.parse().ok());
    let socket = SocketAddr::from(([127, 0, 0, 1], port.expect("a port")));
    second.listen[0].address = socket;
    let mut b = Machine::start(second);
    b.up(&a.handle).await;
}

/// As where a program ends because something else of it does not begin.
#[tokio::test]
async fn the_end_is_waited_for_where_nobody_reads_events() {
    let mut a = Machine::start(config(&keys(1)[0]));
    let address = a.address().await.socket();
    drop(a.events);
    a.handle.end(Duration::from_secs(20));
    std::net::UdpSocket::bind(address).expect("its port is free");
}

/// What a machine that was killed leaves behind: a connection that its peer believes in.
#[tokio::test]
async fn a_machine_that_comes_again_takes_its_own_place() {
    let keys = keys(2);
    let mut a = Machine::start(config(&keys[0]));
    let mut before = Machine::start(config(&keys[1]));
    let address = a.address().await;
    before.handle.dial(address.clone()).expect("room");
    let first = a.up(&before.handle).await;
    before.up(&a.handle).await;
    // The connection is no longer one of two that were dialled at once.
    tokio::time::sleep(Duration::from_millis(3_200)).await;
    let mut after = Machine::start(config(&keys[1]));
    after.handle.dial(address).expect("room");
    assert_eq!(down(&mut a).await, DownReason::Lost);
    before.handle.shutdown();
    while before.events.recv().await.is_some() {}
    after.up(&a.handle).await;
    let second = a.up(&after.handle).await;
    assert!(second > first, "no number is used twice");
}

#[tokio::test]
async fn tcp_carries_as_well() {
    let [mut a, mut b] = Machine::several(|_, config| {
        config.listen[0].transport = Transport::Tcp;
    });
    let (to, from) = connect(&mut a, &mut b).await;
    assert_eq!(a.handle.send_frame(to, bytes(3, 300_000), 1), Ok(()));
    let data = b
        .wait("frame", |event| match event {
            Event::Frame { peer, data } if *peer == from => Some(data.len()),
            _ => None,
        })
        .await;
    assert_eq!(data, 300_000);
}

#[tokio::test]
async fn tcp_is_used_where_quic_does_not_answer() {
    let [mut a, mut b] = Machine::several(|_, config| {
        config.listen[0].transport = Transport::Tcp;
    });
    let tcp = b.address().await;
    assert!(tcp.to_string().contains("/tcp/"), "{tcp}");
    // The discard port: nobody answers there.
    let quic: Address = format!("/ip4/127.0.0.1/udp/9/quic-v1/p2p/{}", b.handle.id())
        .parse()
        .expect("address");
    a.handle.dial(quic).expect("room");
    a.handle.dial(tcp).expect("room");
    a.up(&b.handle).await;
    b.up(&a.handle).await;
}

#[tokio::test]
async fn a_socket_that_is_taken_is_an_error_with_its_address() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("its address");
    let mut config = config(&keys(1)[0]);
    config.listen = vec![Listen {
        address,
        transport: Transport::Tcp,
    }];
    let error = start(config).map(drop).expect_err("the port is taken");
    let text = error.to_string();
    assert!(text.contains(&address.to_string()), "{text}");
    assert!(text.to_lowercase().contains("in use"), "{text}");
}
