//! Both kernels with AVX-512 IFMA: eight windows of a scalar, or eight elements of a row, at a time.
//!
//! `vpmadd52` multiplies the low 52 bits of two lanes and adds the low or the high 52 bits of the
//! product to a 64-bit lane, so every factor must be below 2^52 while sums may grow to 2^64.
//!
//! | value | bound |
//! |---|---|
//! | carried limb (a factor) | < 2^51 + 2^17 < 2^52 |
//! | limb of a raw product | < 267·2^52 < 2^60.1 |
//! | limb of a biased one: 608 p are added | between 608·(2^51 - 19) and 1142·2^51 < 2^61.2 |
//! | biased product plus or minus another one | from 0 to 1676·2^51 < 2^61.8 |
//! | column of a linear combination | 9·64·2^52 < 2^61.2, and < 2^61.3 while it is reduced |
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use alphorn_exec::Avx512Ifma;

use crate::field::Fe;
use crate::kernel::lanes::{self, Lanes};
use crate::kernel::table::{Digits, Table, TableRow};
use crate::point::Point;
use crate::row::{Block, LANES, Row};
use crate::scalar::Scalar;

/// See [`super::Dispatch::accumulate`].
pub(super) fn accumulate(
    witness: Avx512Ifma,
    table: &Table,
    vectors: &[Digits],
    sums: &mut [Vec<Point>],
) {
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn compiled(witness: Avx512Ifma, table: &Table, vectors: &[Digits], sums: &mut [Vec<Point>]) {
        lanes::accumulate(witness, table, vectors, sums);
    }
    // SAFETY: the witness shows that this processor has AVX-512 F, DQ and IFMA, all that the callee
    // is compiled for.
    unsafe { compiled(witness, table, vectors, sums) }
}

impl Lanes for Avx512Ifma {
    type Sum = Sum8;

    #[inline(always)]
    fn identity(self) -> Sum8 {
        // SAFETY: `self` is a witness of the instructions that the callee is compiled for.
        unsafe { Sum8::identity() }
    }

    #[inline(always)]
    fn add(self, sum: &mut Sum8, rows: &[&TableRow; LANES], digits: &[i8; LANES]) {
        // SAFETY: `self` is a witness of the instructions that the callees are compiled for.
        unsafe { sum.add(&NielsRows::select(rows, digits)) }
    }

    #[inline(always)]
    fn fetch(self, row: &TableRow) {
        // SAFETY: `self` is a witness of more than the instruction needs; the pointers come from a
        // reference, and a prefetch reads nothing.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(row.0[0].as_ptr().cast());
            _mm_prefetch::<_MM_HINT_T0>(row.0[1].as_ptr().cast());
        }
    }

    #[inline(always)]
    fn points(self, sum: &Sum8) -> [Point; LANES] {
        // SAFETY: `self` is a witness of the instructions that the callee is compiled for.
        unsafe { sum.points() }
    }
}

/// See [`super::Dispatch::combine_into`].
pub(super) fn combine(_: Avx512Ifma, factors: &[&[Scalar]], rows: &[&Row], out: &mut [Row]) {
    // SAFETY: the witness shows that this processor has AVX-512 F, DQ and IFMA, all that the callee
    // is compiled for.
    unsafe { combine_lanes(factors, rows, out) }
}

/// Eight field elements, limb by limb.
type Fe8 = [__m512i; 5];

/// Eight sums: y-x, y+x and t carried, z a biased product. 2x and 2y follow from the first two.
#[derive(Clone, Copy)]
pub(super) struct Sum8 {
    y_minus_x: Fe8,
    y_plus_x: Fe8,
    z: Fe8,
    t: Fe8,
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn splat(limbs: [u64; 5]) -> Fe8 {
    limbs.map(|limb| _mm512_set1_epi64(limb as i64))
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn add(a: &Fe8, b: &Fe8) -> Fe8 {
    let mut out = *a;
    for (limb, other) in out.iter_mut().zip(b) {
        *limb = _mm512_add_epi64(*limb, *other);
    }
    out
}

/// a - b for a biased product and one that is not: no limb gets negative.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn sub(a: &Fe8, b: &Fe8) -> Fe8 {
    let mut out = *a;
    for (limb, other) in out.iter_mut().zip(b) {
        *limb = _mm512_sub_epi64(*limb, *other);
    }
    out
}

/// One parallel carry: limbs below 2^63 in, carried limbs out.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn carry(a: &Fe8) -> Fe8 {
    let mask = _mm512_set1_epi64((1 << 51) - 1);
    let high = a.map(|limb| _mm512_srli_epi64::<51>(limb));
    let low = a.map(|limb| _mm512_and_si512(limb, mask));
    [
        _mm512_madd52lo_epu64(low[0], high[4], _mm512_set1_epi64(19)),
        _mm512_add_epi64(low[1], high[0]),
        _mm512_add_epi64(low[2], high[1]),
        _mm512_add_epi64(low[3], high[2]),
        _mm512_add_epi64(low[4], high[3]),
    ]
}

/// What [`mul`] adds: nothing, or enough that no limb is below one of a product without it.
const RAW: u64 = 0;
const BIASED: u64 = 16;

/// The product of carried values, with 38·BIAS·p added.
///
/// Column k of the product is lo_k + 2·hi_(k-1), because the radix is 2^51 and the split is at bit 52.
/// The columns from 5 up come first; x_k = column 5+k counts 19-fold in column k: halves hi_(k-1) are added
/// to 9·x_k, all of it is doubled, and x_k and lo_k are added. But for the bias, x_k < (14 - 3k)·2^52, so no
/// column is above 267·2^52.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn mul<const BIAS: u64>(a: &Fe8, b: &Fe8) -> Fe8 {
    let mut column = [_mm512_setzero_si512(); 10];
    for k in 0..5 {
        let limb = (1 << 51) - if k == 0 { 19 } else { 1 };
        column[5 + k] = _mm512_set1_epi64((BIAS * limb) as i64);
    }
    for i in 0..5 {
        for j in 4 - i..5 {
            column[i + j + 1] = _mm512_madd52hi_epu64(column[i + j + 1], a[i], b[j]);
        }
    }
    for x in &mut column[5..] {
        *x = _mm512_add_epi64(*x, *x);
    }
    for i in 1..5 {
        for j in 5 - i..5 {
            column[i + j] = _mm512_madd52lo_epu64(column[i + j], a[i], b[j]);
        }
    }
    for k in 0..5 {
        let x = column[5 + k];
        column[k] = _mm512_add_epi64(x, _mm512_slli_epi64::<3>(x));
    }
    for i in 0..4 {
        for j in 0..4 - i {
            column[i + j + 1] = _mm512_madd52hi_epu64(column[i + j + 1], a[i], b[j]);
        }
    }
    for k in 0..5 {
        let twice = _mm512_add_epi64(column[k], column[k]);
        column[k] = _mm512_add_epi64(twice, column[5 + k]);
    }
    for i in 0..5 {
        for j in 0..5 - i {
            column[i + j] = _mm512_madd52lo_epu64(column[i + j], a[i], b[j]);
        }
    }
    let [c0, c1, c2, c3, c4, ..] = column;
    [c0, c1, c2, c3, c4]
}

impl Sum8 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn identity() -> Sum8 {
        let (zero, one) = (splat(Fe::ZERO.0), splat(Fe::ONE.0));
        Sum8 {
            y_minus_x: one,
            y_plus_x: one,
            // Needs no bias: what is subtracted from it is a product with 0.
            z: one,
            t: zero,
        }
    }

    /// Adds an affine point in each lane: seven products, seven carries.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn add(&mut self, row: &NielsRows) {
        let a = mul::<RAW>(&self.y_minus_x, &row.minus);
        let b = mul::<BIASED>(&self.y_plus_x, &row.plus);
        let c = mul::<RAW>(&self.t, &row.dxy);
        let e = carry(&sub(&b, &a));
        let h = carry(&add(&b, &a));
        let f = carry(&sub(&self.z, &c));
        let g = carry(&add(&self.z, &c));
        let x = mul::<RAW>(&e, &f);
        let y = mul::<BIASED>(&g, &h);
        self.z = mul::<BIASED>(&f, &g);
        self.t = carry(&mul::<RAW>(&e, &h));
        self.y_minus_x = carry(&sub(&y, &x));
        self.y_plus_x = carry(&add(&y, &x));
    }

    /// The lanes as points (2x : 2y : 2z : 2t).
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn points(&self) -> [Point; LANES] {
        let z = carry(&self.z);
        let [minus, plus, z, t] =
            [&self.y_minus_x, &self.y_plus_x, &z, &self.t].map(|value| elements(value));
        std::array::from_fn(|lane| lanes::point(minus[lane], plus[lane], z[lane], t[lane]))
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn elements(value: &Fe8) -> [Fe; LANES] {
    let limbs = value.map(|limb| store(limb));
    std::array::from_fn(|lane| Fe(limbs.map(|limb| limb[lane])))
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn store(vector: __m512i) -> [u64; LANES] {
    let mut out = [0; LANES];
    // SAFETY: `out` is 64 writable bytes; the store needs no alignment.
    unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), vector) };
    out
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn load(words: &[u64; 8]) -> __m512i {
    // SAFETY: `words` is 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// The rows that eight digits select, signs applied.
struct NielsRows {
    plus: Fe8,
    minus: Fe8,
    dxy: Fe8,
}

impl NielsRows {
    /// Lane λ gets sign(d_λ)·rows[λ].
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn select(rows: &[&TableRow; LANES], digits: &[i8; LANES]) -> NielsRows {
        let lines: [[&[u64; 8]; 2]; LANES] =
            std::array::from_fn(|lane| rows[lane].lines(digits[lane] < 0));
        let [p0, p1, p2, p3] = transpose(&lines.map(|[line, _]| line), 0);
        let [p4, t0, t1, t2] = transpose(&lines.map(|[line, _]| line), 4);
        let [m0, m1, m2, m3] = transpose(&lines.map(|[_, line]| line), 0);
        let [m4, u0, u1, u2] = transpose(&lines.map(|[_, line]| line), 4);
        let negative = (0..LANES).fold(0, |mask, lane| mask | u8::from(digits[lane] < 0) << lane);
        let mut dxy = [t0, t1, t2, u0, u1];
        for (i, (limb, other)) in dxy.iter_mut().zip([u0, u1, u2, t0, t1]).enumerate() {
            // 2p - t has limbs between 0 and 2^52, because those of t are canonical.
            let twice_p = _mm512_set1_epi64((1 << 52) - if i == 0 { 38 } else { 2 });
            *limb = _mm512_mask_sub_epi64(*limb, negative, twice_p, other);
        }
        NielsRows {
            plus: [p0, p1, p2, p3, p4],
            minus: [m0, m1, m2, m3, m4],
            dxy,
        }
    }
}

/// Words `first` to `first + 3` of eight lines: word w of line v becomes word v of vector w.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn transpose(lines: &[&[u64; 8]; LANES], first: usize) -> [__m512i; 4] {
    let four = |line: usize| {
        let words: &[u64; 4] = lines[line][first..].first_chunk().expect("eight words");
        // SAFETY: `words` is 32 readable bytes; the load needs no alignment.
        unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
    };
    let two = |low: usize, high: usize| {
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(four(low)), four(high))
    };
    let (a, b, c, d) = (two(0, 2), two(1, 3), two(4, 6), two(5, 7));
    // Words 0 and 2, or 1 and 3, of lines 0 to 3, and of lines 4 to 7, in pairs of lines.
    let [ab_even, ab_odd] = [_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b)];
    let [cd_even, cd_odd] = [_mm512_unpacklo_epi64(c, d), _mm512_unpackhi_epi64(c, d)];
    [
        _mm512_shuffle_i64x2::<0x88>(ab_even, cd_even),
        _mm512_shuffle_i64x2::<0x88>(ab_odd, cd_odd),
        _mm512_shuffle_i64x2::<0xdd>(ab_even, cd_even),
        _mm512_shuffle_i64x2::<0xdd>(ab_odd, cd_odd),
    ]
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
    let limbs = |factor: Scalar| {
        let mut block = Block::ZERO;
        block.set(0, factor.0);
        block.limbs.map(|limb| limb[0])
    };
    let short = |factor: &Scalar| {
        let limbs = limbs(factor.times_2_104());
        (limbs[1] < 1 << (96 - 52) && limbs[2..] == [0; 3]).then_some(limbs)
    };
    let full = |factor: &Scalar| limbs(factor.times_2_260());
    let short: Option<Vec<Vec<_>>> = factors
        .iter()
        .map(|list| list.iter().map(short).collect())
        .collect();
    match short {
        Some(short) => sums::<2>(&short, rows, out),
        None => {
            let full: Vec<Vec<_>> = factors
                .iter()
                .map(|list| list.iter().map(full).collect())
                .collect();
            sums::<5>(&full, rows, out);
        }
    }
}

/// The sums with factors of `LIMBS` limbs, divided by 2^(52·LIMBS).
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn sums<const LIMBS: usize>(factors: &[Vec<[u64; 5]>], rows: &[&Row], out: &mut [Row]) {
    let zero = _mm512_setzero_si512();
    let blocks = out.first().map_or(0, |row| row.blocks.len());
    for block in 0..blocks {
        for (factors, out) in factors.iter().zip(&mut *out) {
            // Apart, so that no addition waits for the one before.
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
            let reduced = reduce::<LIMBS>(columns);
            for (limb, value) in out.blocks[block].limbs.iter_mut().zip(reduced) {
                *limb = store(value);
            }
        }
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
        let q = _mm512_madd52lo_epu64(zero, c[i], inverse);
        for j in [0, 1, 2, 4] {
            c[i + j] = _mm512_madd52lo_epu64(c[i + j], q, order[j]);
            c[i + j + 1] = _mm512_madd52hi_epu64(c[i + j + 1], q, order[j]);
        }
        // The low 52 bits of this column are zero now.
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

    /// The operations on lanes that all hold the same values.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn operations(a: [u64; 5], b: [u64; 5]) -> [[Fe; LANES]; 4] {
        let (a, b) = (splat(a), splat(b));
        let (product, biased) = (mul::<RAW>(&a, &b), mul::<BIASED>(&a, &b));
        let difference = carry(&sub(&biased, &mul::<RAW>(&b, &b)));
        let sum = carry(&add(&biased, &product));
        [product, biased, difference, sum].map(|value| elements(&value))
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn reduced<const LIMBS: usize>(columns: [u64; 10]) -> [[u64; LANES]; 5] {
        let columns = columns.map(|column| _mm512_set1_epi64(column as i64));
        reduce::<LIMBS>(columns).map(|limb| store(limb))
    }

    /// Trap 20: all limbs at the greatest value that a factor may have.
    #[test]
    fn trap_20_field_operations_at_the_limb_bounds() {
        if !detected(InstructionSet::Avx512Ifma) {
            return;
        }
        let top = [(1 << 52) - 1; 5];
        let uneven = [(1 << 52) - 1, 0, (1 << 52) - 1, 1, (1 << 51) + (1 << 17)];
        for a in [top, uneven, [0; 5], [1, 0, 0, 0, 0]] {
            for b in [top, uneven, [0; 5], [(1 << 51) - 20, 0, 0, 0, 7]] {
                // SAFETY: `detected` found the instructions.
                let [product, biased, difference, sum] = unsafe { operations(a, b) };
                let expected = Fe(a).mul(Fe(b));
                let less = expected.sub(Fe(b).square());
                for lane in 0..LANES {
                    assert!(product[lane].0.iter().all(|&limb| limb <= 267 << 52));
                    assert!(product[lane].carried().vartime_eq(expected));
                    let least = 608 * ((1 << 51) - 19);
                    let within = |limb: &u64| (least..=1142 << 51).contains(limb);
                    assert!(biased[lane].0.iter().all(within) && least > 267 << 52);
                    assert!(biased[lane].carried().vartime_eq(expected));
                    assert!(difference[lane].0.iter().all(|&limb| limb < 1 << 52));
                    assert!(difference[lane].vartime_eq(less));
                    assert!(sum[lane].0.iter().all(|&limb| limb < 1 << 52));
                    assert!(sum[lane].vartime_eq(expected.add(expected)));
                }
            }
        }
    }

    /// Trap 20: the value that 64 products of ℓ-1 make, in columns as full as they get, by ℓ-1 and by
    /// the greatest factor of two limbs.
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
}
