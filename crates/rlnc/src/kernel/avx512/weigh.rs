//! Σ 2^shift · point with the four coordinates of a point in four lanes, and two such sums at once. Every doubling
//! depends on the previous one, so latency dominates: two consecutive products instead of seven.
//!
//! A sum is a vector of raw products X, Y, Z and T, with a bias only in Y, from which X is subtracted.

use core::arch::x86_64::*;

use alphorn_exec::Avx512Ifma;

use super::{BIASED, Fe8, RAW, carry, elements, load, mul, p_limb};
use crate::field::{D2, Fe};
use crate::point::Point;
use crate::row::LANES;

/// See [`super::super::Dispatch::weigh`].
pub(in crate::kernel) fn weigh(_: Avx512Ifma, shifts: &[u32], lists: [&[&Point]; 2]) -> [Point; 2] {
    // SAFETY: the witness shows that this processor has AVX-512 F, DQ and IFMA, all that the callee
    // is compiled for.
    unsafe { weigh_lanes(shifts, lists) }
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn weigh_lanes(shifts: &[u32], lists: [&[&Point]; 2]) -> [Point; 2] {
    let mut sum = Coordinates::new([Point::IDENTITY; 2].map(|p| [p.x, p.y, p.z, p.t]));
    let mut at = shifts.first().copied().unwrap_or(0);
    // All of them before the chain starts: data just stored in parts cannot be loaded as a whole immediately.
    let terms = shifts.iter().zip(lists[0].iter().zip(lists[1]));
    let terms: Vec<_> = terms
        .map(|(shift, (a, b))| (shift, packed([a, b].map(|point| addend(point)))))
        .collect();
    for (shift, term) in &terms {
        sum = sum.doubled(at - *shift);
        sum = sum.plus(&term.map(|limb| load(&limb)));
        at = **shift;
    }
    sum.doubled(at).points()
}

/// y - x, y + x, 2dt and 2z.
fn addend(point: &Point) -> [Fe; 4] {
    let Point { x, y, z, t } = *point;
    // Carried, because factors of the kernel must be below 2^52.
    [y.sub(x), y.add(x).carried(), t.mul(D2), z.add(z).carried()]
}

/// Eight elements, by limb.
fn packed(halves: [[Fe; 4]; 2]) -> [[u64; LANES]; 5] {
    std::array::from_fn(|k| std::array::from_fn(|lane| halves[lane / 4][lane % 4].0[k]))
}

/// The same four words in both halves.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn halves(words: [u64; 4]) -> __m512i {
    let [a, b, c, d] = words.map(|word| word as i64);
    _mm512_set_epi64(d, c, b, a, d, c, b, a)
}

/// X, Y, Z and T in each half.
#[derive(Clone, Copy)]
struct Coordinates(Fe8);

/// For `_mm512_permutex_epi64`: word i of each half is word `from[i]` of the same half.
const fn from(from: [i32; 4]) -> i32 {
    from[0] | (from[1] << 2) | (from[2] << 4) | (from[3] << 6)
}

impl Coordinates {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn new(halves: [[Fe; 4]; 2]) -> Coordinates {
        Coordinates(packed(halves).map(|limb| load(&limb)))
    }

    /// E·F, G·H, F·G, E·H of (E, G, F, E) and (F, H, G, H).
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn of_products(egfe: &Fe8, fhgh: &Fe8) -> Coordinates {
        Coordinates(mul(lanes([RAW, BIASED, RAW, RAW]), egfe, fhgh))
    }

    /// 2^count times the points (Hisil and others, section 3.3, in terms of p = y + x and m = y - x): with
    /// E = p² - m², H = p² + m², G = 2pm and F = 4z² - 2pm, all four twice those of the formula and two of them
    /// negated, which gives the same point.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn doubled(mut self, count: u32) -> Coordinates {
        let twice = halves([0, 0, 2, 1]);
        for _ in 0..count {
            let mut pmzp = self.0;
            let mut pmzm = self.0;
            for k in 0..5 {
                let x = _mm512_permutex_epi64::<{ from([0; 4]) }>(self.0[k]);
                let yyzy = _mm512_permutex_epi64::<{ from([1, 1, 2, 1]) }>(self.0[k]);
                // Masks have a bit per word, the same four for both halves: 0x99 means words 0 and 3.
                let sum = _mm512_mask_add_epi64(yyzy, 0x99, yyzy, x);
                pmzp[k] = _mm512_mask_sub_epi64(sum, 0x22, yyzy, x);
                pmzm[k] = _mm512_mask_sub_epi64(sum, 0xaa, yyzy, x);
            }
            // m² is subtracted from p², and 2pm from 4z², for which half the bias is enough.
            let start = lanes([BIASED, RAW, BIASED / 2, RAW]);
            let product = mul(start, &carry(&pmzp), &carry(&pmzm));
            let mut egfe = product;
            let mut fhgh = product;
            for k in 0..5 {
                // p², m², 4z², 2pm.
                let word = _mm512_sllv_epi64(product[k], twice);
                let pgzp = _mm512_permutex_epi64::<{ from([0, 3, 2, 0]) }>(word);
                let m_gm = _mm512_permutex_epi64::<{ from([1, 1, 3, 1]) }>(word);
                egfe[k] = _mm512_mask_sub_epi64(pgzp, 0xdd, pgzp, m_gm);
                let zpgp = _mm512_permutex_epi64::<{ from([2, 0, 3, 0]) }>(word);
                let gm_m = _mm512_permutex_epi64::<{ from([3, 1, 1, 1]) }>(word);
                let sum = _mm512_mask_add_epi64(zpgp, 0xaa, zpgp, gm_m);
                fhgh[k] = _mm512_mask_sub_epi64(sum, 0x11, zpgp, gm_m);
            }
            self = Coordinates::of_products(&carry(&egfe), &carry(&fhgh));
        }
        self
    }

    /// The sums with points given as [`addend`]s.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn plus(self, addends: &Fe8) -> Coordinates {
        let mut mptz = self.0;
        for limb in &mut mptz {
            let x = _mm512_permutex_epi64::<{ from([0; 4]) }>(*limb);
            let yytz = _mm512_permutex_epi64::<{ from([1, 1, 3, 2]) }>(*limb);
            let sum = _mm512_mask_add_epi64(yytz, 0x22, yytz, x);
            *limb = _mm512_mask_sub_epi64(sum, 0x11, yytz, x);
        }
        // A, B, C and D of the formula.
        // A is subtracted from B, and C from D.
        let abcd = mul(lanes([RAW, BIASED, RAW, BIASED]), &carry(&mptz), addends);
        let mut egfe = abcd;
        let mut fhgh = abcd;
        for k in 0..5 {
            let bddb = _mm512_permutex_epi64::<{ from([1, 3, 3, 1]) }>(abcd[k]);
            let acca = _mm512_permutex_epi64::<{ from([0, 2, 2, 0]) }>(abcd[k]);
            let sum = _mm512_mask_add_epi64(bddb, 0x22, bddb, acca);
            egfe[k] = _mm512_mask_sub_epi64(sum, 0xdd, bddb, acca);
            let dbdb = _mm512_permutex_epi64::<{ from([3, 1, 3, 1]) }>(abcd[k]);
            let caca = _mm512_permutex_epi64::<{ from([2, 0, 2, 0]) }>(abcd[k]);
            let sum = _mm512_mask_add_epi64(dbdb, 0xee, dbdb, caca);
            fhgh[k] = _mm512_mask_sub_epi64(sum, 0x11, dbdb, caca);
        }
        Coordinates::of_products(&carry(&egfe), &carry(&fhgh))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn points(&self) -> [Point; 2] {
        let lanes = elements(&carry(&self.0));
        [0, 4].map(|first| Point {
            x: lanes[first],
            y: lanes[first + 1],
            z: lanes[first + 2],
            t: lanes[first + 3],
        })
    }
}

/// Initial value of [`mul`], by coordinate.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn lanes(bias: [u64; 4]) -> Fe8 {
    std::array::from_fn(|k| halves(bias.map(|bias| bias * p_limb(k))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::tests::detected;
    use alphorn_exec::InstructionSet;

    /// Coordinates that need not be those of a point: the formulas are the same.
    fn coordinates([x, y, z, t]: [u64; 4], step: u64) -> Point {
        let element = |top| Fe(std::array::from_fn(|k| top - step * k as u64));
        Point {
            x: element(x),
            y: element(y),
            z: element(z),
            t: element(t),
        }
    }

    fn same(a: &Point, b: &Point) {
        let pairs = [(a.x, b.x), (a.y, b.y), (a.t, b.t)];
        for (of_a, of_b) in pairs {
            assert!(of_a.mul(b.z).vartime_eq(of_b.mul(a.z)));
        }
        assert!(!a.z.vartime_is_zero() && !b.z.vartime_is_zero());
    }

    /// Trap 20: all limbs of coordinates at their maximum, small ones, and those of products.
    #[test]
    fn trap_20_sums_and_doublings_at_the_limb_bounds() {
        if !detected(InstructionSet::Avx512Ifma) {
            return;
        }
        const TOP: u64 = (1 << 51) + (1 << 17) - 1;
        let mut points = Vec::new();
        for tops in [[TOP; 4], [TOP, 5, TOP, 7], [4, TOP, 9, TOP], [5, 6, 7, 8]] {
            points.extend([0, 1].map(|step| coordinates(tops, step)));
        }
        for i in 0..points.len() {
            for j in 0..points.len() {
                let (a, b) = (points[i], points[j]);
                // SAFETY: `detected` found the instructions.
                let (sums, twice) = unsafe { both(a, b) };
                same(&sums[0], &a.add(&b));
                same(&sums[1], &b.add(&a));
                same(&twice[0], &a.doubled(1).doubled(1));
                same(&twice[1], &b.doubled(2));
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    fn both(a: Point, b: Point) -> ([Point; 2], [Point; 2]) {
        let sums = Coordinates::new([a, b].map(|p| [p.x, p.y.add(BIAS), p.z, p.t]));
        let addends = packed([addend(&b), addend(&a)]).map(|limb| load(&limb));
        (sums.plus(&addends).points(), sums.doubled(2).points())
    }

    /// The bias contained in Y of a biased product.
    const BIAS: Fe = Fe([
        608 * p_limb(0),
        608 * p_limb(1),
        608 * p_limb(2),
        608 * p_limb(3),
        608 * p_limb(4),
    ]);
}
