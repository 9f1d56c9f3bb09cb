//! Fork choice policies: what the fork choice does besides counting votes, and its view of the
//! slot.
//!
//! | policy | what it adds | against |
//! |---|---|---|
//! | `lmd` | nothing: the latest votes of two slots | |
//! | `proposer-boost` | a timely block of its slot gets a third of all weight | ex-ante reorganisation, balancing |
//! | `view-merge` | messages between the end of a slot and the next vote are held back | the same |
//!
//! *The boost.* A block is timely if it arrives before the vote. Where a thirty-second of the
//! validators votes in a slot, the boost is 40 % of that part (consensus-specs,
//! `PROPOSER_SCORE_BOOST`). Here all validators vote in each slot, and each counts once. An
//! adversary with a share β moves at most β, however many slots of votes it saved up, so a boost
//! above β keeps an honest block in place. An adversary that proposes has boost + β against the 1 −
//! β that voted for the previous block, so the boost must be below 1 − 2β. A third satisfies both
//! for all β below a third; 40 % does for β below 30 %. If a proposer signs two blocks for its
//! slot, neither is boosted once both are known. Otherwise the block that arrives first at a node
//! would decide its vote, and the proposer could split the votes at will.
//!
//! *View-merge* follows D'Amato, Neu, Tas and Tse, "Goldfish" (2022), and D'Amato and Zanolini,
//! "Recent Latest Message Driven GHOST" (2023): the view freezes at the end of a slot. The proposer
//! does not freeze its own view, and what its block includes is not held back: its ancestors and
//! the votes in it. It protects as long as proposers are honest and messages arrive in time.

use std::collections::BTreeSet;
use std::fmt::Debug;

use super::Chain;
use super::fork_choice::LatestVotes;
use crate::wire::Root;

/// What a fork choice does besides counting latest votes.
pub(crate) trait ForkChoice: Debug + Sync {
    /// Extra weight of a timely block of the current slot, given the `total` weight.
    fn boost(&self, total: u64) -> u64;

    /// Whether messages between the end of a slot and the next vote are held back.
    fn freezes(&self) -> bool;
}

/// Latest votes alone.
#[derive(Debug)]
struct Lmd;

/// Latest votes and a boost for the proposer.
#[derive(Debug)]
struct ProposerBoost;

/// Latest votes of a view that freezes.
#[derive(Debug)]
struct ViewMerge;

impl ForkChoice for Lmd {
    fn boost(&self, _: u64) -> u64 {
        0
    }

    fn freezes(&self) -> bool {
        false
    }
}

impl ForkChoice for ProposerBoost {
    fn boost(&self, total: u64) -> u64 {
        total / 3
    }

    fn freezes(&self) -> bool {
        false
    }
}

impl ForkChoice for ViewMerge {
    fn boost(&self, _: u64) -> u64 {
        0
    }

    fn freezes(&self) -> bool {
        true
    }
}

/// A fork choice by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// Latest votes of two slots.
    Lmd,
    /// The same, with a boost for the block of the current slot.
    #[default]
    ProposerBoost,
    /// The same on a view that freezes before each proposal.
    ViewMerge,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::Lmd, Self::ProposerBoost, Self::ViewMerge];

    /// The implementation.
    pub(crate) fn rule(self) -> &'static dyn ForkChoice {
        match self {
            Self::Lmd => &Lmd,
            Self::ProposerBoost => &ProposerBoost,
            Self::ViewMerge => &ViewMerge,
        }
    }
}

/// What a chain knows of the current slot, for its policy.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) policy: Policy,
    /// The vote of the slot has been cast: a block of the slot is now late.
    voted: bool,
    /// The first timely block of the slot.
    boosted: Option<Root>,
    /// The proposer of that block has signed another one.
    contradicted: bool,
    /// The votes when the view froze, plus those that the proposer included.
    pub(super) frozen: Option<LatestVotes>,
    /// Blocks received since then that the proposer did not include.
    late: BTreeSet<Root>,
}

impl View {
    /// Starts a slot.
    pub(super) fn begin(&mut self) {
        // The frozen votes and the late blocks stay: the view thaws when this slot votes.
        self.voted = false;
        (self.boosted, self.contradicted) = (None, false);
    }

    /// Whether a block is excluded until the view thaws.
    pub(super) fn is_late(&self, root: &Root) -> bool {
        self.late.contains(root)
    }

    /// The boosted block, and its boost.
    pub(super) fn boost(&self, total: u64) -> Option<(Root, u64)> {
        let boost = self.policy.rule().boost(total);
        let boosted = self.boosted.filter(|_| !self.contradicted);
        boosted.map(|root| (root, boost))
    }

    fn thaw(&mut self) {
        self.frozen = None;
        self.late.clear();
    }
}

impl Chain {
    /// Replaces the fork choice policy.
    #[must_use]
    pub(crate) fn with_policy(mut self, policy: Policy) -> Self {
        self.view.policy = policy;
        self
    }

    /// Ends the slot. From now on, a policy may hold back everything that the next proposer does
    /// not include.
    pub(crate) fn freeze(&mut self) {
        self.view.thaw();
        if self.view.policy.rule().freezes() {
            self.view.frozen = Some(self.latest.clone());
        }
    }

    /// Notes that the vote of the slot has been cast: a block of this slot is now late, and
    /// held-back votes are counted.
    pub(crate) fn thaw(&mut self) {
        self.view.voted = true;
        self.view.thaw();
    }

    /// Notes the block that was inserted last.
    pub(super) fn note(&mut self, index: usize) {
        let node = &self.nodes[index];
        let in_time = node.header.slot == self.latest.slot && !self.view.voted;
        if in_time {
            // By order of arrival, which a proposer of two blocks cannot use: the second one
            // takes the boost from both.
            let first = *self.view.boosted.get_or_insert(node.root);
            let proposer = self.header(&first).map(|header| header.proposer);
            self.view.contradicted |= first != node.root && proposer == Some(node.header.proposer);
        }
        if self.view.frozen.is_none() {
            return;
        }
        if in_time {
            // Its ancestors too, as far as they are late.
            let mut next = Some(index);
            while let Some(i) = next.filter(|_| !self.view.late.is_empty()) {
                self.view.late.remove(&self.nodes[i].root);
                next = self.nodes[i].parent;
            }
        } else {
            self.view.late.insert(node.root);
        }
    }
}
