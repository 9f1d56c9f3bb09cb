//! The sets, and the public part of a statement: tweaks, message, bits of the slot.

use alphorn_exec::Backend;

use super::{CAPACITY, DIGEST, LeanChains, MESSAGE, PARAMETER, RATE};
use crate::chains::LIMB_DIGITS;
use crate::field::{Fp, P};
use crate::poseidon::{Permutations, WIDTH_24};
use crate::proof::Statements;
use crate::relation::{Relation, Shape};

/// The numbers of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeanParameters {
    /// Distinguishes sets in the transcript.
    pub(crate) id: u32,
    /// v, the number of chains: an even number.
    pub(crate) chains: usize,
    /// Number of chain steps in an opening: 7·v minus the target sum of the digits.
    pub(crate) steps: usize,
    /// Number of levels of the tree, up to 32.
    pub(crate) levels: usize,
    /// Sizes of the cubes.
    pub(crate) shape: Shape,
}

impl LeanParameters {
    /// The production set: 46 chains, target sum 200, 2^32 slots.
    pub const PROD: LeanParameters = LeanParameters {
        id: 1,
        chains: 46,
        steps: 122,
        levels: 32,
        shape: Shape {
            places_log2: 3,
            ..Shape::STANDARD
        },
    };

    /// The test set: 4 chains, target sum 6, 256 slots. It provides no security.
    pub const TEST: LeanParameters = LeanParameters {
        id: 2,
        chains: 4,
        steps: 22,
        levels: 8,
        shape: Shape {
            places_log2: 1,
            ..Shape::STANDARD
        },
    };

    /// Number of limbs of the encoding that hold digits of chains.
    pub(crate) fn limbs(&self) -> usize {
        self.chains.div_ceil(LIMB_DIGITS)
    }

    /// Number of pairs of digits that belong to no chain.
    pub(crate) fn tails(&self) -> usize {
        (self.limbs() * LIMB_DIGITS - self.chains) / 2
    }

    /// Number of blocks of the leaf's sponge.
    pub(crate) fn blocks(&self) -> usize {
        (PARAMETER + 2 + DIGEST * self.chains).div_ceil(RATE)
    }
}

/// Place of the first position of a chain, divided by the chain.
pub(super) const PLACES: u32 = 256;
/// The last position of a chain.
pub(super) const LAST: u32 = 7;

/// First public values: the lower limb of slot·2^24, message, tweaks of leaf and message.
pub(super) const MESSAGE_AT: usize = 1;
pub(super) const LEAF_TWEAK_AT: usize = MESSAGE_AT + MESSAGE;
pub(super) const ENCODING_TWEAK_AT: usize = LEAF_TWEAK_AT + 2;
pub(super) const LEVELS_AT: usize = ENCODING_TWEAK_AT + 2;
/// Number of public values of a level: its tweak and its bit of the slot.
pub(super) const LEVEL_VALUES: usize = 3;

/// Digits of an integer in base p, the lowest first; the integer has at most `N`.
fn limbs<const N: usize>(mut value: u128) -> [Fp; N] {
    std::array::from_fn(|_| {
        let digit = Fp::new((value % u128::from(P)) as u32);
        value /= u128::from(P);
        digit
    })
}

/// The tweak of a chain step that starts at a place.
fn chain_tweak(slot: u32, place: u32) -> [Fp; 2] {
    // place = 256·chain + position, so this is chain·2^16 + (position + 1)·2^8, with the number of the step that
    // leaves the position.
    limbs((u128::from(slot) << 24) + (u128::from(place + 1) << 8))
}

fn tree_tweak(level: u32, index: u32) -> [Fp; 2] {
    limbs(u128::from(level) << 40 | u128::from(index) << 8 | 1)
}

/// The capacity of a sponge over fields of these lengths.
pub(super) fn capacity(lengths: [usize; 4]) -> [Fp; CAPACITY] {
    let joined = lengths
        .into_iter()
        .fold(0, |sum, length| sum << 32 | length as u128);
    let mut states = [limbs::<WIDTH_24>(joined)];
    Backend::Portable.compress_24(&mut states);
    std::array::from_fn(|i| states[0][i])
}

impl Statements for LeanChains {
    fn relation(&self) -> &Relation {
        &self.relation
    }

    fn publics(&self, slot: u32, message: &[Fp]) -> Vec<Fp> {
        assert_eq!(message.len(), MESSAGE, "a message is nine digits of base p");
        // The upper limb is not here, because it depends on the place: see the last values.
        let [lower, _] = limbs(u128::from(slot) << 24);
        let mut values = vec![lower];
        values.extend(message);
        values.extend(tree_tweak(0, slot));
        values.extend(limbs::<2>(u128::from(slot) << 8 | 2));
        for level in 0..self.parameters().levels as u32 {
            let parent = slot.checked_shr(level + 1).unwrap_or_default();
            values.extend(tree_tweak(level + 1, parent));
            values.push(Fp::new(slot >> level & 1));
        }
        for chain in 0..self.parameters().chains as u32 {
            values.extend((0..LAST).map(|k| chain_tweak(slot, PLACES * chain + k)[1]));
        }
        values
    }
}
