//! The hash functions of the lean consensus specification: chains of width 16, everything else width 24.

use std::sync::LazyLock;

use alphorn_exec::Backend;
use alphorn_stark::field::P;
use alphorn_stark::poseidon::permute_vectors_24;
use alphorn_stark::{Fp, Packed, Permutations};

use super::fresh::Vectors;
use super::{
    Children, Code, Digest, Encoding, Instance, Message, Tips, Walk, message_limbs, on_target,
    walk_16,
};
use crate::params::{DIGEST_MAX, Set};

/// The functions of one of the two sets.
pub(super) struct Lean {
    set: Set,
    capacity: &'static LazyLock<[Fp; CAPACITY]>,
}

/// Number of lanes of the sponge that no input touches.
const CAPACITY: usize = 9;
/// Number of lanes of the sponge that take input.
const RATE: usize = 24 - CAPACITY;

static CAPACITY_PROD: LazyLock<[Fp; CAPACITY]> = LazyLock::new(|| leaf_capacity(Set::Prod));
static CAPACITY_TEST: LazyLock<[Fp; CAPACITY]> = LazyLock::new(|| leaf_capacity(Set::Test));

pub(super) static PROD: Lean = Lean {
    set: Set::Prod,
    capacity: &CAPACITY_PROD,
};
pub(super) static TEST: Lean = Lean {
    set: Set::Test,
    capacity: &CAPACITY_TEST,
};

/// Digits of base p of an integer, the lowest first.
pub(super) fn limbs<const N: usize>(mut value: u128) -> [Fp; N] {
    let out = std::array::from_fn(|_| {
        let digit = Fp::reduced(value);
        value /= u128::from(P);
        digit
    });
    assert!(value == 0, "the integer has more than {N} digits");
    out
}

pub(super) fn chain_tweak(slot: u32, chain: u8, step: u8) -> [Fp; 2] {
    limbs(u128::from(slot) << 24 | u128::from(chain) << 16 | u128::from(step) << 8)
}

pub(super) fn tree_tweak(level: u8, index: u32) -> [Fp; 2] {
    limbs(u128::from(level) << 40 | u128::from(index) << 8 | 1)
}

pub(super) fn message_tweak(slot: u32) -> [Fp; 2] {
    limbs(u128::from(slot) << 8 | 2)
}

/// The capacity that encodes the lengths of a sponge's input fields.
pub(super) fn separator(lengths: [u32; 4]) -> [Fp; CAPACITY] {
    let joined = lengths
        .into_iter()
        .fold(0, |sum, length| sum << 32 | u128::from(length));
    let mut states = [limbs::<24>(joined)];
    Backend::Portable.compress_24(&mut states);
    std::array::from_fn(|i| states[0][i])
}

fn leaf_capacity(set: Set) -> [Fp; CAPACITY] {
    let p = set.params();
    separator([p.parameter, 2, p.chains, p.digest].map(|length| length as u32))
}

/// Sponges over inputs of one length, given in parts; eight elements of output each.
pub(super) fn sponges(
    backend: Backend,
    capacity: &[Fp; CAPACITY],
    inputs: &[Vec<Fp>],
) -> Vec<Digest> {
    let mut start = [Fp::ZERO; 24];
    start[..CAPACITY].copy_from_slice(capacity);
    let mut states = vec![start; inputs.len()];
    let blocks = inputs.first().map_or(0, |input| input.len().div_ceil(RATE));
    for block in 0..blocks {
        for (state, input) in states.iter_mut().zip(inputs) {
            let part = &input[block * RATE..input.len().min((block + 1) * RATE)];
            // Input overwrites these lanes and is not added. The padding with zeros is not ambiguous, since the
            // capacity encodes the lengths.
            state[CAPACITY..].fill(Fp::ZERO);
            state[CAPACITY..CAPACITY + part.len()].copy_from_slice(part);
        }
        backend.permute_24(&mut states);
    }
    let output = |state: &[Fp; 24]| std::array::from_fn(|i| state[CAPACITY + i]);
    states.iter().map(output).collect()
}

/// Fills a state with parts, one after the other; the rest is zero.
fn filled<const T: usize>(parts: &[&[Fp]]) -> [Fp; T] {
    let mut state = [Fp::ZERO; T];
    let mut at = 0;
    for part in parts {
        state[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    state
}

impl Instance for Lean {
    fn chain_input(&self, walk: &Walk, position: u8) -> [Fp; 16] {
        // A step is numbered by the position it leads to.
        let tweak = chain_tweak(walk.slot, walk.chain, position + 1);
        filled(&[&walk.digest, &walk.parameter, &tweak])
    }

    fn walk(&self, backend: Backend, walks: &mut [Walk]) {
        walk_16(self, self.set.params().digest, backend, walks);
    }

    fn nodes(&self, backend: Backend, children: &[Children]) -> Vec<Digest> {
        let input = |c: &Children| {
            let tweak = tree_tweak(c.level, c.index);
            filled(&[&c.parameter, &tweak, &c.left, &c.right])
        };
        let mut states: Vec<[Fp; 24]> = children.iter().map(input).collect();
        backend.compress_24(&mut states);
        let output = |state: &[Fp; 24]| std::array::from_fn(|i| state[i]);
        states.iter().map(output).collect()
    }

    fn leaves(&self, backend: Backend, tips: &[Tips<'_>]) -> Vec<Digest> {
        let input = |tips: &Tips<'_>| {
            let tweak = tree_tweak(0, tips.slot);
            [&tips.parameter[..], &tweak[..], tips.digests.as_flattened()].concat()
        };
        let inputs: Vec<Vec<Fp>> = tips.iter().map(input).collect();
        sponges(backend, self.capacity, &inputs)
    }

    fn message(&self, _backend: Backend, message: &[u8; 32]) -> Message {
        message_limbs(message)
    }

    fn encode(&self, backend: Backend, encodings: &[Encoding]) -> Vec<Option<Code>> {
        let input = |e: &Encoding| {
            let tweak = message_tweak(e.slot);
            filled(&[&e.message, &e.parameter, &tweak, &e.randomness])
        };
        let mut states: Vec<[Fp; 24]> = encodings.iter().map(input).collect();
        backend.compress_24(&mut states);
        // Eight digits to a lane: the others hold no digit of a chain, and may be p − 1.
        let lanes = self.set.params().chains.div_ceil(8);
        states
            .iter()
            .map(|state| self.decode(&state[..lanes]))
            .collect()
    }
}

impl Vectors for Lean {
    #[inline(always)]
    fn set(&self) -> Set {
        self.set
    }

    fn tweak_base(&self, slot: u32) -> [u32; 2] {
        let value = u64::from(slot) << 24;
        [(value % u64::from(P)) as u32, (value / u64::from(P)) as u32]
    }

    #[inline(always)]
    fn tweak_offset(&self, chain: usize, position: u8) -> u32 {
        (chain as u32) << 16 | (u32::from(position) + 1) << 8
    }

    #[inline(always)]
    fn step_input<V: Packed>(
        &self,
        parameter: &[V; 5],
        tweak: [V; 2],
        digest: &[V; DIGEST_MAX],
    ) -> [V; 16] {
        let mut state = [V::splat(Fp::ZERO); 16];
        state[..8].copy_from_slice(digest);
        state[8..13].copy_from_slice(parameter);
        state[13..15].copy_from_slice(&tweak);
        state
    }

    fn leaf_tweak(&self, slot: u32) -> [Fp; 2] {
        tree_tweak(0, slot)
    }

    #[inline(always)]
    fn leaf<V: Packed, const N: usize>(
        &self,
        parameter: &[V; 5],
        tweak: &[[V; 2]; N],
        tips: &[[[V; DIGEST_MAX]; N]],
    ) -> [[V; DIGEST_MAX]; N] {
        let zero = V::splat(Fp::ZERO);
        let mut states = [[zero; 24]; N];
        for state in &mut states {
            for (lane, x) in state.iter_mut().zip(self.capacity.iter()) {
                *lane = V::splat(*x);
            }
        }
        let head = parameter.len() + 2;
        let length = head + DIGEST_MAX * tips.len();
        for block in 0..length.div_ceil(RATE) {
            for (n, state) in states.iter_mut().enumerate() {
                for (i, lane) in state[CAPACITY..].iter_mut().enumerate() {
                    let at = block * RATE + i;
                    *lane = if at < parameter.len() {
                        parameter[at]
                    } else if at < head {
                        tweak[n][at - parameter.len()]
                    } else if at < length {
                        tips[(at - head) / DIGEST_MAX][n][(at - head) % DIGEST_MAX]
                    } else {
                        zero
                    };
                }
            }
            permute_vectors_24(&mut states);
        }
        let mut leaves = [[zero; DIGEST_MAX]; N];
        for (leaf, state) in leaves.iter_mut().zip(&states) {
            leaf.copy_from_slice(&state[CAPACITY..CAPACITY + DIGEST_MAX]);
        }
        leaves
    }
}

impl Lean {
    /// Digits of the quotients by 127: p − 1 = 127·2^24, so they are uniform once p − 1 is rejected.
    fn decode(&self, lanes: &[Fp]) -> Option<Code> {
        let values: Vec<u32> = lanes.iter().map(|lane| lane.canonical()).collect();
        if values.contains(&(P - 1)) {
            return None;
        }
        let digits = values
            .iter()
            .flat_map(|value| (0..8).map(move |i| ((value / 127) >> (3 * i) & 7) as u8));
        on_target(self.set, digits)
    }
}
