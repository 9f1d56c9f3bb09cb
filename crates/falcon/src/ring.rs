//! Polynomials of `Z_q[Y] / (Y^N + 1)`, `q = 12289`, `L` of them side by side: coefficient `k` of all
//! of them is in row `k`, so every operation acts on whole rows and the compiler vectorises it.
//! `N` is 512 or 1024.
//!
//! Numbers are signed 16-bit representatives. *Reduced* means at most `REDUCED` in absolute
//! value. A Montgomery product of `|a| < 2^15` and a constant of at most `q/2` is at most
//! `2^15 q / 2^17 + q/2 + 1 < 9220`; for `|a| <= A` it is at most `0.0938 A + 6146`. So a layer
//! turns a bound `A` into `1.0938 A + 6146`: 6150, 12873, 20227, 28271, which is why the forward
//! transform reduces after every third layer, and after the last. The inverse doubles sums: 6150, 12300,
//! 24600, so it reduces after every second. The tenth layer of degree 1024 follows a reduction in both
//! directions, so its bounds already occur in other layers. Given these bounds, the arithmetic is wrapping.

mod transform;

use alphorn_labrador::Vectors;
use alphorn_labrador::kernel::{SQUARE, transpose};
use zeroize::Zeroize;

use crate::MODULUS;
use crate::degree::DEGREE_MAX;

/// Bound on a reduced number.
#[cfg(test)]
pub(crate) const REDUCED: i16 = 6150;

/// Number of polynomials that a batch processes at once: a row fills one AVX-512 register, and a batch
/// half of an L1 cache.
pub const LANES: usize = 32;

const Q: i16 = MODULUS as i16;

/// `q^-1` modulo `2^16`.
const Q_INVERSE: i16 = {
    let mut inverse = 1i16;
    let mut step = 0;
    // Newton's iteration doubles the correct bits: 1, 2, 4, 8, 16.
    while step < 4 {
        inverse = inverse.wrapping_mul(2i16.wrapping_sub(Q.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
};

/// `round(2^27 / q)`.
const BARRETT: i16 = (((1 << 27) + Q as i32 / 2) / Q as i32) as i16;

const fn power(base: i64, exponent: i64) -> i64 {
    let (mut result, mut square, mut left) = (1, base % Q as i64, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = result * square % Q as i64;
        }
        square = square * square % Q as i64;
        left >>= 1;
    }
    result
}

/// Returns a number in `[0, q)` times `2^16`, centred.
const fn montgomery(x: i64) -> i16 {
    let product = (x % Q as i64) * ((1 << 16) % Q as i64) % Q as i64;
    (if product > Q as i64 / 2 {
        product - Q as i64
    } else {
        product
    }) as i16
}

/// A root of order 2048, the one under which the draft of FN-DSA writes keys as values. Its square, 49, is the root
/// for degree 512.
const ROOT: i64 = 7;

/// Powers of the root in the order of the butterflies, in Montgomery form. The exponent of a power is its index with
/// the bits reversed. It is even in the first half, which holds the powers of 49 in the order of degree 512.
static ROOTS: [i16; DEGREE_MAX] = {
    let mut roots = [0; DEGREE_MAX];
    let mut i = 0;
    while i < DEGREE_MAX {
        let reversed = (i as u16).reverse_bits() >> (16 - DEGREE_MAX.ilog2());
        roots[i] = montgomery(power(ROOT, reversed as i64));
        i += 1;
    }
    roots
};

/// Returns `degree^-1` in Montgomery form: times `2^16`.
const fn inverse_of(degree: usize) -> i16 {
    montgomery(power(degree as i64, Q as i64 - 2))
}

/// `2^16` in Montgomery form.
const SQUARED: i16 = montgomery(1 << 16);

/// `L` polynomials side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct Polys<const L: usize, const N: usize>(pub [[i16; L]; N]);

#[inline(always)]
fn high(a: i16, b: i16) -> i16 {
    (i32::from(a).wrapping_mul(i32::from(b)) >> 16) as i16
}

/// Returns `a b / 2^16` modulo `q`, for `|a b| < 2^15 q`.
#[inline(always)]
fn mont(a: i16, b: i16) -> i16 {
    let quotient = a.wrapping_mul(b).wrapping_mul(Q_INVERSE);
    // The low halves of a b and quotient q agree, so the high halves subtract exactly.
    high(a, b).wrapping_sub(high(quotient, Q))
}

/// The same for a constant `b`, given together with its product with `q^-1`.
#[inline(always)]
fn mont_by(a: i16, b: i16, scaled: i16) -> i16 {
    high(a, b).wrapping_sub(high(a.wrapping_mul(scaled), Q))
}

/// Returns a reduced representative of any 16-bit number.
#[inline(always)]
fn barrett(a: i16) -> i16 {
    // `high` and the shift divide by the `2^27` of the constant; `2^10` makes that round to nearest.
    let quotient = high(a, BARRETT).wrapping_add(1 << 10) >> 11;
    a.wrapping_sub(quotient.wrapping_mul(Q))
}

/// Returns the representative in `[-(q-1)/2, (q-1)/2]` of a number below `3/2 q`. Uses signs as masks, since the
/// compiler turned conditions into branchless scalar code for each lane.
#[inline(always)]
pub(crate) fn centre(a: i16) -> i16 {
    let half = Q / 2;
    // Neither sum leaves 16 bits: `3/2 q + q/2` is 24578.
    // All ones where `a` is above `q/2`, and where it is below `-q/2`.
    let (above, below) = ((half - a) >> 15, (a + half) >> 15);
    a - (above & Q) + (below & Q)
}

impl<const L: usize, const N: usize> Zeroize for Polys<L, N> {
    fn zeroize(&mut self) {
        self.0.as_flattened_mut().zeroize();
    }
}

impl<const L: usize, const N: usize> Polys<L, N> {
    /// All zero.
    pub(crate) const ZERO: Self = Self([[0; L]; N]);

    /// All zero, on the heap.
    #[must_use]
    pub(crate) fn zero() -> Box<Self> {
        Box::new(Self::ZERO)
    }

    /// Sets polynomial `lane` to these coefficients, any 16-bit numbers that `reduce` accepts.
    ///
    /// # Panics
    /// If there is no such lane.
    #[inline(always)]
    pub(crate) fn load(&mut self, lane: usize, coefficients: &[i16; N]) {
        assert!(lane < L, "a lane below {L}");
        for (row, &c) in self.0.iter_mut().zip(coefficients) {
            row[lane] = c;
        }
    }

    /// Copies the coefficients of polynomial `lane`.
    ///
    /// # Panics
    /// If there is no such lane.
    #[inline(always)]
    pub(crate) fn store(&self, lane: usize, coefficients: &mut [i16; N]) {
        assert!(lane < L, "a lane below {L}");
        for (row, c) in self.0.iter().zip(coefficients) {
            *c = row[lane];
        }
    }

    /// Sets the first polynomials to these coefficients, any 16-bit numbers that `reduce` accepts. Works
    /// on 8-by-8 squares, since a single lane is scattered over all rows.
    ///
    /// # Panics
    /// If there are more polynomials than lanes, or the number of lanes is not a multiple of eight.
    #[inline(always)]
    pub(crate) fn load_all<V: Vectors>(&mut self, polynomials: &[&[i16; N]]) {
        assert!(
            polynomials.len() <= L && L.is_multiple_of(SQUARE),
            "at most {L} lanes"
        );
        for (first, lanes) in polynomials.chunks(SQUARE).enumerate() {
            for (at, rows) in self.0.as_chunks_mut::<SQUARE>().0.iter_mut().enumerate() {
                let mut square = [[0; SQUARE]; SQUARE];
                for (row, lane) in square.iter_mut().zip(lanes) {
                    row.copy_from_slice(&lane[SQUARE * at..SQUARE * (at + 1)]);
                }
                transpose::<V>(&mut square);
                for (row, square) in rows.iter_mut().zip(&square) {
                    row[SQUARE * first..SQUARE * (first + 1)].copy_from_slice(square);
                }
            }
        }
    }

    /// Copies the coefficients of the first polynomials, one for each of `out`, in the manner of
    /// [`Polys::load_all`].
    ///
    /// # Panics
    /// If there are more outputs than lanes, or the number of lanes is not a multiple of eight.
    #[inline(always)]
    pub(crate) fn store_all<V: Vectors>(&self, out: &mut [&mut [i16; N]]) {
        assert!(
            out.len() <= L && L.is_multiple_of(SQUARE),
            "at most {L} lanes"
        );
        for (first, lanes) in out.chunks_mut(SQUARE).enumerate() {
            for (at, rows) in self.0.as_chunks::<SQUARE>().0.iter().enumerate() {
                let mut square = [[0; SQUARE]; SQUARE];
                for (square, row) in square.iter_mut().zip(rows) {
                    square.copy_from_slice(&row[SQUARE * first..SQUARE * (first + 1)]);
                }
                transpose::<V>(&mut square);
                for (lane, square) in lanes.iter_mut().zip(&square) {
                    lane[SQUARE * at..SQUARE * (at + 1)].copy_from_slice(square);
                }
            }
        }
    }

    /// Applies a function to each number.
    #[inline(always)]
    fn each(&mut self, f: impl Fn(i16) -> i16) {
        for row in &mut self.0 {
            for x in row {
                *x = f(*x);
            }
        }
    }

    /// Replaces numbers by reduced ones.
    #[inline(always)]
    pub(crate) fn reduce(&mut self) {
        self.each(barrett);
    }

    /// Replaces reduced numbers by those in `[-(q-1)/2, (q-1)/2]`.
    #[inline(always)]
    pub(crate) fn centre(&mut self) {
        self.each(centre);
    }

    /// Recovers reduced polynomials from reduced values.
    #[inline(always)]
    pub(crate) fn inverse(&mut self) {
        self.inverse_unscaled();
        self.each(|x| barrett(mont(x, const { inverse_of(N) })));
    }

    /// Multiplies reduced values by reduced values, row by row; reduced.
    #[inline(always)]
    pub(crate) fn multiply(&mut self, other: &Self) {
        for (row, by) in self.0.iter_mut().zip(&other.0) {
            for (x, &y) in row.iter_mut().zip(by) {
                // Neither factor has a power of `2^16` in it, so the second product restores what the first one
                // divides by.
                *x = barrett(mont(mont(*x, y), SQUARED));
            }
        }
    }

    /// Subtracts reduced numbers from reduced numbers; reduced.
    #[inline(always)]
    pub(crate) fn subtract(&mut self, other: &Self) {
        for (row, by) in self.0.iter_mut().zip(&other.0) {
            for (x, &y) in row.iter_mut().zip(by) {
                // At most 12,300, so this needs no wrapping.
                *x = barrett(*x - y);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_labrador::{Dispatch, KERNELS, Pass};
    use proptest::prelude::*;

    fn schoolbook<const N: usize>(a: &[i16; N], b: &[i16; N]) -> [i16; N] {
        let mut out = [0i64; N];
        for (i, &x) in a.iter().enumerate() {
            for (j, &y) in b.iter().enumerate() {
                let product = i64::from(x) * i64::from(y);
                if i + j < N {
                    out[i + j] += product;
                } else {
                    out[i + j - N] -= product;
                }
            }
        }
        out.map(|c| {
            let residue = c.rem_euclid(i64::from(Q)) as i16;
            if residue > Q / 2 {
                residue - Q
            } else {
                residue
            }
        })
    }

    fn polynomial<const N: usize>() -> impl Strategy<Value = [i16; N]> {
        let coefficient = prop_oneof![
            -6144i16..=6144,
            Just(6144),
            Just(-6144),
            Just(i16::MAX),
            Just(i16::MIN),
            any::<i16>(),
        ];
        proptest::collection::vec(coefficient, N)
            .prop_map(|v| v.try_into().expect("N coefficients"))
    }

    /// The product of two polynomials in one lane, as the kernels of a level compute it.
    struct Product<'a, const L: usize, const N: usize>(usize, [&'a [i16; N]; 2]);

    impl<const L: usize, const N: usize> Pass for Product<'_, L, N> {
        type Output = [i16; N];

        #[inline(always)]
        fn run<V: Vectors>(self) -> [i16; N] {
            let Self(lane, [a, b]) = self;
            let (mut x, mut y) = (Polys::<L, N>::zero(), Polys::<L, N>::zero());
            x.load(lane, a);
            y.load(lane, b);
            for polys in [&mut x, &mut y] {
                polys.reduce();
                polys.forward();
            }
            x.multiply(&y);
            x.inverse();
            x.centre();
            let mut out = [0; N];
            x.store(lane, &mut out);
            out
        }
    }

    fn products_match<const N: usize>(lane: usize, a: &[i16; N], b: &[i16; N]) {
        let expected = schoolbook(a, b);
        for backend in KERNELS.available() {
            let found = backend.run(Product::<LANES, N>(lane, [a, b]));
            assert_eq!(found, expected, "{backend}, degree {N}");
            let found = backend.run(Product::<1, N>(0, [a, b]));
            assert_eq!(found, expected, "{backend}, degree {N}, alone");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn products_match_the_schoolbook(
            (a, b) in (polynomial::<512>(), polynomial::<512>()),
            (c, d) in (polynomial::<1024>(), polynomial::<1024>()),
            lane in 0..LANES,
        ) {
            products_match(lane, &a, &b);
            products_match(lane, &c, &d);
        }
    }

    fn extremes_keep_their_bounds<const N: usize>() {
        for extreme in [REDUCED, -REDUCED] {
            let mut polys = Box::new(Polys([[extreme; 2]; N]));
            let before = polys.clone();
            polys.forward();
            assert!(polys.0.iter().flatten().all(|x| x.abs() <= REDUCED));
            polys.inverse();
            assert!(polys.0.iter().flatten().all(|x| x.abs() <= REDUCED));
            for (x, y) in polys.0.iter().flatten().zip(before.0.iter().flatten()) {
                assert_eq!((x - y) % Q, 0);
            }
        }
    }

    #[test]
    fn extreme_numbers_keep_their_bounds() {
        extremes_keep_their_bounds::<512>();
        extremes_keep_their_bounds::<1024>();
    }

    /// The table for degree 512 is the first half of that for 1024: powers of 49, of order 1024.
    #[test]
    fn one_table_has_the_roots_of_both_degrees() {
        for (i, &root) in ROOTS[..512].iter().enumerate() {
            let reversed = (i as u16).reverse_bits() >> 7;
            assert_eq!(root, montgomery(power(49, i64::from(reversed))), "{i}");
        }
        assert_eq!(power(ROOT, 1024), i64::from(Q) - 1);
    }

    #[test]
    fn every_number_is_reduced_to_its_residue() {
        for a in i16::MIN..=i16::MAX {
            let reduced = barrett(a);
            assert!(reduced.abs() <= REDUCED, "{a}");
            assert_eq!((i32::from(a) - i32::from(reduced)) % i32::from(Q), 0, "{a}");
            assert!(centre(reduced).abs() <= Q / 2, "{a}");
        }
    }

    /// Loads polynomials and stores them again.
    struct Through<'a, const N: usize>(&'a [[i16; N]]);

    impl<const N: usize> Pass for Through<'_, N> {
        type Output = (Box<Polys<LANES, N>>, Vec<[i16; N]>);

        #[inline(always)]
        fn run<V: Vectors>(self) -> Self::Output {
            let mut polys = Polys::zero();
            polys.load_all::<V>(&self.0.iter().collect::<Vec<_>>());
            let mut out = vec![[0; N]; self.0.len()];
            polys.store_all::<V>(&mut out.iter_mut().collect::<Vec<_>>());
            (polys, out)
        }
    }

    fn go_through<const N: usize>() {
        let number = |lane: usize, k: usize| (lane * 1021 + k * 37 + 1) as i16;
        for count in [0, 1, 7, 8, 21, LANES] {
            let all: Vec<[i16; N]> = (0..count)
                .map(|lane| std::array::from_fn(|k| number(lane, k)))
                .collect();
            for backend in KERNELS.available() {
                let (polys, out) = backend.run(Through(&all));
                assert_eq!(out, all, "{backend}");
                let mut one = Polys::<LANES, N>::zero();
                for (lane, coefficients) in all.iter().enumerate() {
                    one.load(lane, coefficients);
                }
                assert_eq!(polys, one, "{backend}");
            }
        }
    }

    #[test]
    fn lanes_are_loaded_and_stored_on_every_level() {
        go_through::<512>();
        go_through::<1024>();
    }
}
