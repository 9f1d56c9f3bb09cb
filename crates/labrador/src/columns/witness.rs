//! The prover's additional rows: slack and quotients.

use alphorn_exec::Exec;

use super::layout::{Layout, QUOTIENT_MAX};
use super::relation::{IntegerProduct, Relation};
use crate::error::Invalid;
use crate::kernel::Dispatch;
use crate::ring::{DEGREE, Small};

/// Returns the slack of a column: squares whose sum is exactly `rest`. Subtracting the largest square
/// leaves at most twice its root, so eight squares suffice below `4 * 10^13`.
pub(super) fn slack(rest: u64) -> Small {
    let mut out = Small::ZERO;
    let mut left = rest;
    for c in &mut out.0 {
        let root = left.isqrt();
        *c = root as i16;
        left -= root * root;
    }
    out
}

/// Columns per task.
const CHUNK: usize = 64;

/// Maximum of a quotient: times a modulus below `2^15`, it stays below `2^63`.
const LARGEST: i64 = 1 << 48;

/// Returns the inverse of an odd number modulo `2^64`.
fn inverse(q: u64) -> u64 {
    // Each step doubles the number of correct bits, which is three at first for an odd number.
    (0..5).fold(q, |x, _| {
        x.wrapping_mul(2u64.wrapping_sub(q.wrapping_mul(x)))
    })
}

/// Returns the quotients `(s1 + h s2 - c) / q` of a column, rounded where the relation is false, and whether
/// it holds.
fn quotients(
    relation: &Relation<'_>,
    column: usize,
    s: &[Small],
    exec: Exec<'_>,
) -> (Vec<i64>, bool) {
    let inverse = inverse(relation.modulus()) as i64;
    let (s1, s2) = s.split_at(s.len() / 2);
    let product = exec.backend().run(IntegerProduct {
        factor: relation.factors()[column],
        s: &s2.iter().collect::<Vec<_>>(),
    });
    let target = relation.with_targets(column..column + 1, |targets| targets[0].to_vec());
    let q = relation.modulus() as i64;
    let mut exact = true;
    let mut quotients = Vec::with_capacity(product.len());
    let targets = target.as_chunks::<DEGREE>().0;
    for ((product, s1), target) in product.as_chunks::<DEGREE>().0.iter().zip(s1).zip(targets) {
        for ((product, &s1), &target) in product.iter().zip(&s1.0).zip(target) {
            let sum = i64::from(s1) + product - i64::from(target);
            // A multiple of q modulo 2^64 by a number this small is a multiple over the integers.
            let quotient = sum.wrapping_mul(inverse);
            let is_multiple = (-LARGEST..=LARGEST).contains(&quotient);
            exact &= is_multiple;
            quotients.push(if is_multiple {
                quotient
            } else {
                sum.div_euclid(q)
            });
        }
    }
    (quotients, exact)
}

/// Checks the relation of all columns and the norms of their quotients.
pub(super) fn check(
    layout: &Layout,
    relation: &Relation<'_>,
    columns: &[Small],
    exec: Exec<'_>,
) -> Result<(), Invalid> {
    let each = 2 * layout.extension;
    let parts = exec.try_map(layout.columns.div_ceil(CHUNK), |task| {
        let mut own = task * CHUNK..layout.columns.min((task + 1) * CHUNK);
        own.find(|&column| {
            let s = &columns[column * each..(column + 1) * each];
            !quotients(relation, column, s, exec).1
        })
    })?;
    match parts.into_iter().flatten().next() {
        Some(column) => Err(Invalid::Relation { column }),
        None => Ok(()),
    }
}

/// Names all columns whose quotients are too long, so that a caller that leaves them out need not check again.
fn check_quotients<'q>(
    layout: &Layout,
    quotients: impl Iterator<Item = &'q Vec<i64>>,
) -> Result<(), Invalid> {
    let of_column = |of_column: &Vec<i64>| -> (u128, u64) {
        let sizes = of_column.iter().map(|v| v.unsigned_abs());
        let norm_sq = sizes.clone().map(|v| u128::from(v).pow(2)).sum();
        (norm_sq, sizes.max().unwrap_or(0))
    };
    let max = layout.quotient_norm_sq();
    let long: Vec<(usize, (u128, u64))> = (quotients.map(of_column).enumerate())
        .filter(|(_, (norm_sq, largest))| *norm_sq >= u128::from(max) || *largest > QUOTIENT_MAX)
        .collect();
    let Some(&(_, (norm_sq, largest))) = long.first() else {
        return Ok(());
    };
    Err(Invalid::Quotients {
        columns: long.into_iter().map(|(column, _)| column).collect(),
        norm_sq,
        max,
        largest,
    })
}

/// Returns all rows of the witness, given the columns one after another.
///
/// # Errors
/// Reports all columns whose quotients are too long, or that the work was stopped.
pub(super) fn rows(
    layout: &Layout,
    relation: &Relation<'_>,
    columns: &[Small],
    exec: Exec<'_>,
) -> Result<Vec<Small>, Invalid> {
    let (e, images) = (layout.extension, layout.images());
    let parts = exec.try_map(layout.columns.div_ceil(CHUNK), |task| {
        let own = task * CHUNK..layout.columns.min((task + 1) * CHUNK);
        let of_column = |column: usize| {
            let s = &columns[column * 2 * e..(column + 1) * 2 * e];
            quotients(relation, column, s, exec).0
        };
        own.map(of_column).collect::<Vec<_>>()
    })?;
    check_quotients(layout, parts.iter().flatten())?;
    let mut s = vec![Small::ZERO; images.start()];
    for (i, quotients) in parts.iter().flatten().enumerate() {
        let column = &columns[i * 2 * e..(i + 1) * 2 * e];
        let norm_sq: u128 = column.iter().map(Small::norm_sq).sum();
        for (row, element) in column.iter().enumerate() {
            s[layout.place(row, i)] = element.clone();
        }
        for (k, quotients) in quotients.as_chunks::<DEGREE>().0.iter().enumerate() {
            // Each fits, as checked before.
            s[layout.place(layout.quotient_row() + k, i)] = Small(quotients.map(|v| v as i16));
        }
        // A prover that did not check its witness gets no slack for a column that is too long.
        let rest = u128::from(layout.norm_sq).saturating_sub(norm_sq);
        s[layout.place(layout.slack_row(), i)] = slack(rest as u64);
    }
    Ok(s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_numbers_have_inverses() {
        for q in (1..1 << 15).step_by(2) {
            assert_eq!(inverse(q).wrapping_mul(q), 1, "{q}");
        }
    }

    #[test]
    fn slack_is_a_sum_of_few_squares() {
        let limit = super::super::layout::COLUMN_NORM_SQ_MAX;
        for rest in (0..2000).chain((0..2000).map(|i| limit - i)) {
            let slack = slack(rest);
            assert_eq!(slack.norm_sq(), u128::from(rest));
            assert!(slack.0[8..].iter().all(|&c| c == 0));
        }
    }
}
