//! Both kernels with AVX-512 IFMA: eight windows of a scalar, or eight elements of a row, at a time.
//!
//! `vpmadd52` multiplies the low 52 bits of two lanes and adds the low or the high 52 bits of the
//! product to a 64-bit lane, so every factor must be below 2^52 while sums may grow to 2^64.
//!
//! | value | bound |
//! |---|---|
//! | carried limb (a factor) | < 2^51 + 2^17 < 2^52 |
//! | limb of a raw product | < 2^60.2 |
//! | sum or biased difference of raw products | < 2^62.3 |
//! | column of a linear combination | 10·64·2^52 < 2^61.4, and < 2^61.5 while it is reduced |
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
            _mm_prefetch::<_MM_HINT_T0>(row.0.as_ptr().cast());
            _mm_prefetch::<_MM_HINT_T0>(row.0[8..].as_ptr().cast());
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

/// Eight sums: y-x, y+x and t carried, z raw. 2x and 2y follow from the first two.
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

/// a - b + 2^10·p, for raw products: no limb of 2^10·p is below 2^60.9, so none gets negative.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn sub(a: &Fe8, b: &Fe8) -> Fe8 {
    const BIAS_LOW: i64 = ((1 << 51) - 19) << 10;
    const BIAS: i64 = ((1 << 51) - 1) << 10;
    let mut out = *a;
    for (i, (limb, other)) in out.iter_mut().zip(b).enumerate() {
        let bias = _mm512_set1_epi64(if i == 0 { BIAS_LOW } else { BIAS });
        *limb = _mm512_sub_epi64(_mm512_add_epi64(*limb, bias), *other);
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

/// The raw product of carried values.
///
/// Column k of the product is lo_k + 2·hi_(k-1), because the radix is 2^51 and the split is at bit 52.
/// The columns from 5 up come first; x_k = column 5+k counts 19-fold in column k, and enters there as
/// the start values x_k of lo_k and 9·x_k of hi_(k-1). x < 14·2^52, so a column is below 279·2^52.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn mul(a: &Fe8, b: &Fe8) -> Fe8 {
    let zero = _mm512_setzero_si512();
    let mut lo = [zero; 9];
    let mut hi = [zero; 9];
    for i in 0..5 {
        for j in 0..5 {
            if i + j >= 5 {
                lo[i + j] = _mm512_madd52lo_epu64(lo[i + j], a[i], b[j]);
            }
            if i + j >= 4 {
                hi[i + j] = _mm512_madd52hi_epu64(hi[i + j], a[i], b[j]);
            }
        }
    }
    let mut start = [zero; 5];
    for k in 0..5 {
        let x = _mm512_add_epi64(hi[4 + k], hi[4 + k]);
        let x = if k < 4 {
            _mm512_add_epi64(x, lo[5 + k])
        } else {
            x
        };
        lo[k] = x;
        start[k] = _mm512_add_epi64(x, _mm512_slli_epi64::<3>(x));
    }
    for i in 0..5 {
        for j in 0..5 {
            if i + j < 5 {
                lo[i + j] = _mm512_madd52lo_epu64(lo[i + j], a[i], b[j]);
            }
            if i + j < 4 {
                start[i + j + 1] = _mm512_madd52hi_epu64(start[i + j + 1], a[i], b[j]);
            }
        }
    }
    let mut out = [zero; 5];
    for k in 0..5 {
        out[k] = _mm512_add_epi64(lo[k], _mm512_add_epi64(start[k], start[k]));
    }
    out
}

impl Sum8 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn identity() -> Sum8 {
        let (zero, one) = (splat(Fe::ZERO.0), splat(Fe::ONE.0));
        Sum8 {
            y_minus_x: one,
            y_plus_x: one,
            z: one,
            t: zero,
        }
    }

    /// Adds an affine point in each lane: seven products, seven carries.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn add(&mut self, row: &NielsRows) {
        let a = mul(&self.y_minus_x, &row.y_minus_x);
        let b = mul(&self.y_plus_x, &row.y_plus_x);
        let c = mul(&self.t, &row.xy2d);
        let d = add(&self.z, &self.z);
        let e = carry(&sub(&b, &a));
        let h = carry(&add(&b, &a));
        let f = carry(&sub(&d, &c));
        let g = carry(&add(&d, &c));
        let x = mul(&e, &f);
        let y = mul(&g, &h);
        self.z = mul(&f, &g);
        self.t = carry(&mul(&e, &h));
        self.y_minus_x = carry(&sub(&y, &x));
        self.y_plus_x = carry(&add(&y, &x));
    }

    /// The lanes as points (2x : 2y : 2z : 2t).
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn points(&self) -> [Point; LANES] {
        let [minus, plus, z, t] =
            [&self.y_minus_x, &self.y_plus_x, &self.z, &self.t].map(|value| elements(value));
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
fn load(words: &[u64; LANES]) -> __m512i {
    // SAFETY: `words` is 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// The rows that eight digits select, signs applied.
struct NielsRows {
    y_plus_x: Fe8,
    y_minus_x: Fe8,
    xy2d: Fe8,
}

impl NielsRows {
    /// Lane λ gets sign(d_λ)·rows[λ].
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn select(rows: &[&TableRow; LANES], digits: &[i8; LANES]) -> NielsRows {
        let low = rows.map(|row| load(row.0.first_chunk().expect("sixteen words")));
        let high = rows.map(|row| load(row.0.last_chunk().expect("sixteen words")));
        let low = transpose(&low);
        let high = transpose(&high);
        let negative = (0..LANES).fold(0, |mask, lane| mask | u8::from(digits[lane] < 0) << lane);
        let plus = [low[0], low[1], low[2], low[3], low[4]];
        let minus = [low[5], low[6], low[7], high[0], high[1]];
        let mut rows = NielsRows {
            y_plus_x: plus,
            y_minus_x: minus,
            xy2d: [high[2], high[3], high[4], high[5], high[6]],
        };
        for i in 0..5 {
            rows.y_plus_x[i] = _mm512_mask_blend_epi64(negative, plus[i], minus[i]);
            rows.y_minus_x[i] = _mm512_mask_blend_epi64(negative, minus[i], plus[i]);
            // 2p - t has limbs between 0 and 2^52, because those of t are canonical.
            let twice_p = _mm512_set1_epi64(if i == 0 {
                (1 << 52) - 38
            } else {
                (1 << 52) - 2
            });
            let t = rows.xy2d[i];
            rows.xy2d[i] = _mm512_mask_sub_epi64(t, negative, twice_p, t);
        }
        rows
    }
}

/// Word w of vector v becomes word v of vector w.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn transpose(v: &[__m512i; 8]) -> [__m512i; 8] {
    let pair = |i: usize| {
        let (a, b) = (v[2 * i], v[2 * i + 1]);
        (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b))
    };
    // Even and odd words of two vectors each: (e0 e2 e4 e6) as 128-bit pairs.
    let [(e0, o0), (e1, o1), (e2, o2), (e3, o3)] = [pair(0), pair(1), pair(2), pair(3)];
    let quad = |a: __m512i, b: __m512i, c: __m512i, d: __m512i| {
        let (ab_low, ab_high) = (
            _mm512_shuffle_i64x2::<0x88>(a, b),
            _mm512_shuffle_i64x2::<0xdd>(a, b),
        );
        let (cd_low, cd_high) = (
            _mm512_shuffle_i64x2::<0x88>(c, d),
            _mm512_shuffle_i64x2::<0xdd>(c, d),
        );
        [
            _mm512_shuffle_i64x2::<0x88>(ab_low, cd_low),
            _mm512_shuffle_i64x2::<0x88>(ab_high, cd_high),
            _mm512_shuffle_i64x2::<0xdd>(ab_low, cd_low),
            _mm512_shuffle_i64x2::<0xdd>(ab_high, cd_high),
        ]
    };
    let [w0, w2, w4, w6] = quad(e0, e1, e2, e3);
    let [w1, w3, w5, w7] = quad(o0, o1, o2, o3);
    [w0, w1, w2, w3, w4, w5, w6, w7]
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
    let raise = |factor: &Scalar| {
        let mut block = Block::ZERO;
        block.set(0, factor.times_2_260().0);
        block.limbs.map(|limb| limb[0])
    };
    let raised: Vec<Vec<[u64; 5]>> = factors
        .iter()
        .map(|list| list.iter().map(raise).collect())
        .collect();
    let blocks = out.first().map_or(0, |row| row.blocks.len());
    for block in 0..blocks {
        for (factors, out) in raised.iter().zip(&mut *out) {
            let mut columns = [_mm512_setzero_si512(); 10];
            for (factor, row) in factors.iter().zip(rows) {
                let limbs = &row.blocks[block].limbs;
                for i in 0..5 {
                    let x = load(&limbs[i]);
                    for j in 0..5 {
                        let a = _mm512_set1_epi64(factor[j] as i64);
                        columns[i + j] = _mm512_madd52lo_epu64(columns[i + j], x, a);
                        columns[i + j + 1] = _mm512_madd52hi_epu64(columns[i + j + 1], x, a);
                    }
                }
            }
            let reduced = reduce(columns);
            for (limb, value) in out.blocks[block].limbs.iter_mut().zip(reduced) {
                *limb = store(value);
            }
        }
    }
}

/// columns / 2^260 modulo ℓ, canonical.
///
/// The value is below 64·ℓ², so the quotient is below 64·ℓ²/2^260 + ℓ < 1.3ℓ: one subtraction.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn reduce(mut c: [__m512i; 10]) -> [__m512i; 5] {
    let zero = _mm512_setzero_si512();
    let mask = _mm512_set1_epi64((1 << 52) - 1);
    let order = ORDER52.map(|limb| _mm512_set1_epi64(limb));
    let inverse = _mm512_set1_epi64(ORDER_NEG_INVERSE52);
    for i in 0..5 {
        let q = _mm512_madd52lo_epu64(zero, c[i], inverse);
        for j in [0, 1, 2, 4] {
            c[i + j] = _mm512_madd52lo_epu64(c[i + j], q, order[j]);
            c[i + j + 1] = _mm512_madd52hi_epu64(c[i + j + 1], q, order[j]);
        }
        // The low 52 bits of this column are zero now.
        c[i + 1] = _mm512_add_epi64(c[i + 1], _mm512_srli_epi64::<52>(c[i]));
    }
    let mut value = [c[5], c[6], c[7], c[8], c[9]];
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
    fn operations(a: [u64; 5], b: [u64; 5]) -> [[Fe; LANES]; 3] {
        let (a, b) = (splat(a), splat(b));
        let product = mul(&a, &b);
        let difference = carry(&sub(&product, &mul(&b, &b)));
        let sum = carry(&add(&product, &add(&product, &product)));
        [elements(&product), elements(&difference), elements(&sum)]
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn reduced(columns: [u64; 10]) -> [[u64; LANES]; 5] {
        reduce(columns.map(|column| _mm512_set1_epi64(column as i64))).map(|limb| store(limb))
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
                let [product, difference, sum] = unsafe { operations(a, b) };
                let expected = Fe(a).mul(Fe(b));
                let less = expected.sub(Fe(b).square());
                for lane in 0..LANES {
                    assert!(product[lane].0.iter().all(|&limb| limb < 1 << 61));
                    assert!(product[lane].carried().vartime_eq(expected));
                    assert!(difference[lane].0.iter().all(|&limb| limb < 1 << 52));
                    assert!(difference[lane].vartime_eq(less));
                    assert!(sum[lane].0.iter().all(|&limb| limb < 1 << 52));
                    assert!(sum[lane].vartime_eq(expected.add(expected).add(expected)));
                }
            }
        }
    }

    /// Trap 20: the value that 64 products of ℓ-1 make, in columns as full as they get.
    #[test]
    fn trap_20_reduction_at_the_column_bounds() {
        if !detected(InstructionSet::Avx512Ifma) {
            return;
        }
        let mut limbs = ORDER52.map(|limb| limb as u64);
        limbs[0] -= 1;
        let mut columns = [0_u64; 10];
        for i in 0..5 {
            for j in 0..5 {
                let product = u128::from(limbs[i]) * u128::from(limbs[j]);
                columns[i + j] += 64 * (product as u64 & ((1 << 52) - 1));
                columns[i + j + 1] += 64 * ((product >> 52) as u64);
            }
        }
        // SAFETY: `detected` found the instructions.
        let found = unsafe { reduced(columns) };
        // (-1)·(-1)·64 / 2^260.
        let power = (0..260).fold(Scalar::ONE, |x, _| x + x);
        let expected = Scalar::from(64_u64) * power.vartime_invert();
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
