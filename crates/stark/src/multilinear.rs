//! Multilinear polynomials by their values on the cube, and weights eq(r, x).
//!
//! The first coordinate of a point belongs to the highest bit of an index.

use std::ops::{Add, Mul, Sub};

/// The values that the functions here compute with: elements, or their representation in a verifier.
pub(crate) trait Scalar:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
}

impl<T: Copy + Add<Output = T> + Sub<Output = T> + Mul<Output = T>> Scalar for T {}

/// eq(point, x) for all x, times `scale`.
pub(crate) fn eq_table<E: Scalar>(scale: E, point: &[E]) -> Vec<E> {
    let mut table = vec![scale];
    for r in point {
        table = table
            .iter()
            .flat_map(|weight| {
                // weight·(1 − r) is the rest, so two vertices cost one product.
                let high = *weight * *r;
                [*weight - high, high]
            })
            .collect();
    }
    table
}

/// eq(point, index) for one index of the same number of bits.
pub(crate) fn eq_at<E: Scalar>(one: E, point: &[E], index: usize) -> E {
    let bits = point.len();
    point
        .iter()
        .enumerate()
        .fold(one, |product, (i, r)| match index >> (bits - 1 - i) & 1 {
            1 => product * *r,
            _ => product * (one - *r),
        })
}

/// eq(a, b) of two points.
pub(crate) fn eq_points<E: Scalar>(one: E, a: &[E], b: &[E]) -> E {
    a.iter().zip(b).fold(one, |product, (x, y)| {
        // x·y + (1 − x)(1 − y), with one product instead of two: in a circuit each is a row.
        let both = *x * *y;
        product * (one - *x - *y + both + both)
    })
}

/// The value at a point of the multilinear polynomial with these values.
///
/// # Panics
/// If there are not 2^(coordinates) values.
pub(crate) fn evaluate<E: Scalar>(values: &[E], point: &[E]) -> E {
    assert_eq!(values.len(), 1 << point.len(), "a value for each vertex");
    let mut values = values.to_vec();
    for r in point {
        let half = values.len() / 2;
        values = (0..half)
            .map(|x| values[x] + *r * (values[half + x] - values[x]))
            .collect();
    }
    values[0]
}

/// Σ_i c_i x^i.
pub(crate) fn horner<E: Scalar>(zero: E, coefficients: &[E], x: E) -> E {
    coefficients.iter().rev().fold(zero, |sum, c| sum * x + *c)
}

/// 1, x, x², …
pub(crate) fn powers<E: Scalar>(one: E, x: E, count: usize) -> Vec<E> {
    std::iter::successors(Some(one), |power| Some(*power * x))
        .take(count)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extension::Ext;
    use crate::field::Fp;
    use crate::test_random::Random;

    #[test]
    fn weights_are_the_lagrange_basis_of_the_cube() {
        let mut random = Random::new(1);
        let point = random.exts(5);
        let values = random.exts(32);
        let table = eq_table(Ext::ONE, &point);
        let sum: Ext = table.iter().zip(&values).map(|(w, v)| *w * *v).sum();
        assert_eq!(sum, evaluate(&values, &point));
        for (x, weight) in table.iter().enumerate() {
            assert_eq!(eq_at(Ext::ONE, &point, x), *weight);
            let vertex: Vec<Ext> = (0..5)
                .map(|i| Ext::from(Fp::new((x >> (4 - i) & 1) as u32)))
                .collect();
            assert_eq!(evaluate(&values, &vertex), values[x]);
        }
        let x = random.ext();
        let direct: Ext = powers(Ext::ONE, x, 32)
            .iter()
            .zip(&values)
            .map(|(p, v)| *p * *v)
            .sum();
        assert_eq!(horner(Ext::ZERO, &values, x), direct);
    }
}
