//! Sums of columns of signs under weights, six rows at a time: the bits of a column select one of 64 sums of
//! weights, for 32 columns with one permutation. This takes six tenths of the time of products of bytes on processors
//! that start a two-vector permutation every cycle (Zen 4), and longer than they do where one starts every
//! other cycle.

use core::arch::x86_64::*;
use std::mem::MaybeUninit;

use crate::kernel::{ColumnSums, RowWeights, SIGN_GROUPS, SIGN_LIFTS, SIGN_ROWS, SignPlanes};
use crate::ring::Q;

/// Rows per group.
const ROWS: usize = 6;

/// Number of groups of rows: the last one has four.
const GROUPS: usize = (SIGN_ROWS * SIGN_GROUPS).div_ceil(ROWS);

/// Sums of weights per group, one for each of its subsets.
const SUBSETS: usize = 1 << ROWS;

/// Digits per sum, and their base: the smallest for which the last digit is no longer than the others.
const DIGITS: usize = 4;
const BASE: i64 = 6500;

/// Bound on every digit: half of the base up to rounding, and for the last one what is left of six weights.
const DIGIT_MAX: i64 = BASE / 2 + 1;
const _: () = assert!(ROWS as i64 * (Q as i64 / 2) / (BASE * BASE * BASE) < DIGIT_MAX);

/// A rounding mode that is independent of the thread's.
const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

/// Number of groups whose digits are summed in 16 bits, for both planes.
const SUMMED: usize = 5;
const _: () = assert!(2 * SUMMED as i64 * DIGIT_MAX < 1 << 15);
/// Two sums of digits, the upper one times the base, fit 32 bits.
const _: () = assert!(2 * GROUPS as i64 * DIGIT_MAX * (BASE + 1) < 1 << 31);

/// The sums of a group's subsets, digit by digit.
#[repr(align(64))]
struct Group([[i16; SUBSETS]; DIGITS]);

/// Weights as sums of the subsets of six rows: 66 kB.
pub(super) struct SubsetSums([[Group; GROUPS]; SIGN_LIFTS]);

/// The bits of six rows and 64 columns of both planes, in the lower six bits of one byte per column; the
/// upper two are arbitrary.
type Bits = [[__m512i; 2]; GROUPS];

impl SubsetSums {
    #[inline(always)]
    pub(super) fn new(weights: &RowWeights) -> Box<Self> {
        const ZERO: Group = Group([[0; SUBSETS]; DIGITS]);
        let mut out = Box::new(Self([const { [ZERO; GROUPS] }; SIGN_LIFTS]));
        for (lift, weights) in out.0.iter_mut().zip(weights) {
            for (group, weights) in lift.iter_mut().zip(weights.chunks(ROWS)) {
                let mut centred = [0; ROWS];
                for (centred, &weight) in centred.iter_mut().zip(weights) {
                    *centred = crate::ring::centred(weight);
                }
                group.set(&centred);
            }
        }
        out
    }

    #[inline(always)]
    pub(super) fn weigh(&self, planes: &SignPlanes, sums: &mut ColumnSums) {
        let bits = bits(planes);
        for (groups, sums) in self.0.iter().zip(sums) {
            // SAFETY: it touches no memory, and only code that has its instruction reaches this
            // point.
            let mut digits = [[[unsafe { _mm512_setzero_si512() }; 2]; 2]; DIGITS];
            for (groups, bits) in groups.chunks(SUMMED).zip(bits.chunks(SUMMED)) {
                add_few(&mut digits, groups, bits);
            }
            store(&digits, sums);
        }
    }
}

impl Group {
    #[inline(always)]
    fn set(&mut self, weights: &[i64; ROWS]) {
        // SAFETY: of each digit eight numbers are stored, 16 bytes, in an array of eight times as many, by stores
        // that need no alignment; the rest touches no memory, and only code that has its instructions reaches this
        // point.
        unsafe {
            let base = _mm512_set1_epi64(BASE);
            let inverse = _mm512_set1_pd(1.0 / BASE as f64);
            // Lane `k` has the sum of those of the first three weights whose bits are set in `k`: bit 0 is set in the
            // lanes of 0xaa, bit 1 in those of 0xcc, bit 2 in those of 0xf0.
            let mut of_three = _mm512_setzero_si512();
            for (row, mask) in [0xaa, 0xcc, 0xf0].into_iter().enumerate() {
                let weight = _mm512_set1_epi64(weights[row]);
                of_three = _mm512_mask_add_epi64(of_three, mask, of_three, weight);
            }
            for upper in 0..SUBSETS / 8 {
                let mut others = 0;
                for (row, weight) in weights[3..].iter().enumerate() {
                    others += weight * (upper as i64 >> row & 1);
                }
                let mut rest = _mm512_add_epi64(of_three, _mm512_set1_epi64(others));
                for digit in 0..DIGITS {
                    let mut own = rest;
                    if digit + 1 < DIGITS {
                        // It has 50 bits, so the product is off by less than `2^-14`, and a digit by less than one.
                        // Rounds to nearest whatever the mode of the thread.
                        let quotient = _mm512_cvt_roundepi64_pd::<NEAREST>(rest);
                        let quotient = _mm512_mul_round_pd::<NEAREST>(quotient, inverse);
                        rest = _mm512_cvt_roundpd_epi64::<NEAREST>(quotient);
                        // Whatever the quotient is, digit and rest together remain the number.
                        own = _mm512_sub_epi64(own, _mm512_mullo_epi64(rest, base));
                    }
                    let out = &mut self.0[digit].as_chunks_mut::<8>().0[upper];
                    _mm_storeu_si128(out.as_mut_ptr().cast(), _mm512_cvtepi64_epi16(own));
                }
            }
        }
    }
}

/// Returns the bits of a plane for four rows: those of a column in the lower half of its byte.
#[inline(always)]
fn four_rows(plane: &[u8; 2048], group: usize) -> __m512i {
    let bytes = &plane.as_chunks::<32>().0[group];
    // SAFETY: 32 bytes are loaded, which needs no alignment; the rest touches no memory, and only code that has its
    // instructions reaches this point.
    unsafe {
        let words = _mm512_cvtepu8_epi16(_mm256_loadu_si256(bytes.as_ptr().cast()));
        // A byte of the plane becomes two: the lower one keeps the first column, the shift moves the second into the
        // upper one. Upper halves of bytes are now arbitrary.
        _mm512_or_si512(words, _mm512_slli_epi16::<4>(words))
    }
}

#[inline(always)]
fn bits(planes: &SignPlanes) -> Bits {
    // Twelve rows at a time make two groups.
    const TURNS: usize = GROUPS / 2;
    const _: () = assert!(GROUPS == 2 * TURNS + 1 && SIGN_GROUPS == 3 * TURNS + 1);
    let mut out = MaybeUninit::<Bits>::uninit();
    let rows = out.as_mut_ptr().cast::<[__m512i; 2]>();
    for (k, plane) in planes.iter().enumerate() {
        // SAFETY: group `2 turn + 1` and group `2 TURNS` are below `GROUPS`, so everything is written inside `out`;
        // the rest touches no memory, and only code that has its instructions reaches this point.
        unsafe {
            let (four, two) = (_mm512_set1_epi8(15), _mm512_set1_epi8(3));
            for turn in 0..TURNS {
                // Shifts of 16 bits move bits from one byte to the other, but only to where a mask takes the other
                // operand, or to the upper two bits, which are arbitrary.
                let a = four_rows(plane, 3 * turn);
                let b = four_rows(plane, 3 * turn + 1);
                let c = four_rows(plane, 3 * turn + 2);
                // Takes the bits of the second operand where the first has ones, else those of the third.
                let low = _mm512_ternarylogic_epi64::<0xca>(four, a, _mm512_slli_epi16::<4>(b));
                let (b, c) = (_mm512_srli_epi16::<2>(b), _mm512_slli_epi16::<2>(c));
                let high = _mm512_ternarylogic_epi64::<0xca>(two, b, c);
                (*rows.add(2 * turn))[k] = low;
                (*rows.add(2 * turn + 1))[k] = high;
            }
            let last = four_rows(plane, 3 * TURNS);
            (*rows.add(2 * TURNS))[k] = _mm512_and_si512(four, last);
        }
    }
    // SAFETY: both planes of groups 0 to `2 TURNS` were written, which are all.
    unsafe { out.assume_init() }
}

/// Adds the sums of up to [`SUMMED`] groups: for each digit those of columns `4 i` and `4 i + 2`, then those of
/// columns `4 i + 1` and `4 i + 3`.
#[inline(always)]
fn add_few(sums: &mut [[[__m512i; 2]; 2]; DIGITS], groups: &[Group], bits: &[[__m512i; 2]]) {
    // SAFETY: half of the numbers of a digit are loaded each time, 64 bytes, from a group, which is aligned to as
    // many; the rest touches no memory, and only code that has its instructions reaches this point.
    unsafe {
        let mut few = [[_mm512_setzero_si512(); 2]; DIGITS];
        for (group, &[plus, minus]) in groups.iter().zip(bits) {
            // A permutation reads the lower six of 16 bits: these are even columns, and odd ones after a shift.
            let plus = [plus, _mm512_srli_epi16::<8>(plus)];
            let minus = [minus, _mm512_srli_epi16::<8>(minus)];
            for (few, numbers) in few.iter_mut().zip(&group.0) {
                let [low, high] = numbers.as_chunks::<32>().0 else {
                    unreachable!("64 numbers")
                };
                let low = _mm512_load_si512(low.as_ptr().cast());
                let high = _mm512_load_si512(high.as_ptr().cast());
                for (few, (&plus, &minus)) in few.iter_mut().zip(plus.iter().zip(&minus)) {
                    let added = _mm512_permutex2var_epi16(low, plus, high);
                    let taken = _mm512_permutex2var_epi16(low, minus, high);
                    // In this order one of the two additions does not wait for an earlier result.
                    *few = _mm512_add_epi16(*few, _mm512_sub_epi16(added, taken));
                }
            }
        }
        // A product with (1, 0) or (0, 1) widens the even or the odd numbers while it adds them.
        let (even, odd) = (_mm512_set1_epi32(1), _mm512_set1_epi32(1 << 16));
        for (sums, few) in sums.as_flattened_mut().iter_mut().zip(few.as_flattened()) {
            sums[0] = _mm512_dpwssd_epi32(sums[0], *few, even);
            sums[1] = _mm512_dpwssd_epi32(sums[1], *few, odd);
        }
    }
}

/// Joins digits and stores the sums in column order.
#[inline(always)]
fn store(digits: &[[[__m512i; 2]; 2]; DIGITS], out: &mut [i64; 64]) {
    let [a, b, c, d] = digits;
    for first in 0..4 {
        let (odd, half) = (first % 2, first / 2);
        let mut columns = [[0; 8]; 2];
        // SAFETY: eight numbers are stored each time, 64 bytes, by stores that need no alignment; the rest touches no
        // memory, and only code that has its instructions reaches this point.
        unsafe {
            let base = _mm512_set1_epi32(BASE as i32);
            let square = _mm512_set1_epi64(BASE * BASE);
            let low = _mm512_add_epi32(a[odd][half], _mm512_mullo_epi32(b[odd][half], base));
            let high = _mm512_add_epi32(c[odd][half], _mm512_mullo_epi32(d[odd][half], base));
            // Of each 64 bits the lower half is one column, which a product reads with its sign, and the upper half
            // is the fourth column after it.
            let even_low = _mm512_srai_epi64::<32>(_mm512_slli_epi64::<32>(low));
            let even = _mm512_add_epi64(_mm512_mul_epi32(high, square), even_low);
            let odd_high = _mm512_mul_epi32(_mm512_srli_epi64::<32>(high), square);
            let odd = _mm512_add_epi64(odd_high, _mm512_srai_epi64::<32>(low));
            _mm512_storeu_si512(columns[0].as_mut_ptr().cast(), even);
            _mm512_storeu_si512(columns[1].as_mut_ptr().cast(), odd);
        }
        for (k, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            out[first] = columns[0][k];
            out[4 + first] = columns[1][k];
        }
    }
}
