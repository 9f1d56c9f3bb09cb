//! The field `F = F_Q[Z]/(Z^3 - Z - 2)` of `2^144` elements, from which sumchecks draw their challenges.
//!
//! `Z^3 - Z - 2` has no root modulo `Q`, so it is irreducible; a test checks this. Three parallel sumchecks
//! over `F_Q` would not be enough: under Fiat-Shamir each could be attacked on its own, round by round.

use crate::modulus::{Q, add_mod, centred, fold, reduce};
use crate::transcript::Stream;

/// Coordinates per element.
pub(crate) const COORDINATES: usize = 3;

/// `x_0 + x_1 Z + x_2 Z^2`, coordinates in `[0, Q)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct F(pub(crate) [u64; COORDINATES]);

impl F {
    pub(crate) const ZERO: Self = Self([0; COORDINATES]);
    pub(crate) const ONE: Self = Self([1, 0, 0]);

    /// Embeds an integer.
    pub(crate) fn of(x: i64) -> Self {
        Self([reduce(x), 0, 0])
    }

    /// `Z^k` for `k < 3`.
    pub(crate) fn power_of_z(k: usize) -> Self {
        let mut out = Self::ZERO;
        out.0[k] = 1;
        out
    }

    /// Draws the next element of a stream. No element has a probability above `2^-141`.
    pub(crate) fn draw(stream: &mut Stream) -> Self {
        Self(std::array::from_fn(|_| stream.residue()))
    }

    /// Returns the element with these coordinates, if they are all below `Q`.
    pub(crate) fn from_canonical(x: [u64; COORDINATES]) -> Option<Self> {
        x.iter().all(|&c| c < Q).then_some(Self(x))
    }

    #[inline(always)]
    pub(crate) fn plus(self, other: Self) -> Self {
        Self(std::array::from_fn(|k| add_mod(self.0[k], other.0[k])))
    }

    #[inline(always)]
    pub(crate) fn minus(self, other: Self) -> Self {
        let negative = |x: u64| if x == 0 { 0 } else { Q - x };
        Self(std::array::from_fn(|k| {
            add_mod(self.0[k], negative(other.0[k]))
        }))
    }

    /// Returns the product. `Z^3 = Z + 2` and `Z^4 = Z^2 + 2 Z`; no sum has more than six products.
    #[inline(always)]
    pub(crate) fn times(self, other: Self) -> Self {
        let ([a, b, c], [x, y, z]) = (self.0.map(u128::from), other.0.map(u128::from));
        let (third, fourth) = (b * z + c * y, c * z);
        Self([
            fold(a * x + 2 * third),
            fold(a * y + b * x + third + 2 * fourth),
            fold(a * z + b * y + c * x + fourth),
        ])
    }

    #[inline(always)]
    pub(crate) fn square(self) -> Self {
        self.times(self)
    }

    /// Returns the lower 24 bits and the upper bits of the centred coordinates. Products of either with 16-bit
    /// numbers leave room in 64 bits for sums of `2^24` of them.
    #[inline(always)]
    pub(crate) fn halves(self) -> [(i32, i32); COORDINATES] {
        self.0.map(|x| {
            let x = centred(x);
            ((x & 0xff_ffff) as i32, (x >> 24) as i32)
        })
    }
}

/// Returns `prod_b (p_b x_b + (1 - p_b) (1 - x_b))` for all `x` in `{0, 1}^n`: bit `b` of the index is `x_b`.
pub(crate) fn eq_table(point: &[F]) -> Vec<F> {
    let mut out = Vec::with_capacity(1 << point.len());
    out.push(F::ONE);
    for &p in point {
        for index in 0..out.len() {
            let high = out[index].times(p);
            // `x (1 - p) = x - x p`: one product for both entries.
            out[index] = out[index].minus(high);
            out.push(high);
        }
    }
    out
}

/// The same at a single point.
pub(crate) fn eq(p: &[F], x: &[F]) -> F {
    debug_assert_eq!(p.len(), x.len());
    (p.iter().zip(x)).fold(F::ONE, |product, (&p, &x)| {
        // p x + (1 - p) (1 - x) = 1 - p - x + 2 p x.
        let both = p.times(x);
        let factor = F::ONE.minus(p).minus(x).plus(both).plus(both);
        product.times(factor)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::Seed;

    fn power(base: F, exponent: u64) -> F {
        let bits = (0..64).rev();
        bits.fold(F::ONE, |x, bit| {
            let square = x.square();
            if exponent >> bit & 1 == 1 {
                square.times(base)
            } else {
                square
            }
        })
    }

    /// `Z^Q` is a root different from `Z`, and applying the power of `Q` three times gives `Z` again. So the
    /// polynomial has an irreducible factor of degree three, which is the polynomial itself.
    #[test]
    fn the_polynomial_is_irreducible() {
        let z = F::power_of_z(1);
        let cube = |x: F| x.square().times(x).minus(x).minus(F::of(2));
        let once = power(z, Q);
        let twice = power(once, Q);
        assert_eq!([cube(z), cube(once), cube(twice)], [F::ZERO; 3]);
        assert_eq!(power(twice, Q), z);
        // If Z^Q - Z were a zero divisor, the polynomial would have a factor with a root in F_Q. Its
        // norm is the product of its three conjugates.
        let differences = [once.minus(z), twice.minus(once), z.minus(twice)];
        let norm = differences[0].times(differences[1]).times(differences[2]);
        assert_ne!(norm.0[0], 0);
        // -27 * 4 + 4 is the discriminant up to its sign; that it is a square, as here, says the same.
        assert_eq!(norm.0[1..], [0, 0]);
        assert_eq!(norm.square(), F::of(4 - 27 * 4));
    }

    #[test]
    fn products_are_those_of_polynomials() {
        let mut stream = Seed::of_name("field").stream();
        for _ in 0..200 {
            let [a, b, c] = std::array::from_fn(|_| F::draw(&mut stream));
            assert_eq!(a.times(b), b.times(a));
            assert_eq!(a.times(b.plus(c)), a.times(b).plus(a.times(c)));
            assert_eq!(a.times(b).times(c), a.times(b.times(c)));
            assert_eq!(a.minus(a), F::ZERO);
            assert_eq!(a.times(F::of(-3)), F::ZERO.minus(a.plus(a).plus(a)));
        }
        let largest = F([Q - 1; 3]);
        let minus = F([1; 3]);
        assert_eq!(largest.square(), minus.square());
    }

    #[test]
    fn tables_and_points_agree() {
        let mut stream = Seed::of_name("points").stream();
        let point: Vec<F> = (0..5).map(|_| F::draw(&mut stream)).collect();
        for (index, &value) in eq_table(&point).iter().enumerate() {
            let bits: Vec<F> = (0..5).map(|b| F::of((index >> b & 1) as i64)).collect();
            assert_eq!(eq(&point, &bits), value);
        }
    }

    #[test]
    fn halves_are_joined_again() {
        use crate::lanes::joined;
        let mut stream = Seed::of_name("halves").stream();
        for _ in 0..100 {
            let x = F::draw(&mut stream);
            let joined = x
                .halves()
                .map(|(low, high)| joined(low.into(), high.into()));
            assert_eq!(F(joined), x);
        }
    }
}
