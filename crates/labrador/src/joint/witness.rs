//! The prover's vectors: slack, products, conjugates, images.

use std::ops::Range;

use alphorn_exec::{Exec, Stopped};

use super::layout::{BASE, Layout, PRODUCT_DIGITS};
use crate::challenge::arrangement;
use crate::digits::decompose;
use crate::kernel::{Dispatch, Pass, Vectors};
use crate::projection::ROWS;
use crate::ring::{DEGREE, Ntt, Rq, Small};
use crate::transcript::Seed;

/// The slack of a column: squares whose sum is exactly `rest`. The greatest square below what is
/// left leaves at most twice its root, so eight squares suffice below `4 * 10^13`.
pub(crate) fn slack(rest: u64) -> Small {
    let mut out = Small::ZERO;
    let mut left = rest;
    for c in &mut out.0 {
        let root = left.isqrt();
        *c = root as i16;
        left -= root * root;
    }
    out
}

/// `S0` with its slack, from the columns one after another; the rest of the witness is zero.
pub(crate) fn columns(layout: &Layout, witness: &[Small]) -> Vec<Small> {
    let mut s = vec![Small::ZERO; layout.elements()];
    for (i, column) in witness.chunks_exact(layout.rows).enumerate() {
        let norm_sq: u128 = column.iter().map(Small::norm_sq).sum();
        for (row, element) in column.iter().enumerate() {
            s[layout.long_row(row) + i] = element.clone();
        }
        // A prover that did not check its witness gets no slack for a column that is too long.
        let rest = u128::from(layout.norm_sq).saturating_sub(norm_sq);
        s[layout.long_row(layout.rows) + i] = slack(rest as u64);
    }
    s
}

/// The digits of `<s, sigma s>` less its bound, for every column, into `S1`.
///
/// # Errors
/// If nobody waits any more, or none if a digit does not fit.
pub(crate) fn products(
    layout: &Layout,
    s: &mut [Small],
    exec: Exec<'_>,
) -> Result<Option<()>, Stopped> {
    let before = &*s;
    let parts = exec.try_map(layout.columns.div_ceil(CHUNK), |task| {
        let columns = task * CHUNK..layout.columns.min((task + 1) * CHUNK);
        exec.backend().run(Squares {
            layout,
            s: before,
            columns,
        })
    })?;
    for (i, product) in parts.iter().flatten().enumerate() {
        let mut product = product.centred();
        product[0] -= layout.norm_sq as i64;
        let Some(digits) = decompose(&product, BASE, PRODUCT_DIGITS) else {
            return Ok(None);
        };
        for (digit, element) in digits.into_iter().enumerate() {
            s[layout.digit_row(digit) + i] = element;
        }
    }
    Ok(Some(()))
}

/// Columns of a task.
const CHUNK: usize = 256;

/// `<s, sigma s>` of some columns.
struct Squares<'a> {
    layout: &'a Layout,
    s: &'a [Small],
    columns: Range<usize>,
}

impl Pass for Squares<'_> {
    type Output = Vec<Rq>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Vec<Rq> {
        let mut out = Vec::with_capacity(self.columns.len());
        for i in self.columns {
            let mut sum = Ntt::zero();
            for row in 0..self.layout.long_rows() {
                let element = &self.s[self.layout.long_row(row) + i];
                let element = Ntt::from_small_in::<V>(element, 1 << 15);
                sum.add_dot_in::<V>([(&element, &element.sigma())]);
            }
            out.push(sum.to_rq_in::<V>());
        }
        out
    }
}

/// The challenges of all columns, from one stream.
pub(crate) fn alphas(layout: &Layout, seed: &Seed) -> Vec<Small> {
    let mut bytes = seed.stream().bytes();
    (0..layout.columns)
        .map(|_| arrangement(&mut bytes))
        .collect()
}

/// `alpha_i sigma(S0)` into `S2`.
///
/// # Errors
/// If nobody waits any more, or none if a coefficient has no place in 16 bits.
pub(crate) fn conjugates(
    layout: &Layout,
    alphas: &[Ntt],
    s: &mut [Small],
    exec: Exec<'_>,
) -> Result<Option<()>, Stopped> {
    let places = layout.long_rows() * layout.columns;
    let long = &s[..places];
    let parts = exec.try_map(places.div_ceil(CHUNK), |task| {
        let range = task * CHUNK..places.min((task + 1) * CHUNK);
        exec.backend().run(Conjugates {
            layout,
            alphas,
            long,
            range,
        })
    })?;
    let start = layout.conjugate_row(0);
    for (task, part) in parts.into_iter().enumerate() {
        let Some(part) = part else {
            return Ok(None);
        };
        s[start + task * CHUNK..][..part.len()].clone_from_slice(&part);
    }
    Ok(Some(()))
}

/// Some elements of `S2`.
struct Conjugates<'a> {
    layout: &'a Layout,
    alphas: &'a [Ntt],
    long: &'a [Small],
    range: Range<usize>,
}

impl Pass for Conjugates<'_> {
    type Output = Option<Vec<Small>>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Option<Vec<Small>> {
        let mut out = Vec::with_capacity(self.range.len());
        for place in self.range {
            let element = Ntt::from_small_in::<V>(&self.long[place], 1 << 15).sigma();
            let alpha = &self.alphas[place % self.layout.columns];
            let product = alpha.times_in::<V>(&element).to_rq_in::<V>().centred();
            let mut small = Small::ZERO;
            let mut rest = 0;
            for (o, c) in small.0.iter_mut().zip(product) {
                *o = c as i16;
                rest |= c - i64::from(*o);
            }
            if rest != 0 {
                return None;
            }
            out.push(small);
        }
        Some(out)
    }
}

/// The digits of all images into `Y`. None if an upper digit has no place in 16 bits.
pub(crate) fn image_digits(layout: &Layout, images: &[[i64; ROWS]], s: &mut [Small]) -> Option<()> {
    let (start, count) = (layout.image_start(), layout.image_elements());
    let elements = images
        .iter()
        .flat_map(|image| image.as_chunks::<DEGREE>().0);
    for (index, element) in elements.enumerate() {
        let mut digits = decompose(element, BASE, 2)?.into_iter();
        s[start + index] = digits.next()?;
        s[start + count + index] = digits.next()?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slack_is_a_sum_of_few_squares() {
        let limit = super::super::COLUMN_NORM_SQ_MAX;
        for rest in (0..2000).chain((0..2000).map(|i| limit - i)) {
            let slack = slack(rest);
            assert_eq!(slack.norm_sq(), u128::from(rest));
            assert!(slack.0[8..].iter().all(|&c| c == 0));
        }
    }
}
