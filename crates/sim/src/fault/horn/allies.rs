//! Nodes that attack together.
//!
//! They know each other's keys and what every node knows beforehand: which validators propose and collect in which
//! slot. What one of them sees, the others learn only through messages.

use super::collectors::{CellPart, collection, evidence_of};
use crate::fault::{Interval, Parameters};
use crate::horn::node::HornNode;
use crate::horn::{EvidenceBody, HornMessage, Item, Plan};
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::{Vote, VoteMsg, digest};
use alphorn_types::{Cell, Slot, Time};
use std::sync::Arc;

/// Nodes that attack together, as known to one of them.
#[derive(Debug)]
pub(super) struct Allies {
    pub(super) plan: Arc<Plan>,
    node: u32,
    /// Whether a node is an ally, by number.
    nodes: Vec<bool>,
    pub(super) interval: Interval,
}

impl Allies {
    pub(super) fn new(node: &HornNode, parameters: &Parameters) -> Self {
        let plan = node.plan().clone();
        let mut nodes = vec![false; plan.nodes as usize];
        for ally in parameters.allies.iter() {
            nodes[*ally as usize] = true;
        }
        Allies {
            node: node.node(),
            nodes,
            interval: parameters.interval,
            plan,
        }
    }

    pub(super) fn has(&self, node: u32) -> bool {
        self.nodes[node as usize]
    }

    /// A validator of this node.
    pub(super) fn any(&self) -> u32 {
        self.node
    }

    pub(super) fn host(&self, validator: u32) -> bool {
        self.has(self.plan.host(validator))
    }

    pub(super) fn own(&self, validator: u32) -> bool {
        self.plan.host(validator) == self.node
    }

    /// The slot of one of this node's votes, or of evidence that it made, together with the vote itself if it is
    /// one.
    pub(super) fn of_votes(&self, message: &HornMessage) -> Option<(Slot, Option<Vote>)> {
        match message.item()? {
            Item::Vote(data) => {
                let cast = VoteMsg::decode(data, &self.plan.format).ok()?;
                let own = self.own(cast.validator.0);
                own.then_some((cast.vote.slot, Some(cast.vote)))
            }
            Item::Aggregate(body) | Item::Collection(body) => {
                self.own(body.sender).then_some((body.slot, None))
            }
            Item::Block(_) => None,
        }
    }

    /// Whether the block of a slot is proposed by an ally and the next one by an honest proposer, the votes of both
    /// slots are followed, and the fault is active.
    pub(super) fn attack(&self, slot: Slot) -> bool {
        let plan = &self.plan;
        let theirs = |slot| self.host(plan.proposer_of(slot));
        let followed = plan.place(slot).and(plan.place(slot.next())).is_some();
        let lasts = self.interval.contains(plan.slot_start(slot));
        // The first slot of a run has no block of its own.
        slot > plan.slot && followed && lasts && theirs(slot) && !theirs(slot.next())
    }

    /// Whether votes of a slot are saved for the next one, in an attack that starts at slot `begin`.
    pub(super) fn saves(&self, begin: Option<Slot>, slot: Slot) -> bool {
        let plan = &self.plan;
        let lasts = self.interval.contains(plan.slot_start(slot));
        begin.is_some_and(|begin| begin <= slot) && lasts && plan.place(slot.next()).is_some()
    }

    /// Assigns each node to a half: every second honest node and every second ally.
    pub(super) fn sides(&self) -> Vec<bool> {
        let mut last = [true; 2];
        let side = |ally: &bool| {
            let last = &mut last[usize::from(*ally)];
            *last = !*last;
            *last
        };
        self.nodes.iter().map(side).collect()
    }

    /// Halfway between the proposal of a slot and its votes.
    pub(super) fn before_votes(&self, slot: Slot) -> Time {
        let start = self.plan.slot_start(slot);
        let votes = self.plan.phase_of(slot, Phase::Vote);
        start.saturating_add_ns(votes.since_ns(start) / 2)
    }

    /// The allies' collectors of a committee in a slot, by rank.
    pub(super) fn collectors(&self, slot: Slot, committee: u16) -> impl Iterator<Item = u32> + '_ {
        let unit = self.plan.config.layout.committee(committee);
        let servers = self.plan.servers_of(slot, unit).iter();
        let servers = servers.map(|server| server.validator);
        servers.filter(|server| self.host(*server))
    }

    /// A committee's collection by one of the allies, with their votes for `vote` at the positions selected by
    /// `has`.
    pub(super) fn collection(
        &self,
        vote: &Vote,
        committee: u16,
        sender: u32,
        has: impl Fn(u32) -> bool,
    ) -> Option<EvidenceBody> {
        let (plan, layout) = (&self.plan, &self.plan.config.layout);
        let start = layout.committee_range(committee).start;
        let message = digest::vote_message(plan.config.network(), vote);
        let votes = |position: &u32| {
            let voter = plan.assignment.member(*position).0;
            // The votes of validators that do not vote in this run would pass for invented ones.
            has(*position) && self.host(voter) && plan.voters.has(voter)
        };
        let part = |cell: Cell| -> Option<CellPart> {
            let range = layout.cell_range(cell);
            let offset = range.start - start;
            let evidence = evidence_of(plan, vote.slot, message, cell, range.filter(votes))?;
            Some((plan.post(cell.into()), offset, evidence))
        };
        let cells = layout.cells().filter(|cell| cell.committee == committee);
        let parts: Vec<CellPart> = cells.filter_map(part).collect();
        if parts.is_empty() {
            return None;
        }
        collection(plan, *vote, parts, committee, sender)
    }
}
