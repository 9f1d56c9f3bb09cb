//! The minimal chain that gives votes a message: blocks, votes included in them, justification and
//! finalisation, and a fork choice.
//!
//! - A block has a header and collections of earlier slots. Genesis is the block of slot 0; the
//!   proposer of slot s is validator s mod N.
//! - A vote of slot s names its head, the highest checkpoint that is justified in the head's chain
//!   (source), and the checkpoint (s, head) (target): each slot is a checkpoint.
//! - A target is justified in a chain when signers of its vote *included in blocks of that chain*
//!   weigh at least two thirds of all. If it is the slot right after its source, the source is final
//!   (Casper FFG, Buterin and Griffith, 2017, with a checkpoint in each slot); likewise if it is two
//!   slots after it and the slot between is justified in that chain (Gasper, Buterin and others, 2020,
//!   definition 4.9 with k = 2). With full votes the block of slot s + 1 finalises slot s − 1; where
//!   blocks include votes one slot later, so that a source is two slots old, slot s − 3.
//! - The fork choice (`fork_choice.rs`) counts votes of two slots (LMD-GHOST with expiry), and a
//!   [`Policy`] may do more.
//!
//! Validators weigh 1 each, or their balances ([`Weights`]), which are those of genesis. There is no
//! state besides: no penalties, no entry or exit. The mix of an epoch is a digest of the last block before the epoch that precedes it, which
//! the proposer of that block can grind: there is no RANDAO here.
//!
//! Nothing here verifies a signature: whoever inserts blocks and votes has done so.

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

/// Slots after which a collection can no longer be included in a block.
pub const INCLUSION_SLOTS: u64 = 32;

/// Most blocks that are neither final nor discarded. When there are as many, dead branches and then
/// what lies deep below the head are given up (`fold.rs`): branches that parted 12,288 blocks ago or
/// more, three days at 22 s a slot with a block in each.
pub const UNFINALISED_BLOCKS_MAX: usize = 1 << 15;

/// Most blocks of one slot. More than one is a proposer's equivocation; the bound keeps it from
/// filling [`UNFINALISED_BLOCKS_MAX`]. A further one takes the room of the least of those on which nothing
/// stands (`fold.rs`), whatever came first: the network may go on with any of them.
pub const BLOCKS_PER_SLOT_MAX: usize = 16;

/// Slots for which a vote may name a block although another one stands on it.
///
/// Honest voters name the last block that they have. Who lacks a block that stood there for so long
/// is behind: such a vote can be in no block of that chain, because its target is not, and it
/// weighs only where the chain forks below it. Without the bound each of some thousand ancestors is
/// a head of its own, and each ballot for one takes room.
pub(crate) const HEAD_LAG_SLOTS: u64 = 8;

/// Positions of a committee whose votes a block includes, by committee.
type Sets = BTreeMap<u16, Arc<Bitfield>>;

/// The same of all votes, ascending: most blocks have one, and a map keeps room for eleven.
type Included = Box<[(Vote, Sets)]>;

/// A block in the chain, and what its chain has decided with it.
#[derive(Clone, Debug)]
struct Node {
    header: Header,
    root: Root,
    /// Index of the parent; none for the oldest block that is kept.
    parent: Option<usize>,
    /// Votes that the block itself includes.
    included: Included,
    /// [`included_bytes`] of them.
    bytes: usize,
    /// What it included is forgotten.
    folded: bool,
    /// Another block of the slot came before.
    further: bool,
    /// Since which slot another block is known to stand on it.
    built_on: Option<Slot>,
    /// The highest justified checkpoint of the chain that ends here.
    justified: Checkpoint,
    /// The highest final checkpoint of the chain that ends here.
    finalised: Checkpoint,
    /// Roots of the last blocks before the block's epoch and before the epoch that precedes it.
    epoch_roots: [Root; 2],
}

impl Node {
    /// Who of which committee is included with a vote.
    fn sets(&self, vote: &Vote) -> Option<&Sets> {
        let place = self
            .included
            .binary_search_by_key(&vote, |(known, _)| known);
        place.ok().map(|place| &self.included[place].1)
    }

    /// Forgets who signed what it includes.
    fn fold(&mut self) {
        self.included = Included::default();
        self.bytes = 0;
        self.folded = true;
    }
}

/// What the insertion of a block has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inserted {
    /// The highest justified checkpoint is another one.
    pub(crate) justified: bool,
    /// The highest final checkpoint is another one; blocks beside its chain are gone.
    pub(crate) finalised: bool,
}

/// Blocks since the last final one, with the window of its ancestors that votes can still name.
#[derive(Clone, Debug)]
pub struct Chain {
    layout: Layout,
    epoch_slots: u64,
    /// In the order of insertion: a parent stands before its children.
    nodes: Vec<Node>,
    by_root: BTreeMap<Root, usize>,
    /// How many blocks each slot has.
    in_slot: BTreeMap<Slot, usize>,
    /// The block on which all stand that are neither final nor before the final one: the final one
    /// itself, or a later one ([`fold`]).
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
    /// A chain that begins with a genesis block whose body is `network_id`, SHA-256 of the
    /// canonical genesis parameters.
    ///
    /// # Panics
    ///
    /// If an epoch has no slot.
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

    /// Keeps sets of signers from now on in a store that is shared with others.
    pub(crate) fn lend_supports(&mut self, supports: Arc<Supports>) {
        self.supports = supports;
    }

    /// The same with votes of unequal weight, for a chain that has seen none.
    #[must_use]
    pub(crate) fn with_weights(mut self, weights: Weights) -> Self {
        self.weights = weights;
        self
    }

    /// The validator who proposes in `slot`.
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

    /// Inserts a block whose signature, body and evidence were verified. Its proposer is checked
    /// here, and that its entries can be included
    /// (`check_inclusion`).
    ///
    /// # Errors
    ///
    /// [`Reject::Duplicate`], [`Reject::UnknownBlock`] (its parent), [`Reject::Conflicting`],
    /// [`Reject::WrongProposer`], [`Reject::InvalidBlock`], [`Reject::NoSigner`],
    /// [`Reject::InconsistentVote`] (of an entry), [`Reject::Full`].
    pub fn insert(&mut self, header: Header, entries: &[Entry]) -> Result<Inserted, Reject> {
        self.insert_under(header, entries, &|_| None)
    }

    /// The same where validators have balances: `seats` tells who sits where, under the assignment
    /// of a vote's epoch in its head's chain.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert), and [`Reject::UnknownBlock`] if weights are unequal and `seats`
    /// does not know.
    pub(crate) fn insert_under(
        &mut self,
        header: Header,
        entries: &[Entry],
        seats: &dyn Fn(&Vote) -> Option<Assignment>,
    ) -> Result<Inserted, Reject> {
        self.check_slot(header.slot)?;
        let inserted = self.restore_under(header, entries, seats)?;
        let blocks = self.in_slot.get(&header.slot);
        if blocks.is_some_and(|&blocks| blocks > BLOCKS_PER_SLOT_MAX) {
            self.displace(header.slot, &header.root());
        }
        Ok(inserted)
    }

    /// The same of a block that was kept, however many its slot has: none of their children is there yet, so
    /// nothing would say which of them the network went on with.
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
        let node = self.decide(header, root, parent, included, seats)?;
        self.make_room(node.bytes, node.further)?;
        self.room.add(node.bytes, node.further);
        let since = header.slot.max(self.latest.slot);
        let built_on = &mut self.nodes[parent].built_on;
        *built_on = Some(built_on.map_or(since, |before| before.min(since)));
        self.by_root.insert(root, self.nodes.len());
        *self.in_slot.entry(header.slot).or_default() += 1;
        self.nodes.push(node);
        self.note(self.nodes.len() - 1);
        let inserted = self.advance(self.nodes.len() - 1);
        self.give_up();
        Ok(inserted)
    }

    /// Whether votes may have been included before in a block of the chain of which this is
    /// forgotten.
    fn needs_folded(&self, parent: usize, included: &Included) -> bool {
        let Some(oldest) = included.iter().map(|(vote, _)| vote.slot).min() else {
            return false;
        };
        let chain = self.walk(Some(parent));
        let mut chain = chain.take_while(|node| node.header.slot > oldest);
        chain.any(|node| node.folded)
    }

    /// Whether a block could be inserted, as far as its header tells.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert), but for the entries.
    pub(crate) fn check_header(&self, header: &Header) -> Result<(), Reject> {
        self.check_block(header, &header.root())?;
        self.check_slot(header.slot)
    }

    /// Whether a slot has room for a block, or one that can make room.
    fn check_slot(&self, slot: Slot) -> Result<(), Reject> {
        let is_full = (self.in_slot.get(&slot)).is_some_and(|&n| n >= BLOCKS_PER_SLOT_MAX);
        if is_full && self.displaceable(slot).next().is_none() {
            return Err(Reject::Full);
        }
        Ok(())
    }

    /// The index of the parent of a block that could be inserted.
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
        // All blocks from the base on stand on it.
        if parent < self.base_index() {
            return Err(Reject::Conflicting);
        }
        Ok(parent)
    }

    /// Whether votes can be included in a block of `slot` whose parent is `parent`: they are of
    /// the last [`INCLUSION_SLOTS`] slots, consistent, and their target is in that chain, that is,
    /// their head is its last block at or before their slot.
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
        let mut blocks = self.ancestors(parent);
        let last = blocks.find(|(_, header)| header.slot <= vote.slot);
        if last.is_none_or(|(root, _)| root != vote.head) {
            return Err(Reject::InvalidBlock);
        }
        self.check_consistent(vote)
    }

    /// The votes of a block's entries, if all of them can be included.
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
            let committees = included.entry(*vote).or_default();
            let signers = self.supports.intern(Cow::Owned(signers));
            let union = committees.entry(entry.committee);
            union
                .and_modify(|union| *union = self.supports.union(union, &signers))
                .or_insert(signers);
        }
        Ok(included.into_iter().collect())
    }

    /// The block with what its chain has decided once it is part of it.
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
            let undecided = vote.target.slot > before.finalised.slot;
            if undecided && self.has_supermajority(parent, vote, sets, seats)? {
                // Links in the order of their slots; both checkpoints only move up.
                let next = vote.source.slot.next();
                let is_between = justified.slot == next && next.next() == vote.target.slot;
                if next == vote.target.slot || is_between {
                    finalised = finalised.max(vote.source);
                }
                justified = justified.max(vote.target);
            }
        }
        let epoch_of = |slot: Slot| slot.epoch(self.epoch_slots).0;
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

    /// Whether the signers of `vote` in the chain that ends at `parent`, with `sets` of a block on
    /// top, are at least two thirds of all. Committees have no member in common, so their signers
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

    /// Takes over what the chain of a new block has decided.
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

    /// Drops blocks beside the final chain, and those of the final chain that no vote can name any
    /// more. The highest justified checkpoint is then one of what is left.
    fn prune(&mut self) {
        // A final block before the base changes nothing of what stands on that.
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
            index = node.parent.filter(|_| node.header.slot > horizon);
        }
        // Parents stand before their children, so one pass finds all descendants.
        for i in last + 1..self.nodes.len() {
            keep[i] = self.nodes[i].parent.is_some_and(|p| p >= last && keep[p]);
        }
        self.base = self.finalised.root;
        self.retain(&keep);
        let justified = self.nodes.iter().map(|node| node.justified);
        let justified = justified.filter(|c| self.by_root.contains_key(&c.root));
        self.justified = justified.max().unwrap_or(self.finalised);
    }

    /// The index of the base. Those before it are final or were given up.
    fn base_index(&self) -> usize {
        self.by_root.get(&self.base).copied().unwrap_or(0)
    }

    fn node(&self, root: &Root) -> Option<&Node> {
        self.by_root.get(root).map(|&index| &self.nodes[index])
    }

    /// Nodes from `start` to the oldest ancestor that is kept.
    fn walk(&self, start: Option<usize>) -> impl Iterator<Item = &Node> + '_ {
        let node = |index: usize| &self.nodes[index];
        std::iter::successors(start.map(node), move |n| n.parent.map(node))
    }
}

#[cfg(test)]
mod tests;
