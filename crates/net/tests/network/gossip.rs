//! Messages to everyone.

use std::time::Duration;

use alphorn_net::{DropReason, Kind, Priority, Refused, Verdict};

use crate::machine::{BLOCKS, Machine, VOTES, bytes, connect};

/// Subscribes all machines and waits until each has `peers` in its mesh of votes.
async fn subscribe<const N: usize>(machines: &[Machine; N], peers: [u64; N]) {
    for machine in machines {
        machine.handle.subscribe(VOTES).expect("a topic of ours");
    }
    for (machine, peers) in machines.iter().zip(peers) {
        let full =
            |kind: Kind| move |status: &alphorn_net::Status| status.kind(kind).mesh_peers == peers;
        machine.until("a full mesh", full(Kind::Vote)).await;
    }
}

#[tokio::test]
async fn only_accepted_messages_go_on_and_rejected_ones_count_against_their_bringer() {
    let mut machines: [Machine; 3] = Machine::several(|_, _| {});
    let [a, b, c] = &mut machines;
    connect(a, b).await;
    connect(b, c).await;
    subscribe(&machines, [1, 2, 1]).await;
    let [a, b, c] = &mut machines;
    for (value, verdict) in [
        (1, Verdict::Ignore),
        (2, Verdict::Reject),
        (3, Verdict::Accept),
    ] {
        let sent = a.handle.publish(VOTES, bytes(value, 100), Priority::Duty);
        assert_eq!(sent, Ok(()));
        let message = b.message().await;
        assert_eq!(*message.data, [value; 100]);
        assert_eq!(message.topic.to_string(), VOTES);
        assert_eq!(b.handle.verdict(message.token, verdict), Ok(()));
        // The second one does nothing.
        assert_eq!(b.handle.verdict(message.token, Verdict::Reject), Ok(()));
    }
    let message = c.message().await;
    assert_eq!(*message.data, [3; 100]);
    assert!(c.no_message_for(Duration::from_millis(300)).await);
    let id = a.handle.id();
    b.until("a penalty of 20", |status| {
        let peer = status.peers.iter().find(|peer| peer.id == id);
        peer.is_some_and(|peer| (-21.0..-18.0).contains(&peer.score))
    })
    .await;
    let status = b.handle.status();
    let votes = status.kind(Kind::Vote);
    assert_eq!((votes.messages_in, votes.bytes_in), (3, 300));
    assert_eq!((votes.messages_out, votes.bytes_out), (1, 100));
    assert_eq!(status.tokens, 0);
}

#[tokio::test]
async fn a_long_message_comes_once_and_a_short_one_as_often_as_it_is_forwarded() {
    let mut machines: [Machine; 3] = Machine::several(|_, _| {});
    let [a, b, c] = &mut machines;
    connect(a, b).await;
    let address = c.address().await;
    a.handle.dial(address.clone()).expect("room");
    b.handle.dial(address).expect("room");
    a.up(&c.handle).await;
    b.up(&c.handle).await;
    subscribe(&machines, [2, 2, 2]).await;
    let [a, b, c] = &mut machines;
    for (value, length) in [(1, 4000), (2, 100)] {
        let sent = a
            .handle
            .publish(VOTES, bytes(value, length), Priority::Duty);
        assert_eq!(sent, Ok(()));
        let tokens = [b.message().await.token, c.message().await.token];
        // Time for the note that the long one is not wanted any more.
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(b.handle.verdict(tokens[0], Verdict::Accept), Ok(()));
        assert_eq!(c.handle.verdict(tokens[1], Verdict::Accept), Ok(()));
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    for machine in [&b, &c] {
        let votes = machine.handle.status().kind(Kind::Vote);
        assert_eq!(votes.messages_in - votes.duplicates, 2);
        assert_eq!(votes.bytes_in, 4000 + 100 * (1 + votes.duplicates));
        assert!(votes.duplicates <= 1, "{votes:?}");
    }
    assert!(b.no_message_for(Duration::from_millis(50)).await);
    // The same bytes again are known to everyone, the publisher first.
    let again = a.handle.publish(VOTES, bytes(2, 100), Priority::Duty);
    assert_eq!(again, Ok(()));
    a.until("a repetition noticed", |status| {
        status.dropped(DropReason::Republished) == 1
    })
    .await;
}

#[tokio::test]
async fn without_a_verdict_in_time_nothing_is_forwarded() {
    let mut machines: [Machine; 2] = Machine::several(|_, config| {
        config.gossip.heartbeat_ms = 100;
        config.gossip.history = 4;
    });
    let [a, b] = &mut machines;
    connect(a, b).await;
    subscribe(&machines, [1, 1]).await;
    let [a, b] = &mut machines;
    let sent = a.handle.publish(VOTES, bytes(1, 10), Priority::Normal);
    assert_eq!(sent, Ok(()));
    let message = b.message().await;
    b.until("an expired token", |status| {
        status.dropped(DropReason::Expired) == 1 && status.tokens == 0
    })
    .await;
    assert_eq!(b.handle.verdict(message.token, Verdict::Accept), Ok(()));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let votes = b.handle.status().kind(Kind::Vote);
    assert_eq!(votes.messages_out, 0);
}

/// As votes for a block that nobody has do.
#[tokio::test]
async fn messages_that_wait_without_end_keep_no_other_peers_out() {
    let mut machines: [Machine; 3] = Machine::several(|_, config| config.limits.tokens_max = 16);
    let [a, b, c] = &mut machines;
    connect(a, b).await;
    connect(b, c).await;
    subscribe(&machines, [1, 2, 1]).await;
    let [a, b, c] = &mut machines;
    let mut tokens = Vec::new();
    for value in 0..16 {
        let sent = a.handle.publish(VOTES, bytes(value, 50), Priority::Normal);
        assert_eq!(sent, Ok(()));
        tokens.push(b.message().await.token);
    }
    let sent = a.handle.publish(VOTES, bytes(16, 50), Priority::Normal);
    assert_eq!(sent, Ok(()));
    let dropped =
        |count| move |status: &alphorn_net::Status| status.dropped(DropReason::Tokens) == count;
    b.until("one too many", dropped(1)).await;
    let sent = c.handle.publish(VOTES, bytes(200, 50), Priority::Normal);
    assert_eq!(sent, Ok(()));
    let honest = b.message().await;
    assert_eq!(honest.data[0], 200);
    b.until("the newest one gave way", dropped(2)).await;
    // A verdict on what gave way does nothing.
    assert_eq!(b.handle.verdict(tokens[15], Verdict::Accept), Ok(()));
    assert_eq!(b.handle.verdict(tokens[14], Verdict::Accept), Ok(()));
    assert_eq!(b.handle.verdict(honest.token, Verdict::Accept), Ok(()));
    assert_eq!(a.message().await.data[0], 200);
    assert_eq!(c.message().await.data[0], 14);
    b.until("all others wait", |status| status.tokens == 14)
        .await;
    let status = b.handle.status();
    assert_eq!(status.kind(Kind::Vote).messages_out, 2);
    assert_eq!(status.dropped(DropReason::Expired), 0);
}

#[tokio::test]
async fn what_is_not_of_this_network_is_refused_at_the_door() {
    let [a] = Machine::several(|_, _| {});
    let publish = |topic: &str, length| a.handle.publish(topic, bytes(0, length), Priority::Duty);
    assert_eq!(
        publish(VOTES, 8 * 1024 + 1),
        Err(Refused::Long {
            bytes: 8193,
            bytes_max: 8192
        })
    );
    for topic in [
        "/alphorn/01020305/block/raw",
        "/alphorn/01020304/vote_0_1/raw",
        "/alphorn/01020304/aggregate_2_1_0/raw",
    ] {
        assert_eq!(publish(topic, 1), Err(Refused::OtherNetwork), "{topic}");
        assert_eq!(a.handle.subscribe(topic), Err(Refused::OtherNetwork));
    }
    assert!(matches!(publish("votes", 1), Err(Refused::Topic(_))));
    assert_eq!(publish(BLOCKS, 256 * 1024), Ok(()));
    a.until("nobody to take it", |status| {
        status.dropped(DropReason::NoPeers) == 1
    })
    .await;
}

#[tokio::test]
async fn a_peer_brings_twice_what_is_expected_and_no_more() {
    let mut machines: [Machine; 3] = Machine::several(|index, config| {
        // The flooder itself expects much.
        config.topic_messages_per_slot.vote = if index == 0 { 10_000 } else { 5 };
        config.slot_ms = 60_000;
    });
    let [a, b, c] = &mut machines;
    connect(a, b).await;
    connect(b, c).await;
    subscribe(&machines, [1, 2, 1]).await;
    let [a, b, c] = &mut machines;
    for value in 0..100 {
        let sent = a.handle.publish(VOTES, bytes(value, 50), Priority::Normal);
        assert_eq!(sent, Ok(()));
    }
    b.until("90 too many", |status| {
        status.dropped(DropReason::Rate) == 90
    })
    .await;
    // Another peer is not concerned.
    let sent = c.handle.publish(VOTES, bytes(200, 50), Priority::Normal);
    assert_eq!(sent, Ok(()));
    let mut values = Vec::new();
    for _ in 0..11 {
        values.push(b.message().await.data[0]);
    }
    assert!(values.contains(&200), "{values:?}");
    assert!(b.no_message_for(Duration::from_millis(50)).await);
}

#[tokio::test]
async fn a_burst_of_votes_and_of_verdicts_loses_nothing() {
    const VOTES_MAX: u32 = 512;
    let mut machines: [Machine; 3] = Machine::several(|_, config| {
        // The longest messages leave the connections the shortest queues.
        config.topic_bytes_max.block = 16 * 1024 * 1024;
    });
    let [a, b, c] = &mut machines;
    connect(a, b).await;
    connect(b, c).await;
    subscribe(&machines, [1, 2, 1]).await;
    let [a, b, c] = &mut machines;
    for vote in 0..VOTES_MAX {
        let mut data = vec![0; 200];
        data[..4].copy_from_slice(&vote.to_le_bytes());
        let sent = a.handle.publish(VOTES, data.into(), Priority::Normal);
        assert_eq!(sent, Ok(()));
    }
    let mut tokens = Vec::new();
    while tokens.len() < VOTES_MAX as usize {
        tokens.push(b.message().await.token);
    }
    for token in tokens {
        assert_eq!(b.handle.verdict(token, Verdict::Accept), Ok(()));
    }
    for _ in 0..VOTES_MAX {
        c.message().await;
    }
    let status = b.handle.status();
    assert_eq!(status.kind(Kind::Vote).messages_out, u64::from(VOTES_MAX));
    assert_eq!(status.drops.iter().sum::<u64>(), 0, "{status:?}");
}

#[tokio::test]
async fn a_message_above_the_limit_of_its_kind_is_held_against_its_bringer() {
    let mut machines: [Machine; 2] = Machine::several(|index, config| {
        config.topic_bytes_max.vote = if index == 0 { 9000 } else { 8000 };
    });
    let [a, b] = &mut machines;
    connect(a, b).await;
    subscribe(&machines, [1, 1]).await;
    let [a, b] = &mut machines;
    let sent = a.handle.publish(VOTES, bytes(1, 8001), Priority::Normal);
    assert_eq!(sent, Ok(()));
    // At least once: it may be asked for again, since nothing invalid is remembered.
    b.until("a penalty of 20 or more", |status| {
        let peer = status.peers.first();
        peer.is_some_and(|peer| peer.score < -18.0)
    })
    .await;
    assert!(b.handle.status().dropped(DropReason::Malformed) >= 1);
    assert!(b.no_message_for(Duration::from_millis(50)).await);
}
