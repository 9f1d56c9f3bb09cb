//! What each parameter set hashes, and how: the only module that knows a permutation.
//!
//! Every call takes many items, because a kernel computes sixteen hashes in the time of one.

mod compact;
mod fresh;
mod lean;
#[cfg(test)]
mod tests;

use alphorn_exec::Backend;
use alphorn_stark::{Dispatch, Fp, Permutations};

use crate::params::{BASE, CHAINS_MAX, DIGEST_MAX, Set};
use crate::wiped::Wiped;

/// A digest; sets with shorter ones leave the last elements zero.
pub(crate) type Digest = [Fp; DIGEST_MAX];

/// A key's parameter P; the compact set leaves the last element zero.
pub(crate) type Parameter = [Fp; 5];

/// A signature's randomness; the compact set leaves the last element zero.
pub(crate) type Randomness = [Fp; 7];

/// A message as field elements, as the set's code hashes it.
pub(crate) type Message = [Fp; 9];

/// The digits of a message, one for each chain of the set.
pub(crate) type Code = [u8; CHAINS_MAX];

/// A part of a chain to walk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk {
    pub(crate) parameter: Parameter,
    pub(crate) slot: u32,
    pub(crate) chain: u8,
    /// Position of the digest, 0 to 7.
    pub(crate) from: u8,
    /// Position to reach, `from` to 7.
    pub(crate) to: u8,
    pub(crate) digest: Digest,
}

/// Two children of a tree node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Children {
    pub(crate) parameter: Parameter,
    /// Level of the parent, 1 for the parent of leaves.
    pub(crate) level: u8,
    /// Index of the parent in its level.
    pub(crate) index: u32,
    pub(crate) left: Digest,
    pub(crate) right: Digest,
}

/// The ends of all chains of an index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tips<'a> {
    pub(crate) parameter: Parameter,
    pub(crate) slot: u32,
    /// One for each chain.
    pub(crate) digests: &'a [Digest],
}

/// A message with the randomness that may give it a code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoding {
    pub(crate) parameter: Parameter,
    pub(crate) slot: u32,
    pub(crate) message: Message,
    pub(crate) randomness: Randomness,
}

/// The hash functions of a parameter set.
pub(crate) trait Instance: FreshLeaves + Sync {
    /// The input of one chain step that starts at `position`.
    fn chain_input(&self, walk: &Walk, position: u8) -> [Fp; 16];

    /// Walks all chains to their ends.
    fn walk(&self, backend: Backend, walks: &mut [Walk]);

    /// The parents.
    fn nodes(&self, backend: Backend, children: &[Children]) -> Vec<Digest>;

    /// The leaves.
    fn leaves(&self, backend: Backend, tips: &[Tips<'_>]) -> Vec<Digest>;

    /// A message as field elements.
    fn message(&self, backend: Backend, message: &[u8; 32]) -> Message;

    /// The digits of each message; none if the hash is one of the rare values that do not decode, or if the digits
    /// miss the target sum.
    fn encode(&self, backend: Backend, encodings: &[Encoding]) -> Vec<Option<Code>>;
}

impl Set {
    /// The hash functions of the set.
    pub(crate) fn instance(self) -> &'static dyn Instance {
        match self {
            Set::Prod => &lean::PROD,
            Set::Test => &lean::TEST,
            Set::Compact => &compact::Compact,
        }
    }
}

/// Computation of a new key's leaves, in vectors of slots.
pub(crate) trait FreshLeaves {
    /// The leaves of successive slots from the starts of their chains, slot by slot.
    fn fresh_leaves(
        &self,
        backend: Backend,
        parameter: &Parameter,
        first: u32,
        starts: &[Digest],
    ) -> Vec<Digest>;
}

impl<H: fresh::Vectors> FreshLeaves for H {
    fn fresh_leaves(
        &self,
        backend: Backend,
        parameter: &Parameter,
        first: u32,
        starts: &[Digest],
    ) -> Vec<Digest> {
        let chains = self.set().params().chains;
        let mut out = vec![[Fp::ZERO; DIGEST_MAX]; starts.len() / chains];
        backend.run(fresh::Fresh {
            hash: self,
            parameter: *parameter,
            first,
            starts,
            out: &mut out,
        });
        out
    }
}

/// Number of walks done together, so that their states stay in the first-level cache.
const WALKS: usize = 256;

/// Walks chains whose step is the compression of width 16; the first `digest` lanes are the output.
fn walk_16(instance: &impl Instance, digest: usize, backend: Backend, walks: &mut [Walk]) {
    // For a signing key these are secret chain values: never moved by growing, and wiped.
    let mut states = Wiped(Vec::with_capacity(WALKS));
    for walks in walks.chunks_mut(WALKS) {
        // Position by position: a step waits for the one before it on its chain, but not for those of other chains.
        for position in 0..BASE - 1 {
            let active = |walk: &Walk| (walk.from..walk.to).contains(&position);
            states.0.clear();
            let moving = walks.iter().filter(|walk| active(walk));
            states
                .0
                .extend(moving.map(|walk| instance.chain_input(walk, position)));
            backend.compress_16(&mut states);
            let moving = walks.iter_mut().filter(|walk| active(walk));
            for (walk, state) in moving.zip(states.iter()) {
                walk.digest[..digest].copy_from_slice(&state[..digest]);
            }
        }
    }
}

/// The code of the digits if their sum is the target.
fn on_target(set: Set, digits: impl Iterator<Item = u8>) -> Option<Code> {
    let params = set.params();
    let mut code = [0; CHAINS_MAX];
    let mut sum = 0;
    for (out, digit) in code[..params.chains].iter_mut().zip(digits) {
        *out = digit;
        sum += u16::from(digit);
    }
    (sum == params.target_sum).then_some(code)
}

/// The 32 bytes as a little-endian integer, in nine digits of base p, the lowest first.
fn message_limbs(message: &[u8; 32]) -> Message {
    let mut words: Vec<u32> = message
        .as_chunks::<4>()
        .0
        .iter()
        .map(|bytes| u32::from_le_bytes(*bytes))
        .collect();
    let p = u64::from(alphorn_stark::field::P);
    // p^9 > 2^256: nothing is left after nine digits.
    std::array::from_fn(|_| {
        let mut rest = 0;
        for word in words.iter_mut().rev() {
            let value = rest << 32 | u64::from(*word);
            *word = (value / p) as u32;
            rest = value % p;
        }
        Fp::new(rest as u32)
    })
}
