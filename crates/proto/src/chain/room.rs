//! How many bytes the blocks of a chain hold: their number alone is no bound on memory.

use super::{INCLUSION_SLOTS, Included, UNFINALISED_BLOCKS_MAX};

/// Most bytes of signer sets in blocks that are neither final nor discarded: a thousand blocks of
/// 64 collections over committees of 2^15 are 268 MB, and half a thousand of the largest ones 1 GB.
pub const UNFINALISED_BYTES_MAX: usize = 1 << 30;

/// The part of [`UNFINALISED_BYTES_MAX`] that further blocks of slots may take, which are
/// equivocations: they must not keep the first blocks of later slots out, without which nothing
/// becomes final.
pub(crate) const EQUIVOCATION_BYTES_MAX: usize = UNFINALISED_BYTES_MAX / 4;

/// Slots after which the sets of a block may go: twice as many as a new block looks back.
pub(super) const FOLDED_SLOTS: u64 = 2 * INCLUSION_SLOTS;

/// What a block takes beside its sets, rounded up: 16 MiB for as many as there can be.
pub const BLOCK_BYTES: usize = 512;

/// What an entry of [`Included`] takes beside its bits, rounded up.
pub(super) const SET_BYTES: usize = 64;

/// What a vote of [`Included`] takes beside its entries, rounded up.
pub(super) const VOTE_BYTES: usize = 256;

/// Bytes that signer sets take.
pub(super) fn included_bytes(included: &Included) -> usize {
    let sets = included.iter().flat_map(|(_, sets)| sets.values());
    let bits: usize = sets.map(|set| SET_BYTES + size_of_val(set.words())).sum();
    bits + VOTE_BYTES * included.len()
}

/// Bytes of signer sets that are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Of all blocks, and of those that are not the first of their slot.
    pub(super) used: [usize; 2],
    pub(super) max: [usize; 2],
    /// Most blocks.
    pub(super) blocks_max: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            used: [0; 2],
            max: [UNFINALISED_BYTES_MAX, EQUIVOCATION_BYTES_MAX],
            blocks_max: UNFINALISED_BLOCKS_MAX,
        }
    }
}

impl Room {
    /// Whether a block fits; `further` if it is not the first of its slot.
    pub(super) fn fits(&self, bytes: usize, further: bool) -> bool {
        let fits = |i: usize| self.used[i].saturating_add(bytes) <= self.max[i];
        fits(0) && (!further || fits(1))
    }

    /// Takes the room of a block.
    pub(super) fn add(&mut self, bytes: usize, further: bool) {
        self.used[0] += bytes;
        if further {
            self.used[1] += bytes;
        }
    }

    /// Gives the room of a block back.
    pub(super) fn remove(&mut self, bytes: usize, further: bool) {
        self.used[0] -= bytes;
        if further {
            self.used[1] -= bytes;
        }
    }

    /// Nothing is kept any more.
    pub(super) fn clear(&mut self) {
        self.used = [0; 2];
    }
}
