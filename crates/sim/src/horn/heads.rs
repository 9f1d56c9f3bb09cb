//! What becomes of the heads of a run: how often a node goes over to another branch, what is left of honest
//! proposers' blocks, and how long it takes until a block is final.
//!
//! A node's head is looked at when it takes a block before the votes of a slot, and right before these votes: what
//! it would build and vote on. Between votes and their collections a head says nothing of the network.

use super::followed::Followed;
use super::plan::Plan;
use alphorn_proto::chain::Chain;
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::Root;
use alphorn_types::{Slot, Time};
use std::collections::BTreeSet;

/// The head of a node over a run.
#[derive(Debug)]
pub(super) struct Heads {
    /// The slot before whose votes it is looked at next.
    next: Slot,
    /// The last one.
    head: Option<Root>,
    /// How often it was of another branch than the one before.
    reorgs: u64,
    /// Most blocks that it left at a time.
    depth: u64,
    /// Most slots from the newest final block to the slot in which votes are due.
    unfinal: u64,
}

impl Heads {
    /// Of a node that votes first in a slot.
    pub(super) fn new(first: Slot) -> Self {
        Heads {
            next: first,
            head: None,
            reorgs: 0,
            depth: 0,
            unfinal: 0,
        }
    }

    /// Looks at the head if votes are due now.
    pub(super) fn before_votes(&mut self, now: Time, plan: &Plan, chain: &Chain) {
        if now < plan.phase_of(self.next, Phase::Vote) {
            return;
        }
        self.look(chain);
        let lag = self.next.0.saturating_sub(chain.finalised().slot.0);
        self.unfinal = self.unfinal.max(lag);
        while plan.phase_of(self.next, Phase::Vote) <= now {
            self.next = self.next.next();
        }
    }

    /// Looks at the head after a block was taken, if the votes of its slot are still to come.
    pub(super) fn after_block(&mut self, now: Time, block: Slot, plan: &Plan, chain: &Chain) {
        if now < plan.phase_of(block, Phase::Vote) {
            self.look(chain);
        }
    }

    fn look(&mut self, chain: &Chain) {
        let head = chain.head();
        let before = self.head.replace(head);
        let Some(before) = before.filter(|before| !chain.is_ancestor(before, &head)) else {
            return;
        };
        let left = chain.ancestors(&before);
        let left = left.take_while(|(root, _)| !chain.is_ancestor(root, &head));
        self.reorgs += 1;
        // A branch that finality cut off is not known any more.
        self.depth = self.depth.max(left.count().max(1) as u64);
    }
}

/// What became of the chain in a run of several slots, by its honest nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// How often the head went over to another branch, at the node at which it did most often.
    pub reorgs: u64,
    /// Most blocks that a head left at a time, at any node.
    pub reorg_depth: u64,
    /// Blocks that honest proposers published.
    pub blocks: u64,
    /// Those of them that are not in the chain at the end.
    pub blocks_lost: u64,
    /// Most slots from the newest final block to the slot in which a node votes, at any node and time.
    pub slots_to_final: u64,
}

impl Fate {
    /// Of these nodes; the chain is that of the first.
    pub(super) fn of<'a>(
        nodes: impl Iterator<Item = (&'a Heads, &'a Chain)>,
        blocks: impl Iterator<Item = &'a Followed>,
        is_honest: impl Fn(u32) -> bool,
    ) -> Fate {
        let mut fate = Fate::default();
        let mut chain = None;
        for (heads, own) in nodes {
            chain.get_or_insert(own);
            fate.reorgs = fate.reorgs.max(heads.reorgs);
            fate.reorg_depth = fate.reorg_depth.max(heads.depth);
            fate.slots_to_final = fate.slots_to_final.max(heads.unfinal);
        }
        let roots = |chain: &Chain| -> BTreeSet<Root> {
            let chain = chain.ancestors(&chain.head());
            chain.map(|(root, _)| root).collect()
        };
        let canonical = chain.map(roots).unwrap_or_default();
        let honest = blocks.filter(|followed| is_honest(followed.proposer));
        for block in honest.filter_map(|followed| followed.block.as_ref()) {
            fate.blocks += 1;
            fate.blocks_lost += u64::from(!canonical.contains(&block.root));
        }
        fate
    }
}
