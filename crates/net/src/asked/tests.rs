use super::*;
use crate::config::{Limits, RequestProtocol};
use crate::requests::CODE_BUSY;
use crate::{NetworkDigest, NodeKey};

fn asked(limits: Limits) -> Asked {
    let mut config = Config::new(NodeKey::generate(), NetworkDigest([1, 2, 3, 4]));
    config.limits = limits;
    Asked::new(&config)
}

fn stranger(peer: Peer) -> Caller {
    let is_known = false;
    Caller { peer, is_known }
}

fn known(peer: Peer) -> Caller {
    let is_known = true;
    Caller { peer, is_known }
}

type Response = Result<Vec<Arc<[u8]>>, u8>;

fn answer(bytes: usize) -> Response {
    Ok(vec![vec![0; bytes].into()])
}

/// One peer sends requests on all its streams and reads nothing. Others still get their responses.
#[test]
fn a_peer_has_one_long_answer_on_its_way() {
    let asked = asked(Limits {
        responses_bytes_max: 8 * LONG_BYTES,
        ..Limits::default()
    });
    let open = |peer: Peer| asked.open(known(peer), LONG_BYTES).unwrap();
    let (first, reading) = open(1);
    assert_eq!(asked.respond(first, answer(3 * LONG_BYTES)), Ok(()));
    let (second, mut told) = open(1);
    let is_long = |channel: u64| asked.has_long(channel);
    assert!(is_long(second), "nothing is read for it");
    let full = Refused::Full {
        what: "long responses to the peer",
        bound: 1,
    };
    assert_eq!(asked.respond(second, answer(3 * LONG_BYTES)), Err(full));
    // A refused request can still be answered with a code for lack of room.
    assert_eq!(asked.respond(second, Err(CODE_BUSY)), Ok(()));
    assert_eq!(told.try_recv().unwrap().response, Err(CODE_BUSY));
    let (short, _reading) = open(1);
    assert_eq!(asked.respond(short, answer(LONG_BYTES)), Ok(()));
    let (other, _reading) = open(2);
    assert!(!is_long(other));
    assert_eq!(asked.respond(other, answer(3 * LONG_BYTES)), Ok(()));
    // Once it is sent, or given up, there is room again.
    drop(reading);
    let (third, _reading) = open(1);
    assert!(!is_long(third));
    assert_eq!(asked.respond(third, answer(3 * LONG_BYTES)), Ok(()));
}

/// As many strangers as may connect request as much as each may, and read nothing.
#[test]
fn strangers_who_ask_leave_channels_for_peers_that_are_known() {
    let asked = asked(Limits::default());
    let twice = (0..32).flat_map(|peer| [peer, peer]);
    let held: Vec<_> = twice
        .filter_map(|peer| asked.open(stranger(peer), 1))
        .collect();
    assert_eq!(held.len(), 48);
    // Known peers have the rest, and find room where a stranger does not.
    let own: Vec<_> = (32..48)
        .map(|peer| asked.open(known(peer), 1).expect("a channel"))
        .collect();
    assert!(asked.open(known(48), 1).is_none(), "64 in all");
    // A channel is free again once answered, for strangers only while they have fewer than their
    // part.
    assert_eq!(asked.respond(own[0].0, Err(CODE_BUSY)), Ok(()));
    assert!(asked.open(stranger(1), 1).is_none());
    assert_eq!(asked.respond(held[0].0, Err(CODE_BUSY)), Ok(()));
    assert!(asked.open(stranger(1), 1).is_some());
    assert!(asked.open(known(48), 1).is_some());
}

/// The same with the bytes of responses.
#[test]
fn answers_to_strangers_leave_room_for_those_to_peers_that_are_known() {
    let asked = asked(Limits {
        responses_bytes_max: 16 * LONG_BYTES,
        ..Limits::default()
    });
    let mut on_their_way = Vec::new();
    for peer in 0..12 {
        let (channel, reading) = asked.open(stranger(peer), LONG_BYTES).unwrap();
        assert!(asked.has_room(channel));
        assert_eq!(asked.respond(channel, answer(LONG_BYTES)), Ok(()));
        on_their_way.push(reading);
    }
    let (refused, _told) = asked.open(stranger(12), LONG_BYTES).unwrap();
    assert!(!asked.has_room(refused), "nothing is read for it");
    let full = Refused::Full {
        what: "bytes of responses",
        bound: 12 * LONG_BYTES,
    };
    assert_eq!(asked.respond(refused, answer(LONG_BYTES)), Err(full));
    for peer in 13..17 {
        let (channel, reading) = asked.open(known(peer), LONG_BYTES).unwrap();
        assert!(asked.has_room(channel));
        assert_eq!(asked.respond(channel, answer(LONG_BYTES)), Ok(()));
        on_their_way.push(reading);
    }
    let (late, _told) = asked.open(known(17), LONG_BYTES).unwrap();
    assert!(!asked.has_room(late));
    let full = Refused::Full {
        what: "bytes of responses",
        bound: 16 * LONG_BYTES,
    };
    assert_eq!(asked.respond(late, answer(LONG_BYTES)), Err(full));
    on_their_way.pop();
    assert!(asked.has_room(late) && !asked.has_room(refused));
    on_their_way.swap_remove(0);
    assert!(asked.has_room(refused));
    // A departed peer waits for nothing.
    assert_eq!(asked.respond(refused, Err(CODE_BUSY)), Ok(()));
    assert!(!asked.has_room(refused));
    drop(on_their_way);
    let used = [&asked.used.all, &asked.used.of_strangers];
    assert_eq!(used.map(|used| used.load(Ordering::Relaxed)), [0, 0]);
}

/// If there is room for only one of the longest responses, a stranger may use it as well.
#[test]
fn a_stranger_may_have_the_longest_answer() {
    let mut config = Config::new(NodeKey::generate(), NetworkDigest([1, 2, 3, 4]));
    config.limits.responses_bytes_max = LONG_BYTES;
    config.requests = vec![RequestProtocol {
        name: "blocks".to_owned(),
        request_bytes_max: 1,
        chunk_bytes_max: LONG_BYTES,
        chunks_max: 1,
        response_bytes_max: LONG_BYTES,
    }];
    let asked = Asked::new(&config);
    let (channel, _reading) = asked.open(stranger(1), LONG_BYTES).unwrap();
    assert!(asked.has_room(channel));
    assert_eq!(asked.respond(channel, answer(LONG_BYTES)), Ok(()));
}
