//! Elements of `R` as residues at the roots of `X^64 + 1`, where products are pointwise.

use super::portable::{self, PRODUCTS_MAX, Plane};
use super::residues::{BOUND, PRIMES, TABLES};
use super::{DEGREE, Q, Rq, Small};

/// An **integer** polynomial (not reduced modulo `Q`) in residues modulo eight primes, evaluated
/// at the roots of `X^64 + 1`.
///
/// Each value carries a bound of its coefficients that depends on the operations alone, never on
/// the data; leaving the residues for [`Rq`] asserts that the bound is below half the product of
/// the primes, so an overflow is impossible rather than rare.
#[derive(Clone)]
pub struct Ntt {
    planes: [Plane; PRIMES],
    bound: u128,
}

impl Ntt {
    /// The zero element.
    #[must_use]
    pub fn zero() -> Self {
        Self {
            planes: [[0; DEGREE]; PRIMES],
            bound: 0,
        }
    }

    /// An element with 16-bit coefficients.
    #[must_use]
    pub fn from_small(x: &Small) -> Self {
        Self::from_small_bounded(x, 1 << 15)
    }

    /// An element whose coefficients are known to be at most `bound` in absolute value.
    #[must_use]
    pub fn from_small_bounded(x: &Small, bound: u16) -> Self {
        debug_assert!(x.0.iter().all(|c| c.unsigned_abs() <= bound));
        let mut out = Self::zero();
        out.bound = u128::from(bound);
        for (plane, t) in out.planes.iter_mut().zip(&TABLES) {
            *plane = portable::residues_of_small(x, t);
            portable::forward(plane, t);
        }
        out
    }

    /// The centred representative of a residue class.
    #[must_use]
    pub fn from_rq(x: &Rq) -> Self {
        Self::from_integers(&x.centred(), Q / 2)
    }

    /// An integer polynomial whose coefficients are at most `bound` in absolute value.
    ///
    /// # Panics
    /// If the bound is not below `2^47`, or a coefficient exceeds it.
    #[must_use]
    pub fn from_integers(centred: &[i64; DEGREE], bound: u64) -> Self {
        assert!(bound < 1 << 47 && centred.iter().all(|c| c.unsigned_abs() <= bound));
        let mut out = Self::zero();
        out.bound = u128::from(bound);
        for (plane, t) in out.planes.iter_mut().zip(&TABLES) {
            *plane = portable::residues_of_centred(centred, t);
            portable::forward(plane, t);
        }
        out
    }

    /// The residue class of this integer polynomial modulo `Q`.
    ///
    /// # Panics
    /// If the operations that made this value allow coefficients beyond the residue system: an
    /// error of the program, whatever the data.
    #[must_use]
    pub fn to_rq(&self) -> Rq {
        assert!(self.bound <= BOUND, "a sum of products was not refreshed");
        let mut planes = self.planes;
        for (plane, t) in planes.iter_mut().zip(&TABLES) {
            portable::inverse(plane, t);
        }
        Rq(portable::lift(&planes))
    }

    /// The centred representative of the class modulo `Q`: the same class, with the smallest
    /// bound.
    #[must_use]
    pub fn refreshed(&self) -> Self {
        Self::from_rq(&self.to_rq())
    }

    /// Adds `other`.
    pub fn add(&mut self, other: &Self) {
        self.bound = self.bound.saturating_add(other.bound);
        for ((a, b), t) in self.planes.iter_mut().zip(&other.planes).zip(&TABLES) {
            portable::add(a, b, t);
        }
    }

    /// The negative.
    #[must_use]
    pub fn negated(&self) -> Self {
        let mut out = self.clone();
        for plane in &mut out.planes {
            *plane = plane.map(|x| -x);
        }
        out
    }

    /// The product.
    #[must_use]
    pub fn times(&self, other: &Self) -> Self {
        let mut out = Self::zero();
        out.bound = product_bound(self, other);
        for (i, t) in TABLES.iter().enumerate() {
            out.planes[i] = portable::multiply(&self.planes[i], &other.planes[i], t);
        }
        out
    }

    /// `X -> X^-1`: the points are ordered so that this reverses each plane.
    #[must_use]
    pub fn sigma(&self) -> Self {
        let mut out = self.clone();
        for plane in &mut out.planes {
            plane.reverse();
        }
        out
    }

    /// The sum of the products of pairs.
    #[must_use]
    pub fn dot<'a>(pairs: impl IntoIterator<Item = (&'a Self, &'a Self)>) -> Self {
        let mut out = Self::zero();
        let mut sums = [[0i32; DEGREE]; PRIMES];
        let mut held = 0;
        for (a, b) in pairs {
            if held == PRODUCTS_MAX {
                out.settle(&mut sums);
                held = 0;
            }
            out.bound = out.bound.saturating_add(product_bound(a, b));
            for (i, sum) in sums.iter_mut().enumerate() {
                portable::accumulate(sum, &a.planes[i], &b.planes[i]);
            }
            held += 1;
        }
        out.settle(&mut sums);
        out
    }

    fn settle(&mut self, sums: &mut [[i32; DEGREE]; PRIMES]) {
        for ((plane, sum), t) in self.planes.iter_mut().zip(sums.iter_mut()).zip(&TABLES) {
            portable::settle(plane, sum, t);
            *sum = [0; DEGREE];
        }
    }
}

/// A coefficient of a product is a sum of 64 products of coefficients.
fn product_bound(a: &Ntt, b: &Ntt) -> u128 {
    a.bound
        .saturating_mul(b.bound)
        .saturating_mul(DEGREE as u128)
}
