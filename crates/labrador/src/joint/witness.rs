//! The prover's vectors: slack, products, conjugates, images.

use super::layout::{BASE, Layout, PRODUCT_DIGITS};
use crate::challenge::arrangement;
use crate::digits::decompose;
use crate::projection::ROWS;
use crate::ring::{DEGREE, Ntt, Small};
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

/// The digits of `<s, sigma s>` less its bound, for every column, into `S1`. None if one does not
/// fit.
pub(crate) fn products(layout: &Layout, s: &mut [Small]) -> Option<()> {
    for i in 0..layout.columns {
        let column: Vec<Ntt> = (0..layout.long_rows())
            .map(|row| Ntt::from_small(&s[layout.long_row(row) + i]))
            .collect();
        let conjugates: Vec<Ntt> = column.iter().map(Ntt::sigma).collect();
        let mut product = Ntt::dot(column.iter().zip(&conjugates)).to_rq().centred();
        product[0] -= layout.norm_sq as i64;
        for (digit, element) in decompose(&product, BASE, PRODUCT_DIGITS)?
            .into_iter()
            .enumerate()
        {
            s[layout.digit_row(digit) + i] = element;
        }
    }
    Some(())
}

/// The challenges of all columns, from one stream.
pub(crate) fn alphas(layout: &Layout, seed: &Seed) -> Vec<Ntt> {
    let mut stream = seed.stream();
    (0..layout.columns)
        .map(|_| Ntt::from_small_bounded(&arrangement(&mut stream), 2))
        .collect()
}

/// `alpha_i sigma(S0)` into `S2`. None if a coefficient has no place in 16 bits.
pub(crate) fn conjugates(layout: &Layout, alphas: &[Ntt], s: &mut [Small]) -> Option<()> {
    for row in 0..layout.long_rows() {
        for (i, alpha) in alphas.iter().enumerate() {
            let element = Ntt::from_small(&s[layout.long_row(row) + i]).sigma();
            let product = alpha.times(&element).to_rq().centred();
            let mut out = Small::ZERO;
            for (o, c) in out.0.iter_mut().zip(product) {
                *o = i16::try_from(c).ok()?;
            }
            s[layout.conjugate_row(row) + i] = out;
        }
    }
    Some(())
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
