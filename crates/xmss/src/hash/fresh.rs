//! Leaves of successive indices from the starts of their chains, for key generation.
//!
//! Each lane of a vector is an index, and all lanes walk the same chain at the same position. So states stay in
//! vectors from the start of a chain to the leaf, and nothing is moved between lanes.

use alphorn_stark::field::P;
use alphorn_stark::poseidon::compress_vectors_16;
use alphorn_stark::{Fp, Packed, Pass};

use super::{Digest, Parameter};
use crate::params::{BASE, CHAINS_MAX, DIGEST_MAX, Set};

/// Number of lanes of the widest vector.
const LANES_MAX: usize = 16;

/// The hash functions of a set, on vectors.
pub(super) trait Vectors {
    /// The set.
    fn set(&self) -> Set;

    /// The two limbs of the tweak of a chain in a slot, without chain and position.
    fn tweak_base(&self, slot: u32) -> [u32; 2];

    /// The offset of chain and position in the first limb; the sum may pass p, in which case 1 is carried.
    fn tweak_offset(&self, chain: usize, position: u8) -> u32;

    /// The input of one chain step.
    fn step_input<V: Packed>(
        &self,
        parameter: &[V; 5],
        tweak: [V; 2],
        digest: &[V; DIGEST_MAX],
    ) -> [V; 16];

    /// The limbs of a leaf's tweak.
    fn leaf_tweak(&self, slot: u32) -> [Fp; 2];

    /// The leaves above the ends of all chains.
    fn leaf<V: Packed, const N: usize>(
        &self,
        parameter: &[V; 5],
        tweak: &[[V; 2]; N],
        tips: &[[[V; DIGEST_MAX]; N]],
    ) -> [[V; DIGEST_MAX]; N];
}

/// Makes the leaves of the slots from `first` on, one for each slot of `out`; `starts` are the chain starts, slot
/// by slot.
pub(super) struct Fresh<'a, H> {
    pub(super) hash: &'a H,
    pub(super) parameter: Parameter,
    pub(super) first: u32,
    pub(super) starts: &'a [Digest],
    pub(super) out: &'a mut [Digest],
}

impl<H: Vectors> Pass for Fresh<'_, H> {
    type Output = ();

    #[inline(always)]
    fn run<V: Packed>(self) {
        assert!(V::LANES <= LANES_MAX, "a vector fits its columns");
        let chains = self.hash.set().params().chains;
        let (mut first, mut starts, mut out) = (self.first, self.starts, self.out);
        while !out.is_empty() {
            let slots = out.len().min(2 * V::LANES);
            let (here, rest) = out.split_at_mut(slots);
            let part = Fresh {
                hash: self.hash,
                parameter: self.parameter,
                first,
                starts: &starts[..slots * chains],
                out: here,
            };
            // Two vectors interleave and stall less than a single one.
            match slots > V::LANES {
                true => part.group::<V, 2>(),
                false => part.group::<V, 1>(),
            }
            out = rest;
            starts = &starts[slots * chains..];
            // After the slot 2^32 − 1 this wraps, and nothing is left that would use it.
            first = first.wrapping_add(slots as u32);
        }
    }
}

impl<H: Vectors> Fresh<'_, H> {
    /// At most `N` vectors of slots; lanes without a slot repeat the last one.
    #[inline(always)]
    fn group<V: Packed, const N: usize>(self) {
        let params = self.hash.set().params();
        let last = self.out.len() - 1;
        let zero = V::splat(Fp::ZERO);
        let mut parameter = [zero; 5];
        for (vector, x) in parameter.iter_mut().zip(&self.parameter) {
            *vector = V::splat(*x);
        }
        let mut base = [[[0; LANES_MAX]; 2]; N];
        let mut leaf_columns = [[[Fp::ZERO; LANES_MAX]; 2]; N];
        let mut greatest = 0;
        for n in 0..N {
            for lane in 0..V::LANES {
                let slot = self.first + (n * V::LANES + lane).min(last) as u32;
                let [low, high] = self.hash.tweak_base(slot);
                (base[n][0][lane], base[n][1][lane]) = (low, high);
                greatest = greatest.max(low);
                let tweak = self.hash.leaf_tweak(slot);
                (leaf_columns[n][0][lane], leaf_columns[n][1][lane]) = (tweak[0], tweak[1]);
            }
        }
        let mut low = [zero; N];
        let mut high = [zero; N];
        let mut leaf_tweak = [[zero; 2]; N];
        for n in 0..N {
            low[n] = load_words(&base[n][0]);
            high[n] = load_words(&base[n][1]);
            leaf_tweak[n] = [V::load(&leaf_columns[n][0]), V::load(&leaf_columns[n][1])];
        }
        let mut tips = [[[zero; DIGEST_MAX]; N]; CHAINS_MAX];
        for (chain, tip) in tips[..params.chains].iter_mut().enumerate() {
            let mut digest = [[zero; DIGEST_MAX]; N];
            for (n, digest) in digest.iter_mut().enumerate() {
                *digest = self.load_starts(n * V::LANES, chain);
            }
            for position in 0..BASE - 1 {
                let offset = self.hash.tweak_offset(chain, position);
                let mut states = [[zero; 16]; N];
                for n in 0..N {
                    let mut tweak = [low[n].add(V::splat(Fp::new(offset))), high[n]];
                    // The sum of first limbs may pass p in some lane only then, in one slot of some hundreds. The
                    // first limb itself needs no care, as it is added modulo p.
                    if greatest >= P - offset {
                        tweak[1] = carried(&base[n], offset);
                    }
                    states[n] = self.hash.step_input(&parameter, tweak, &digest[n]);
                }
                compress_vectors_16(&mut states);
                for n in 0..N {
                    digest[n][..params.digest].copy_from_slice(&states[n][..params.digest]);
                }
            }
            *tip = digest;
        }
        let leaves = self
            .hash
            .leaf(&parameter, &leaf_tweak, &tips[..params.chains]);
        let mut column = [Fp::ZERO; LANES_MAX];
        for (n, leaf) in leaves.iter().enumerate() {
            for (i, element) in leaf.iter().enumerate() {
                element.store(&mut column);
                let out = self.out.iter_mut().skip(n * V::LANES);
                for (out, x) in out.zip(&column[..V::LANES]) {
                    out[i] = *x;
                }
            }
        }
    }

    /// The starts of a chain in the slots from index `at` on.
    #[inline(always)]
    fn load_starts<V: Packed>(&self, at: usize, chain: usize) -> [V; DIGEST_MAX] {
        let chains = self.hash.set().params().chains;
        let mut columns = [[Fp::ZERO; LANES_MAX]; DIGEST_MAX];
        for lane in 0..V::LANES {
            let slot = (at + lane).min(self.out.len() - 1);
            let start = &self.starts[slot * chains + chain];
            for (column, x) in columns.iter_mut().zip(start) {
                column[lane] = *x;
            }
        }
        let mut digest = [V::splat(Fp::ZERO); DIGEST_MAX];
        for (vector, column) in digest.iter_mut().zip(&columns) {
            *vector = V::load(column);
        }
        digest
    }
}

#[inline(always)]
fn load_words<V: Packed>(words: &[u32; LANES_MAX]) -> V {
    let mut column = [Fp::ZERO; LANES_MAX];
    for (x, word) in column.iter_mut().zip(words) {
        *x = Fp::new(*word);
    }
    V::load(&column)
}

/// The second limbs, for slots in which the first may have passed p.
#[inline(always)]
fn carried<V: Packed>(base: &[[u32; LANES_MAX]; 2], offset: u32) -> V {
    let mut words = base[1];
    for (word, low) in words.iter_mut().zip(&base[0]) {
        *word += u32::from(*low >= P - offset);
    }
    load_words(&words)
}
