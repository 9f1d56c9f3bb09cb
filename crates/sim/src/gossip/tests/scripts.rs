//! Whatever peers send, in any order, a node keeps its bounds.

use super::world::Node;
use crate::gossip::{Config, DenseId, Ids, Input, Machine, Message, Output, PEERS_MAX};
use crate::role::flood::Blob;
use alphorn_proto::{Peer, Token, Verdict};
use alphorn_types::Time;
use std::sync::Arc;

/// Maximum number of messages that a node of [`config`] may let wait.
const WAITING_MAX: usize = 8;

/// A sequence of pseudo-random numbers (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Small bounds, so that short scripts exceed them.
fn config() -> Config {
    Config {
        degree: 3,
        degree_low: 2,
        degree_high: 4,
        refuse_above_bytes: Some(8),
        history_max: 6,
        history_bytes_max: 64,
        waiting_max: WAITING_MAX as u16,
        waiting_peer_max: 3,
        announced_beat_max: 6,
        announcements_beat_max: 3,
        refused_beat_max: 6,
        ahead_peer_max: 4,
        answers_beat_max: 6,
        answer_bytes_beat_max: 20,
        ids_max: 5,
        ..Config::default()
    }
}

fn message(numbers: &mut Numbers) -> Message<Blob> {
    // Few identities, so that messages collide; occasionally one far above all others.
    let name = |numbers: &mut Numbers| match numbers.below(50) {
        0 => DenseId(u32::MAX),
        _ => DenseId(numbers.below(24) as u32),
    };
    let id = name(numbers);
    let payload = Blob {
        bytes: numbers.below(30),
        valid: true,
    };
    let count = 1 + numbers.below(8);
    let ids = Ids::new((0..count).map(|_| name(numbers)).collect()).expect("at least one");
    match numbers.below(9) {
        0..3 => Message::Data { id, payload },
        3 => Message::Relay { id, payload },
        4 => Message::IHave(ids),
        5 => Message::IWant(ids),
        6 => Message::IDontWant(ids),
        7 => Message::Graft,
        _ => Message::Prune,
    }
}

#[test]
fn no_script_passes_the_bounds_of_a_node() {
    let (mut asked, mut refused) = (0, 0);
    for script in 1..300 {
        let mut numbers = Numbers(script * 0x9e37_79b9 + 1);
        let mut node = Node::new(Arc::new(config()), script);
        let (mut now, mut tokens) = (Time::from_millis(1), Vec::new());
        for step in 0..200 {
            let peer = Peer(match numbers.below(20) {
                0 => 100 + numbers.below(100),
                _ => numbers.below(6),
            });
            let input = match numbers.below(12) {
                0 | 1 => Input::PeerUp { peer },
                2 => Input::PeerDown { peer },
                3 => {
                    now = now.saturating_add_ns(numbers.below(1 << 30));
                    Input::Deadline
                }
                4 | 5 => Input::Verdict {
                    token: tokens.pop().unwrap_or(Token(numbers.below(99))),
                    verdict: [Verdict::Accept, Verdict::Ignore, Verdict::Reject]
                        [numbers.below(3) as usize],
                },
                6 => Input::Publish {
                    id: DenseId(step),
                    payload: Blob {
                        bytes: numbers.below(30),
                        valid: true,
                    },
                },
                _ => Input::Message {
                    from: peer,
                    message: message(&mut numbers),
                },
            };
            node.handle(now, input);
            while let Some(output) = node.poll_output() {
                match output {
                    Output::Validate { token, .. } => tokens.push(token),
                    Output::Send { to, .. } => {
                        let mut peers = to.iter();
                        assert!(!to.is_empty() && peers.all(|peer| peer.0 < PEERS_MAX as u64));
                    }
                    Output::Report { .. } => refused += 1,
                    Output::Cancel { .. } | Output::Deliver { .. } => {}
                }
            }
            assert!(tokens.len() <= WAITING_MAX, "{} wait", tokens.len());
            asked += tokens.len();
            let strangers = node.mesh().minus(node.peers());
            assert!(strangers.is_empty(), "a stranger in the mesh");
        }
    }
    assert!(asked > 1000 && refused > 1000, "the scripts reach nothing");
}
