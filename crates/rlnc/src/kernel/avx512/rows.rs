//! Linear combinations of rows: eight elements of a row at a time.

use core::arch::x86_64::*;

use alphorn_exec::Avx512Ifma;

use super::pairs::sums_of_pairs;
use super::{load, store};
use crate::payload::Joiner;
use crate::row::{Block, LANES, Row};
use crate::scalar::{Scalar, Short};

/// See [`super::super::Dispatch::combine_and_join`].
pub(in crate::kernel) fn combine(
    _: Avx512Ifma,
    factors: &[&[Scalar]],
    rows: &[&Row],
    out: &mut [Row],
    joiner: Option<&mut Joiner>,
) {
    // All processors with IFMA have SHA; a virtual machine may hide it.
    let hashes = is_x86_feature_detected!("sha") && is_x86_feature_detected!("sse4.1");
    if hashes && out.len() >= PAIRED_MIN && !rows.is_empty() {
        // SAFETY: the witness shows that this processor has AVX-512 F, DQ, VL and IFMA; SHA and SSE 4.1 have just been
        // detected. The callee is compiled for no more than that.
        return unsafe { sums_of_pairs(factors, rows, out, joiner) };
    }
    // SAFETY: the witness shows that this processor has AVX-512 F, DQ and IFMA, all that the callee
    // is compiled for.
    unsafe { combine_lanes(factors, rows, out) }
    if let Some(joiner) = joiner {
        joiner.take(out);
    }
}

/// ℓ in limbs of 52 bits; limb 3 is zero.
const ORDER52: [i64; 5] = [
    0x0002_631a_5cf5_d3ed,
    0x000d_ea2f_79cd_6581,
    0x14_def9,
    0,
    1 << 44,
];
/// -1/ℓ modulo 2^52.
const ORDER_NEG_INVERSE52: i64 = 0x0005_1da3_1254_7e1b;

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn combine_lanes(factors: &[&[Scalar]], rows: &[&Row], out: &mut [Row]) {
    let limbs = |factor: &Scalar| {
        // [`sum`] divides by 2^260; the block only cuts the factor into limbs of 52 bits.
        let mut block = Block::ZERO;
        block.set(0, factor.times_2_260().0);
        block.limbs.map(|limb| limb[0])
    };
    let factors: Vec<Vec<[u64; 5]>> = factors
        .iter()
        .map(|list| list.iter().map(limbs).collect())
        .collect();
    let blocks = out.first().map_or(0, |row| row.blocks.len());
    for block in 0..blocks {
        for (factors, out) in factors.iter().zip(&mut *out) {
            out.blocks[block] = sum(factors, rows, block);
        }
    }
}

/// See [`super::super::Dispatch::combine_short`].
pub(in crate::kernel) fn combine_short(
    _: Avx512Ifma,
    factors: &[Short],
    rows: &[&Row],
    len: usize,
) -> Row {
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn compiled(factors: &[Short], rows: &[&Row], len: usize) -> Row {
        let mut limbs = Vec::with_capacity(factors.len());
        for factor in factors {
            let factor = factor.times_2_104();
            limbs.push([factor as u64 & ((1 << 52) - 1), (factor >> 52) as u64]);
        }
        let count = len.div_ceil(LANES);
        let mut blocks = Vec::with_capacity(count);
        for (i, block) in blocks.spare_capacity_mut()[..count].iter_mut().enumerate() {
            block.write(sum(&limbs, rows, i));
        }
        // SAFETY: this many have just been written.
        unsafe { blocks.set_len(count) };
        Row::from_blocks(len, blocks)
    }
    // SAFETY: the witness shows that this processor has AVX-512 F, DQ and IFMA, all that the callee
    // is compiled for.
    unsafe { compiled(factors, rows, len) }
}

/// Minimum number of results for which products of pairs of rows, shared by all of them, cost less than they save.
const PAIRED_MIN: usize = 4;

/// A block of the sum with factors of `LIMBS` limbs, divided by 2^(52·LIMBS).
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn sum<const LIMBS: usize>(factors: &[[u64; LIMBS]], rows: &[&Row], block: usize) -> Block {
    let zero = _mm512_setzero_si512();
    // Separate, so that no addition waits for the previous one.
    let (mut lo, mut hi) = ([zero; 9], [zero; 9]);
    for (factor, row) in factors.iter().zip(rows) {
        let limbs = &row.blocks[block].limbs;
        for i in 0..5 {
            let x = load(&limbs[i]);
            for j in 0..LIMBS {
                let a = _mm512_set1_epi64(factor[j] as i64);
                lo[i + j] = _mm512_madd52lo_epu64(lo[i + j], x, a);
                hi[i + j] = _mm512_madd52hi_epu64(hi[i + j], x, a);
            }
        }
    }
    let mut columns = [zero; 10];
    columns[..9].copy_from_slice(&lo);
    for (column, hi) in columns[1..].iter_mut().zip(hi) {
        *column = _mm512_add_epi64(*column, hi);
    }
    Block {
        limbs: reduce::<LIMBS>(columns).map(|limb| store(limb)),
    }
}

/// columns / 2^(52·LIMBS) modulo ℓ, canonical.
///
/// The value is below 64·ℓ², so the quotient is below 64·ℓ²/2^260 + ℓ < 1.3ℓ: one subtraction. With two limbs
/// the factors are below 2^96, the quotient below 64·2^96·ℓ/2^104 + ℓ = 1.25ℓ.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn reduce<const LIMBS: usize>(mut c: [__m512i; 10]) -> [__m512i; 5] {
    let zero = _mm512_setzero_si512();
    let mask = _mm512_set1_epi64((1 << 52) - 1);
    let order = ORDER52.map(|limb| _mm512_set1_epi64(limb));
    let inverse = _mm512_set1_epi64(ORDER_NEG_INVERSE52);
    for i in 0..LIMBS {
        // Only the low 52 bits of the column are read.
        let q = _mm512_madd52lo_epu64(zero, c[i], inverse);
        // Limb 3 of ℓ is zero.
        for j in [0, 1, 2, 4] {
            c[i + j] = _mm512_madd52lo_epu64(c[i + j], q, order[j]);
            c[i + j + 1] = _mm512_madd52hi_epu64(c[i + j + 1], q, order[j]);
        }
        // The low 52 bits of this column are now zero.
        c[i + 1] = _mm512_add_epi64(c[i + 1], _mm512_srli_epi64::<52>(c[i]));
    }
    let mut value: [__m512i; 5] = std::array::from_fn(|k| c[LIMBS + k]);
    for i in 0..4 {
        value[i + 1] = _mm512_add_epi64(value[i + 1], _mm512_srli_epi64::<52>(value[i]));
        value[i] = _mm512_and_si512(value[i], mask);
    }
    let mut less = [zero; 5];
    let mut borrow = zero;
    for i in 0..5 {
        less[i] = _mm512_add_epi64(_mm512_sub_epi64(value[i], order[i]), borrow);
        borrow = _mm512_srai_epi64::<63>(less[i]);
        if i < 4 {
            less[i] = _mm512_and_si512(less[i], mask);
        }
    }
    let keep = _mm512_movepi64_mask(borrow);
    let mut out = [zero; 5];
    for i in 0..5 {
        out[i] = _mm512_mask_blend_epi64(keep, less[i], value[i]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::tests::detected;
    use alphorn_exec::InstructionSet;

    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn reduced<const LIMBS: usize>(columns: [u64; 10]) -> [[u64; LANES]; 5] {
        let columns = columns.map(|column| _mm512_set1_epi64(column as i64));
        reduce::<LIMBS>(columns).map(|limb| store(limb))
    }

    /// Trap 20: the value of 64 products of ℓ-1, in maximal columns, by ℓ-1 and by the largest factor of two limbs.
    #[test]
    fn trap_20_reduction_at_the_column_bounds() {
        if !detected(InstructionSet::Avx512Ifma) {
            return;
        }
        let mut limbs = ORDER52.map(|limb| limb as u64);
        limbs[0] -= 1;
        let columns = |factor: [u64; 5]| {
            let mut columns = [0_u64; 10];
            for i in 0..5 {
                for j in 0..5 {
                    let product = u128::from(limbs[i]) * u128::from(factor[j]);
                    columns[i + j] += 64 * (product as u64 & ((1 << 52) - 1));
                    columns[i + j + 1] += 64 * ((product >> 52) as u64);
                }
            }
            columns
        };
        let short = [(1 << 52) - 1, (1 << 44) - 1, 0, 0, 0];
        // SAFETY: `detected` found the instructions.
        let found = unsafe { [reduced::<5>(columns(limbs)), reduced::<2>(columns(short))] };
        // (-1)·(-1)·64 / 2^260 and (-1)·(2^96-1)·64 / 2^104.
        let over = |bits| {
            let power = (0..bits).fold(Scalar::ONE, |x, _| x + x);
            Scalar::from(64_u64) * power.vartime_invert()
        };
        let expected = [over(260), -(over(104) * Scalar::from((1_u128 << 96) - 1))];
        for (found, expected) in found.into_iter().zip(expected) {
            let mut block = Block::ZERO;
            block.set(0, expected.0);
            for lane in 0..LANES {
                assert_eq!(
                    found.map(|limb| limb[lane]),
                    block.limbs.map(|limb| limb[0])
                );
            }
        }
    }

    /// The code path for several results if the SHA instructions are hidden.
    #[test]
    fn sums_of_single_rows_agree_with_the_oracle() {
        if !detected(InstructionSet::Avx512Ifma) {
            return;
        }
        let scalars = |from: u64| (from..from + 11).map(|x| -Scalar::from(x * x * x));
        let rows: Vec<Row> = (1..8)
            .map(|from| Row::from_scalars(&scalars(from).collect::<Vec<_>>()))
            .collect();
        let rows: Vec<&Row> = rows.iter().collect();
        let factors: Vec<Vec<Scalar>> = (1..6)
            .map(|from| scalars(from).take(rows.len()).collect())
            .collect();
        let factors: Vec<&[Scalar]> = factors.iter().map(Vec::as_slice).collect();
        let mut out = vec![Row::zero(11); factors.len()];
        let mut expected = out.clone();
        // SAFETY: `detected` found the instructions.
        unsafe { combine_lanes(&factors, &rows, &mut out) };
        crate::kernel::portable::combine(&factors, &rows, &mut expected);
        assert_eq!(out, expected);
    }
}
