//! The fate of the heads of a run: how often a node switches to another branch, how many blocks of honest proposers
//! survive, and how long it takes until a block is final.
//!
//! A node's head is examined when it takes a block before the votes of a slot, and right before these votes, as
//! that is what it would build and vote on. Between votes and their collections, a head says nothing about the
//! network.

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
    /// The slot before whose votes it is examined next.
    next: Slot,
    /// The previous head.
    head: Option<Root>,
    /// How often the head was on another branch than the one before.
    reorgs: u64,
    /// Most blocks abandoned at once.
    depth: u64,
    /// Maximum number of slots from the newest final block to the slot in which votes are due.
    unfinal: u64,
}

impl Heads {
    /// Creates the record of a node whose first vote is in the slot `first`.
    pub(super) fn new(first: Slot) -> Self {
        Heads {
            next: first,
            head: None,
            reorgs: 0,
            depth: 0,
            unfinal: 0,
        }
    }

    /// Examines the head if votes are due now.
    pub(super) fn before_votes(&mut self, now: Time, plan: &Plan, chain: &Chain) {
        if now < plan.phase_of(self.next, Phase::Vote) {
            return;
        }
        self.look(chain);
        let lag = self.next.0.saturating_sub(chain.finalised().slot.0);
        self.unfinal = self.unfinal.max(lag);
        // A node that was down may have missed several.
        while plan.phase_of(self.next, Phase::Vote) <= now {
            self.next = self.next.next();
        }
    }

    /// Examines the head after a block was taken, if the votes of its slot are still to come.
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
        // A branch that was cut off by finality is no longer known.
        self.depth = self.depth.max(left.count().max(1) as u64);
    }
}

/// The fate of the chain in a run of several slots, as seen by its honest nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// How often the head switched to another branch, at the node with the most switches.
    pub reorgs: u64,
    /// Most blocks that any node's head abandoned at once.
    pub reorg_depth: u64,
    /// Blocks that honest proposers published.
    pub blocks: u64,
    /// Number of those that are not in the chain at the end.
    pub blocks_lost: u64,
    /// Maximum number of slots from the newest final block to the slot in which a node votes, over all nodes and
    /// times.
    pub slots_to_final: u64,
}

impl Fate {
    /// Evaluates these nodes. The chain is that of the first.
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
