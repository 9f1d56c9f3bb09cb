//! The connections by which members join the topics of votes and aggregates.
//!
//! Duties are known an epoch ahead, so a node that serves in a slot has joined its topics when the slot starts: it
//! has dialled their other members, subscribed and grafted. In a long-running network, each slot therefore also
//! carries the joins for a later slot, for as many topics as it has itself. A run charges for that. In the slot of
//! a topic, at times drawn for each member, the topic's connections are made again over the same links, counting
//! only the bytes. Nothing waits for them.
//!
//! There is no charge for connections that the scenario's graph has, nor for those between members that stay for
//! many epochs.

use super::connections::End;
use super::message::{HornMessage, Inner};
use super::node::HornNode;
use super::plan::{Plan, TopicId};
use crate::gossip::{Peers, Priority};
use crate::graph::Graph;
use crate::latency::mix;
use crate::role::Output;
use crate::scenario::Way;
use alphorn_proto::Peer;
use alphorn_types::Time;
use std::sync::Arc;

const DIALS: u64 = 0x686f_726e_0030;
const WHEN: u64 = 0x686f_726e_0031;

/// Bytes of a subscription and of a GRAFT. Each is a topic name, such as `/alphorn/01020304/vote_31_63/raw`, with
/// its tag and length.
const SUBSCRIBE_AND_GRAFT_BYTES: u32 = 2 * (32 + 4);

/// One side's part of making a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handshake {
    /// The handshake, the subscription and the GRAFT.
    pub(super) bytes: u32,
    /// Whether the other side has yet to send its own.
    pub(super) is_first: bool,
}

/// Joins a topic by dialling some of its members.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    topic: TopicId,
    peers: Arc<[Peer]>,
    bytes: u32,
}

impl Join {
    /// The members it dials, by the node's numbers for them.
    #[cfg(test)]
    pub(super) fn peers(&self) -> &[Peer] {
        &self.peers
    }
}

/// A join with its time and node.
pub(super) type Dialled = (Time, u32, Join);

/// Returns the joins for the topics of a run, from the ordered ends of its topics. `own` is the scenario's graph,
/// and `dial_bytes` is the handshake of one side.
pub(super) fn joins(
    plan: &Plan,
    graph: &Graph,
    own: &Graph,
    ends: &[End],
    dial_bytes: u32,
    seed: u64,
) -> Vec<Dialled> {
    let is_made = |end: &&End| {
        let topic = &plan.topics[end.topic.0 as usize];
        let stays = |node: u32| topic.lasting.binary_search(&node).is_ok();
        end.node < end.peer
            && end.topic < plan.collection_topic()
            && topic.way != Way::Direct
            && own.number_of(end.node, end.peer).is_none()
            && !(stays(end.node) && stays(end.peer))
    };
    let made = ends.iter().filter(is_made);
    let made = made.map(|end| (plan.place_of(end.topic), end.node, end.peer, end.topic));
    let mut made: Vec<(u32, u32, u32, TopicId)> = made.collect();
    made.sort_unstable();
    // Nodes that meet in several topics of a slot are connected once.
    made.dedup_by_key(|(place, a, b, _)| (*place, *a, *b));
    let dials = |(_, a, b, topic): (u32, u32, u32, TopicId)| {
        let turned = mix([seed, DIALS, a.into(), b.into()]) % 2 == 1;
        let (from, to) = if turned { (b, a) } else { (a, b) };
        graph
            .number_of(from, to)
            .map(|number| (from, topic, number))
    };
    let mut dials: Vec<(u32, TopicId, u32)> = made.into_iter().filter_map(dials).collect();
    dials.sort_unstable();
    let of_topic = dials.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1));
    let join = |dials: &[(u32, TopicId, u32)]| {
        let (node, topic, _) = dials[0];
        let slot_ns = plan.slot_end().as_nanos();
        let drawn_ns = mix([seed, WHEN, node.into(), topic.0.into()]) % slot_ns;
        let at_ns = u64::from(plan.place_of(topic)) * slot_ns + drawn_ns;
        let peers = dials.iter().map(|(.., number)| Peer((*number).into()));
        let join = Join {
            topic,
            peers: peers.collect(),
            bytes: dial_bytes + SUBSCRIBE_AND_GRAFT_BYTES,
        };
        (Time::from_nanos(at_ns), node, join)
    };
    of_topic.map(join).collect()
}

impl HornNode {
    /// Dials members of a topic.
    pub(super) fn join(&mut self, join: Join) {
        let handshake = Handshake {
            bytes: join.bytes,
            is_first: true,
        };
        self.shake_hands(Peers::List(join.peers), join.topic, handshake);
    }

    /// Answers a dialling peer.
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
