//! One node of a Horn network: the protocol's own state machine, on top of one dissemination state machine for each
//! topic that the node is a member of.
//!
//! Here is its state. What it does at an input is in `handle.rs`.

use super::blocks::Blocks;
use super::casting::Casts;
use super::heads::Heads;
use super::message::{BlockBody, EvidenceBody, Item, Parts};
use super::plan::{Plan, TopicId};
use super::subscription::{Pending, Subscription};
use crate::graph::Graph;
use crate::role::Output;
use crate::slab::Slab;
use alphorn_proto::Peer;
use alphorn_proto::horn::Horn;
use alphorn_proto::wire::Kind;
use alphorn_scheme::{JobId, Part, Statement, Work};
use alphorn_types::{Slot, Support, Time, Unit, Validator};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// What a node shows of the slot.
#[derive(Clone, Debug)]
pub(crate) enum HornDelivery {
    /// A hosted validator publishes its vote of a slot, of this many bytes.
    Voted(Slot, Validator, u64),
    /// A hosted aggregator publishes.
    Aggregated(Arc<EvidenceBody>),
    /// A hosted collector publishes.
    Collected(Arc<EvidenceBody>),
    /// A collection was accepted.
    Accepted(Arc<EvidenceBody>),
    /// The hosted proposer publishes.
    Proposed(Arc<BlockBody>),
    /// The chain took a block.
    Imported(Arc<BlockBody>),
}

/// Stands for no sender.
// Above `SOURCES`, so that no report about it leaves the node.
pub(super) const NO_PEER: Peer = Peer(u64::MAX);

/// The inputs that a job sums.
struct Summed {
    job: JobId,
    slot: Slot,
    /// Positions in the epoch.
    range: Range<u32>,
    /// Start of each part in that range, and its support.
    parts: Vec<(u32, Arc<Support>)>,
}

/// See the [module](self).
pub(crate) struct HornNode {
    pub(super) plan: Arc<Plan>,
    pub(super) graph: Arc<Graph>,
    pub(super) node: u32,
    pub(super) now: Time,
    /// Topics, ascending, and their subscriptions.
    topics: Vec<TopicId>,
    pub(super) subscriptions: Vec<Subscription<Item>>,
    /// Broadcasts in coded pieces, if there are any.
    pub(super) casts: Option<Box<Casts>>,
    /// Blocks that it has, and those that messages wait for.
    pub(super) blocks: Blocks,
    /// History of its head.
    pub(super) heads: Heads,
    /// The earliest deadline of any subscription, and the index of that subscription.
    pub(super) beat: Option<(Time, usize)>,
    pub(super) machine: Box<Horn>,
    /// The state machine's deadline.
    pub(super) due: Option<Time>,
    /// Messages with a pending verdict, and the index of their subscription.
    pub(super) waiting: Slab<(u32, Pending<Item>)>,
    /// The inputs of recent jobs.
    summed: Vec<Summed>,
    pub(super) out: VecDeque<Output<Self>>,
}

impl std::fmt::Debug for HornNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HornNode({})", self.node)
    }
}

impl HornNode {
    /// Creates a node with its topics, ascending, and its broadcasts, if it has any.
    pub(crate) fn new(
        plan: Arc<Plan>,
        graph: Arc<Graph>,
        node: u32,
        subscriptions: Vec<Subscription<Item>>,
        casts: Option<Box<Casts>>,
        machine: Horn,
    ) -> Self {
        let mut node = HornNode {
            now: Time::ZERO,
            beat: None,
            due: Some(plan.begin()),
            heads: Heads::new(plan.slot),
            plan,
            graph,
            node,
            topics: subscriptions
                .iter()
                .map(|subscription| subscription.id)
                .collect(),
            subscriptions,
            casts,
            blocks: Blocks::default(),
            machine: Box::new(machine),
            waiting: Slab::default(),
            summed: Vec::new(),
            out: VecDeque::new(),
        };
        node.find_beat();
        node
    }

    /// The plan shared by all nodes.
    pub(crate) fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The connections of all nodes.
    pub(crate) fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// The node's number.
    pub(crate) fn node(&self) -> u32 {
        self.node
    }

    /// The neighbours that send it blocks, by its numbers for them.
    pub(crate) fn block_peers(&self) -> Vec<u32> {
        let subscription = self.find(self.plan.block_topic());
        subscription.map_or_else(Vec::new, |index| self.subscriptions[index].links().to_vec())
    }

    /// The protocol's state machine.
    pub(crate) fn machine(&self) -> &Horn {
        &self.machine
    }

    /// History of its head.
    pub(super) fn heads(&self) -> &Heads {
        &self.heads
    }

    #[inline]
    pub(super) fn find(&self, topic: TopicId) -> Option<usize> {
        self.topics.binary_search(&topic).ok()
    }

    /// Searches all subscriptions for the earliest deadline.
    pub(super) fn find_beat(&mut self) {
        let subscriptions = self.subscriptions.iter().enumerate();
        let due =
            subscriptions.filter_map(|(i, subscription)| Some((subscription.next_deadline()?, i)));
        self.beat = due.min();
    }

    /// Records the inputs that evidence will be the sum of.
    pub(super) fn note(&mut self, job: JobId, work: &Work) {
        let Work::Combine(combine) = work else {
            return;
        };
        let Statement {
            slot, first, len, ..
        } = combine.statement;
        let range = first..first + len;
        let part = |part: &Part| (first + part.offset, part.evidence.support.clone());
        let parts = combine.parts.iter().map(part).collect();
        // The sums for a slot are published before the next slot ends. A job that named bad inputs is repeated once
        // without them, so of two jobs of a range the newer one counts.
        self.summed
            .retain(|known| known.range != range && known.slot.next() >= slot);
        self.summed.push(Summed {
            job,
            slot,
            range,
            parts,
        });
    }

    /// A job was cut to the inputs that there is time for: its evidence is the sum of those alone.
    pub(super) fn cut(&mut self, job: JobId, leftover: u32) {
        let summed = self.summed.iter_mut().find(|summed| summed.job == job);
        if let Some(Summed { parts, .. }) = summed {
            // A job is cut to a prefix of its inputs, which `parts` has in the same order.
            parts.truncate(parts.len().saturating_sub(leftover as usize));
        }
    }

    /// The parts that the evidence of a unit is the sum of.
    pub(super) fn parts_of(&self, slot: Slot, unit: Unit) -> Parts {
        let layout = &self.plan.config.layout;
        let range = layout.unit_range(unit);
        let is_of = |one: &&Summed| one.slot == slot && one.range == range;
        let summed = self.summed.iter().find(is_of);
        let parts = summed.into_iter().flat_map(|summed| &summed.parts);
        let part = |(first, support): &(u32, Arc<Support>)| {
            let part = layout.unit_at(unit.level - 1, *first);
            (self.plan.post(part), support.clone())
        };
        parts.map(part).collect()
    }

    /// Number of aggregates and collections of the last slot that hosted validators had inputs for, but that were
    /// neither published nor held back for adding too little.
    pub(crate) fn unfinished(&self) -> u64 {
        let Some(duties) = self.machine.duties(self.plan.last()) else {
            return 0;
        };
        let done = &duties.done;
        let unfinished = |kind| {
            let is_of = |unit: &Unit| self.plan.format.kind(unit.level) == kind;
            let makers = duties.makers.iter();
            let due = makers.filter(|(_, unit, had_some)| *had_some && is_of(unit));
            let ended = done.on_time(kind) + done.late(kind) + done.held_back(kind);
            (due.count() as u64).saturating_sub(ended)
        };
        unfinished(Kind::Aggregate) + unfinished(Kind::Collection)
    }
}
