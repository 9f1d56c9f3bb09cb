//! What is dropped while nothing becomes final, so that the chain stays within its bounds.
//!
//! - *Signer sets* of old blocks are dropped when bytes run out; what the blocks have decided stays. A block that would
//!   need them, because it includes votes of slots before theirs, is refused.
//! - *Blocks* are dropped when their number reaches the bound: first, branches on which nothing was built in the last
//!   half of all blocks. If that is not enough, everything below or outside the subtree of a block of the head's chain,
//!   the *base*, which is chosen so that fewer than half of all blocks descend from it. The final block and the
//!   preceding blocks that votes can name stay.
//! - *Blocks of one slot* are dropped when there are too many, which only an equivocation causes: the one with the
//!   fewest votes among those that have no children and are not the head.
//!
//! A dropped branch returns if a peer builds on it and its blocks are fetched. A branch that forked before the base
//! cannot.

use super::room::FOLDED_SLOTS;
use super::{Chain, Node};
use crate::wire::{Reject, Root};
use alphorn_types::Slot;
use std::cmp::Reverse;

impl Chain {
    /// Makes room for the sets of a block; `further` if it is not the first of its slot. Drops no set unless that makes
    /// enough room: a block that is refused must not cost others their sets.
    pub(super) fn make_room(&mut self, bytes: usize, further: bool) -> Result<(), Reject> {
        if self.room.fits(bytes, further) {
            return Ok(());
        }
        let newest = self.nodes.iter().map(|node| node.header.slot).max();
        let newest = newest.unwrap_or_default().0;
        // First blocks of slots fit as soon as any set is dropped.
        let only_further = self.room.fits(bytes, false);
        let may_fold = |node: &Node| {
            let old = node.header.slot.0.saturating_add(FOLDED_SLOTS) <= newest;
            old && node.bytes > 0 && (node.further || !only_further)
        };
        let mut after = self.room;
        let mut folded = 0;
        for node in &self.nodes {
            if after.fits(bytes, further) {
                break;
            }
            if may_fold(node) {
                after.remove(node.bytes, node.further);
            }
            folded += 1;
        }
        if !after.fits(bytes, further) {
            return Err(Reject::Full);
        }
        for node in self.nodes[..folded]
            .iter_mut()
            .filter(|node| may_fold(node))
        {
            node.fold();
        }
        self.room = after;
        Ok(())
    }

    /// Drops blocks when their number has reached the bound.
    pub(super) fn give_up(&mut self) {
        if self.nodes.len() < self.room.blocks_max {
            return;
        }
        let half = self.nodes.len() / 2;
        let mut keep = vec![false; self.nodes.len()];
        // Blocks are in order of arrival: a branch without one in the newer half has not been built on for long.
        keep[half..].fill(true);
        // The final part of the chain, from which the base is separated.
        keep[..=self.base_index()].fill(true);
        let mut index = self.by_root.get(&self.head()).copied();
        while let Some(i) = index {
            keep[i] = true;
            index = self.nodes[i].parent;
        }
        // Parents come before their children.
        for i in (0..self.nodes.len()).rev() {
            if keep[i]
                && let Some(parent) = self.nodes[i].parent
            {
                keep[parent] = true;
            }
        }
        self.retain(&keep);
        // With less than a quarter of the room free this would soon be repeated, each time over all blocks.
        if 4 * self.nodes.len() > 3 * self.room.blocks_max {
            self.cut();
        }
    }

    /// Moves the base up the head's chain until at most half of all blocks descend from it.
    fn cut(&mut self) {
        let mut above = vec![1; self.nodes.len()];
        for i in (0..self.nodes.len()).rev() {
            if let Some(parent) = self.nodes[i].parent {
                above[parent] += above[i];
            }
        }
        let half = self.nodes.len() / 2;
        let (mut base, mut index) = (None, self.by_root.get(&self.head()).copied());
        // Subtrees grow towards the root, so the last block that passes is the lowest one that does.
        while let Some(i) = index.filter(|&i| above[i] <= half) {
            base = Some(i);
            index = self.nodes[i].parent;
        }
        let Some(base) = base else {
            return;
        };
        let window = self.base_index();
        let mut keep = vec![false; self.nodes.len()];
        // The final block and its window; of an earlier base only the blocks before it.
        for (i, node) in self.nodes[..=window].iter().enumerate() {
            keep[i] = node.header.slot <= self.finalised.slot;
        }
        keep[base] = true;
        for i in base + 1..self.nodes.len() {
            keep[i] = self.nodes[i].parent.is_some_and(|p| p >= base && keep[p]);
        }
        self.nodes[base].parent = None;
        self.base = self.nodes[base].root;
        self.retain(&keep);
    }

    /// Blocks of a slot that can be displaced by another one: they have no children, and none is the head.
    pub(super) fn displaceable(&self, slot: Slot) -> impl Iterator<Item = usize> + '_ {
        // Not the base, from which all later blocks descend, nor the blocks before it, which votes may still name.
        let (head, first) = (self.head(), self.base_index() + 1);
        let nodes = self.nodes.iter().enumerate().skip(first);
        let free = nodes.filter(move |(_, node)| {
            node.header.slot == slot && node.built_on.is_none() && node.root != head
        });
        free.map(|(index, _)| index)
    }

    /// Drops the least block of a slot other than a new one: the one with the fewest votes, among equals the one that
    /// decided least, then the last one.
    pub(super) fn displace(&mut self, slot: Slot, new: &Root) {
        let weights = self.own_weights(0, &self.latest, None);
        let others = self.displaceable(slot);
        let others = others.filter(|&index| self.nodes[index].root != *new);
        let key = |&index: &usize| {
            let justified = self.nodes[index].justified.slot;
            (weights[index], justified, Reverse(index))
        };
        if let Some(least) = others.min_by_key(key) {
            let mut keep = vec![true; self.nodes.len()];
            keep[least] = false;
            self.retain(&keep);
        }
    }

    /// Keeps only the marked blocks.
    pub(super) fn retain(&mut self, keep: &[bool]) {
        let mut moved = vec![None; self.nodes.len()];
        let mut kept = Vec::new();
        for (i, mut node) in std::mem::take(&mut self.nodes).into_iter().enumerate() {
            if keep[i] {
                moved[i] = Some(kept.len());
                // Parents come before their children, so it is known by now where this one went.
                node.parent = node.parent.and_then(|p| moved[p]);
                kept.push(node);
            }
        }
        self.by_root = (0..).zip(&kept).map(|(i, node)| (node.root, i)).collect();
        self.in_slot.clear();
        self.room.clear();
        for node in &kept {
            *self.in_slot.entry(node.header.slot).or_default() += 1;
            self.room.add(node.bytes, node.further);
        }
        self.nodes = kept;
    }
}
