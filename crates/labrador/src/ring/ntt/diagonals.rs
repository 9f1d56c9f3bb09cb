//! Products of weights and all columns of a Toeplitz matrix, as a verifier's later levels need them of a key.

use super::{Bound, Ntt, PRODUCTS_MAX, Scaled, rows};
use crate::kernel::{Vector, Vectors};

impl Ntt {
    /// Adds `sum_r line[n - 1 - i + r] weights[r]` to sum `i` of `n`. This covers all columns of a Toeplitz matrix,
    /// whose diagonals are read once per vector of values instead of once per column. The values of the line may be
    /// those of [`Ntt::by_x_loosely_in`].
    ///
    /// # Panics
    /// If the length of the line is not one less than the number of sums and weights together, or there are more than
    /// 32 of either.
    #[inline(always)]
    pub(crate) fn add_diagonals_in<V: Vectors>(
        sums: &mut [Self],
        line: &[&Self],
        weights: &[Scaled],
        scratch: &mut Diagonals<V>,
    ) {
        let (count, rows) = (sums.len(), weights.len());
        assert!(count <= PRODUCTS_MAX && rows <= PRODUCTS_MAX);
        assert_eq!(line.len() + 1, count + rows);
        let (mut of_line, mut bound) = (Bound::ZERO, Bound::ZERO);
        for element in line {
            of_line = of_line.or(element.bound);
        }
        for weight in weights {
            bound = bound.plus(of_line.times(weight.0.bound));
        }
        for sum in &mut *sums {
            sum.bound = sum.bound.plus(bound);
        }
        let neighbours = &mut scratch.neighbours[..line.len()];
        let factors = &mut scratch.factors[..rows.div_ceil(2)];
        let mut at = 0;
        while at < rows::SIZE {
            // No closure contains a step of a level: it would not be compiled for its instructions.
            let mut next = V::Wide::load(&rows::ZERO.0);
            for (neighbours, element) in neighbours.iter_mut().zip(line).rev() {
                let own = V::Wide::load(&element.rows.0[at..]);
                *neighbours = own.interleave(next);
                next = own;
            }
            for (factor, two) in factors.iter_mut().zip(weights.chunks(2)) {
                let second = two.get(1).map_or(&rows::ZERO, |weight| &weight.0.rows);
                let own = V::Wide::load(&two[0].0.rows.0[at..]);
                *factor = own.interleave(V::Wide::load(&second.0[at..]));
            }
            let mut first = 0;
            while first < count {
                if first + 2 * BLOCK <= count {
                    // Sums of even distance share operands: eight sums are two interleaved blocks of four.
                    add_block::<V::Wide, BLOCK>(&mut sums[first..], neighbours, factors, at);
                    add_block::<V::Wide, BLOCK>(&mut sums[first + 1..], neighbours, factors, at);
                    first += 2 * BLOCK;
                } else {
                    add_block::<V::Wide, 1>(&mut sums[first..], neighbours, factors, at);
                    first += 1;
                }
            }
            at += <V::Wide as Vector>::LANES;
        }
    }
}

/// Scratch space for what [`Ntt::add_diagonals_in`] reads repeatedly; overwritten by each call.
pub(crate) struct Diagonals<V: Vectors> {
    /// For each two neighbours of a line, their vectors interleaved.
    neighbours: [(V::Wide, V::Wide); 2 * PRODUCTS_MAX],
    /// For each two weights, their vectors interleaved.
    factors: [(V::Wide, V::Wide); PRODUCTS_MAX / 2],
}

impl<V: Vectors> Diagonals<V> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        let zero = V::Wide::load(&rows::ZERO.0);
        Self {
            neighbours: [(zero, zero); 2 * PRODUCTS_MAX],
            factors: [(zero, zero); PRODUCTS_MAX / 2],
        }
    }
}

/// Sums per block: they stay in registers, and shared operands are loaded once for all.
const BLOCK: usize = 4;

/// Adds the products of every other one of the first `2 N - 1` of the remaining sums. Sums two apart share operands,
/// since a step of two along the line matches the pairs of weights.
#[inline(always)]
fn add_block<V: Vector, const N: usize>(
    sums: &mut [Ntt],
    neighbours: &[(V, V)],
    factors: &[(V, V)],
    at: usize,
) {
    let own = &neighbours[sums.len() + 1 - 2 * N..];
    let mut products = [V::no_sums(); N];
    for (k, factor) in factors.iter().enumerate() {
        let own = &own[2 * k..2 * k + 2 * N - 1];
        for (n, products) in products.iter_mut().enumerate() {
            *products = V::accumulate(*products, own[2 * (N - 1 - n)], *factor);
        }
    }
    for (sum, products) in sums.iter_mut().step_by(2).zip(products) {
        rows::add_scaled_sums::<V>(&mut sum.rows.0[at..], products, 2 * factors.len());
    }
}
