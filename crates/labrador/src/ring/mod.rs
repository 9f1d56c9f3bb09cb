//! The ring `R = Z[X]/(X^64 + 1)`, its quotient modulo `Q`, and the residues used to compute products.

mod lift;
mod matrix;
mod ntt;
mod product;
mod residues;
mod rows;
mod transform;

use crate::modulus::fold;
pub(crate) use crate::modulus::{Q, RESIDUE_BYTES, add_mod, centred, mul_mod, reduce};
pub(crate) use matrix::{DEPTH, Matrix};

pub(crate) use ntt::Ntt;
pub(crate) use ntt::{Diagonals, Scaled, Transforms};

/// Degree of the ring: `R = Z[X]/(X^64 + 1)`.
pub const DEGREE: usize = 64;

/// An element of `R` with 16-bit coefficients: a witness, a digit or a challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Small(pub [i16; DEGREE]);

impl Small {
    /// The zero element.
    pub(crate) const ZERO: Self = Self([0; DEGREE]);

    /// Returns the squared Euclidean norm: the sum of the squares of all coefficients.
    #[must_use]
    pub(crate) fn norm_sq(&self) -> u128 {
        self.0
            .iter()
            .map(|&c| u128::from(i32::from(c).unsigned_abs().pow(2)))
            .sum()
    }
}

/// Returns the sum of the squared norms of a vector.
#[must_use]
pub fn norm_sq(vector: &[Small]) -> u128 {
    vector.iter().map(Small::norm_sq).sum()
}

/// An element of `R_Q = R / QR`; coefficients lie in `[0, Q)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rq([u64; DEGREE]);

impl Rq {
    /// The zero element.
    pub(crate) const ZERO: Self = Self([0; DEGREE]);

    /// Returns the constant `x`.
    #[must_use]
    pub(crate) fn constant(x: i64) -> Self {
        let mut out = Self::ZERO;
        out.0[0] = reduce(x);
        out
    }

    /// Returns the element with these coefficients, or None if any is not below [`Q`].
    #[must_use]
    pub(crate) fn from_canonical(coefficients: [u64; DEGREE]) -> Option<Self> {
        coefficients
            .iter()
            .all(|&c| c < Q)
            .then_some(Self(coefficients))
    }

    /// Returns the element with these integer coefficients, reduced.
    #[must_use]
    pub(crate) fn from_integers(coefficients: &[i64; DEGREE]) -> Self {
        Self(coefficients.map(reduce))
    }

    /// Returns the image of a short element.
    #[must_use]
    pub(crate) fn from_small(x: &Small) -> Self {
        Self(x.0.map(|c| reduce(i64::from(c))))
    }

    /// Returns the coefficients, each in `[0, Q)`.
    #[must_use]
    pub(crate) fn coefficients(&self) -> &[u64; DEGREE] {
        &self.0
    }

    /// Returns the coefficients, each centred in `[-(Q-1)/2, (Q-1)/2]`.
    #[must_use]
    pub(crate) fn centred(&self) -> [i64; DEGREE] {
        self.0.map(centred)
    }

    /// Replaces the constant coefficient by a residue in `[0, Q)`.
    ///
    /// # Panics
    /// If `x` is not below [`Q`].
    pub(crate) fn set_constant(&mut self, x: u64) {
        assert!(x < Q, "a residue is below the modulus");
        self.0[0] = x;
    }

    /// Adds `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a = add_mod(*a, *b);
        }
    }

    /// Subtracts `other`.
    pub(crate) fn sub(&mut self, other: &Self) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a = add_mod(*a, if *b == 0 { 0 } else { Q - *b });
        }
    }

    /// Returns the product with a scalar in `[0, Q)`.
    #[must_use]
    pub(crate) fn scaled(&self, scalar: u64) -> Self {
        Self(self.0.map(|c| mul_mod(c, scalar)))
    }

    /// Returns the sum of the products of three elements and scalars in `[0, Q)`, reduced only once: the sum of three
    /// products is below `2^98`.
    #[must_use]
    pub(crate) fn weighted(elements: [&Self; 3], scalars: &[u64; 3]) -> Self {
        Self(std::array::from_fn(|k| {
            let terms = elements.iter().zip(scalars);
            fold(
                terms
                    .map(|(x, &c)| u128::from(x.0[k]) * u128::from(c))
                    .sum(),
            )
        }))
    }

    /// Applies `X -> X^-1`, the automorphism with `<a, b> = ct(sigma(a) b)` on coefficient vectors.
    #[must_use]
    pub(crate) fn sigma(&self) -> Self {
        let mut out = Self::ZERO;
        out.0[0] = self.0[0];
        for k in 1..DEGREE {
            out.0[DEGREE - k] = if self.0[k] == 0 { 0 } else { Q - self.0[k] };
        }
        out
    }
}

/// Returns the exact inner product of the coefficient vectors of `a` and `b` modulo [`Q`], which is the
/// constant coefficient of `sigma(a) b`.
#[must_use]
#[cfg(test)]
pub(crate) fn inner_product(a: &Rq, b: &Small) -> u64 {
    // 64 products below 2^48 * 2^15 stay below 2^69.
    let sum: i128 = (a.0.iter().zip(&b.0))
        .map(|(&x, &y)| i128::from(centred(x)) * i128::from(y))
        .sum();
    crate::modulus::reduce_wide((sum + (i128::from(Q) << 40)) as u128)
}

#[cfg(test)]
mod tests;
