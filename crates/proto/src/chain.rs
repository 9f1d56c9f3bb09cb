//! A minimal chain that votes can refer to: blocks, included votes, justification, finalisation and
//! a fork choice.
//!
//! - A block has a header and collections from earlier slots. Genesis is the block of slot 0; the
//!   proposer of slot s is validator s mod N.
//! - A vote in slot s names its head, the highest justified checkpoint of the head's chain
//!   (source), and the checkpoint (s, head) (target). Every slot is a checkpoint.
//! - A target is justified in a chain when the signers of its vote *included in blocks of that
//!   chain* hold at least two thirds of the total weight. If it is the slot right after its source,
//!   the source is final (Casper FFG, Buterin and Griffith, 2017, with a checkpoint in each slot).
//!   The same holds if it is two slots after the source and the slot in between is justified in
//!   that chain (Gasper, Buterin and others, 2020, definition 4.9 with k = 2). With full votes the
//!   block of slot s + 1 finalises slot s − 1; where blocks include votes one slot later, so that a
//!   source is two slots old, it finalises slot s − 3.
//! - The fork choice (`fork_choice.rs`) counts votes of two slots (LMD-GHOST with expiry). A
//!   [`Policy`] may add to this.
//!
//! Validators weigh 1 each, or their genesis balances ([`Weights`]). There is no other state: no
//! penalties, no entry or exit. The mix of an epoch is a digest of the last block before the
//! preceding epoch, which the proposer of that block can grind: there is no RANDAO here.
//!
//! Nothing here verifies a signature. The caller must verify blocks and votes before inserting
//! them.

use alphorn_types::{Assignment, Bitfield, Layout, Slot, Supports, Validator};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::wire::{Checkpoint, Entry, Header, Reject, Root, Vote};

mod anchor;
mod ballots;
mod fold;
mod fork_choice;
mod policy;
mod read;
mod room;
mod seats;
mod weights;

pub use anchor::{ANCHOR_BYTES_MAX, Anchor, AnchorError};
pub(crate) use ballots::SETS_MAX;
pub(crate) use fork_choice::Cast;
pub(crate) use fork_choice::VOTED_SLOTS;
pub use fork_choice::Weighed;
pub use policy::Policy;
pub use room::{BLOCK_BYTES, UNFINALISED_BYTES_MAX};
pub use seats::BALLOTS_PER_COMMITTEE_MAX;
pub(crate) use weights::INCREMENTS_MAX;
pub use weights::{Weights, WeightsError};

use fork_choice::LatestVotes;
use policy::View;
use room::{Room, included_bytes};

/// Number of slots after which a collection can no longer be included in a block.
pub const INCLUSION_SLOTS: u64 = 32;

/// Maximum number of blocks that are neither final nor discarded. When it is reached, dead branches
/// are dropped first, then everything deep below the head (`fold.rs`): branches that forked 12,288
/// or more blocks ago, three days at 22 s per slot with a block in each.
pub const UNFINALISED_BLOCKS_MAX: usize = 1 << 15;

/// Maximum number of blocks per slot. More than one is a proposer equivocation, and the bound keeps
/// equivocations from filling [`UNFINALISED_BLOCKS_MAX`]. A further block replaces the one with the
/// least weight among those without children (`fold.rs`), whichever came first, since the network
/// may continue with any of them.
pub const BLOCKS_PER_SLOT_MAX: usize = 16;

/// Number of slots for which a vote may name a block that already has a child.
///
/// Honest voters name the last block they have. A voter that still lacks a child after this long is
/// behind: no block of that chain can include its vote, because its target is not in the chain, and
/// the vote counts only where the chain forks below it. Without the bound, each of about a thousand
/// ancestors would be a separate head, and every ballot for one would take memory.
pub(crate) const HEAD_LAG_SLOTS: u64 = 8;

/// Committee positions whose votes a block includes, by committee.
type Sets = BTreeMap<u16, Arc<Bitfield>>;

/// The same for all votes, ascending. Most blocks have one vote, and a map would reserve space for
/// eleven.
type Included = Box<[(Vote, Sets)]>;

/// A block of the chain, with what its chain has decided up to it.
#[derive(Clone, Debug)]
struct Node {
    header: Header,
    root: Root,
    /// Index of the parent; none for the oldest block kept.
    parent: Option<usize>,
    /// Votes that the block itself includes.
    included: Included,
    /// [`included_bytes`] of those votes.
    bytes: usize,
    /// The included signer sets have been dropped.
    folded: bool,
    /// Not the first block of its slot.
    further: bool,
    /// Slot since which it has been known to have a child.
    built_on: Option<Slot>,
    /// The highest justified checkpoint of the chain ending here.
    justified: Checkpoint,
    /// The highest final checkpoint of the chain ending here.
    finalised: Checkpoint,
    /// Roots of the last blocks before the block's epoch and before the preceding epoch.
    epoch_roots: [Root; 2],
}

impl Node {
    /// Signers included with a vote, by committee.
    fn sets(&self, vote: &Vote) -> Option<&Sets> {
        let place = self
            .included
            .binary_search_by_key(&vote, |(known, _)| known);
        place.ok().map(|place| &self.included[place].1)
    }

    /// Drops the included signer sets.
    fn fold(&mut self) {
        self.included = Included::default();
        self.bytes = 0;
        self.folded = true;
    }
}

/// What changed when a block was inserted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inserted {
    /// The highest justified checkpoint changed.
    pub(crate) justified: bool,
    /// The highest final checkpoint changed, and blocks outside its chain were removed.
    pub(crate) finalised: bool,
}

/// Blocks since the last final one, plus the window of its ancestors that votes can still name.
#[derive(Clone, Debug)]
pub struct Chain {
    layout: Layout,
    epoch_slots: u64,
    /// In insertion order: a parent comes before its children.
    nodes: Vec<Node>,
    by_root: BTreeMap<Root, usize>,
    /// Number of blocks in each slot.
    in_slot: BTreeMap<Slot, usize>,
    /// The common ancestor of all blocks that are neither final nor before the final one: the final
    /// block itself, or a later one ([`fold`]).
    base: Root,
    justified: Checkpoint,
    finalised: Checkpoint,
    latest: LatestVotes,
    view: View,
    room: Room,
    weights: Weights,
    supports: Arc<Supports>,
}

impl Chain {
    /// Creates a chain starting from a genesis block whose body is `network_id`, the SHA-256 of the
    /// canonical genesis parameters.
    ///
    /// # Panics
    ///
    /// If an epoch has no slots.
    pub fn new(network_id: [u8; 32], layout: Layout, epoch_slots: u64) -> Self {
        assert!(epoch_slots > 0, "an epoch has at least one slot");
        let header = Header {
            body: network_id,
            ..Header::default()
        };
        let root = header.root();
        let genesis = Checkpoint {
            slot: Slot(0),
            root,
        };
        let node = Node {
            header,
            root,
            parent: None,
            included: Included::default(),
            bytes: 0,
            folded: false,
            further: false,
            built_on: None,
            justified: genesis,
            finalised: genesis,
            epoch_roots: [root; 2],
        };
        let mut nodes = Vec::with_capacity(2);
        nodes.push(node);
        Self {
            layout,
            epoch_slots,
            nodes,
            by_root: BTreeMap::from([(root, 0)]),
            in_slot: BTreeMap::from([(Slot(0), 1)]),
            base: root,
            justified: genesis,
            finalised: genesis,
            latest: LatestVotes::default(),
            view: View::default(),
            room: Room::default(),
            weights: Weights::equal(layout.validators()),
            supports: Arc::default(),
        }
    }

    /// Stores signer sets in a shared store from now on.
    pub(crate) fn lend_supports(&mut self, supports: Arc<Supports>) {
        self.supports = supports;
    }

    /// Sets unequal vote weights, for a chain that has seen no votes.
    #[must_use]
    pub(crate) fn with_weights(mut self, weights: Weights) -> Self {
        self.weights = weights;
        self
    }

    /// Returns the validator that proposes in `slot`.
    pub fn proposer(&self, slot: Slot) -> Validator {
        // Below N, hence below 2^32.
        Validator((slot.0 % u64::from(self.layout.validators())) as u32)
    }

    /// The highest justified checkpoint of all chains; the fork choice starts at its block.
    pub fn justified(&self) -> Checkpoint {
        self.justified
    }

    /// The highest final checkpoint.
    pub fn finalised(&self) -> Checkpoint {
        self.finalised
    }

    /// Inserts a block whose signature, body and evidence have been verified. Checks its proposer
    /// and whether its entries can be included (`check_inclusion`).
    ///
    /// # Errors
    ///
    /// [`Reject::Duplicate`], [`Reject::UnknownBlock`] (its parent), [`Reject::Conflicting`],
    /// [`Reject::WrongProposer`], [`Reject::InvalidBlock`], [`Reject::NoSigner`],
    /// [`Reject::InconsistentVote`] (of an entry), [`Reject::Full`].
    pub fn insert(&mut self, header: Header, entries: &[Entry]) -> Result<Inserted, Reject> {
        self.insert_under(header, entries, &|_| None)
    }

    /// Like [`insert`](Self::insert), for validators with balances: `seats` gives the seating under
    /// the assignment of a vote's epoch in its head's chain.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert), and [`Reject::UnknownBlock`] if weights are unequal and `seats`
    /// has no answer.
    pub(crate) fn insert_under(
        &mut self,
        header: Header,
        entries: &[Entry],
        seats: &dyn Fn(&Vote) -> Option<Assignment>,
    ) -> Result<Inserted, Reject> {
        self.check_slot(header.slot)?;
        let inserted = self.restore_under(header, entries, seats)?;
        // Only now: a block that is refused must not displace another.
        let blocks = self.in_slot.get(&header.slot);
        if blocks.is_some_and(|&blocks| blocks > BLOCKS_PER_SLOT_MAX) {
            self.displace(header.slot, &header.root());
        }
        Ok(inserted)
    }

    /// Like `insert_under`, for a block restored from storage, without the bound on blocks per
    /// slot. Its children are not loaded yet, so nothing shows which block of the slot the network
    /// built on.
    ///
    /// # Errors
    ///
    /// As `insert_under`.
    pub(crate) fn restore_under(
        &mut self,
        header: Header,
        entries: &[Entry],
        seats: &dyn Fn(&Vote) -> Option<Assignment>,
    ) -> Result<Inserted, Reject> {
        let root = header.root();
        let parent = self.check_block(&header, &root)?;
        let included = self.include(&header, entries)?;
        if self.needs_folded(parent, &included) {
            return Err(Reject::Full);
        }
        // Decided before there is room, since making room may drop the signer sets that this
        // weighs.
        let node = self.decide(header, root, parent, included, seats)?;
        self.make_room(node.bytes, node.further)?;
        self.room.add(node.bytes, node.further);
        // Not before it arrived, so that a withheld child makes no honest vote for its parent
        // stale.
        let since = header.slot.max(self.latest.slot);
        let built_on = &mut self.nodes[parent].built_on;
        *built_on = Some(built_on.map_or(since, |before| before.min(since)));
        self.by_root.insert(root, self.nodes.len());
        *self.in_slot.entry(header.slot).or_default() += 1;
        self.nodes.push(node);
        // Before `advance`, which may prune, and then the index is no longer that of the new
        // block.
        self.note(self.nodes.len() - 1);
        let inserted = self.advance(self.nodes.len() - 1);
        self.give_up();
        Ok(inserted)
    }

    /// Whether votes may already have been included in a block of the chain whose signer sets were
    /// dropped.
    fn needs_folded(&self, parent: usize, included: &Included) -> bool {
        let Some(oldest) = included.iter().map(|(vote, _)| vote.slot).min() else {
            return false;
        };
        let chain = self.walk(Some(parent));
        // Only a later block can have included the votes of a slot.
        let mut chain = chain.take_while(|node| node.header.slot > oldest);
        chain.any(|node| node.folded)
    }

    /// Checks from its header alone whether a block could be inserted.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert), except for the entries.
    pub(crate) fn check_header(&self, header: &Header) -> Result<(), Reject> {
        self.check_block(header, &header.root())?;
        self.check_slot(header.slot)
    }

    /// Checks whether a slot has room for a block, or holds one that can be displaced.
    fn check_slot(&self, slot: Slot) -> Result<(), Reject> {
        let is_full = (self.in_slot.get(&slot)).is_some_and(|&n| n >= BLOCKS_PER_SLOT_MAX);
        if is_full && self.displaceable(slot).next().is_none() {
            return Err(Reject::Full);
        }
        Ok(())
    }

    /// Returns the index of the parent if the block could be inserted.
    fn check_block(&self, header: &Header, root: &Root) -> Result<usize, Reject> {
        if self.by_root.contains_key(root) {
            return Err(Reject::Duplicate);
        }
        if header.proposer != self.proposer(header.slot) {
            return Err(Reject::WrongProposer);
        }
        let parent = *self
            .by_root
            .get(&header.parent)
            .ok_or(Reject::UnknownBlock)?;
        if header.slot <= self.nodes[parent].header.slot {
            return Err(Reject::InvalidBlock);
        }
        // All blocks after the base descend from it. A final checkpoint of an empty slot is the last block
        // before: one of a slot up to it, even on that block, contradicts the checkpoint.
        if parent < self.base_index() || header.slot <= self.finalised.slot {
            return Err(Reject::Conflicting);
        }
        Ok(parent)
    }

    /// Checks whether votes can be included in a block of `slot` with parent `parent`. They must be
    /// from the last [`INCLUSION_SLOTS`] slots and consistent, and their target must be in that
    /// chain: their head must be its last block at or before their slot.
    ///
    /// # Errors
    ///
    /// [`Reject::InvalidBlock`], and as [`check_consistent`](Self::check_consistent).
    pub(crate) fn check_inclusion(
        &self,
        vote: &Vote,
        slot: Slot,
        parent: &Root,
    ) -> Result<(), Reject> {
        let age = slot.0.checked_sub(vote.slot.0);
        if !age.is_some_and(|age| (1..=INCLUSION_SLOTS).contains(&age)) {
            return Err(Reject::InvalidBlock);
        }
        // At most `INCLUSION_SLOTS` steps, as slots fall along a chain and the vote is no older.
        let mut blocks = self.ancestors(parent);
        let last = blocks.find(|(_, header)| header.slot <= vote.slot);
        if last.is_none_or(|(root, _)| root != vote.head) {
            return Err(Reject::InvalidBlock);
        }
        self.check_consistent(vote)
    }

    /// Returns the votes of a block's entries if all of them can be included.
    fn include(&self, header: &Header, entries: &[Entry]) -> Result<Included, Reject> {
        let mut included: BTreeMap<Vote, Sets> = BTreeMap::new();
        for entry in entries {
            let vote = &entry.vote;
            if !included.contains_key(vote) {
                self.check_inclusion(vote, header.slot, &header.parent)?;
            }
            let signers = entry.evidence.support.signers();
            if signers.none() {
                return Err(Reject::NoSigner);
            }
            // Entries for one vote may overlap. Their union is kept, so that a signer counts
            // once.
            let committees = included.entry(*vote).or_default();
            let signers = self.supports.intern(Cow::Owned(signers));
            let union = committees.entry(entry.committee);
            union
                .and_modify(|union| *union = self.supports.union(union, &signers))
                .or_insert(signers);
        }
        Ok(included.into_iter().collect())
    }

    /// Builds the node, with what its chain has decided once the block is part of it.
    fn decide(
        &self,
        header: Header,
        root: Root,
        parent: usize,
        included: Included,
        seats: &dyn Fn(&Vote) -> Option<Assignment>,
    ) -> Result<Node, Reject> {
        let before = &self.nodes[parent];
        let (mut justified, mut finalised) = (before.justified, before.finalised);
        for (vote, sets) in &*included {
            // A target at or before the final block changes nothing, so its votes need not be
            // summed.
            let undecided = vote.target.slot > before.finalised.slot;
            if undecided && self.has_supermajority(parent, vote, sets, seats)? {
                // Links in slot order; both checkpoints only move up.
                let next = vote.source.slot.next();
                let is_between = justified.slot == next && next.next() == vote.target.slot;
                if next == vote.target.slot || is_between {
                    finalised = finalised.max(vote.source);
                }
                justified = justified.max(vote.target);
            }
        }
        let epoch_of = |slot: Slot| slot.epoch(self.epoch_slots).0;
        // The parent is the last block before the epoch; also before the preceding one if that had
        // no block.
        let epoch_roots = match epoch_of(header.slot) - epoch_of(before.header.slot) {
            0 => before.epoch_roots,
            1 => [before.root, before.epoch_roots[0]],
            _ => [before.root; 2],
        };
        Ok(Node {
            header,
            root,
            parent: Some(parent),
            bytes: included_bytes(&included),
            folded: false,
            further: self.in_slot.contains_key(&header.slot),
            built_on: None,
            included,
            justified,
            finalised,
            epoch_roots,
        })
    }

    /// Whether the signers of `vote` in the chain ending at `parent`, plus the `sets` of a block on
    /// top, hold at least two thirds of the total weight. Committees are disjoint, so their signers
    /// add up.
    fn has_supermajority(
        &self,
        parent: usize,
        vote: &Vote,
        sets: &Sets,
        seats: &dyn Fn(&Vote) -> Option<Assignment>,
    ) -> Result<bool, Reject> {
        let mut union = sets.clone();
        let chain = self.walk(Some(parent));
        for node in chain.take_while(|n| n.header.slot > vote.slot) {
            for (committee, set) in node.sets(vote).into_iter().flatten() {
                union
                    .entry(*committee)
                    .and_modify(|union| *union = self.supports.union(union, set))
                    .or_insert_with(|| set.clone());
            }
        }
        let weight = match self.weights.are_equal() {
            true => union.values().map(|set| set.count_ones() as u64).sum(),
            false => {
                let seats = seats(vote).ok_or(Reject::UnknownBlock)?;
                let weigh = |(&c, set): (&u16, &Arc<Bitfield>)| {
                    self.weights.sum(seats.committee_members(c), set)
                };
                union.iter().map(weigh).sum()
            }
        };
        Ok(self.weights.is_supermajority(weight))
    }

    /// Adopts what the chain of a new block has decided.
    fn advance(&mut self, index: usize) -> Inserted {
        let Node {
            justified,
            finalised,
            ..
        } = self.nodes[index];
        let before = (self.justified, self.finalised);
        // The block was inserted below the final one, so its checkpoints are in one chain with it.
        self.justified = before.0.max(justified);
        if finalised.slot > before.1.slot {
            self.finalised = finalised;
            self.prune();
        }
        Inserted {
            justified: self.justified != before.0,
            finalised: self.finalised != before.1,
        }
    }

    /// Drops blocks outside the final chain, and blocks of the final chain that votes can no longer
    /// name. The highest justified checkpoint is then one of those that remain.
    fn prune(&mut self) {
        // A final block before the base does not affect anything above the base.
        let last = self.by_root.get(&self.finalised.root).copied();
        let Some(last) = last.filter(|&last| last >= self.base_index()) else {
            return;
        };
        let horizon = self.finalised.slot.saturating_sub(INCLUSION_SLOTS);
        let mut keep = vec![false; self.nodes.len()];
        let mut index = Some(last);
        while let Some(i) = index {
            keep[i] = true;
            let node = &self.nodes[i];
            // The last block at or before the horizon stays too: it is the head of votes of slots
            // in the window that have no block.
            index = node.parent.filter(|_| node.header.slot > horizon);
        }
        // Parents come before their children, so one pass finds all descendants.
        for i in last + 1..self.nodes.len() {
            // `p >= last`: what forked from a block of the window is outside the final chain.
            let node = &self.nodes[i];
            keep[i] = node.header.slot > self.finalised.slot
                && node.parent.is_some_and(|p| p >= last && keep[p]);
        }
        self.base = self.finalised.root;
        self.retain(&keep);
        let justified = self.nodes.iter().map(|node| node.justified);
        let justified = justified.filter(|c| self.by_root.contains_key(&c.root));
        self.justified = justified.max().unwrap_or(self.finalised);
    }

    /// Returns the index of the base. Earlier blocks are final or were dropped.
    fn base_index(&self) -> usize {
        self.by_root.get(&self.base).copied().unwrap_or(0)
    }

    fn node(&self, root: &Root) -> Option<&Node> {
        self.by_root.get(root).map(|&index| &self.nodes[index])
    }

    /// Iterates from `start` to the oldest ancestor kept.
    fn walk(&self, start: Option<usize>) -> impl Iterator<Item = &Node> + '_ {
        let node = |index: usize| &self.nodes[index];
        std::iter::successors(start.map(node), move |n| n.parent.map(node))
    }
}

#[cfg(test)]
mod tests;
