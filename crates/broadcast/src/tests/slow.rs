//! Peers that take much, or read slowly, and their effect on the others.

use super::net::{Net, config, payload};
use crate::rlnc::Model16;
use crate::{CHUNK_BYTES_MAX, Config, Input, Message, Policy, Want};
use alphorn_types::{Peer, Time};

const BYTES: usize = 4 << 20;
const POLICY: Policy = Policy {
    chunks: 64,
    chunk_bytes_max: CHUNK_BYTES_MAX,
    burst: [12, 12, 12],
    credit_milli: 500,
    push_pct: 0,
    source_pieces: 256,
    headers: 0,
    source_run: 1,
    gather_ns: 0,
    feedback: true,
};

/// Node 0 has all others as peers, and the others have no further peers.
fn star(peers: usize) -> Net<Model16> {
    let config = Config {
        payload_bytes_max: BYTES as u32,
        ..config(POLICY)
    };
    let mut net = Net::new(Model16::new(BYTES as u32), config, peers + 1, 2, 1);
    for node in 0..=peers {
        for peer in 0..net.links[node].len() {
            let peer = Peer(peer as u64);
            net.input(node, Input::PeerDown { peer });
        }
    }
    net.links = vec![vec![0]; peers + 1];
    net.links[0] = (1..=peers).collect();
    for node in 0..=peers {
        for peer in 0..net.links[node].len() {
            let peer = Peer(peer as u64);
            net.input(node, Input::PeerUp { peer });
        }
    }
    net
}

#[test]
fn a_peer_that_does_not_read_holds_up_nobody_else() {
    // The uplink takes 5.2 ms for a piece, and 0.7 s for two payloads.
    for ns in [1_000_000_000, 3_600_000_000_000] {
        let mut net = star(3);
        net.slow = Some((0, 1, ns));
        net.publish(0, payload(BYTES));
        net.run_ms(10_000);
        for peer in [2, 3] {
            let full_at = net.seen[peer].full_at;
            assert!(
                full_at.is_some_and(|at| at < Time::from_millis(2_500)),
                "{peer} of {ns}: {full_at:?}"
            );
        }
    }
}

#[test]
fn peers_that_ask_for_everything_do_not_hold_up_the_burst() {
    let mut net = star(6);
    net.publish(0, payload(BYTES));
    net.run_ms(1);
    let id = net.nodes[0].live_ids().next().unwrap();
    let generations = net.nodes[0].ranks(&id).unwrap().count() as u16;
    for asker in 1..=3 {
        for generation in 0..generations {
            let need = Message::Need {
                id,
                generation,
                want: Want::Count(64),
            };
            net.receive(0, asker, need);
        }
    }
    let before = net.pieces.len();
    // Before any node makes a request because of waiting.
    net.run_ms(60);
    let mut pieces = net.pieces[before..].iter();
    let first = pieces.position(|(_, to, _)| *to > 3);
    // A piece to each asker, with an answer after each.
    assert!(first.is_some_and(|first| first <= 6), "{first:?}");
}
