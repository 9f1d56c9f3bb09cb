//! Honest nodes: all get the payload, with few bytes, even if pieces are lost.

use super::net::{Net, SUBJECT, config, payload};
use crate::rlnc::{Coding, Generators, Model16, Ristretto, Rs, Subject};
use crate::{CHUNK_BYTES_MAX, Config, Input, Policy, Reject, SourcePrivacy, Unpublished, Work};
use alphorn_exec::Backend;
use alphorn_scheme::Class;
use alphorn_types::{Peer, Time};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const POLICY: Policy = Policy {
    chunks: 8,
    chunk_bytes_max: CHUNK_BYTES_MAX,
    burst: [12, 12, 12],
    credit_milli: 500,
    push_pct: 0,
    source_pieces: 24,
    headers: 0,
    source_run: 1,
    gather_ns: 0,
    feedback: true,
};

fn ristretto() -> Ristretto {
    Ristretto::new(Generators::new(Backend::Portable, 24), 1 << 20)
}

/// All nodes except the source deliver, none is reported, and no more than `waste` payloads per
/// node are sent.
fn all_deliver<C: Coding>(mut net: Net<C>, len: usize, expected: &[u8], waste: u64) -> Net<C> {
    net.publish(0, payload(len));
    net.run_ms(3_000);
    let count = net.nodes.len();
    assert_eq!(net.delivered(expected), count - 1);
    assert!(net.seen[0].delivered.is_empty());
    assert_eq!(net.reports, []);
    assert!(net.seen.iter().all(|seen| seen.convicted.is_empty()));
    let sent = net.bytes_sent / (len * count) as u64;
    assert!(sent <= waste, "{sent} payloads a node");
    net
}

#[test]
fn everybody_gets_the_payload_of_the_model() {
    let net = Net::new(Model16::new(1 << 20), config(POLICY), 40, 10, 1);
    let zeros = vec![0; 100_000];
    let net = all_deliver(net, 100_000, &zeros, 3);
    // Fewer NEED messages than nodes: push does the work.
    let needs: usize = net.seen.iter().map(|seen| seen.needs).sum();
    assert!(needs < 40, "{needs} requests");
}

#[test]
fn everybody_gets_the_payload_of_shards() {
    for in_bytes in [false, true] {
        let mut net = Net::new(Rs::new(1 << 20), config(POLICY), 40, 10, 2);
        net.in_bytes = in_bytes;
        all_deliver(net, 50_000, &payload(50_000), 4);
    }
}

#[test]
fn everybody_gets_the_payload_of_combinations() {
    for in_bytes in [false, true] {
        let mut net = Net::new(ristretto(), config(POLICY), 12, 5, 3);
        net.in_bytes = in_bytes;
        all_deliver(net, 5_000, &payload(5_000), 8);
    }
}

#[test]
fn generations_travel_side_by_side() {
    // There are no chunks with more elements than generators, so there are many small ones.
    let policy = Policy {
        chunks: 2,
        ..POLICY
    };
    let config = Config {
        payload_bytes_max: 2 << 20,
        ..config(policy)
    };
    for in_bytes in [false, true] {
        let mut net = Net::new(Model16::new(2 << 20), config.clone(), 20, 8, 4);
        net.in_bytes = in_bytes;
        let zeros = vec![0; 1_600_000];
        let net = all_deliver(net, 1_600_000, &zeros, 5);
        let id = net.seen[1].delivered[0].0;
        let ranks: Vec<u16> = net.nodes[1].ranks(&id).unwrap().collect();
        assert_eq!(ranks, [2, 2, 2, 2]);
    }
}

#[test]
fn lost_pieces_are_asked_for() {
    let mut net = Net::new(Model16::new(1 << 20), config(POLICY), 30, 8, 5);
    net.lost_one_in = Some(4);
    let zeros = vec![0; 60_000];
    let net = all_deliver(net, 60_000, &zeros, 6);
    let mut shards = Net::new(Rs::new(1 << 20), config(POLICY), 30, 8, 5);
    shards.lost_one_in = Some(4);
    let shards = all_deliver(shards, 60_000, &payload(60_000), 6);
    let needs = |seen: usize| assert!(seen > 0);
    needs(net.seen.iter().map(|seen| seen.needs).sum());
    needs(shards.seen.iter().map(|seen| seen.needs).sum());
}

#[test]
fn large_combinations_are_drawn_by_jobs() {
    let config = Config {
        draw_elements_max: 1000,
        ..config(POLICY)
    };
    let net = Net::new(ristretto(), config, 8, 4, 6);
    all_deliver(net, 3_000, &payload(3_000), 10);
}

#[test]
fn every_privacy_delivers() {
    for source_privacy in [SourcePrivacy::None, SourcePrivacy::Stem] {
        let config = Config {
            source_privacy,
            ..config(POLICY)
        };
        let net = Net::new(Model16::new(1 << 20), config, 30, 8, 7);
        all_deliver(net, 40_000, &vec![0; 40_000], 4);
    }
}

#[test]
fn leaves_receive_and_send_nothing_on() {
    let leaf = Config {
        relay: false,
        ..config(POLICY)
    };
    let mut net = Net::new(Model16::new(1 << 20), leaf, 3, 3, 8);
    // A line 0 - 1 - 2 plus the edges of the graph; without relays only neighbours of 0 deliver.
    net.publish(0, payload(20_000));
    net.run_ms(2_000);
    let direct = net.links[0].len();
    assert_eq!(net.delivered(&vec![0; 20_000]), direct);
    assert!(net.pieces.iter().all(|(from, ..)| *from == 0));
}

#[test]
fn done_cancels_what_waits_for_the_uplink() {
    let slow = Config {
        uplink_bps: 1_000_000,
        ..config(POLICY)
    };
    let mut net = Net::new(Model16::new(1 << 20), slow, 2, 1, 8);
    net.publish(0, payload(50_000));
    net.run_ms(10);
    let id = net.pieces.first().map(|_| net.nodes[0].live_ids().next());
    let id = id.flatten().unwrap();
    net.receive(0, 1, crate::Message::Done { id });
    net.receive(0, 1, crate::Message::Done { id });
    assert_eq!(net.seen[0].cancelled, 1);
    let sent = net.pieces.len();
    net.run_ms(5_000);
    assert_eq!(net.pieces.len(), sent);
}

#[test]
fn the_same_inputs_give_the_same_run() {
    let run = || {
        let mut net = Net::new(Model16::new(1 << 20), config(POLICY), 20, 8, 9);
        net.lost_one_in = Some(9);
        net.publish(0, payload(50_000));
        net.run_ms(2_000);
        let full: Vec<_> = net.seen.iter().map(|seen| seen.full_at).collect();
        (net.bytes_sent, net.pieces, full)
    };
    assert_eq!(run(), run());
}

#[test]
fn own_payloads_are_refused_with_a_reason() {
    let mut net = Net::new(Model16::new(1 << 20), config(POLICY), 2, 1, 10);
    net.publish(0, payload(0));
    net.publish(0, payload(2 << 20));
    net.run_ms(10);
    net.publish(0, payload(1000));
    net.publish(0, payload(1000));
    net.run_ms(10);
    net.publish(0, payload(1000));
    let why = &net.seen[0].unpublished;
    // The second starts while the first is in progress: both have the same subject.
    assert_eq!(why[0], Unpublished::Twice);
    assert!(matches!(why[1], Unpublished::Header(_)));
    assert_eq!(why[2..], [Unpublished::Twice, Unpublished::Twice]);
}

#[test]
fn peers_come_and_go() {
    let mut net = Net::new(Model16::new(1 << 20), config(POLICY), 20, 8, 11);
    net.publish(0, payload(80_000));
    for round in 0..6 {
        net.run_ms(15);
        let node = 3 + round;
        let peer = Peer(0);
        let other = net.links[node][0];
        let back = net.peer_of(other, node);
        net.input(node, Input::PeerDown { peer });
        net.input(other, Input::PeerDown { peer: back });
        net.input(node, Input::PeerUp { peer });
        net.input(other, Input::PeerUp { peer: back });
    }
    net.run_ms(3_000);
    assert_eq!(net.delivered(&vec![0; 80_000]), 19);
    assert_eq!(net.reports, []);
}

#[test]
fn broadcasts_end_and_free_what_they_hold() {
    let mut net = Net::new(Model16::new(1 << 20), config(POLICY), 10, 5, 12);
    net.publish(0, payload(30_000));
    net.run_until(Time::from_millis(2_000));
    assert!(net.nodes.iter().all(|node| node.live_count() == 1));
    net.run_until(Time::from_millis(30_000));
    assert!(net.nodes.iter().all(|node| node.live_count() == 0));
    assert!(net.nodes.iter().all(|node| node.waiting_count() == 0));
    assert!(net.nodes.iter().all(|node| node.next_deadline().is_none()));
    assert!(net.seen.iter().all(|seen| seen.withheld.is_empty()));
    // Pieces arriving now are late, not unknown.
    let (from, to, piece) = net
        .pieces
        .iter()
        .find(|(_, to, _)| *to != 0)
        .cloned()
        .unwrap();
    let id = net.seen[to].delivered[0].0;
    let message = crate::Message::Piece {
        id,
        piece,
        wire_bytes: 0,
    };
    let before = net.refused(Reject::Expired);
    net.receive(to, from, message);
    assert_eq!(net.refused(Reject::Expired), before + 1);
}

#[test]
fn many_subjects_share_the_links() {
    let mut net = Net::new(Model16::new(1 << 20), config(POLICY), 15, 6, 13);
    for index in 0..6 {
        let subject = Subject { index, ..SUBJECT };
        let payload = payload(20_000 + index as usize);
        net.input(index as usize, Input::Publish { subject, payload });
    }
    net.run_ms(4_000);
    for (node, seen) in net.seen.iter().enumerate() {
        let own = usize::from(node < 6);
        assert_eq!(seen.delivered.len(), 6 - own, "node {node}");
    }
    assert_eq!(net.reports, []);
}

/// The protocol's verdict on a payload waits for everything before delivery. None of that waits
/// behind the making of aggregates, of which peers can cause any amount.
#[test]
fn what_a_verdict_waits_for_comes_before_work_of_the_slot() {
    fn classes<C: Coding>(code: C) -> BTreeMap<&'static str, Class> {
        let mut net = Net::new(code, config(POLICY), 10, 5, 3);
        let seen: Rc<RefCell<BTreeMap<&str, Class>>> = Rc::default();
        let classes = seen.clone();
        net.loses = Some(Box::new(move |work| {
            if !matches!(work, Work::Recode { .. }) {
                classes.borrow_mut().insert(work.name(), work.class());
            }
            false
        }));
        net.publish(0, payload(20_000));
        net.run_ms(3_000);
        assert!(net.seen[1..].iter().all(|seen| seen.delivered.len() == 1));
        seen.take()
    }
    let rlnc = classes(Model16::new(1 << 20));
    let rs = classes(Rs::new(1 << 20));
    assert!(rlnc.contains_key("rlnc_decode") && rs.contains_key("rs_decode"));
    for (name, class) in rlnc.into_iter().chain(rs) {
        assert!(class <= Class::Verdict, "{name} is {}", class.name());
    }
}
