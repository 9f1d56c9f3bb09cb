//! The connections by which members join the topics of votes and aggregates.
//!
//! Duties are known an epoch ahead, so a node that serves in a slot has joined its topics when the slot starts: it
//! has dialled the members that it needs, subscribed and grafted. In a long-running network, each slot therefore also
//! carries the joins for a later slot, for as many topics as it has itself. A run charges for that. In the slot of
//! a topic, at times drawn for each member, the joins are made again over the same links, counting only the bytes.
//! Nothing waits for them.
//!
//! A pair pays for its handshake once in a run, and for a subscription and a GRAFT in each topic. There is no
//! handshake for connections that the scenario's graph has, and no charge between members that stay for many epochs.

use super::connections::End;
use super::plan::{Plan, TopicId};
use crate::graph::Graph;
use crate::latency::mix;
use crate::scenario::Way;
use alphorn_proto::Peer;
use alphorn_types::Time;
use std::sync::Arc;

const DIALS: u64 = 0x686f_726e_0030;
const WHEN: u64 = 0x686f_726e_0031;

/// Bytes of a subscription and of a GRAFT. Each is a topic name, such as `/alphorn/01020304/vote_31_63/raw`, with
/// its tag and length.
const SUBSCRIBE_AND_GRAFT_BYTES: u32 = 2 * (32 + 4);

/// Joins a topic, and others of the same slot, with some of its members.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub(super) topic: TopicId,
    pub(super) peers: Arc<[Peer]>,
    pub(super) bytes: u32,
}

impl Join {
    /// The members it joins with, by the node's numbers for them, and the bytes of one side for each.
    #[cfg(test)]
    pub(super) fn peers(&self) -> (&[Peer], u32) {
        (&self.peers, self.bytes)
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
    let is_joined = |end: &&End| {
        let topic = &plan.topics[end.topic.0 as usize];
        let stays = |node: u32| topic.lasting.binary_search(&node).is_ok();
        // Each pair once. The topics of all nodes have the highest numbers, and their members stay.
        end.node < end.peer
            && end.topic < plan.collection_topic()
            && topic.way != Way::Direct
            && !(stays(end.node) && stays(end.peer))
    };
    let met = ends.iter().filter(is_joined);
    let met = met.map(|end| (end.node, end.peer, plan.place_of(end.topic), end.topic));
    let mut met: Vec<(u32, u32, u32, TopicId)> = met.collect();
    met.sort_unstable();
    let mut dials: Vec<(u32, TopicId, u32, u32)> = Vec::new();
    for pair in met.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let (a, b, ..) = pair[0];
        let mut handshake_bytes = match own.number_of(a, b) {
            Some(_) => 0,
            None => dial_bytes,
        };
        let turned = mix([seed, DIALS, a.into(), b.into()]) % 2 == 1;
        let (from, to) = if turned { (b, a) } else { (a, b) };
        let number = graph.number_of(from, to).expect("the graph has all ends");
        // One message for all topics of a slot in which the pair meets.
        for met in pair.chunk_by(|a, b| a.2 == b.2) {
            let joined = met.len() as u32 * SUBSCRIBE_AND_GRAFT_BYTES;
            // Pairs are in order of slots, so the first slot in which they meet has the handshake.
            let bytes = std::mem::take(&mut handshake_bytes) + joined;
            dials.push((from, met[0].3, bytes, number));
        }
    }
    dials.sort_unstable();
    let of_topic = dials.chunk_by(|a, b| (a.0, a.1, a.2) == (b.0, b.1, b.2));
    let join = |dials: &[(u32, TopicId, u32, u32)]| {
        let (node, topic, bytes, _) = dials[0];
        let slot_ns = plan.slot_end().as_nanos();
        let drawn_ns = mix([seed, WHEN, node.into(), topic.0.into()]) % slot_ns;
        let at_ns = u64::from(plan.place_of(topic)) * slot_ns + drawn_ns;
        let peers = dials.iter().map(|(.., number)| Peer((*number).into()));
        let join = Join {
            topic,
            peers: peers.collect(),
            bytes,
        };
        (Time::from_nanos(at_ns), node, join)
    };
    of_topic.map(join).collect()
}
