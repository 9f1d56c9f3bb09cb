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
//! | four times a product biased by 304 p, less twice a raw one | from 147·2^51 to 3352·2^51 < 2^62.8 |
//! | column of a linear combination | 9·64·2^52 < 2^61.2, and < 2^61.3 while it is reduced |
//! | column of products of pairs, and what is subtracted from it | < 3·5·32·2^52 < 2^61 each |
#![allow(unsafe_code)]

mod lookup;
mod pairs;
mod quad;
mod rows;
mod sha256;
mod weigh;

use core::arch::asm;
use core::arch::x86_64::*;

use alphorn_exec::Avx512Ifma;

use crate::field::Fe;
use crate::kernel::lanes::{self, Ahead, Lanes};
use crate::kernel::table::{Digits, Table, TableRow};
use crate::point::Point;
use crate::row::LANES;
use lookup::{Loading, Located, NielsRows};
pub(super) use rows::{combine, combine_short};
pub(super) use weigh::weigh;

/// See [`super::Dispatch::sums`].
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

impl<'t> Lanes<'t> for Avx512Ifma {
    type Sum = Sum8;
    type Located = Located<'t>;
    type Loaded = NielsRows;

    #[inline(always)]
    fn identity(self) -> Sum8 {
        // SAFETY: `self` is a witness of the instructions that the callee is compiled for.
        unsafe { Sum8::identity() }
    }

    #[inline(always)]
    fn locate(self, ahead: Ahead<'_, 't, Located<'t>>) {
        // SAFETY: `self` is a witness of the instructions that the callee is compiled for.
        unsafe { ahead.located.set(ahead.rows, ahead.digits) };
        for lane in 0..LANES {
            ahead.located.fetch(lane);
        }
    }

    #[inline(always)]
    fn same(self, row: &'t TableRow) -> Located<'t> {
        Located::of(row)
    }

    #[inline(always)]
    fn load(self, located: &Located<'t>) -> NielsRows {
        // SAFETY: `self` is a witness of the instructions that the callees are compiled for.
        unsafe { NielsRows::load(located) }
    }

    #[inline(always)]
    fn add(
        self,
        sum: &mut Sum8,
        rows: &mut NielsRows,
        next: &Located<'t>,
        ahead: Ahead<'_, 't, Located<'t>>,
    ) {
        // SAFETY: `self` is a witness of the instructions that the callees are compiled for.
        unsafe { sum.add(rows, next, ahead) }
    }

    #[inline(always)]
    fn points(self, sum: &Sum8) -> [Point; LANES] {
        // SAFETY: `self` is a witness of the instructions that the callee is compiled for.
        unsafe { sum.points() }
    }
}

/// Eight field elements, limb by limb.
type Fe8 = [__m512i; 5];

/// Eight sums: y-x and y+x carried, z a biased product, t a raw one. 2x and 2y follow from the first two.
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

/// One parallel carry: input limbs below 2^63, carried output limbs.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn carry(a: &Fe8) -> Fe8 {
    let mut carry = Carry::new();
    for (k, limb) in a.iter().enumerate() {
        carry.limb(k, *limb);
    }
    carry.out
}

/// A carry limb by limb, so that it can overlap with another multiplication.
struct Carry {
    out: Fe8,
    above: __m512i,
}

impl Carry {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn new() -> Carry {
        let zero = _mm512_setzero_si512();
        Carry {
            out: [zero; 5],
            above: zero,
        }
    }

    /// Takes limb k; limbs come in order.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn limb(&mut self, k: usize, limb: __m512i) {
        let low = _mm512_and_si512(limb, _mm512_set1_epi64((1 << 51) - 1));
        self.out[k] = _mm512_add_epi64(low, self.above);
        self.above = _mm512_srli_epi64::<51>(limb);
        if k == 4 {
            // The carry is below 2^12, so the low half is the whole product.
            let around = _mm512_set1_epi64(19);
            self.out[0] = _mm512_madd52lo_epu64(self.out[0], self.above, around);
        }
        here(&mut self.out[k], &mut self.above);
    }
}

/// The carries of a difference and of a sum.
struct Carries([Carry; 2]);

impl Carries {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn new() -> Carries {
        Carries([Carry::new(), Carry::new()])
    }

    /// One step of ten: alternately a limb of a - b and one of a + b.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn step(&mut self, step: usize, a: &Fe8, b: &Fe8) {
        let k = step / 2;
        let [minus, plus] = &mut self.0;
        match step % 2 {
            0 => minus.limb(k, _mm512_sub_epi64(a[k], b[k])),
            _ => plus.limb(k, _mm512_add_epi64(a[k], b[k])),
        }
    }

    /// Both values after ten steps.
    fn values(self) -> [Fe8; 2] {
        self.0.map(|carry| carry.out)
    }
}

/// The limbs of p.
const fn p_limb(k: usize) -> u64 {
    (1 << 51) - if k == 0 { 19 } else { 1 }
}

/// Multiples of p from which a product may start; the result contains them 38-fold. Either none, or enough that no limb
/// is below one of a product without them.
const RAW: u64 = 0;
const BIASED: u64 = 16;

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn from(bias: u64) -> Fe8 {
    std::array::from_fn(|k| _mm512_set1_epi64((bias * p_limb(k)) as i64))
}

/// The product of carried values, plus 38·start.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn mul(start: Fe8, a: &Fe8, b: &Fe8) -> Fe8 {
    mul_while(start, a, b, |_| ())
}

/// Like [`mul`], with ten interleaved steps of another computation.
///
/// Column k of the product is lo_k + 2·hi_(k-1), because the radix is 2^51 and the split is at bit 52. The columns from
/// 5 up come first. x_k = column 5+k counts 19-fold in column k: halves hi_(k-1) are added to 9·x_k, the sum is
/// doubled, and x_k and lo_k are added. Apart from the start, x_k < (14 - 3k)·2^52, so no column is above 267·2^52.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn mul_while(start: Fe8, a: &Fe8, b: &Fe8, mut meanwhile: impl FnMut(usize)) -> Fe8 {
    let mut column = start;
    let mut x = [_mm512_setzero_si512(); 5];
    macro_rules! steps {
        ($($step:literal)*) => {
            $(
                mul_step::<$step>(&mut column, &mut x, a, b);
                meanwhile($step);
                in_order(&mut column);
            )*
        };
    }
    steps!(0 1 2 3 4 5 6 7 8 9);
    column
}

/// Adds this step's products to each column: first the high halves and then the low ones of column 5+k, then those of
/// column k. This makes five independent products consecutive.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn mul_step<const STEP: usize>(column: &mut Fe8, x: &mut Fe8, a: &Fe8, b: &Fe8) {
    for k in 0..5 {
        let mut sum = column[k];
        // Column 5+k has 5-k high and 4-k low halves, column k has k and k+1: ten steps for every k.
        let (high, low, last) = (5 - k, 9 - 2 * k, 9 - k);
        if STEP == high {
            sum = _mm512_add_epi64(sum, sum);
        }
        // Nine times here, doubled and once more at `last`: 19-fold.
        if STEP == low {
            x[k] = sum;
            sum = _mm512_add_epi64(sum, _mm512_slli_epi64::<3>(sum));
        }
        if STEP == last {
            sum = _mm512_add_epi64(_mm512_add_epi64(sum, sum), x[k]);
        }
        column[k] = match STEP {
            step if step < high => _mm512_madd52hi_epu64(sum, a[k + step], b[4 - step]),
            step if step < low => {
                let i = k + 1 + step - high;
                _mm512_madd52lo_epu64(sum, a[i], b[k + 5 - i])
            }
            step if step < last => {
                let i = step - low;
                _mm512_madd52hi_epu64(sum, a[i], b[k - 1 - i])
            }
            step => {
                let i = step - last;
                _mm512_madd52lo_epu64(sum, a[i], b[k - i])
            }
        };
    }
}

/// Orders the computation of both values before what follows, see [`in_order`].
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn here(a: &mut __m512i, b: &mut __m512i) {
    // SAFETY: there is no instruction; the registers stay what they are.
    unsafe {
        asm!(
            "/* {0} {1} */",
            inout(zmm_reg) * a,
            inout(zmm_reg) * b,
            options(nomem, nostack, preserves_flags),
        );
    }
}

/// Orders later additions to the columns after earlier ones. Otherwise the compiler would collect all additions to a
/// column in one place, where each waits for the previous one.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn in_order(columns: &mut Fe8) {
    let [a, b, c, d, e] = columns;
    // SAFETY: there is no instruction; the registers stay what they are.
    unsafe {
        asm!(
            "/* {0} {1} {2} {3} {4} */",
            inout(zmm_reg) * a,
            inout(zmm_reg) * b,
            inout(zmm_reg) * c,
            inout(zmm_reg) * d,
            inout(zmm_reg) * e,
            options(nomem, nostack, preserves_flags),
        );
    }
}

impl Sum8 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn identity() -> Sum8 {
        let (zero, one) = (splat(Fe::ZERO.0), splat(Fe::ONE.0));
        Sum8 {
            y_minus_x: one,
            y_plus_x: one,
            // Needs no bias: only a product with 0 is subtracted from it.
            z: one,
            t: zero,
        }
    }

    /// Adds an affine point in each lane: seven products, seven carries. Each carry overlaps with the product after the
    /// one it belongs to. During other products, the next rows are loaded and later ones located.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn add<'t>(
        &mut self,
        row: &mut NielsRows,
        next: &Located<'t>,
        ahead: Ahead<'_, 't, Located<'t>>,
    ) {
        let mut t = Carry::new();
        let a = mul_while(from(RAW), &self.y_minus_x, &row.minus, |step| {
            if step < 5 {
                t.limb(step, self.t[step]);
            }
        });
        let c = mul_while(from(RAW), &t.out, &row.dxy, |step| match step {
            0 => ahead.located.set(ahead.rows, ahead.digits),
            1 => (),
            _ => ahead.located.fetch(step - 2),
        });
        let mut fg = Carries::new();
        // A raw product is subtracted from each biased one: a from b, c from z, and x from y.
        let b = mul_while(from(BIASED), &self.y_plus_x, &row.plus, |step| {
            fg.step(step, &self.z, &c);
        });
        let [f, g] = fg.values();
        let mut eh = Carries::new();
        self.z = mul_while(from(BIASED), &f, &g, |step| eh.step(step, &b, &a));
        let [e, h] = eh.values();
        // The rows have been used for the last time in b, so the next ones may now replace them.
        let mut loading = Loading::new(next);
        let y = mul_while(from(BIASED), &g, &h, |step| loading.step(step, row));
        let x = mul_while(from(RAW), &e, &f, |step| loading.step(10 + step, row));
        let mut next = Carries::new();
        self.t = mul_while(from(RAW), &e, &h, |step| next.step(step, &y, &x));
        [self.y_minus_x, self.y_plus_x] = next.values();
    }

    /// The lanes as points (2x : 2y : 2z : 2t).
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn points(&self) -> [Point; LANES] {
        let (z, t) = (carry(&self.z), carry(&self.t));
        let [minus, plus, z, t] =
            [&self.y_minus_x, &self.y_plus_x, &z, &t].map(|value| elements(value));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::tests::detected;
    use alphorn_exec::InstructionSet;

    /// The operations on lanes with identical values.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn operations(a: [u64; 5], b: [u64; 5]) -> [[Fe; LANES]; 4] {
        let (a, b) = (splat(a), splat(b));
        let (product, biased) = (mul(from(RAW), &a, &b), mul(from(BIASED), &a, &b));
        let square = mul(from(RAW), &b, &b);
        let mut carries = [Carries::new(), Carries::new()];
        for step in 0..10 {
            carries[0].step(step, &biased, &square);
            carries[1].step(step, &biased, &product);
        }
        let [[difference, _], [_, sum]] = carries.map(Carries::values);
        [product, biased, difference, sum].map(|value| elements(&value))
    }

    /// Trap 20: all limbs at the maximum of a factor.
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
}
