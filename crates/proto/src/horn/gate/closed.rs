//! Records about proposers whose slots are over but not final. Blocks of such slots are accepted to fill
//! gaps. Further blocks of a proposer that contradicts itself, or signs false evidence, are checked no
//! more often than in a slot whose messages are accepted.

use alphorn_scheme::Bytes;
use alphorn_types::Slot;
use std::collections::BTreeMap;

use crate::chain::UNFINALISED_BLOCKS_MAX;
use crate::horn::state::{Proposal, SHARED_BYTES};
use crate::wire::{BLOCK_BYTES_MAX, Reject, Root};

/// Maximum number of remembered slots: the latest ones, as many as a chain has unfinalised blocks.
const SLOTS_MAX: usize = UNFINALISED_BLOCKS_MAX;
/// Maximum bytes of first blocks kept as proof against a second one: those of the latest slots. For older
/// slots only the root is known, which still tells a second block apart.
const BLOCKS_BYTES: usize = BLOCK_BYTES_MAX;
/// Overhead of a slot beyond its block.
const PLACE_BYTES: usize = 128;

/// How a block relates to others of its proposer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BlockOrder {
    /// The first one, even if it arrives again.
    First,
    /// A different one, with the first if it is still kept.
    Second(Option<Bytes>),
}

/// What the proposer of a slot signed.
#[derive(Default)]
struct Past {
    /// Root of the first block.
    root: Option<Root>,
    equivocated: bool,
    false_blocks: u32,
}

/// The proposers of slots that are over but not final.
#[derive(Default)]
pub(in crate::horn) struct Closed {
    /// Boxed, because a map node reserves room for eleven values.
    slots: BTreeMap<Slot, Box<Past>>,
    /// First blocks in wire format, as far as there is room.
    blocks: BTreeMap<Slot, Bytes>,
    /// Bytes of these blocks.
    bytes: usize,
}

impl Closed {
    /// Maximum bytes of all records.
    pub(in crate::horn) const BYTES_MAX: usize = SLOTS_MAX * PLACE_BYTES + BLOCKS_BYTES;

    /// Bytes of all records.
    pub(in crate::horn) fn bytes(&self) -> usize {
        self.slots.len() * PLACE_BYTES + self.bytes
    }

    /// Closes a slot and remembers what was known of its proposer.
    pub(super) fn close(&mut self, slot: Slot, block: Option<Proposal>, false_blocks: u32) {
        if false_blocks > 0 {
            self.note_false(slot, false_blocks);
        }
        if let Some(first) = block {
            self.note(slot, first.view.root, &first.data);
            self.past(slot).equivocated |= first.equivocated;
        }
        self.make_room();
    }

    /// Whether a block may be its proposer's first, or the second that proves an equivocation.
    ///
    /// # Errors
    ///
    /// [`Reject::Duplicate`] if an equivocation or false evidence was already proven. The first block may
    /// arrive again: the chain knows whether it has it.
    pub(super) fn admit(&self, slot: Slot, root: &Root) -> Result<(), Reject> {
        match self.slots.get(&slot) {
            // This arm comes first: the chain may have given the block up and need it again, whatever
            // else its proposer signed.
            Some(past) if past.root.as_ref() == Some(root) => Ok(()),
            Some(past) if past.equivocated || past.false_blocks > 0 => Err(Reject::Duplicate),
            _ => Ok(()),
        }
    }

    /// Records a block accepted by the chain. If it is the second of its proposer, the proposer has
    /// equivocated.
    ///
    /// # Errors
    ///
    /// [`Reject::Duplicate`] if an equivocation was already proven.
    pub(super) fn take(
        &mut self,
        slot: Slot,
        root: Root,
        data: &Bytes,
    ) -> Result<BlockOrder, Reject> {
        let place = self.note(slot, root, data);
        if let BlockOrder::Second(_) = place {
            let past = self.past(slot);
            // The second block has proven the equivocation; a third one adds nothing.
            if std::mem::replace(&mut past.equivocated, true) {
                return Err(Reject::Duplicate);
            }
        }
        self.make_room();
        Ok(place)
    }

    /// Records that the proposer signed blocks with invalid evidence.
    pub(super) fn note_false(&mut self, slot: Slot, blocks: u32) {
        let past = self.past(slot);
        past.false_blocks = past.false_blocks.saturating_add(blocks);
        self.make_room();
    }

    /// Number of such blocks signed by the proposer.
    pub(super) fn false_blocks(&self, slot: Slot) -> u32 {
        self.slots.get(&slot).map_or(0, |past| past.false_blocks)
    }

    /// Forgets finalised slots and all slots before.
    pub(super) fn prune(&mut self, finalised: Slot) {
        while let Some(first) = self.slots.first_entry() {
            if *first.key() > finalised {
                return;
            }
            let slot = *first.key();
            first.remove();
            self.forget_block(slot);
        }
    }

    fn forget_block(&mut self, slot: Slot) {
        if let Some(data) = self.blocks.remove(&slot) {
            self.bytes -= held(&data);
        }
    }

    fn past(&mut self, slot: Slot) -> &mut Past {
        self.slots.entry(slot).or_default()
    }

    fn note(&mut self, slot: Slot, root: Root, data: &Bytes) -> BlockOrder {
        let past = self.past(slot);
        match past.root {
            None => {
                past.root = Some(root);
                self.bytes += held(data);
                self.blocks.insert(slot, data.clone());
                BlockOrder::First
            }
            Some(first) if first == root => BlockOrder::First,
            Some(_) => BlockOrder::Second(self.blocks.get(&slot).cloned()),
        }
    }

    /// Drops the blocks of the earliest slots first, then whole slots.
    fn make_room(&mut self) {
        while self.bytes > BLOCKS_BYTES
            && let Some((_, gone)) = self.blocks.pop_first()
        {
            self.bytes -= held(&gone);
        }
        while self.slots.len() > SLOTS_MAX
            && let Some((slot, _)) = self.slots.pop_first()
        {
            self.forget_block(slot);
        }
    }
}

fn held(data: &Bytes) -> usize {
    SHARED_BYTES + data.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(byte: u8, len: usize) -> Bytes {
        vec![byte; len].into()
    }

    fn take(closed: &mut Closed, slot: u64, root: u8) -> Result<BlockOrder, Reject> {
        closed.take(Slot(slot), [root; 32], &block(root, 10))
    }

    #[test]
    fn a_second_block_is_told_from_the_first_and_no_third_is_looked_at() {
        let mut closed = Closed::default();
        let admits = |closed: &Closed, root: u8| closed.admit(Slot(4), &[root; 32]);
        assert_eq!(take(&mut closed, 4, 1), Ok(BlockOrder::First));
        assert_eq!((admits(&closed, 1), admits(&closed, 2)), (Ok(()), Ok(())));
        assert_eq!(take(&mut closed, 4, 1), Ok(BlockOrder::First));
        let first = Some(block(1, 10));
        assert_eq!(take(&mut closed, 4, 2), Ok(BlockOrder::Second(first)));
        assert_eq!(admits(&closed, 1), Ok(()), "the chain may have given it up");
        assert_eq!(admits(&closed, 3), Err(Reject::Duplicate));
        assert_eq!(take(&mut closed, 4, 3), Err(Reject::Duplicate));
        assert_eq!(closed.admit(Slot(5), &[3; 32]), Ok(()));
        closed.note_false(Slot(5), 1);
        assert_eq!(closed.false_blocks(Slot(5)), 1);
        assert_eq!(closed.admit(Slot(5), &[3; 32]), Err(Reject::Duplicate));
        closed.prune(Slot(4));
        assert_eq!(admits(&closed, 3), Ok(()));
        assert_eq!(closed.bytes(), PLACE_BYTES);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_of_the_latest_slots() {
        let mut closed = Closed::default();
        let long = block(0, BLOCKS_BYTES / 4);
        for slot in 0..2 * SLOTS_MAX as u64 {
            assert_eq!(
                closed.take(Slot(slot), [0; 32], &long),
                Ok(BlockOrder::First)
            );
            assert!(closed.bytes() <= Closed::BYTES_MAX);
        }
        let last = 2 * SLOTS_MAX as u64 - 1;
        assert_eq!(closed.slots.len(), SLOTS_MAX);
        assert_eq!(
            take(&mut closed, last, 1),
            Ok(BlockOrder::Second(Some(long)))
        );
        assert_eq!(take(&mut closed, last - 3, 1), Ok(BlockOrder::Second(None)));
        closed.prune(Slot(last));
        assert_eq!(closed.bytes(), 0);
    }
}
