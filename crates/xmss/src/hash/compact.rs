//! The hash functions of the compact set: one compression of width 16 for everything.
//!
//! C(a, b) is the first half of the compression of a ‖ b. Inputs are distinguished by a tweak in the first two
//! lanes: type, sub-index and index. The second call of the encoding has no tweak: its first half is a digest, its
//! second P, as in a chain step. The digest looks like one given tweak with two zero lanes with probability
//! 2^-124, and like that of any of 2^32 * 42 * 7 steps with 2^-83.8. The lecture explains why no forgery follows,
//! under what is claimed.

use alphorn_exec::Backend;
use alphorn_stark::field::P;
use alphorn_stark::poseidon::compress_vectors_16;
use alphorn_stark::{Fp, Packed, Permutations};

use super::fresh::Vectors;
use super::{
    Children, Code, Digest, Encoding, Instance, Message, Tips, Walk, message_limbs, on_target,
    walk_16,
};
use crate::params::{DIGEST_MAX, Set};

/// The functions of the compact set.
pub(super) struct Compact;

type Half = [Fp; 8];

const CHAIN: u32 = 0;
const LEAF: u32 = 1;
const NODE: u32 = 2;
const ENCODING: u32 = 3;

/// Separates a message's hash from all others: "alp" in ASCII.
const MESSAGE_TAG: u32 = 0x0061_6c70;

/// Type below 4, `sub` below 2^10: the first limb is below 2^28.
pub(super) fn tweak(kind: u32, sub: u32, index: u32) -> [Fp; 2] {
    let first = (kind << 26) + ((index >> 16) << 10) + sub;
    [Fp::new(first), Fp::new(index & 0xffff)]
}

/// A tweak, two zeros and four elements.
fn head(tweak: [Fp; 2], four: &[Fp]) -> Half {
    let mut half = [Fp::ZERO; 8];
    half[..2].copy_from_slice(&tweak);
    half[4..].copy_from_slice(&four[..4]);
    half
}

/// Eight elements from two halves of four.
fn pair(left: &[Fp], right: &[Fp]) -> Half {
    let mut half = [Fp::ZERO; 8];
    half[..4].copy_from_slice(&left[..4]);
    half[4..].copy_from_slice(&right[..4]);
    half
}

/// Four elements and four zeros.
fn padded(four: &[Fp]) -> Half {
    let mut half = [Fp::ZERO; 8];
    half[..4].copy_from_slice(&four[..4]);
    half
}

fn joined(left: Half, right: Half) -> [Fp; 16] {
    let mut state = [Fp::ZERO; 16];
    state[..8].copy_from_slice(&left);
    state[8..].copy_from_slice(&right);
    state
}

/// C of each pair of halves.
fn compress(backend: Backend, halves: impl Iterator<Item = (Half, Half)>) -> Vec<Half> {
    let mut states: Vec<[Fp; 16]> = halves.map(|(left, right)| joined(left, right)).collect();
    backend.compress_16(&mut states);
    let output = |state: &[Fp; 16]| std::array::from_fn(|i| state[i]);
    states.iter().map(output).collect()
}

impl Instance for Compact {
    fn chain_input(&self, walk: &Walk, position: u8) -> [Fp; 16] {
        let sub = 8 * u32::from(walk.chain) + u32::from(position);
        let left = head(tweak(CHAIN, sub, walk.slot), &walk.digest);
        joined(left, padded(&walk.parameter))
    }

    fn walk(&self, backend: Backend, walks: &mut [Walk]) {
        walk_16(self, Set::Compact.params().digest, backend, walks);
    }

    fn nodes(&self, backend: Backend, children: &[Children]) -> Vec<Digest> {
        let halves = children.iter().map(|c| {
            let tweak = tweak(NODE, c.level.into(), c.index);
            (head(tweak, &c.parameter), pair(&c.left, &c.right))
        });
        let parents = compress(backend, halves);
        parents.iter().map(|parent| padded(parent)).collect()
    }

    fn leaves(&self, backend: Backend, tips: &[Tips<'_>]) -> Vec<Digest> {
        let start = |tips: &Tips<'_>| head(tweak(LEAF, 0, tips.slot), &tips.parameter);
        let first = tips.iter().map(|tips| (start(tips), [Fp::ZERO; 8]));
        let mut states = compress(backend, first);
        // A block takes two ends of four elements; the number of chains is even.
        for i in 0..Set::Compact.params().chains / 2 {
            let block = |tips: &Tips<'_>| pair(&tips.digests[2 * i], &tips.digests[2 * i + 1]);
            let halves = states.iter().zip(tips);
            states = compress(backend, halves.map(|(state, tips)| (*state, block(tips))));
        }
        states.iter().map(|state| padded(state)).collect()
    }

    fn message(&self, backend: Backend, message: &[u8; 32]) -> Message {
        // Nine limbs, six elements of randomness and a tweak would not fit the sixteen lanes of a try. Hashed once,
        // the limbs are eight elements.
        let limbs = message_limbs(message);
        let left = std::array::from_fn(|i| limbs[i]);
        let mut right = [Fp::ZERO; 8];
        right[..2].copy_from_slice(&[limbs[8], Fp::new(MESSAGE_TAG)]);
        let hash = compress(backend, std::iter::once((left, right)))[0];
        std::array::from_fn(|i| hash.get(i).copied().unwrap_or_default())
    }

    fn encode(&self, backend: Backend, encodings: &[Encoding]) -> Vec<Option<Code>> {
        let first = encodings.iter().map(|e| {
            let left = std::array::from_fn(|i| e.message[i]);
            let mut right = [Fp::ZERO; 8];
            right[..6].copy_from_slice(&e.randomness[..6]);
            right[6..].copy_from_slice(&tweak(ENCODING, 0, e.slot));
            (left, right)
        });
        let inner = compress(backend, first);
        let halves = inner.iter().zip(encodings);
        let hashes = compress(
            backend,
            halves.map(|(left, e)| (*left, padded(&e.parameter))),
        );
        hashes.iter().map(decode).collect()
    }
}

impl Vectors for Compact {
    #[inline(always)]
    fn set(&self) -> Set {
        Set::Compact
    }

    fn tweak_base(&self, slot: u32) -> [u32; 2] {
        tweak(CHAIN, 0, slot).map(Fp::canonical)
    }

    #[inline(always)]
    fn tweak_offset(&self, chain: usize, position: u8) -> u32 {
        // Below 2^10, on a first limb that ends in ten zero bits and is below 2^26: nothing is ever carried.
        8 * chain as u32 + u32::from(position)
    }

    #[inline(always)]
    fn step_input<V: Packed>(
        &self,
        parameter: &[V; 5],
        tweak: [V; 2],
        digest: &[V; DIGEST_MAX],
    ) -> [V; 16] {
        let mut state = [V::splat(Fp::ZERO); 16];
        state[..2].copy_from_slice(&tweak);
        state[4..8].copy_from_slice(&digest[..4]);
        state[8..12].copy_from_slice(&parameter[..4]);
        state
    }

    fn leaf_tweak(&self, slot: u32) -> [Fp; 2] {
        tweak(LEAF, 0, slot)
    }

    #[inline(always)]
    fn leaf<V: Packed, const N: usize>(
        &self,
        parameter: &[V; 5],
        tweak: &[[V; 2]; N],
        tips: &[[[V; DIGEST_MAX]; N]],
    ) -> [[V; DIGEST_MAX]; N] {
        let zero = V::splat(Fp::ZERO);
        let mut states = [[zero; 16]; N];
        for (state, tweak) in states.iter_mut().zip(tweak) {
            state[..2].copy_from_slice(tweak);
            state[4..8].copy_from_slice(&parameter[..4]);
        }
        compress_vectors_16(&mut states);
        for pair in tips.chunks_exact(2) {
            for (n, state) in states.iter_mut().enumerate() {
                state[8..12].copy_from_slice(&pair[0][n][..4]);
                state[12..].copy_from_slice(&pair[1][n][..4]);
            }
            compress_vectors_16(&mut states);
        }
        let mut leaves = [[zero; DIGEST_MAX]; N];
        for (leaf, state) in leaves.iter_mut().zip(&states) {
            leaf[..4].copy_from_slice(&state[..4]);
        }
        leaves
    }
}

/// Digits of the low 24 bits of each lane, which are uniform once p − 1 is rejected.
fn decode(lanes: &Half) -> Option<Code> {
    let values = lanes.map(|lane| lane.canonical());
    // In any of the eight lanes, though the last have no digit of a chain: the relation of proofs writes all of
    // them as digits.
    if values.contains(&(P - 1)) {
        return None;
    }
    let digits = values
        .iter()
        .flat_map(|value| (0..8).map(move |i| (value >> (3 * i) & 7) as u8));
    on_target(Set::Compact, digits)
}
