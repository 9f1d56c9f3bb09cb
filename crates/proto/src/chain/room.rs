//! Bytes held by the blocks of a chain. A bound on their number alone does not bound memory.

use super::{INCLUSION_SLOTS, Included, UNFINALISED_BLOCKS_MAX};

/// Maximum bytes of signer sets in blocks that are neither final nor discarded. A thousand blocks
/// of 64 collections over committees of 2^15 take 268 MB, and five hundred of the largest ones 1
/// GB.
pub const UNFINALISED_BYTES_MAX: usize = 1 << 30;

/// The part of [`UNFINALISED_BYTES_MAX`] available to further blocks of a slot, which are
/// equivocations. They must not keep out the first blocks of later slots, since nothing becomes
/// final without those.
pub(crate) const EQUIVOCATION_BYTES_MAX: usize = UNFINALISED_BYTES_MAX / 4;

/// Slots after which the sets of a block may be dropped: twice as many as a new block looks back.
pub(super) const FOLDED_SLOTS: u64 = 2 * INCLUSION_SLOTS;

/// Bytes per block in addition to its sets, rounded up: 16 MiB for the maximum number of blocks.
pub const BLOCK_BYTES: usize = 512;

/// Bytes per entry of [`Included`] in addition to its bits, rounded up.
pub(super) const SET_BYTES: usize = 64;

/// Bytes per vote of [`Included`] in addition to its entries, rounded up.
pub(super) const VOTE_BYTES: usize = 256;

/// Bytes used by signer sets.
pub(super) fn included_bytes(included: &Included) -> usize {
    let sets = included.iter().flat_map(|(_, sets)| sets.values());
    let bits: usize = sets.map(|set| SET_BYTES + size_of_val(set.words())).sum();
    bits + VOTE_BYTES * included.len()
}

/// Accounting of the bytes of signer sets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Used by all blocks, and by those that are not the first of their slot.
    pub(super) used: [usize; 2],
    pub(super) max: [usize; 2],
    /// Maximum number of blocks.
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

    /// Reserves the bytes of a block.
    pub(super) fn add(&mut self, bytes: usize, further: bool) {
        self.used[0] += bytes;
        if further {
            self.used[1] += bytes;
        }
    }

    /// Releases the bytes of a block.
    pub(super) fn remove(&mut self, bytes: usize, further: bool) {
        self.used[0] -= bytes;
        if further {
            self.used[1] -= bytes;
        }
    }

    /// Releases everything.
    pub(super) fn clear(&mut self) {
        self.used = [0; 2];
    }
}
