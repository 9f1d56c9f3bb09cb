//! Linear combinations of rows, four elements at a time.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use alphorn_exec::Avx2Fma;

use super::{
    BELOW, Factor, HIGH, LIMB_BITS, LOW, MASK, REGISTERS, Raw, SIGN_ABOVE, WIDTH, add_product,
    double, excess, halves, halves_as_doubles, store, words,
};
use crate::row::{Block, Row};
use crate::scalar::Scalar;

/// See [`crate::kernel::Dispatch::combine_into`].
pub(in crate::kernel) fn combine(
    _: Avx2Fma,
    factors: &[&[Scalar]],
    rows: &[&Row],
    out: &mut [Row],
) {
    // SAFETY: the witness shows that this processor has AVX2 and FMA, all that the callee is compiled
    // for.
    unsafe { combine_lanes(factors, rows, out) }
}

/// ℓ in limbs of 51 bits; limb 3 is zero.
pub(in crate::kernel) const ORDER51: [u64; 5] = [
    0x0002_631a_5cf5_d3ed,
    0x0003_d45e_f39a_cb02,
    0x0053_7be7,
    0,
    1 << 48,
];
/// -1/ℓ modulo 2^51.
pub(in crate::kernel) const ORDER_NEG_INVERSE51: u64 = 0x0005_1da3_1254_7e1b;
/// Number of limbs of 51 bits by which [`reduce`] divides.
const STEPS: usize = 6;
/// Number of columns of an unreduced linear combination.
const COLUMNS: usize = STEPS + 5;

#[target_feature(enable = "avx2,fma")]
fn combine_lanes(factors: &[&[Scalar]], rows: &[&Row], out: &mut [Row]) {
    // [`reduce`] divides by 2^306.
    let raised: Vec<Vec<[f64; 5]>> = factors
        .iter()
        .map(|list| list.iter().map(|x| signed_limbs(x.times_2_306())).collect())
        .collect();
    let start = start_of_sum(rows.len());
    let mut elements = vec![[[_mm256_setzero_pd(); 5]; REGISTERS]; rows.len()];
    let blocks = out.first().map_or(0, |row| row.blocks.len());
    for block in 0..blocks {
        // Converted once per block, for all results.
        for (element, row) in elements.iter_mut().zip(rows) {
            for (register, element) in element.iter_mut().enumerate() {
                *element = read(&row.blocks[block], register);
            }
        }
        for (factors, out) in raised.iter().zip(&mut *out) {
            for register in 0..REGISTERS {
                let mut columns = start.map(|word| words(word));
                for (factor, element) in factors.iter().zip(&elements) {
                    let factor = factor.iter().map(|limb| _mm256_set1_pd(*limb));
                    add_product(&mut columns, &element[register], factor);
                }
                write(&mut out.blocks[block], register, &reduce(columns));
            }
        }
    }
}

/// Five limbs between -2^50 and 2^50, the last one not negative.
fn signed_limbs(x: Scalar) -> [f64; 5] {
    let x = x.0;
    let limbs = [
        x[0] & MASK,
        ((x[0] >> 51) | (x[1] << 13)) & MASK,
        ((x[1] >> 38) | (x[2] << 26)) & MASK,
        ((x[2] >> 25) | (x[3] << 39)) & MASK,
        x[3] >> 12,
    ];
    let mut carry = 0;
    limbs.map(|limb| {
        let limb = limb + carry;
        // The last limb is below 2^49.
        carry = u64::from(limb > 1 << (LIMB_BITS - 1));
        limb as f64 - (carry << LIMB_BITS) as f64
    })
}

/// Initial value of each column of a combination of this many rows: minus the total offset that the bits of all halves
/// add there, including those of [`reduce`].
fn start_of_sum(rows: usize) -> [u64; COLUMNS] {
    let mut start = [0_u64; COLUMNS];
    for (k, word) in start.iter_mut().enumerate().take(10) {
        *word = excess(k).wrapping_mul(rows as u64).wrapping_neg();
    }
    for step in 0..STEPS {
        for j in ORDER_LIMBS {
            // The offset of the low half in a step's own column is subtracted in the carry.
            if j > 0 {
                start[step + j] = start[step + j].wrapping_sub(LOW);
            }
            start[step + j + 1] = start[step + j + 1].wrapping_sub(HIGH);
        }
    }
    start
}

/// The nonzero limbs of ℓ.
const ORDER_LIMBS: [usize; 4] = [0, 1, 2, 4];

/// columns / 2^306 modulo ℓ, canonical, in limbs of 51 bits.
///
/// The value is below 64·ℓ² and each quotient at most 2^50 in magnitude, so the remainder is between -0.51·ℓ and
/// 0.51·ℓ: one addition.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn reduce(mut c: [__m256i; COLUMNS]) -> Raw {
    let mask = words(MASK);
    let order = ORDER51.map(|limb| _mm256_set1_pd(limb as f64));
    let inverse = _mm256_set1_pd(ORDER_NEG_INVERSE51 as f64);
    for i in 0..STEPS {
        // The low half is the quotient modulo 2^51 with the smallest magnitude; the high half is not needed.
        let (_, q) = halves_as_doubles(double(_mm256_and_si256(c[i], mask), 0), inverse);
        let q = _mm256_sub_pd(q, _mm256_set1_pd(BELOW));
        for j in ORDER_LIMBS {
            let (high, low) = halves(q, order[j]);
            c[i + j] = _mm256_add_epi64(c[i + j], low);
            c[i + j + 1] = _mm256_add_epi64(c[i + j + 1], high);
        }
        // The low 51 bits of this column are zero now.
        // The offset of the low half of q·ℓ's first limb, which [`start_of_sum`] leaves to this step.
        let column = _mm256_sub_epi64(c[i], words(LOW));
        c[i + 1] = _mm256_add_epi64(c[i + 1], above(column));
    }
    let mut value = [c[6], c[7], c[8], c[9], c[10]];
    carry_all(&mut value);
    let negative = _mm256_cmpgt_epi64(_mm256_setzero_si256(), value[4]);
    for i in 0..5 {
        let order = _mm256_and_si256(negative, words(ORDER51[i]));
        value[i] = _mm256_add_epi64(value[i], order);
    }
    carry_all(&mut value);
    value
}

/// The signed word divided by 2^51, rounded down.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn above(word: __m256i) -> __m256i {
    const TOP: u64 = 1 << 63;
    // There is no arithmetic shift of 64-bit words.
    let shifted = _mm256_srli_epi64::<{ LIMB_BITS as i32 }>(_mm256_xor_si256(word, words(TOP)));
    _mm256_sub_epi64(shifted, words(SIGN_ABOVE))
}

/// Carries signed limbs up to the last, sequentially.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn carry_all(limbs: &mut Raw) {
    for i in 0..4 {
        limbs[i + 1] = _mm256_add_epi64(limbs[i + 1], above(limbs[i]));
        limbs[i] = _mm256_and_si256(limbs[i], words(MASK));
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn load(words: &[u64; WIDTH]) -> __m256i {
    // SAFETY: `words` is 32 readable bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

/// Half of a block of 52-bit limbs as factors.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn read(block: &Block, register: usize) -> Factor {
    let l = |i: usize| load(&block.limbs[i].as_chunks().0[register]);
    let [l0, l1, l2, l3, l4] = [l(0), l(1), l(2), l(3), l(4)];
    let limbs = [
        l0,
        _mm256_or_si256(_mm256_slli_epi64::<1>(l1), _mm256_srli_epi64::<51>(l0)),
        _mm256_or_si256(_mm256_slli_epi64::<2>(l2), _mm256_srli_epi64::<50>(l1)),
        _mm256_or_si256(_mm256_slli_epi64::<3>(l3), _mm256_srli_epi64::<49>(l2)),
        _mm256_or_si256(_mm256_slli_epi64::<4>(l4), _mm256_srli_epi64::<48>(l3)),
    ];
    limbs.map(|limb| double(_mm256_and_si256(limb, words(MASK)), 0))
}

/// Canonical numbers in limbs of 51 bits as half of a block of 52-bit limbs.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn write(block: &mut Block, register: usize, limbs: &Raw) {
    let [l0, l1, l2, l3, l4] = *limbs;
    let limbs = [
        _mm256_or_si256(l0, _mm256_slli_epi64::<51>(l1)),
        _mm256_or_si256(_mm256_srli_epi64::<1>(l1), _mm256_slli_epi64::<50>(l2)),
        _mm256_or_si256(_mm256_srli_epi64::<2>(l2), _mm256_slli_epi64::<49>(l3)),
        _mm256_or_si256(_mm256_srli_epi64::<3>(l3), _mm256_slli_epi64::<48>(l4)),
        _mm256_srli_epi64::<4>(l4),
    ];
    let mask = words((1 << 52) - 1);
    for (limb, out) in limbs.into_iter().zip(&mut block.limbs) {
        store(
            &mut out.as_chunks_mut().0[register],
            _mm256_and_si256(limb, mask),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::TWO_52;
    use super::*;
    use crate::kernel::tests::detected;
    use alphorn_exec::InstructionSet;
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    #[target_feature(enable = "avx2,fma")]
    fn reduced(columns: [u64; COLUMNS]) -> Block {
        let mut block = Block::ZERO;
        let start = start_of_sum(0);
        let columns = std::array::from_fn(|k| words(columns[k].wrapping_add(start[k])));
        let limbs = reduce(columns);
        write(&mut block, 0, &limbs);
        // Reading returns what was written.
        let again = read(&block, 0);
        for i in 0..5 {
            let read = _mm256_castpd_si256(_mm256_add_pd(again[i], _mm256_set1_pd(TWO_52)));
            let same = _mm256_cmpeq_epi64(read, _mm256_or_si256(limbs[i], words(TWO_52.to_bits())));
            assert_eq!(_mm256_movemask_epi8(same), -1);
        }
        block
    }

    /// Trap 20: the value of 64 products of ℓ-1, in maximal columns, and in columns of both signs; and values on both
    /// sides of multiples of ℓ.
    #[test]
    fn trap_20_reduction_at_the_column_bounds() {
        if !detected(InstructionSet::Avx2Fma) {
            return;
        }
        let inverse = (0..306).fold(Scalar::ONE, |x, _| x + x).vartime_invert();
        let mut limbs = ORDER51;
        limbs[0] -= 1;
        let mut full = [0_u64; COLUMNS];
        for i in 0..5 {
            for j in 0..5 {
                let product = u128::from(limbs[i]) * u128::from(limbs[j]);
                full[i + j] += 64 * (product as u64 & MASK);
                full[i + j + 1] += 64 * ((product >> LIMB_BITS) as u64);
            }
        }
        // The same value: one column is reduced, the one below increased.
        let mut signed = full;
        for k in 0..9 {
            let moved = if k % 2 == 0 {
                255_u64
            } else {
                255_u64.wrapping_neg()
            };
            signed[k] = signed[k].wrapping_add(moved << LIMB_BITS);
            signed[k + 1] = signed[k + 1].wrapping_sub(moved);
        }
        // (-1)·(-1)·64.
        let mut cases = vec![(full, Scalar::from(64_u64)), (signed, Scalar::from(64_u64))];
        for multiple in [0, 1, 2, 63] {
            for more in [0_u64, 1, 2] {
                let mut columns = [0; COLUMNS];
                for i in 0..5 {
                    columns[i] = multiple * ORDER51[i];
                }
                columns[0] += more;
                cases.push((columns, Scalar::from(more)));
            }
        }
        for (columns, sum) in cases {
            // SAFETY: `detected` found the instructions.
            let found = unsafe { reduced(columns) };
            for lane in 0..WIDTH {
                assert_eq!(Scalar(found.get(lane)), sum * inverse);
            }
        }
    }

    #[test]
    fn signed_limbs_are_those_of_the_scalar() {
        let mut rng = ChaCha20Rng::seed_from_u64(14);
        let half = Scalar([(1 << 50) + 1, 1 << 37, 0, 0]);
        let mut scalars = vec![Scalar::ZERO, Scalar::ONE, -Scalar::ONE, half];
        scalars.push(Scalar([u64::MAX, u64::MAX, u64::MAX, (1 << 60) - 1]));
        scalars.extend((0..100).map(|_| Scalar::random(&mut rng)));
        let radix = Scalar::from(1_u64 << LIMB_BITS);
        for scalar in scalars {
            let limbs = signed_limbs(scalar);
            assert!(limbs.iter().all(|limb| limb.abs() <= (1_u64 << 50) as f64));
            assert!(limbs[4] >= 0.0);
            let sum = limbs.iter().rev().fold(Scalar::ZERO, |sum, limb| {
                let magnitude = Scalar::from(limb.abs() as u64);
                let sum = sum * radix;
                if *limb < 0.0 {
                    sum - magnitude
                } else {
                    sum + magnitude
                }
            });
            assert_eq!(sum, scalar);
        }
    }
}
