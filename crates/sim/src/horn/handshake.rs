//! Makes the connections by which a member joins topics, and answers those who make them.

use super::join::Join;
use super::message::{Handshake, HornMessage, Inner};
use super::node::HornNode;
use super::plan::TopicId;
use crate::gossip::{Peers, Priority};
use crate::role::Output;
use alphorn_proto::Peer;

impl HornNode {
    /// Joins a topic with some of its members.
    pub(super) fn join(&mut self, join: Join) {
        let handshake = Handshake {
            bytes: join.bytes,
            is_first: true,
        };
        self.shake_hands(Peers::List(join.peers), join.topic, handshake);
    }

    /// Answers a peer that joins.
    pub(super) fn answer_handshake(&mut self, from: Peer, topic: TopicId, handshake: Handshake) {
        if handshake.is_first {
            let answer = Handshake {
                is_first: false,
                ..handshake
            };
            self.shake_hands(Peers::One(from), topic, answer);
        }
    }

    fn shake_hands(&mut self, to: Peers, topic: TopicId, handshake: Handshake) {
        let inner = Inner::Handshake(handshake);
        self.out.push_back(Output::Send {
            to,
            message: HornMessage { topic, inner },
            // Nothing waits for it.
            priority: Priority::Answer as u8,
        });
    }
}
