//! The prover of the last round, whose claim has arbitrary weights.

use alphorn_exec::Stopped;

use super::layers::{Prover, send_skip, unscaled};
use super::skip::{COSETS, ROWS, domain, lagrange};
use super::{LANES, LAST, OUTPUT_SKIP_DEGREE, OutputClaim, Point, Values};
use crate::arith::Native;
use crate::extension::Ext;
use crate::multilinear::eq_table;
use crate::sumcheck::{bind, interpolate, send_round};
use crate::transcript::Sender;
use crate::vector::{Planes, Words, words};

/// The weights of the cubes of a place, Σ_j Ω_j·M_ji of each row: `[column][row]`.
fn place_weights(prover: &Prover<'_>, rows: &[[Ext; LANES]]) -> Vec<[Ext; ROWS]> {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| prover.full_weights(LAST, row))
        .collect();
    let column = |i: usize| std::array::from_fn(|h| rows[h][i]);
    (0..prover.units.kind.lanes()).map(column).collect()
}

/// Proves the output claim; returns the point and the state before the last round there.
pub(super) fn prove_output(
    prover: &Prover<'_>,
    sender: &mut Sender,
    claim: &OutputClaim<Ext>,
) -> Result<(Point<Ext>, Values), Stopped> {
    let units = prover.units;
    let (constants, _) = prover.permutation.full_round(LAST);
    let columns = prover.columns(&prover.trace.states[LAST + 1], units.kind.lanes());
    let table = claim.weights.table(Ext::ZERO);
    let weights: Vec<_> = table
        .chunks_exact(ROWS)
        .map(|rows| place_weights(prover, rows))
        .collect();
    // The weights differ from row to row, so they are polynomials of degree 15 as well: degree 60 in all, and a
    // fourth coset.
    let by_point: Vec<Vec<Words>> = prover.exec.map(units.places.len(), |place| {
        let columns = weights[units.places[place]].iter();
        let extended: Vec<Values> = columns
            .map(|values| domain().extend(values, COSETS))
            .collect();
        let at = |p: usize| words(&extended.iter().map(|values| values[p]).collect::<Values>());
        (0..COSETS * ROWS).map(at).collect()
    });
    let eq = eq_table(Ext::ONE, &claim.lanes);
    let group = |block: usize| claim.groups[block / units.places.len()];
    let block_weights: Values = (0..units.blocks()).map(group).collect();
    let sums = prover.skip_sums(columns, constants, &by_point, [&eq, &block_weights], COSETS)?;
    let z = send_skip(sender, domain().interpolate(&sums), OUTPUT_SKIP_DEGREE);

    let basis = lagrange(&Native::new(&[]), z);
    let at_z = |rows: &[Ext; ROWS]| -> Ext { rows.iter().zip(&basis).map(|(w, l)| *w * *l).sum() };
    let weights: Vec<Values> = weights
        .iter()
        .map(|place| place.iter().map(at_z).collect())
        .collect();
    let roots: Vec<Values> = prover.exec.map(units.places.len(), |place| {
        let weights = &weights[units.places[place]];
        weights.iter().map(|w| w.cube_root()).collect()
    });
    let scaled = |roots: &Values| -> Vec<Words> {
        roots
            .iter()
            .map(|root| super::layers::scaled(&basis, *root))
            .collect()
    };
    let shifts = |roots: &Values| -> Values {
        roots
            .iter()
            .zip(constants)
            .map(|(root, c)| *root * *c)
            .collect()
    };
    let row_words: Vec<Vec<Words>> = roots.iter().map(scaled).collect();
    let shifts: Vec<Values> = roots.iter().map(shifts).collect();
    let mut folded = prover.fold_rows(columns, &row_words, &shifts)?;
    let mut inner = block_weights;
    inner.resize(prover.width(), Ext::ZERO);
    let inner = Planes::from_exts(&inner);
    let lanes = prover.rounds(sender, &claim.lanes, &inner, &mut folded, None)?;

    let mut states = spread(prover, &folded, &roots);
    let high = bind_high(prover, sender, claim, &weights, &mut states);
    let values: Values = states.iter().map(|values| values[0]).collect();
    sender.send(&values);
    Ok((Point { z, high, lanes }, values))
}

/// The states on all high coordinates, from root·(state + constant) of the blocks.
fn spread(prover: &Prover<'_>, folded: &[Planes], roots: &[Values]) -> Vec<Values> {
    let units = prover.units;
    let (constants, _) = prover.permutation.full_round(LAST);
    let mut states = vec![Values::new(); units.kind.lanes()];
    for (i, states) in states.iter_mut().enumerate() {
        let rest = Ext::from(prover.permutation.rest.states[LAST + 1][i]);
        states.resize(1 << units.high_log2(), rest);
        for block in 0..units.blocks() {
            let place = block % units.places.len();
            let value = folded[i].get(block);
            states[units.high(block)] = unscaled(&[value], &roots[place][i..], &constants[i..])[0];
        }
    }
    states
}

/// Binds the high coordinates of Σ κ(group)·W_i(place)·(state_i + c_i)³ by plain rounds.
fn bind_high(
    prover: &Prover<'_>,
    sender: &mut Sender,
    claim: &OutputClaim<Ext>,
    weights: &[Values],
    states: &mut [Values],
) -> Values {
    let units = prover.units;
    let (constants, _) = prover.permutation.full_round(LAST);
    // Groups that are not used have the weight zero, so their constants do not count.
    let mut group_weights = vec![Ext::ZERO; 1 << units.groups_log2];
    group_weights[units.first_group..][..units.groups].copy_from_slice(&claim.groups);
    let mut tables: Vec<Values> = (0..states.len())
        .map(|i| {
            let places = |kappa: &Ext| weights.iter().map(|w| *kappa * w[i]).collect::<Values>();
            group_weights.iter().flat_map(places).collect()
        })
        .collect();
    let mut high = Vec::with_capacity(units.high_log2());
    for _ in 0..units.high_log2() {
        let half = tables[0].len() / 2;
        let parts = prover.exec.map(states.len(), |i| {
            // Values at 0, 1, 2, 3 and 4 for degree 4, each by one more step of both lines.
            let mut sums = [Ext::ZERO; 5];
            for x in 0..half {
                let mut at = [tables[i][x], states[i][x] + Ext::from(constants[i])];
                let steps = [
                    tables[i][half + x] - at[0],
                    states[i][half + x] - states[i][x],
                ];
                for sum in &mut sums {
                    *sum += at[0] * at[1] * at[1] * at[1];
                    at = [at[0] + steps[0], at[1] + steps[1]];
                }
            }
            sums
        });
        let sums: Values = (0..5)
            .map(|k| parts.iter().map(|part| part[k]).sum())
            .collect();
        let x = send_round(sender, &interpolate(&sums));
        for values in tables.iter_mut().chain(states.iter_mut()) {
            bind(values, x);
        }
        high.push(x);
    }
    high
}
