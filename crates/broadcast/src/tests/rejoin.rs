//! Peers that were disconnected while a payload was sent.

use super::net::{Net, config, payload};
use crate::rlnc::{Coding, Model16, Rs};
use crate::{CHUNK_BYTES_MAX, Input, Policy};
use alphorn_types::Peer;

const POLICY: Policy = Policy {
    chunks: 8,
    chunk_bytes_max: CHUNK_BYTES_MAX,
    ..Policy::SMALL
};

fn away<C: Coding>(code: C, content: &[u8]) {
    let mut net = Net::new(code, config(POLICY), 20, 8, 3);
    let gone = 11;
    let ends: Vec<(usize, Peer)> = net.links[gone]
        .iter()
        .map(|&node| (node, net.peer_of(node, gone)))
        .chain(
            (0..)
                .map(|number| (gone, Peer(number)))
                .take(net.links[gone].len()),
        )
        .collect();
    for (node, peer) in &ends {
        net.input(*node, Input::PeerDown { peer: *peer });
    }
    net.publish(0, payload(content.len()));
    net.run_ms(3_000);
    assert_eq!(
        net.delivered(content),
        18,
        "all but the source and who is away"
    );
    assert!(net.seen[gone].delivered.is_empty());
    for (node, peer) in &ends {
        net.input(*node, Input::PeerUp { peer: *peer });
    }
    net.run_ms(3_000);
    assert_eq!(net.delivered(content), 19);
    assert_eq!(net.reports, []);
}

#[test]
fn who_was_away_asks_for_what_it_missed() {
    away(Model16::new(1 << 20), &[0; 40_000]);
    away(Rs::new(1 << 20), &payload(40_000));
}
