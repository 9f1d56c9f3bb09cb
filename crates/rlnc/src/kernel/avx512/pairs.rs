//! Linear combinations of rows with half of the products, while finished results are hashed.

use core::arch::x86_64::*;

use super::load;
use super::quad::{Limbs, MASK51, QUAD, Sums, raised};
use super::sha256::Hashing;
use crate::payload::Joiner;
use crate::row::{Block, Row};
use crate::scalar::Scalar;

/// Maximum scratch memory for computing the results one after another, so that they can be hashed in the meantime; it
/// stays in the second-level cache. If more is needed, all results are computed block by block.
const SCRATCH_BYTES: usize = 512 << 10;

/// For several results: half of the products, after Winograd ("A new algorithm for inner product", 1968). For two rows
/// w and w' with factors f and f'
///
/// f·w + f'·w' = (f + w')·(f' + w) - f·f' - w·w',
///
/// where f·f' is the same for all elements, and w·w' for all results. Limbs have 51 bits here, so that their sums are
/// at most 2^52 - 2. The subtraction can make columns negative, but not their value.
///
/// There must be rows and results.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma,sha,sse4.1")]
pub(super) fn sums_of_pairs(
    factors: &[&[Scalar]],
    rows: &[&Row],
    out: &mut [Row],
    mut joiner: Option<&mut Joiner>,
) {
    let count = rows.len().div_ceil(2);
    let factors = Factors::new(factors, count);
    let none = vec![[[0; 5]; 2]; count];
    let (len, blocks) = (out[0].len(), out[0].blocks.len());
    let in_order = blocks * (count + 1) * size_of::<[[Limbs; 2]; 2]>() <= SCRATCH_BYTES;
    // At least 1 for results without elements: `step_by` takes no zero.
    let together = if in_order { blocks.max(1) } else { 1 };
    // The rows, four elements of all of them at a time, and the terms subtracted from all results.
    let mut limbs: Vec<Limbs> = Vec::with_capacity(4 * count * together);
    let mut shared = Vec::with_capacity(2 * together);
    // Block by block, no result is complete before the end, so nothing is hashed in the meantime.
    let mut hashing = Hashing::new(joiner.as_deref_mut().filter(|_| in_order));
    for first in (0..blocks).step_by(together) {
        let quads = 2 * first..len.div_ceil(QUAD).min(2 * (first + together));
        limbs.clear();
        shared.clear();
        for (k, out) in out.iter_mut().enumerate() {
            let (list, own) = factors.of(k);
            for (i, quad) in quads.clone().enumerate() {
                // The first result converts the rows, a block or two quads at a time; the others find them.
                if limbs.len() <= 2 * count * i {
                    append(rows, first + i / 2, &mut limbs);
                }
                let pairs = &limbs.as_chunks::<2>().0[count * i..][..count];
                // The first pair is added last, by `finish`.
                let (last, pairs) = pairs.split_first().expect("there are rows");
                let (fours, ones) = pairs.as_chunks();
                // Before the first result, without factors: the terms subtracted from all results.
                let sums = loop {
                    let (mut sums, list) = match shared.get(i) {
                        Some(shared) => (Sums::new(shared, own), list),
                        None => (Sums::zero(), none.as_slice()),
                    };
                    let (factor_fours, factor_ones) = list[1..].as_chunks();
                    for (pairs, factors) in fours.iter().zip(factor_fours) {
                        if hashing.begin() {
                            sums.add_four::<true>(pairs, factors, &mut hashing.rounds);
                        } else {
                            sums.add_four::<false>(pairs, factors, &mut hashing.rounds);
                        }
                    }
                    for (pair, factors) in ones.iter().zip(factor_ones) {
                        sums.add(pair, factors);
                    }
                    if shared.len() > i {
                        break sums;
                    }
                    // The shared terms are those of all pairs, and nothing is finished here.
                    sums.add(last, &none[0]);
                    shared.push(sums.negative());
                };
                if hashing.begin() {
                    sums.finish::<true>(last, &list[0], out, quad, &mut hashing);
                } else {
                    sums.finish::<false>(last, &list[0], out, quad, &mut hashing);
                }
            }
        }
    }
    hashing.end();
    if let Some(joiner) = joiner
        && !in_order
    {
        joiner.take(out);
    }
}

/// The factors of all results in pairs, by result, and -Σ f·f' of each in columns of 51 bits.
struct Factors {
    count: usize,
    limbs: Vec<[u64; 5]>,
    columns: Vec<[u64; 10]>,
}

impl Factors {
    /// With `count` pairs each: a zero is appended to lists of odd length.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512ifma,sha,sse4.1")]
    fn new(lists: &[&[Scalar]], count: usize) -> Factors {
        let mut scalars = Vec::with_capacity(2 * count * lists.len());
        for list in lists {
            scalars.extend_from_slice(list);
            scalars.resize(scalars.len().next_multiple_of(2 * count), Scalar::ZERO);
        }
        // [`raised`] always returns four, also for a last chunk of two.
        let mut limbs = Vec::with_capacity(scalars.len() + QUAD);
        let mut columns = vec![[0_u64; 10]; lists.len()];
        for (i, four) in scalars.chunks(QUAD).enumerate() {
            let (raised, products) = raised(four);
            limbs.extend_from_slice(&raised);
            for (half, product) in products.iter().enumerate().take(four.len() / 2) {
                let columns = &mut columns[(2 * i + half) / count];
                for (column, product) in columns.iter_mut().zip(product) {
                    *column = column.wrapping_add(*product);
                }
            }
        }
        Factors {
            count,
            limbs,
            columns,
        }
    }

    /// The factors of result k.
    #[inline]
    fn of(&self, k: usize) -> (&[[[u64; 5]; 2]], &[u64; 10]) {
        let pairs = &self.limbs.as_chunks().0[k * self.count..][..self.count];
        (pairs, &self.columns[k])
    }
}

/// Appends a block of the rows, first one half of each row and then the other, with a row of zeros if their number is
/// odd.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn append(rows: &[&Row], block: usize, limbs: &mut Vec<Limbs>) {
    let padded = rows.len().next_multiple_of(2);
    let len = limbs.len() + 2 * padded;
    let (low, high) = limbs.spare_capacity_mut()[..2 * padded].split_at_mut(padded);
    for (i, (low, high)) in low.iter_mut().zip(high).enumerate() {
        let limbs = match rows.get(i) {
            Some(row) => limbs51(&row.blocks[block]),
            None => [_mm512_setzero_si512(); 5],
        };
        low.write(limbs.map(|limb| _mm512_castsi512_si256(limb)));
        high.write(limbs.map(|limb| _mm512_extracti64x4_epi64::<1>(limb)));
    }
    // SAFETY: all of these have just been written.
    unsafe { limbs.set_len(len) };
}

/// Limbs of 51 bits of canonical scalars, from those of 52.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn limbs51(block: &Block) -> [__m512i; 5] {
    let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|k| load(&block.limbs[k]));
    [
        a,
        _mm512_or_si512(_mm512_srli_epi64::<51>(a), _mm512_slli_epi64::<1>(b)),
        _mm512_or_si512(_mm512_srli_epi64::<50>(b), _mm512_slli_epi64::<2>(c)),
        _mm512_or_si512(_mm512_srli_epi64::<49>(c), _mm512_slli_epi64::<3>(d)),
        _mm512_or_si512(_mm512_srli_epi64::<48>(d), _mm512_slli_epi64::<4>(e)),
    ]
    .map(|limb| _mm512_and_si512(limb, _mm512_set1_epi64(MASK51 as i64)))
}
