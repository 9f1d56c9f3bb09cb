//! Both kernels with AVX2 and FMA: four windows of a scalar, or four elements of a row, per register, and products
//! computed with doubles ([`halves`]; derived in the crate's lecture).
//!
//! A *factor* has limbs of 51 bits as doubles, which are integers and may be negative. Products are *raw*: 64-bit words
//! modulo 2^64, which are signed numbers once all their terms are added.
//!
//! | value | bound of its magnitude |
//! |---|---|
//! | limb of a row of a table (a factor) | < 2^51 |
//! | carried limb (a factor) | < 2^50 + 2^14 |
//! | product of two limbs | < 2^101 + 2^65: [`halves`] takes 2^102 |
//! | low half, high half | ≤ 2^50, < 2^50 + 2^15 |
//! | limb of a raw product | < 172·(2^50 + 2^15) < 2^57.5 |
//! | sum or difference of raw products | < 2^58.5 |
//! | limb that is carried | < 2^60 |
//! | column of a linear combination | ≤ 64·9·2^50 < 2^59.2, and < 2^59.3 while it is reduced |
#![allow(unsafe_code)]
// Limbs of several operands share one index.
#![allow(clippy::needless_range_loop)]

mod rows;

use core::arch::x86_64::*;
use core::hint::black_box;

use alphorn_exec::Avx2Fma;

use crate::field::Fe;
use crate::kernel::lanes::{self, Ahead, Lanes};
use crate::kernel::table::{Digits, Table, TableRow};
use crate::point::Point;
use crate::row::LANES;
pub(super) use rows::{ORDER_NEG_INVERSE51, ORDER51, combine};

/// Lanes per register.
const WIDTH: usize = 4;
/// Number of registers for eight lanes.
const REGISTERS: usize = LANES / WIDTH;

/// See [`super::Dispatch::sums`].
pub(super) fn accumulate(
    witness: Avx2Fma,
    table: &Table,
    vectors: &[Digits],
    sums: &mut [Vec<Point>],
) {
    #[target_feature(enable = "avx2,fma")]
    fn compiled(witness: Avx2Fma, table: &Table, vectors: &[Digits], sums: &mut [Vec<Point>]) {
        lanes::accumulate(witness, table, vectors, sums);
    }
    // SAFETY: the witness shows that this processor has AVX2 and FMA, all that the callee is compiled for.
    unsafe { compiled(witness, table, vectors, sums) }
}

impl<'t> Lanes<'t> for Avx2Fma {
    type Sum = [Sum4; REGISTERS];
    type Located = Located<'t>;
    type Loaded = Located<'t>;

    #[inline(always)]
    fn identity(self) -> Self::Sum {
        // SAFETY: `self` is a witness of the instructions that the callee is compiled for.
        [unsafe { Sum4::identity() }; REGISTERS]
    }

    #[inline(always)]
    fn locate(self, ahead: Ahead<'_, 't, Located<'t>>) {
        let Ahead {
            rows,
            digits,
            located,
        } = ahead;
        let rows = digits.map(|digit| match usize::from(digit.unsigned_abs()) {
            0 => rows.identity,
            magnitude => &rows.rows[magnitude - 1],
        });
        for row in rows {
            // SAFETY: `self` is a witness of more than the instruction needs; the pointers come from a
            // reference, and a prefetch reads nothing.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(row.0[0].as_ptr().cast());
                _mm_prefetch::<_MM_HINT_T0>(row.0[1].as_ptr().cast());
            }
        }
        *located = Located {
            rows,
            digits: *digits,
        };
    }

    #[inline(always)]
    fn same(self, row: &'t TableRow) -> Located<'t> {
        Located {
            rows: [row; LANES],
            digits: [0; LANES],
        }
    }

    #[inline(always)]
    fn load(self, located: &Located<'t>) -> Located<'t> {
        *located
    }

    #[inline(always)]
    fn add(
        self,
        sum: &mut Self::Sum,
        located: &mut Located<'t>,
        next: &Located<'t>,
        ahead: Ahead<'_, 't, Located<'t>>,
    ) {
        self.locate(ahead);
        let (rows, digits) = (located.rows.as_chunks().0, located.digits.as_chunks().0);
        for ((sum, rows), digits) in sum.iter_mut().zip(rows).zip(digits) {
            // SAFETY: `self` is a witness of the instructions that the callees are compiled for.
            unsafe { sum.add(&NielsRows::select(rows, digits)) };
        }
        *located = *next;
    }

    #[inline(always)]
    fn points(self, sum: &Self::Sum) -> [Point; LANES] {
        // SAFETY: `self` is a witness of the instructions that the callee is compiled for.
        let points = sum.map(|sum| unsafe { sum.points() });
        std::array::from_fn(|lane| points[lane / WIDTH][lane % WIDTH])
    }
}

/// The rows selected by eight digits, and the digits for their signs.
#[derive(Clone, Copy)]
pub(super) struct Located<'a> {
    rows: [&'a TableRow; LANES],
    digits: [i8; LANES],
}

/// Four numbers as factors, limb by limb.
type Factor = [__m256d; 5];
/// Four numbers in raw limbs.
type Raw = [__m256i; 5];

/// Bits of a limb.
const LIMB_BITS: u32 = 51;
const MASK: u64 = (1 << LIMB_BITS) - 1;
/// 2^52: the bits of its sum with a number below 2^52 are those of both.
const TWO_52: f64 = (1_u64 << 52) as f64;
/// 3·2^102, to which a product is added. Doubles from 2^103 to 2^104 are the multiples of 2^51.
const ABOVE: f64 = 1.5 * TWO_52 * (1_u64 << LIMB_BITS) as f64;
/// 3·2^51, to which the low half is added.
const BELOW: f64 = 1.5 * TWO_52;
/// The bits of a zero high half.
const HIGH: u64 = ABOVE.to_bits();
/// The bits of a zero low half.
const LOW: u64 = BELOW.to_bits();
/// Added to a limb before a carry: makes the limb an unsigned number, and its digit signed.
const SIGN: u64 = (1 << 63) + (1 << (LIMB_BITS - 1));
/// The resulting excess in a carry.
const SIGN_ABOVE: u64 = 1 << (63 - LIMB_BITS);

#[inline]
#[target_feature(enable = "avx2,fma")]
fn words(word: u64) -> __m256i {
    _mm256_set1_epi64x(word as i64)
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn add(a: &Raw, b: &Raw) -> Raw {
    let mut out = *a;
    for (limb, other) in out.iter_mut().zip(b) {
        *limb = _mm256_add_epi64(*limb, *other);
    }
    out
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn sub(a: &Raw, b: &Raw) -> Raw {
    let mut out = *a;
    for (limb, other) in out.iter_mut().zip(b) {
        *limb = _mm256_sub_epi64(*limb, *other);
    }
    out
}

/// Numbers below 2^52 minus a constant, as doubles.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn double(word: __m256i, less: u64) -> __m256d {
    let bits = _mm256_or_si256(word, words(TWO_52.to_bits()));
    _mm256_sub_pd(
        _mm256_castsi256_pd(bits),
        _mm256_set1_pd(TWO_52 + less as f64),
    )
}

/// The bits of both halves of a·b = high·2^51 + low, the first offset by [`HIGH`], the other by [`LOW`];
/// |a·b| ≤ 2^102.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn halves(a: __m256d, b: __m256d) -> (__m256i, __m256i) {
    let (high, low) = halves_as_doubles(a, b);
    (_mm256_castpd_si256(high), _mm256_castpd_si256(low))
}

/// ABOVE + high·2^51 and BELOW + low: both exact, as is the intermediate difference.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn halves_as_doubles(a: __m256d, b: __m256d) -> (__m256d, __m256d) {
    let high = _mm256_fmadd_pd(a, b, _mm256_set1_pd(ABOVE));
    let rest = _mm256_sub_pd(_mm256_set1_pd(ABOVE + BELOW), high);
    (high, _mm256_fmadd_pd(a, b, rest))
}

/// One parallel carry of a sum of raw products minus the differences, counted by `PRODUCTS`. The value is below 2^60 in
/// magnitude.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn carry<const PRODUCTS: u64>(value: &Raw) -> Factor {
    const HALF: u64 = 1 << (LIMB_BITS - 1);
    let mask = words(MASK);
    let mut signed = *value;
    for k in 0..5 {
        // The offsets of all halves leave in the same addition that brings the bias.
        let more = SIGN.wrapping_sub(PRODUCTS.wrapping_mul(excess_of_product(k)));
        signed[k] = _mm256_add_epi64(signed[k], words(more));
    }
    let above = signed.map(|limb| _mm256_srli_epi64::<{ LIMB_BITS as i32 }>(limb));
    let digit = signed.map(|limb| _mm256_and_si256(limb, mask));
    // A carry has 13 bits, so the 32-bit factors lose nothing.
    let around = _mm256_mul_epu32(above[4], words(19));
    // The bias leaves here: `HALF` from the digit, and `SIGN_ABOVE` from the carry, 19-fold where the carry counts so.
    let limb = |i: usize| double(_mm256_add_epi64(digit[i], above[i - 1]), HALF + SIGN_ABOVE);
    [
        double(_mm256_add_epi64(digit[0], around), HALF + 19 * SIGN_ABOVE),
        limb(1),
        limb(2),
        limb(3),
        limb(4),
    ]
}

/// Adds the halves of the product of two factors to their columns: column k gets the low halves of its index and the
/// high ones of the previous index.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn add_product(columns: &mut [__m256i], a: &Factor, b: impl Iterator<Item = __m256d>) {
    let columns: &mut [__m256i; 10] = columns.first_chunk_mut().expect("ten columns");
    // The columns affected by one limb of `b`.
    let mut t: [__m256i; 6] = *columns.first_chunk().expect("ten columns");
    // A compiler that knows the number of limbs collects the additions at the end, since they are freely movable
    // integer operations, and keeps fifty halves in memory until then.
    for (i, limb) in b.enumerate().take(black_box(5)) {
        for j in 0..5 {
            let (high, low) = halves(limb, a[j]);
            t[j] = _mm256_add_epi64(t[j], low);
            t[j + 1] = _mm256_add_epi64(t[j + 1], high);
        }
        columns[i] = t[0];
        let next = columns
            .get(i + 6)
            .copied()
            .unwrap_or(_mm256_setzero_si256());
        t = [t[1], t[2], t[3], t[4], t[5], next];
    }
    columns[5..].copy_from_slice(&t[..5]);
}

/// Number of pairs of limbs whose low half has this index.
const fn pairs(column: usize) -> u64 {
    match column {
        0..=4 => column as u64 + 1,
        5..=8 => 9 - column as u64,
        _ => 0,
    }
}

/// The total offset of all halves of a product in a column.
const fn excess(column: usize) -> u64 {
    let above = match column {
        0 => 0,
        _ => pairs(column - 1),
    };
    LOW.wrapping_mul(pairs(column))
        .wrapping_add(HIGH.wrapping_mul(above))
}

/// The offset of limb k of a raw product relative to its value: the bits of its halves.
const fn excess_of_product(k: usize) -> u64 {
    excess(k).wrapping_add(excess(k + 5).wrapping_mul(19))
}

/// The raw product: its columns from 5 up count 19-fold five columns below.
// Not inlined: seven copies of it would not fit in the cache of decoded instructions.
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
fn mul(a: &Factor, b: &Factor) -> Raw {
    let mut columns = [_mm256_setzero_si256(); 10];
    add_product(&mut columns, a, b.iter().copied());
    let mut out = [_mm256_setzero_si256(); 5];
    for k in 0..5 {
        let x = columns[5 + k];
        // 19 = 16 + 3, as AVX2 does not multiply 64-bit words.
        let x3 = _mm256_add_epi64(_mm256_add_epi64(x, x), x);
        let x19 = _mm256_add_epi64(_mm256_slli_epi64::<4>(x), x3);
        out[k] = _mm256_add_epi64(columns[k], x19);
    }
    out
}

/// Four sums: y-x, y+x and t are factors, z is a raw product. 2x and 2y follow from the first two.
#[derive(Clone, Copy)]
pub(super) struct Sum4 {
    y_minus_x: Factor,
    y_plus_x: Factor,
    z: Raw,
    t: Factor,
}

impl Sum4 {
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn identity() -> Sum4 {
        let (zero, one) = (_mm256_setzero_pd(), _mm256_set1_pd(1.0));
        let one = [one, zero, zero, zero, zero];
        Sum4 {
            y_minus_x: one,
            y_plus_x: one,
            // Not just 1: [`Sum4::add`] takes z to contain the offsets of one product.
            z: mul(&one, &one),
            t: [zero; 5],
        }
    }

    /// Adds an affine point in each lane: seven products, seven carries.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn add(&mut self, row: &NielsRows) {
        let a = mul(&self.y_minus_x, &row.minus);
        let b = mul(&self.y_plus_x, &row.plus);
        let c = mul(&self.t, &row.dxy);
        // The offsets of two products cancel in a difference and count twice in a sum.
        let e = carry::<0>(&sub(&b, &a));
        let h = carry::<2>(&add(&b, &a));
        let f = carry::<0>(&sub(&self.z, &c));
        let g = carry::<2>(&add(&self.z, &c));
        let x = mul(&e, &f);
        let y = mul(&g, &h);
        self.z = mul(&f, &g);
        self.t = carry::<1>(&mul(&e, &h));
        self.y_minus_x = carry::<0>(&sub(&y, &x));
        self.y_plus_x = carry::<2>(&add(&y, &x));
    }

    /// The lanes as points (2x : 2y : 2z : 2t).
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn points(&self) -> [Point; WIDTH] {
        let z = carry::<1>(&self.z);
        let [minus, plus, z, t] =
            [&self.y_minus_x, &self.y_plus_x, &z, &self.t].map(|value| elements(value));
        std::array::from_fn(|lane| lanes::point(minus[lane], plus[lane], z[lane], t[lane]))
    }
}

/// The lanes of carried values, with 2p added: no limb is negative or above 2^53.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn elements(value: &Factor) -> [Fe; WIDTH] {
    let mut out = [Fe::ZERO; WIDTH];
    for i in 0..5 {
        let bits = _mm256_castpd_si256(_mm256_add_pd(value[i], _mm256_set1_pd(BELOW)));
        let twice_p = if i == 0 { 2 * (MASK - 18) } else { 2 * MASK };
        let mut limbs = [0; WIDTH];
        store(
            &mut limbs,
            _mm256_add_epi64(bits, words(twice_p.wrapping_sub(LOW))),
        );
        for (fe, limb) in out.iter_mut().zip(limbs) {
            fe.0[i] = limb;
        }
    }
    out
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn store(out: &mut [u64; WIDTH], words: __m256i) {
    // SAFETY: `out` is 32 writable bytes; the store needs no alignment.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), words) };
}

/// Four rows of a table, signs applied.
struct NielsRows {
    plus: Factor,
    minus: Factor,
    dxy: Factor,
}

impl NielsRows {
    /// Lane λ gets sign(d_λ)·rows[λ].
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn select(rows: &[&TableRow; WIDTH], digits: &[i8; WIDTH]) -> NielsRows {
        let lines: [[&[u64; 8]; 2]; WIDTH] =
            std::array::from_fn(|lane| rows[lane].lines(digits[lane] < 0));
        let [p0, p1, p2, p3] = transpose(&lines.map(|[line, _]| line), 0);
        let [p4, t0, t1, t2] = transpose(&lines.map(|[line, _]| line), 4);
        let [m0, m1, m2, m3] = transpose(&lines.map(|[_, line]| line), 0);
        let [m4, u0, u1, u2] = transpose(&lines.map(|[_, line]| line), 4);
        // The sign of each word is that of the digit.
        let digits = _mm_cvtsi32_si128(i32::from_le_bytes(digits.map(|digit| digit as u8)));
        let negative = _mm256_castsi256_pd(_mm256_cvtepi8_epi64(digits));
        let sign = _mm256_and_pd(negative, _mm256_set1_pd(-0.0));
        let factor = |words: [__m256i; 5]| words.map(|word| double(word, 0));
        // The lines of a negative row come swapped, which exchanges plus and minus, but also the two parts of dxy:
        // the blend undoes that, and the sign bit negates.
        let (mut dxy, other) = (factor([t0, t1, t2, u0, u1]), factor([u0, u1, u2, t0, t1]));
        for (limb, other) in dxy.iter_mut().zip(other) {
            *limb = _mm256_xor_pd(_mm256_blendv_pd(*limb, other, negative), sign);
        }
        NielsRows {
            plus: factor([p0, p1, p2, p3, p4]),
            minus: factor([m0, m1, m2, m3, m4]),
            dxy,
        }
    }
}

/// Words `first` to `first + 3` of four lines: word w of line v becomes word v of register w.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn transpose(lines: &[&[u64; 8]; WIDTH], first: usize) -> [__m256i; 4] {
    let pair = |line: usize, word: usize| {
        let words: &[u64; 2] = lines[line][word..].first_chunk().expect("eight words");
        // SAFETY: `words` is 16 readable bytes; the load needs no alignment.
        unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
    };
    // Rows 0 and 2, and 1 and 3: unpacking interleaves within 128-bit halves, and then gives all four in order.
    let two = |row: usize, word: usize| _mm256_set_m128i(pair(row + 2, word), pair(row, word));
    let [a, b] = [two(0, first), two(1, first)];
    let [c, d] = [two(0, first + 2), two(1, first + 2)];
    [
        _mm256_unpacklo_epi64(a, b),
        _mm256_unpackhi_epi64(a, b),
        _mm256_unpacklo_epi64(c, d),
        _mm256_unpackhi_epi64(c, d),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::tests::detected;
    use alphorn_exec::InstructionSet;
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    /// The maximum magnitude of a carried limb.
    const CARRIED: i64 = (1 << 50) + (1 << 14) - 1;
    /// The maximum limb in a table row.
    const TABLE: i64 = MASK as i64;

    /// Half of 2^102 in magnitude, ties between two high halves, and zeros of both signs.
    #[test]
    fn both_halves_make_up_a_product() {
        let numbers = [
            0,
            1,
            2,
            3,
            1 << 25,
            1 << 26,
            1 << 50,
            CARRIED,
            TABLE - 1,
            TABLE,
            1 << 51,
        ];
        let numbers = numbers.iter().flat_map(|x| [*x, -x]);
        for (a, b) in numbers
            .clone()
            .flat_map(|a| numbers.clone().map(move |b| (a, b)))
        {
            let (x, y) = (a as f64, b as f64);
            let high = x.mul_add(y, ABOVE);
            let low = x.mul_add(y, (ABOVE + BELOW) - high);
            let high = high.to_bits().wrapping_sub(HIGH) as i64;
            let low = low.to_bits().wrapping_sub(LOW) as i64;
            assert!(low.unsigned_abs() <= 1 << 50, "{a} * {b}");
            let sum = (i128::from(high) << LIMB_BITS) + i128::from(low);
            assert_eq!(sum, i128::from(a) * i128::from(b), "{a} * {b}");
        }
        assert_eq!((ABOVE as u128, BELOW as u128), (3 << 102, 3 << 51));
        assert_eq!((ABOVE + BELOW) as u128, (3 << 102) + (3 << 51));
    }

    #[target_feature(enable = "avx2,fma")]
    fn factor(lanes: &[[i64; 5]; WIDTH]) -> Factor {
        std::array::from_fn(|i| {
            let limb = lanes.map(|limbs| limbs[i] as f64);
            _mm256_setr_pd(limb[0], limb[1], limb[2], limb[3])
        })
    }

    #[target_feature(enable = "avx2,fma")]
    fn raw(lanes: &[[i64; 5]; WIDTH]) -> Raw {
        std::array::from_fn(|i| {
            let limb = lanes.map(|limbs| limbs[i]);
            _mm256_setr_epi64x(limb[0], limb[1], limb[2], limb[3])
        })
    }

    #[target_feature(enable = "avx2,fma")]
    fn limbs(value: &Factor) -> [[i64; 5]; WIDTH] {
        let mut out = [[0; 5]; WIDTH];
        for i in 0..5 {
            let mut limb = [0.0; WIDTH];
            // SAFETY: `limb` is 32 writable bytes; the store needs no alignment.
            unsafe { _mm256_storeu_pd(limb.as_mut_ptr(), value[i]) };
            for (out, limb) in out.iter_mut().zip(limb) {
                assert_eq!(limb, limb.trunc(), "limbs are integers");
                out[i] = limb as i64;
            }
        }
        out
    }

    /// Σ limb_i·2^(51i) for signed limbs below 2^62.
    fn value(limbs: [i64; 5]) -> Fe {
        let positive = Fe(limbs.map(|limb| limb.max(0) as u64)).carried();
        let negative = Fe(limbs.map(|limb| limb.min(0).unsigned_abs())).carried();
        positive.sub(negative)
    }

    /// Both orders of product, and the sums and differences of two products used by an addition.
    #[target_feature(enable = "avx2,fma")]
    fn operations(a: &[[i64; 5]; WIDTH], b: &[[i64; 5]; WIDTH]) -> [[[i64; 5]; WIDTH]; 4] {
        let (a, b) = (factor(a), factor(b));
        let (product, square) = (mul(&a, &b), mul(&a, &a));
        [
            carry::<1>(&product),
            carry::<1>(&mul(&b, &a)),
            carry::<2>(&add(&square, &product)),
            carry::<0>(&sub(&square, &product)),
        ]
        .map(|value| limbs(&value))
    }

    /// Trap 20: all limbs at the maximum magnitude of a factor; 0, 1, p - 1 and p; and others.
    #[test]
    fn trap_20_field_operations_at_the_limb_bounds() {
        if !detected(InstructionSet::Avx2Fma) {
            return;
        }
        let p = [TABLE - 18, TABLE, TABLE, TABLE, TABLE];
        let mut carried = vec![
            [0; 5],
            [1, 0, 0, 0, 0],
            [-1, 0, 0, 0, 0],
            [-19, 0, 0, 0, 0],
            [CARRIED; 5],
            [-CARRIED; 5],
            [CARRIED, -CARRIED, CARRIED, -CARRIED, CARRIED],
            [-CARRIED, 0, CARRIED, 1, -(1 << 50)],
            [1 << 50; 5],
        ];
        let mut table = vec![
            [0; 5],
            [1, 0, 0, 0, 0],
            p,
            [p[0] - 1, p[1], p[2], p[3], p[4]],
            [TABLE; 5],
            [-TABLE; 5],
            [TABLE, 0, -TABLE, 1, TABLE],
        ];
        let mut rng = ChaCha20Rng::seed_from_u64(13);
        for _ in 0..200 {
            let mut limb = |bound: i64| rng.next_u64() as i64 % (bound + 1);
            carried.push(std::array::from_fn(|_| limb(CARRIED)));
            table.push(std::array::from_fn(|_| limb(TABLE)));
        }
        for (i, a) in carried.iter().enumerate() {
            // Table rows are factors only of carried values.
            for b in carried.iter().skip(i % 8).step_by(8).chain(&table) {
                let other = [*a, carried[1], *a, carried[4]];
                let lanes = [*b, table[5], [0; 5], *b];
                // SAFETY: `detected` found the instructions.
                let found = unsafe { operations(&other, &lanes) };
                for lane in 0..WIDTH {
                    let (a, b) = (value(other[lane]), value(lanes[lane]));
                    let (product, square) = (a.mul(b), a.square());
                    let expected = [product, product, square.add(product), square.sub(product)];
                    for (found, expected) in found.iter().zip(expected) {
                        assert!(found[lane].iter().all(|limb| limb.abs() <= CARRIED));
                        assert!(value(found[lane]).vartime_eq(expected));
                    }
                }
            }
        }
    }

    /// Trap 20: carries of both signs up to the bound, and the resulting point coordinates.
    #[test]
    fn trap_20_carries_at_the_limb_bounds() {
        if !detected(InstructionSet::Avx2Fma) {
            return;
        }
        #[target_feature(enable = "avx2,fma")]
        fn carried(lanes: &[[i64; 5]; WIDTH]) -> ([[i64; 5]; WIDTH], [Fe; WIDTH]) {
            let value = carry::<0>(&raw(lanes));
            (limbs(&value), elements(&value))
        }
        let top = (1_i64 << 60) - 1;
        let half = 1_i64 << 50;
        let edges = [
            0,
            1,
            -1,
            half - 1,
            half,
            -half,
            -half - 1,
            top,
            -top,
            19,
            TABLE,
        ];
        for shift in 0..edges.len() {
            let lanes: [[i64; 5]; WIDTH] = std::array::from_fn(|lane| {
                std::array::from_fn(|i| edges[(shift + lane * (i + 1)) % edges.len()])
            });
            let lanes = [lanes[0], lanes[1], [edges[shift]; 5], lanes[3]];
            // SAFETY: `detected` found the instructions.
            let (found, elements) = unsafe { carried(&lanes) };
            for lane in 0..WIDTH {
                assert!(found[lane].iter().all(|limb| limb.abs() <= CARRIED));
                assert!(value(found[lane]).vartime_eq(value(lanes[lane])));
                assert!(elements[lane].0.iter().all(|&limb| limb < 1 << 53));
                assert!(elements[lane].vartime_eq(value(lanes[lane])));
            }
        }
    }
}
