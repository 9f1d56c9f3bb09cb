//! What is seen of a slot whose votes are followed: which of them are where, and since when.

use super::message::{BlockBody, EvidenceBody};
use super::milestones::Milestones;
use super::plan::Plan;
use alphorn_types::{Bitfield, Slot};
use std::sync::Arc;

/// What is seen of the votes of a slot. Times are relative to the start of the slot.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) begin_ns: u64,
    /// Host of the proposer of the block that is to carry them.
    pub(super) proposer: u32,
    /// Total number of votes.
    pub(super) votes: u64,
    /// Published evidence by unit below the committees.
    pub(super) aggregates: Vec<Vec<Arc<EvidenceBody>>>,
    /// Votes in published aggregates, by cell; none if these are collections.
    pub(super) aggregated: Option<Vec<Bitfield>>,
    /// Published collections by committee.
    pub(super) collections: Vec<Vec<Arc<EvidenceBody>>>,
    /// Votes in published collections, by committee.
    pub(super) collected: Vec<Bitfield>,
    /// Votes of the best accepted collection of each committee, node by node.
    best: Vec<u32>,
    /// The sums of these by node.
    held: Vec<u64>,
    /// When each node had which share of the votes, counting the best collection of each committee.
    pub(super) milestones: Vec<Milestones>,
    /// Votes that the proposer can credit, by committee; exact.
    pub(super) credited: Vec<Bitfield>,
    /// When the proposer had which share; exact.
    pub(super) at_proposer: Milestones,
    /// The block that is to carry them.
    pub(super) block: Option<Arc<BlockBody>>,
    /// When each node had it.
    pub(super) imported: Vec<Option<u64>>,
    pub(super) voted: u64,
    /// Votes of validators of honest nodes.
    pub(super) honest_voted: u64,
    /// Bytes of the longest vote message.
    pub(super) vote_bytes: u64,
}

impl Followed {
    pub(super) fn new(plan: &Plan, slot: Slot) -> Followed {
        let layout = plan.config.layout;
        let nodes = plan.nodes as usize;
        let committees = 0..layout.committees();
        let committee = |c| Bitfield::new(layout.committee_len(c) as usize);
        let cells = layout.cells().map(|cell| layout.cell_range(cell).len());
        let aggregated = (layout.levels() > 1).then(|| cells.map(Bitfield::new).collect());
        Followed {
            begin_ns: plan.slot_start(slot).as_nanos(),
            proposer: plan.host(plan.proposer(slot)),
            votes: plan.voters.count(),
            aggregates: vec![Vec::new(); plan.posts_below_top() as usize],
            aggregated,
            collections: vec![Vec::new(); committees.len()],
            collected: committees.clone().map(committee).collect(),
            best: vec![0; nodes * committees.len()],
            held: vec![0; nodes],
            milestones: vec![Milestones::default(); nodes],
            credited: committees.map(committee).collect(),
            at_proposer: Milestones::default(),
            block: None,
            imported: vec![None; nodes],
            voted: 0,
            honest_voted: 0,
            vote_bytes: 0,
        }
    }

    /// Number of votes signed, in aggregates, in collections, at the proposer, and in the block.
    pub(super) fn votes(&self, slot: Slot) -> [u64; 5] {
        let count = |bits: &[Bitfield]| bits.iter().map(|bits| bits.count_ones() as u64).sum();
        let committees = (0..).zip(&self.collected);
        let block: Vec<Bitfield> = committees.map(|(c, _)| self.in_block(slot, c)).collect();
        let aggregated = self.aggregated.as_ref().unwrap_or(&self.collected);
        let stages = [aggregated, &self.collected, &self.credited, &block];
        let [aggregated, collected, credited, block] = stages.map(|bits| count(bits));
        [self.voted, aggregated, collected, credited, block]
    }

    /// Number of votes that the proposer can credit.
    pub(super) fn votes_credited(&self) -> u64 {
        let counts = self.credited.iter().map(|bits| bits.count_ones() as u64);
        counts.sum()
    }

    /// Members of a committee whose vote of the slot is in its block.
    pub(super) fn in_block(&self, slot: Slot, committee: u16) -> Bitfield {
        let mut bits = Bitfield::new(self.collected[usize::from(committee)].len());
        let entries = self.block.iter().flat_map(|block| &block.entries);
        let own = entries.filter(|(of, c, _)| (*of, *c) == (slot, committee));
        own.for_each(|(.., signers)| bits.union_with(signers));
        bits
    }

    /// Number of aggregates and collections published, and the bytes of all collections and the block.
    pub(super) fn published(&self) -> (u64, u64, u64) {
        let aggregates = self.aggregates.iter().map(|row| row.len() as u64).sum();
        let collections = self.collections.iter().flatten();
        let bytes: u64 = collections.clone().map(|body| body.data.len() as u64).sum();
        let block = self
            .block
            .as_ref()
            .map_or(0, |block| block.data.len() as u64);
        (aggregates, collections.count() as u64, bytes + block)
    }

    /// Records that a node accepts a collection. Returns whether the proposer can credit more as a result.
    pub(super) fn accept(&mut self, now_ns: u64, node: u32, body: &Arc<EvidenceBody>) -> bool {
        let committee = usize::from(body.unit.committee);
        let all = self.votes;
        let best = &mut self.best[node as usize * self.collections.len() + committee];
        // Exact sets would take 128 KiB for each node with 2^20 votes. Counts of the best collections never exceed
        // what a node has, as committees have no common members.
        if body.votes > *best {
            let held = &mut self.held[node as usize];
            *held += u64::from(body.votes - *best);
            *best = body.votes;
            self.milestones[node as usize].note(now_ns, *held, all);
        }
        if node == self.proposer {
            let credited = &mut self.credited[committee];
            if body.signers.count_and_not(credited) > 0 {
                credited.union_with(&body.signers);
                let votes = self.votes_credited();
                self.at_proposer.note(now_ns, votes, all);
                return true;
            }
        }
        false
    }
}
