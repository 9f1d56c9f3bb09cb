//! The prover of the last round, whose claim has any weights.

use super::layers::{Prover, send_skip, unscaled};
use super::skip::{COSETS, ROWS, domain, lagrange};
use super::{OUTPUT_SKIP_DEGREE, OutputClaim, Point, Values};
use crate::arith::Native;
use crate::extension::Ext;
use crate::multilinear::eq_table;
use crate::poseidon::{WIDTH_16, full_round_16, rest_16};
use crate::sumcheck::{bind, interpolate, send_round};
use crate::transcript::Sender;
use crate::vector::{Planes, Words, words};

/// The last full round.
pub(super) const LAST: usize = 7;

/// Σ_j Ω_j·M_ji of a row.
fn row_weights(row: &[Ext; WIDTH_16]) -> [Ext; WIDTH_16] {
    let (_, matrix) = full_round_16(LAST);
    std::array::from_fn(|i| row.iter().zip(&matrix).map(|(w, m)| *w * m[i]).sum())
}

/// The weights of the cubes of a place: `[column][row]`.
fn place_weights(rows: &[[Ext; WIDTH_16]]) -> [[Ext; ROWS]; WIDTH_16] {
    let rows: Vec<_> = rows.iter().map(row_weights).collect();
    std::array::from_fn(|i| std::array::from_fn(|h| rows[h][i]))
}

/// Proves the output claim; returns the point and the state before the last round there.
pub(super) fn prove_output(
    prover: &Prover<'_>,
    sender: &mut Sender,
    claim: &OutputClaim<Ext>,
) -> (Point<Ext>, Values) {
    let units = prover.units;
    let (constants, _) = full_round_16(LAST);
    let columns = prover.columns(&prover.trace.states[LAST + 1], WIDTH_16);
    let weights: Vec<_> = claim
        .weights
        .chunks_exact(ROWS)
        .map(place_weights)
        .collect();
    let by_point: Vec<Vec<Words>> = prover.exec.map(units.places.len(), |place| {
        let extended = weights[units.places[place]]
            .each_ref()
            .map(|values| domain().extend(values, COSETS));
        let at = |p: usize| words(&extended.each_ref().map(|values| values[p]));
        (0..COSETS * ROWS).map(at).collect()
    });
    let eq = eq_table(Ext::ONE, &claim.lanes);
    let group = |block: usize| claim.groups[block / units.places.len()];
    let block_weights: Values = (0..units.blocks()).map(group).collect();
    let sums = prover.skip_sums(
        columns,
        &constants,
        &by_point,
        [&eq, &block_weights],
        COSETS,
    );
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
            .map(|(root, c)| *root * c)
            .collect()
    };
    let row_words: Vec<Vec<Words>> = roots.iter().map(scaled).collect();
    let shifts: Vec<Values> = roots.iter().map(shifts).collect();
    let mut folded = prover.fold_rows(columns, &row_words, &shifts);
    let mut inner = block_weights;
    inner.resize(prover.width(), Ext::ZERO);
    let inner = Planes::from_exts(&inner);
    let lanes = prover.rounds(sender, &claim.lanes, &inner, &mut folded, None);

    let mut states = spread(prover, &folded, &roots);
    let high = bind_high(prover, sender, claim, &weights, &mut states);
    let values: Values = states.iter().map(|values| values[0]).collect();
    sender.send(&values);
    (Point { z, high, lanes }, values)
}

/// The states on all high coordinates, from root·(state + constant) of the blocks.
fn spread(prover: &Prover<'_>, folded: &[Planes], roots: &[Values]) -> Vec<Values> {
    let units = prover.units;
    let (constants, _) = full_round_16(LAST);
    let mut states = vec![Values::new(); WIDTH_16];
    for (i, states) in states.iter_mut().enumerate() {
        let rest = Ext::from(rest_16().states[LAST + 1][i]);
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
    let (constants, _) = full_round_16(LAST);
    let mut group_weights = vec![Ext::ZERO; 1 << units.groups_log2];
    group_weights[units.first_group..][..units.groups].copy_from_slice(&claim.groups);
    let mut tables: Vec<Values> = (0..WIDTH_16)
        .map(|i| {
            let places = |kappa: &Ext| weights.iter().map(|w| *kappa * w[i]).collect::<Values>();
            group_weights.iter().flat_map(places).collect()
        })
        .collect();
    let mut high = Vec::with_capacity(units.high_log2());
    for _ in 0..units.high_log2() {
        let half = tables[0].len() / 2;
        let parts = prover.exec.map(WIDTH_16, |i| {
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
