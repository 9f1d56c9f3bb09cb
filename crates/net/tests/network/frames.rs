//! Frames to one peer.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use alphorn_net::{DropReason, Event, Peer, Refused};
use futures::StreamExt;
use libp2p::swarm::dummy;
use libp2p::{Multiaddr, SwarmBuilder};

use crate::machine::{Machine, bytes, connect};

/// The first byte and the length of the next frame.
async fn frame(machine: &mut Machine, from: Peer) -> (u8, usize) {
    machine
        .wait("frame", |event| match event {
            Event::Frame { peer, data } if *peer == from => Some((data[0], data.len())),
            _ => None,
        })
        .await
}

/// Waits until so many frames have left.
async fn left(machine: &mut Machine, to: Peer, count: u32) {
    let mut seen = 0;
    while seen < count {
        seen += machine
            .wait("send slot", |event| match event {
                Event::SendReady { peer, frames } if *peer == to => Some(*frames),
                _ => None,
            })
            .await;
    }
}

#[tokio::test]
async fn every_frame_arrives_whole_and_frees_its_place() {
    let [mut a, mut b] = Machine::several(|_, _| {});
    let (to, from) = connect(&mut a, &mut b).await;
    let mut expected = BTreeSet::new();
    for value in 0..40u8 {
        let length = 1 + usize::from(value) * 2000;
        expected.insert((value, length));
        let sent = a
            .handle
            .send_frame(to, bytes(value, length), u64::from(value));
        assert_eq!(sent, Ok(()));
    }
    let mut came = BTreeSet::new();
    for _ in 0..40 {
        came.insert(frame(&mut b, from).await);
    }
    assert_eq!(came, expected);
    left(&mut a, to, 40).await;
    assert_eq!(a.handle.status().frames, [0, 40]);
    assert_eq!(b.handle.status().frames, [40, 0]);
    // The other way as well.
    assert_eq!(b.handle.send_frame(from, bytes(7, 320 * 1024), 1), Ok(()));
    assert_eq!(frame(&mut a, to).await, (7, 320 * 1024));
    assert_eq!(
        a.handle.send_frame(to, bytes(0, 320 * 1024 + 1), 1),
        Err(Refused::Long {
            bytes: 320 * 1024 + 1,
            bytes_max: 320 * 1024
        })
    );
    assert_eq!(
        a.handle.send_frame(77, bytes(0, 1), 1),
        Err(Refused::Peer(77))
    );
}

#[tokio::test]
async fn frames_to_a_peer_without_the_protocol_leave_as_well() {
    let [mut a] = Machine::several(|_, _| {});
    let to = a.address().await.socket();
    // Speaks nothing, and stays.
    let mut silent = SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_quic()
        .with_behaviour(|_| dummy::Behaviour)
        .unwrap()
        .with_swarm_config(|config| config.with_idle_connection_timeout(Duration::from_secs(60)))
        .build();
    let address = format!("/ip4/{}/udp/{}/quic-v1", to.ip(), to.port());
    silent.dial(address.parse::<Multiaddr>().unwrap()).unwrap();
    let running = tokio::spawn(async move {
        loop {
            silent.select_next_some().await;
        }
    });
    let peer = a
        .wait("connection", |event| match event {
            Event::PeerUp { peer, .. } => Some(*peer),
            _ => None,
        })
        .await;
    for _ in 0..3 {
        assert_eq!(a.handle.send_frame(peer, bytes(1, 1000), 1), Ok(()));
        left(&mut a, peer, 1).await;
    }
    assert_eq!(a.handle.status().frames, [0, 0]);
    running.abort();
}

#[tokio::test]
async fn what_waits_can_be_taken_back_and_the_queue_is_bounded() {
    let [mut a, mut b] = Machine::several(|_, config| {
        config.limits.peer_bytes_per_s_max = 1024 * 1024;
        config.limits.send_queue_bytes_max = 3 * 1024 * 1024;
    });
    let (to, from) = connect(&mut a, &mut b).await;
    // The windows of the connection take some frames, and then as many as the peer reads.
    let mut accepted = 0;
    let full = loop {
        match a.handle.send_frame(to, bytes(1, 256 * 1024), 5) {
            Ok(()) => accepted += 1,
            Err(full) => break full,
        }
    };
    assert!(accepted >= 12, "{accepted}");
    assert_eq!(
        full,
        Refused::Full {
            what: "bytes of frames to the peer",
            bound: 3 * 1024 * 1024
        }
    );
    a.handle.cancel_frame(to, 5);
    // All of them are accounted for: the cancelled ones at once, the four that had begun later.
    for _ in 0..8 {
        assert_eq!(a.handle.send_frame(to, bytes(2, 256 * 1024), 6), Ok(()));
    }
    left(&mut a, to, 1).await;
    frame(&mut b, from).await;
}

#[tokio::test]
async fn a_peer_is_read_no_faster_than_its_rate() {
    let [mut a, mut b] = Machine::several(|_, config| {
        config.limits.peer_bytes_per_s_max = 1024 * 1024;
    });
    let (to, from) = connect(&mut a, &mut b).await;
    let started = Instant::now();
    for _ in 0..13 {
        let sent = a.handle.send_frame(to, bytes(1, 256 * 1024), 5);
        assert_eq!(sent, Ok(()));
    }
    for _ in 0..13 {
        frame(&mut b, from).await;
    }
    // 3.25 MiB at 1 MiB/s, of which the first is a burst.
    let elapsed = started.elapsed();
    assert!(elapsed >= Duration::from_millis(2100), "{elapsed:?}");
    let peer = b.handle.status().link_bytes[0];
    assert!(peer >= 13 * 256 * 1024, "{peer}");
}

#[tokio::test]
async fn a_driver_that_does_not_read_costs_a_bounded_queue() {
    let [mut a, mut b] = Machine::several(|_, config| {
        config.limits.peer_bytes_per_s_max = 256 * 1024 * 1024;
        config.limits.inbox_bytes_max = 2 * 1024 * 1024;
    });
    let (to, _) = connect(&mut a, &mut b).await;
    let started = Instant::now();
    let mut sent = 0;
    while sent < 200 && started.elapsed() < Duration::from_secs(5) {
        match a.handle.send_frame(to, bytes(1, 128 * 1024), 5) {
            Ok(()) => sent += 1,
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
    b.until("frames dropped", |status| {
        status.dropped(DropReason::KindShare) > 0
    })
    .await;
    let (count, held) = b.handle.status().inbox;
    assert!(
        held <= 2 * 1024 * 1024 / 4 * 3,
        "{count} frames, {held} bytes"
    );
}
