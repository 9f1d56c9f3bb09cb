//! Vectors of field elements, over any vector that multiplies 32-bit words at even positions.

use super::{Circulant, DOT_MAX, MIXED, PRODUCTS_MAX, Packed};
use crate::field::{Fp, P, P_INVERSE};

/// A vector of 32-bit words, or of half as many 64-bit words. Implementing types are private to the files of their
/// instruction sets, so that their methods run only on processors that have them.
pub(super) trait Words: Copy {
    /// Words of 32 bits.
    const LANES: usize;

    /// Equal words of 32 bits.
    fn splat32(word: u32) -> Self;
    /// Equal words of 64 bits.
    fn splat64(word: i64) -> Self;
    /// The first [`Words::LANES`] elements of a slice that has at least that many.
    fn load(values: &[Fp]) -> Self;
    /// Writes words below p to the first [`Words::LANES`] elements of a slice that has at least that many.
    fn store(self, values: &mut [Fp]);
    /// a + b, by words of 32 bits.
    fn add32(a: Self, b: Self) -> Self;
    /// a - b, by words of 32 bits.
    fn sub32(a: Self, b: Self) -> Self;
    /// The minimum of both, by unsigned 32-bit words.
    fn min32(a: Self, b: Self) -> Self;
    /// a + b, by words of 64 bits.
    fn add64(a: Self, b: Self) -> Self;
    /// a - b, by words of 64 bits.
    fn sub64(a: Self, b: Self) -> Self;
    /// Bitwise and of both.
    fn and(a: Self, b: Self) -> Self;
    /// The 64-bit products a · b of the words at even positions.
    fn product(a: Self, b: Self) -> Self;
    /// The same for signed words.
    fn signed_product(a: Self, b: Self) -> Self;
    /// a / 2^bits, by unsigned 64-bit words.
    fn right(bits: u32, a: Self) -> Self;
    /// a / 2^bits, by unsigned 32-bit words.
    fn right32(a: Self, bits: u32) -> Self;
    /// a · 2^bits, by 32-bit words.
    fn left32(a: Self, bits: u32) -> Self;
    /// One vector of the low words of `even` and those of `odd`.
    fn join_low(even: Self, odd: Self) -> Self;
    /// One vector of the high words of `even` and those of `odd`.
    fn join_high(even: Self, odd: Self) -> Self;
}

/// Words in Montgomery form, each below p.
#[derive(Clone, Copy)]
pub(super) struct Lanes<W>(W);

/// Number of products of two words below p that fit a 64-bit sum: 4·(p − 1)² < 2^64.
const RUN: usize = 4;

/// floor(2^47 / p), for quotients of words below 2^40 shifted right by 16.
const BARRETT: u32 = ((1u64 << 47) / P as u64) as u32;

/// The words of even and of odd positions, each in the low half of 64 bits.
#[derive(Clone, Copy)]
pub(super) struct Halves<W>([W; 2]);

/// The words / 2^32 mod p, for words below p·2^32 at even and odd positions.
#[inline(always)]
fn montgomery<W: Words>(even: W, odd: W) -> W {
    let (inverse, p) = (W::splat32(P_INVERSE), W::splat32(P));
    // The inner product is the quotient modulo 2^32 in its low word. What is above is not read by the outer one.
    let q_even = W::product(W::product(even, inverse), p);
    let q_odd = W::product(W::product(odd, inverse), p);
    // The low words of both are equal, so the difference of the high words is exact.
    let difference = W::sub32(W::join_high(even, odd), W::join_high(q_even, q_odd));
    W::min32(difference, W::add32(difference, p))
}

/// Reduces a value below 2p to one below p.
#[inline(always)]
fn correct<W: Words>(value: W) -> W {
    // A value below p wraps to at least 2^32 − p, which is more than p, so the unsigned minimum decides without a
    // comparison.
    W::min32(value, W::sub32(value, W::splat32(P)))
}

/// Words below 2^40 modulo p, of even and odd positions.
#[inline(always)]
fn barrett<W: Words>(words: [W; 2]) -> W {
    // Loops, not closures: the function that calls a closure may lack the instruction set.
    let mut rests = words;
    for rest in &mut rests {
        // The quotient is at most one too small: together the two roundings lose less than one.
        let shifted = W::product(W::right(16, *rest), W::splat64(BARRETT.into()));
        let q = W::right(31, shifted);
        *rest = W::sub64(*rest, W::product(q, W::splat64(P.into())));
    }
    correct(W::join_low(rests[0], rests[1]))
}

impl<W: Words> Packed for Lanes<W> {
    type Split = Halves<W>;
    const LANES: usize = W::LANES;

    #[inline(always)]
    fn splat(value: Fp) -> Self {
        Lanes(W::splat32(value.word()))
    }

    #[inline(always)]
    fn load(values: &[Fp]) -> Self {
        Lanes(W::load(values))
    }

    #[inline(always)]
    fn store(self, values: &mut [Fp]) {
        self.0.store(values);
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // 2p < 2^32: the sum does not wrap.
        Lanes(correct(W::add32(self.0, other.0)))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let difference = W::sub32(self.0, other.0);
        let wrapped = W::add32(difference, W::splat32(P));
        Lanes(W::min32(difference, wrapped))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        let even = W::product(self.0, other.0);
        let a = W::right(32, self.0);
        let b = W::right(32, other.0);
        Lanes(montgomery(even, W::product(a, b)))
    }

    /// Both reductions stay within words of even and odd positions. The first leaves a number between −p and p, so
    /// the second product is signed, and so is what is subtracted from it: at most (p² + 2^31·p)/2^32 is left on
    /// either side, which is below p.
    #[inline(always)]
    fn cube(self) -> Self {
        let (inverse, p) = (W::splat32(P_INVERSE), W::splat32(P));
        let mut cubes = [self.0, W::right(32, self.0)];
        let mut taken = cubes;
        for (cube, taken) in cubes.iter_mut().zip(&mut taken) {
            let x = *cube;
            let square = W::product(x, x);
            let q = W::product(W::product(square, inverse), p);
            let square = W::right(32, W::sub64(square, q));
            *cube = W::signed_product(square, x);
            *taken = W::signed_product(W::product(*cube, inverse), p);
        }
        let high = W::join_high(cubes[0], cubes[1]);
        let difference = W::sub32(high, W::join_high(taken[0], taken[1]));
        Lanes(W::min32(difference, W::add32(difference, p)))
    }

    #[inline(always)]
    fn over<const N: u32>(self) -> Self {
        // The shifts of `low` below are exact: it ends in 32 − N >= 8 zero bits, which is why N is at most 24.
        let low = W::left32(self.0, 32 - N);
        // 127·2^(24 − N)·low, which is below p.
        let taken = W::sub32(W::right32(low, 1), W::right32(low, 8));
        let high = W::right32(self.0, N);
        let difference = W::sub32(high, taken);
        Lanes(W::min32(difference, W::add32(difference, W::splat32(P))))
    }

    #[inline(always)]
    fn split(self) -> Halves<W> {
        // The odd words stay above the even ones, since products read only the low half.
        Halves([self.0, W::right(32, self.0)])
    }

    #[inline(always)]
    fn dot<const M: usize>(x: &[Halves<W>], rows: [&[u64]; M]) -> [Self; M] {
        debug_assert!(x.len() <= DOT_MAX);
        // Σ = low + 2^32·high, both below 2^36 for 12 runs.
        let zero = [[W::splat64(0); 2]; M];
        let (mut low, mut high) = (zero, zero);
        for (run, xs) in x.chunks(RUN).enumerate() {
            for m in 0..M {
                let mut sum = [W::splat64(0); 2];
                for (Halves(x), w) in xs.iter().zip(&rows[m][run * RUN..]) {
                    let w = W::splat64(*w as i64);
                    for h in 0..2 {
                        sum[h] = W::add64(sum[h], W::product(x[h], w));
                    }
                }
                for h in 0..2 {
                    let word = W::and(sum[h], W::splat64(0xffff_ffff));
                    low[m][h] = W::add64(low[m][h], word);
                    let word = W::right(32, sum[h]);
                    high[m][h] = W::add64(high[m][h], word);
                }
            }
        }
        let mut out = [Lanes(W::splat64(0)); M];
        for m in 0..M {
            // Dividing low + 2^32·high by 2^32 leaves `high` as it is, so it needs only a reduction modulo p.
            let reduced = montgomery(low[m][0], low[m][1]);
            out[m] = Lanes(reduced).add(Lanes(barrett(high[m])));
        }
        out
    }

    #[inline(always)]
    fn products<const N: usize>(x: [Halves<W>; N], y: [Halves<W>; N]) -> Self {
        const { assert!(N <= PRODUCTS_MAX) };
        // Two products stay below p·2^32, the limit of a reduction: 2·(p − 1)² < p·2^32.
        let mut out = Lanes(W::splat64(0));
        for i in (0..N).step_by(2) {
            let mut sum = [W::splat64(0); 2];
            for (h, sum) in sum.iter_mut().enumerate() {
                *sum = W::product(x[i].0[h], y[i].0[h]);
                if i + 1 < N {
                    let next = W::product(x[i + 1].0[h], y[i + 1].0[h]);
                    *sum = W::add64(*sum, next);
                }
            }
            let reduced = Lanes(montgomery(sum[0], sum[1]));
            out = if i == 0 { reduced } else { out.add(reduced) };
        }
        out
    }

    #[inline(always)]
    fn dot_small<const M: usize>(x: &[Halves<W>], rows: [&[u64]; M]) -> [Self; M] {
        let mut sums = [[W::splat64(0); 2]; M];
        for (i, Halves(x)) in x.iter().enumerate() {
            for m in 0..M {
                let w = W::splat64(rows[m][i] as i64);
                for h in 0..2 {
                    sums[m][h] = W::add64(sums[m][h], W::product(x[h], w));
                }
            }
        }
        let mut out = [Lanes(W::splat64(0)); M];
        for m in 0..M {
            // Plain integers do not change the Montgomery form, so nothing is divided by 2^32.
            out[m] = Lanes(barrett(sums[m]));
        }
        out
    }

    /// With s = x_low + x_high and d = x_low − x_high the halves of the result are ((A + B)·s ± (A − B)·d)/2: half
    /// of the products. All integers are exact: s < 2p < 2^32 and |d| < p are words for unsigned and signed
    /// products, and both results are sums of entries of the matrix times x, so nonnegative, and below 512·p <
    /// 2^40.
    #[inline(always)]
    fn mix(matrix: &Circulant, x: &[Halves<W>; MIXED]) -> [Self; MIXED] {
        const HALF: usize = MIXED / 2;
        let mut halves = [[W::splat64(0); MIXED]; 2];
        for (h, out) in halves.iter_mut().enumerate() {
            let mut sums = [W::splat64(0); HALF];
            let mut differences = [W::splat64(0); HALF];
            for j in 0..HALF {
                let (low, high) = (x[j].0[h], x[HALF + j].0[h]);
                // Words of other positions may be present above; products do not read them.

                sums[j] = W::add32(low, high);
                differences[j] = W::sub32(low, high);
            }
            for start in (0..HALF).step_by(2) {
                let mut of_sums = [W::splat64(0); 2];
                let mut of_differences = [W::splat64(0); 2];
                for j in 0..HALF {
                    for m in 0..2 {
                        let w = W::splat64(matrix.parts.sums[start + m][j] as i64);
                        let product = W::product(sums[j], w);
                        of_sums[m] = W::add64(of_sums[m], product);
                        let w = W::splat64(matrix.parts.signed[start + m][j]);
                        let product = W::signed_product(differences[j], w);
                        of_differences[m] = W::add64(of_differences[m], product);
                    }
                }
                for m in 0..2 {
                    let low = W::add64(of_sums[m], of_differences[m]);
                    let high = W::sub64(of_sums[m], of_differences[m]);
                    out[start + m] = W::right(1, low);
                    out[HALF + start + m] = W::right(1, high);
                }
            }
        }
        let mut mixed = [Lanes(W::splat64(0)); MIXED];
        for i in 0..MIXED {
            mixed[i] = Lanes(barrett([halves[0][i], halves[1][i]]));
        }
        mixed
    }
}
