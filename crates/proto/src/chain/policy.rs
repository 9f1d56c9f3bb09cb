//! What the fork choice does besides counting votes: the policies, and what they know of the slot.
//!
//! | policy | what it adds | against |
//! |---|---|---|
//! | `lmd` | nothing: the latest votes of two slots | |
//! | `proposer-boost` | a block of the current slot that came before the vote weighs a third of all | ex-ante reorganisation, balancing |
//! | `view-merge` | what comes between the end of a slot and the next vote waits, unless the proposer's block brings it | the same, as long as proposers are honest and messages come in time |
//!
//! *The boost.* Where a thirty-second of the validators votes in a slot, it is 40 % of that part
//! (consensus-specs, `PROPOSER_SCORE_BOOST`). Here all vote in each slot, and each counts once. An
//! adversary with a share β moves β at most, however many slots it saved up, so a boost above β
//! keeps an honest block in place; and an adversary that proposes has boost + β against the 1 − β
//! that voted for the block before, so the boost must be below 1 − 2β. A third satisfies both for
//! all β below a third; 40 % does for β below 30 %. Of two blocks that a proposer signs for its slot neither has
//! the boost where both are known: or the one that comes first at a node would decide its vote, and the proposer could
//! divide the votes as it likes.
//!
//! *View-merge* is after D'Amato, Neu, Tas and Tse, "Goldfish" (2022), and D'Amato and Zanolini,
//! "Recent Latest Message Driven GHOST" (2023): the view freezes at the end of a slot; the proposer
//! does not freeze its own, and its block says what it saw: its ancestors and the votes in it.

use std::collections::BTreeSet;
use std::fmt::Debug;

use super::Chain;
use super::fork_choice::LatestVotes;
use crate::wire::Root;

/// What a fork choice does besides counting latest votes.
pub(crate) trait ForkChoice: Debug + Sync {
    /// What a block of the current slot that came in time weighs besides votes, of `total`.
    fn boost(&self, total: u64) -> u64;

    /// Whether what comes between the end of a slot and the vote in the next one waits.
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
    /// The same with a boost for the block of the current slot.
    #[default]
    ProposerBoost,
    /// The same on a view that freezes before each proposal.
    ViewMerge,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Lmd, Self::ProposerBoost, Self::ViewMerge];

    /// What it does.
    pub(crate) fn rule(self) -> &'static dyn ForkChoice {
        match self {
            Self::Lmd => &Lmd,
            Self::ProposerBoost => &ProposerBoost,
            Self::ViewMerge => &ViewMerge,
        }
    }
}

/// What a chain knows of the present slot, for its policy.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) policy: Policy,
    /// The vote of the slot has been cast: a block of the slot comes late.
    voted: bool,
    /// The first block of the slot that came in time.
    boosted: Option<Root>,
    /// The proposer of that one has signed another one.
    contradicted: bool,
    /// The votes as they were when the view froze, with those that the proposer brought.
    pub(super) frozen: Option<LatestVotes>,
    /// Blocks that came since then and that the proposer did not bring.
    late: BTreeSet<Root>,
}

impl View {
    /// A slot begins.
    pub(super) fn begin(&mut self) {
        self.voted = false;
        (self.boosted, self.contradicted) = (None, false);
    }

    /// Whether a block takes no part until the view thaws.
    pub(super) fn is_late(&self, root: &Root) -> bool {
        self.late.contains(root)
    }

    /// The block that weighs more, and by how much.
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
    /// The same with another fork choice.
    #[must_use]
    pub(crate) fn with_policy(mut self, policy: Policy) -> Self {
        self.view.policy = policy;
        self
    }

    /// The slot is over: of what comes from now on, a policy may let wait all that the next proposer
    /// does not bring.
    pub(crate) fn freeze(&mut self) {
        self.view.thaw();
        if self.view.policy.rule().freezes() {
            self.view.frozen = Some(self.latest.clone());
        }
    }

    /// The vote of the slot has been cast: a block of this slot comes late now, and what waited is
    /// counted.
    pub(crate) fn thaw(&mut self) {
        self.view.voted = true;
        self.view.thaw();
    }

    /// Notes a block that was inserted last.
    pub(super) fn note(&mut self, index: usize) {
        let node = &self.nodes[index];
        let in_time = node.header.slot == self.latest.slot && !self.view.voted;
        if in_time {
            let first = *self.view.boosted.get_or_insert(node.root);
            let proposer = self.header(&first).map(|header| header.proposer);
            self.view.contradicted |= first != node.root && proposer == Some(node.header.proposer);
        }
        if self.view.frozen.is_none() {
            return;
        }
        if in_time {
            // Its ancestors too, as far as there are late ones.
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
