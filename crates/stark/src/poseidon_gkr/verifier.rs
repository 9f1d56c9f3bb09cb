//! The verifier of all layers, over any arithmetic.

use super::skip::{ROWS, lagrange};
use super::{
    LAST, Leaves, OUTPUT_ROUND_DEGREE, OUTPUT_SKIP_DEGREE, OutputClaim, PartialWeights, Point,
    ROUND_DEGREE, SKIP_DEGREE, Units,
};
use crate::arith::{Arith, sum};
use crate::error::VerifyError;
use crate::extension::Ext;
use crate::field::Fp;
use crate::multilinear::{eq_table, horner, powers};
use crate::poseidon::{Kind, Permutation};
use crate::sumcheck::{read_plain_round, read_round};
use crate::transcript::Channel;

/// Σ_i w_i·x_i for constants w.
fn constant_dot<A: Arith>(arith: &A, weights: &[Fp], values: &[A::Ext]) -> A::Ext {
    let terms = weights.iter().zip(values);
    sum(arith, terms.map(|(w, x)| *x * arith.base(*w)))
}

/// The weights of the partial layer, from α and δ.
pub(super) fn partial_weights<A: Arith>(
    arith: &A,
    kind: Kind,
    alpha: A::Ext,
    delta: A::Ext,
) -> PartialWeights<A::Ext> {
    let one = arith.ext(Ext::ONE);
    let alphas = powers(one, alpha, kind.lanes());
    // From δ on, not from one: the claim on the outputs has the factor one, and must not be mixed with sums that
    // have to be zero.
    let deltas = powers(delta, delta, kind.cubes());
    let forms = &kind.permutation().forms;
    // Σ_j α^j times column c of (A_j, B_j).
    let column = |c: usize| {
        let terms = alphas.iter().zip(&forms.leaves);
        sum(arith, terms.map(|(a, row)| *a * arith.base(row[c])))
    };
    let cubes = deltas
        .iter()
        .copied()
        // The last cube is not committed. Its weight in the outputs stands directly at the cube of its S-box's
        // input.
        .chain([column(kind.lanes() + kind.cubes())]);
    let states = (0..kind.lanes()).map(&column);
    let committed = deltas
        .iter()
        .enumerate()
        // u_k is used in the outputs and subtracted in δ^(k+1)·(in_k³ − u_k).
        .map(|(k, d)| column(kind.lanes() + k) - *d);
    PartialWeights {
        cubes: cubes.collect(),
        linear: states.chain(committed).collect(),
    }
}

/// A verifier between two layers: the claims on the state and their point.
struct Layers<'a, A: Arith> {
    channel: &'a mut Channel<A>,
    units: &'a Units,
    permutation: &'static Permutation,
    point: Point<A::Ext>,
    state: Vec<A::Ext>,
}

impl<A: Arith> Layers<'_, A> {
    /// Reads c_1 … of a skip message for Σ_h L_h(z)·v(h) = claim; returns v(z') and z'.
    fn read_skip(&mut self, claim: A::Ext) -> Result<(A::Ext, A::Ext), VerifyError> {
        let rest = self.channel.read(SKIP_DEGREE)?;
        let arith = &self.channel.arith;
        let (zero, one) = (arith.ext(Ext::ZERO), arith.ext(Ext::ONE));
        // On H, X^t = X^(t mod 16).
        let powers = powers(one, self.point.z, ROWS);
        let terms = rest
            .iter()
            .enumerate()
            .map(|(i, c)| *c * powers[(i + 1) % ROWS]);
        let constant = claim - sum(arith, terms);
        let z = self.channel.challenge();
        Ok((constant + z * horner(zero, &rest, z), z))
    }

    /// Binds the coordinates of the unit; returns the remaining claim.
    fn read_units(&mut self, z: A::Ext, claim: A::Ext) -> Result<A::Ext, VerifyError> {
        let mut claim = claim;
        // Each coordinate of the old point is a weight of its round and is replaced by the challenge.
        for coordinate in self.point.lanes.iter_mut().chain(&mut self.point.high) {
            (claim, *coordinate) = read_round(self.channel, claim, *coordinate, ROUND_DEGREE)?;
        }
        self.point.z = z;
        Ok(claim)
    }

    /// A full round: from the state after it to the state before it.
    fn full(&mut self, round: usize) -> Result<(), VerifyError> {
        let alpha = self.channel.challenge();
        let one = self.channel.arith.ext(Ext::ONE);
        let width = self.units.kind.lanes();
        let alphas = powers(one, alpha, width);
        let terms = alphas.iter().zip(&self.state).map(|(a, y)| *a * *y);
        let claim = sum(&self.channel.arith, terms);
        let (claim, z) = self.read_skip(claim)?;
        let claim = self.read_units(z, claim)?;
        self.state = self.channel.read(width)?;
        let cubes = cubes_after(&self.channel.arith, self.permutation, round, &self.state);
        let terms = alphas.iter().zip(cubes).map(|(a, y)| *a * y);
        let excess = claim - sum(&self.channel.arith, terms);
        let refused = self.units.refused(round);
        self.channel.arith.assert_zero(excess, refused)
    }

    /// All partial rounds; returns the claims on the committed cubes.
    fn partial(&mut self) -> Result<Vec<A::Ext>, VerifyError> {
        let (alpha, delta) = (self.channel.challenge(), self.channel.challenge());
        let arith = &self.channel.arith;
        let kind = self.units.kind;
        let alphas = powers(arith.ext(Ext::ONE), alpha, kind.lanes());
        let forms = &self.permutation.forms;
        let constant = constant_dot(arith, &forms.leaves_constant, &alphas);
        let terms = alphas.iter().zip(&self.state).map(|(a, y)| *a * *y);
        let claim = sum(arith, terms);
        let weights = partial_weights(arith, kind, alpha, delta);
        let (claim, z) = self.read_skip(claim)?;
        let claim = self.read_units(z, claim)?;
        let values = self.channel.read(kind.lanes() + kind.cubes())?;
        let arith = &self.channel.arith;
        let (state, cubes) = values.split_at(kind.lanes());
        let mut total = constant;
        for (weight, value) in weights.linear.iter().zip(&values) {
            total = total + *weight * *value;
        }
        for (k, weight) in weights.cubes.iter().enumerate() {
            let enters = constant_dot(arith, &forms.enters_state[k], state)
                + constant_dot(arith, &forms.enters_cubes[k], &cubes[..k])
                + arith.ext(Ext::from(forms.enters_constant[k]));
            total = total + *weight * enters * enters * enters;
        }
        self.state = state.to_vec();
        let cubes = cubes.to_vec();
        let refused = self.units.partial_refused();
        self.channel.arith.assert_zero(claim - total, refused)?;
        Ok(cubes)
    }
}

/// M·(state + c)³: the state after a full round, if state is a vertex.
fn cubes_after<A: Arith>(
    arith: &A,
    permutation: &Permutation,
    round: usize,
    state: &[A::Ext],
) -> Vec<A::Ext> {
    let (constants, matrix) = permutation.full_round(round);
    let cubes: Vec<A::Ext> = state
        .iter()
        .zip(constants)
        .map(|(s, c)| {
            let x = *s + arith.ext(Ext::from(*c));
            x * x * x
        })
        .collect();
    matrix
        .iter()
        .map(|row| constant_dot(arith, row, &cubes))
        .collect()
}

/// The inputs of a permutation, from the state before its first round.
pub(super) fn inputs_of<A: Arith>(
    arith: &A,
    permutation: &Permutation,
    state: Vec<A::Ext>,
) -> Vec<A::Ext> {
    match &permutation.enter_inverse {
        Some(rows) => {
            let row = |row: &Vec<Fp>| constant_dot(arith, row, &state);
            rows.iter().map(row).collect()
        }
        None => state,
    }
}

/// A point and the state at that point.
type AtPoint<E> = (Point<E>, Vec<E>);

/// Verifies the last round, with the weights of the output claim.
fn verify_output<A: Arith>(
    channel: &mut Channel<A>,
    units: &Units,
    claim: &OutputClaim<A::Ext>,
) -> Result<AtPoint<A::Ext>, VerifyError> {
    let rest = channel.read(OUTPUT_SKIP_DEGREE)?;
    let arith = &channel.arith;
    let sixteenth = arith.base(Fp::new(16).inverse().unwrap_or_default());
    // Σ_h v(h) = 16·(c_0 + c_16 + c_32 + c_48).
    let constant = claim.value * sixteenth - rest[15] - rest[31] - rest[47];
    let z = channel.challenge();
    let zero = channel.arith.ext(Ext::ZERO);
    let mut left = constant + z * horner(zero, &rest, z);
    let (mut lanes, mut high) = (claim.lanes.clone(), Vec::new());
    for coordinate in &mut lanes {
        (left, *coordinate) = read_round(channel, left, *coordinate, ROUND_DEGREE)?;
    }
    // The weights of groups and places are tables, not eq of a point, so these rounds are plain, and the weight
    // adds one to the degree.
    for _ in 0..units.high_log2() {
        let (next, x) = read_plain_round(channel, left, OUTPUT_ROUND_DEGREE, None)?;
        (left, high) = (next, [high, vec![x]].concat());
    }
    let state = channel.read(units.kind.lanes())?;
    let arith = &channel.arith;
    let one = arith.ext(Ext::ONE);
    let (of_group, of_place) = high.split_at(units.groups_log2);
    let groups = eq_table(one, of_group);
    let kappas = claim.groups.iter().zip(&groups[units.first_group..]);
    let kappa = sum(arith, kappas.map(|(k, w)| *k * *w));
    let places = eq_table(kappa, of_place);
    let basis = lagrange(arith, z);
    let outputs = cubes_after(arith, units.kind.permutation(), LAST, &state);
    let mut total = zero;
    let sums = claim.weights.sums(zero, &outputs);
    for (row, of_row) in sums.into_iter().enumerate() {
        if units.places.contains(&(row / ROWS)) {
            total = total + places[row / ROWS] * basis[row % ROWS] * of_row;
        }
    }
    channel
        .arith
        .assert_zero(left - total, units.refused(LAST))?;
    Ok((Point { z, high, lanes }, state))
}

/// Verifies an output claim, up to claims on cubes and inputs.
pub(crate) fn verify<A: Arith>(
    channel: &mut Channel<A>,
    units: &Units,
    claim: &OutputClaim<A::Ext>,
) -> Result<Leaves<A::Ext>, VerifyError> {
    let (point, state) = verify_output(channel, units, claim)?;
    let mut layers = Layers {
        channel,
        units,
        permutation: units.kind.permutation(),
        point,
        state,
    };
    for round in [6, 5, 4] {
        layers.full(round)?;
    }
    let cubes = layers.partial()?;
    let cubes_at = layers.point.clone();
    for round in [3, 2, 1, 0] {
        layers.full(round)?;
    }
    Ok(Leaves {
        cubes_at,
        cubes,
        inputs: inputs_of(&layers.channel.arith, layers.permutation, layers.state),
        inputs_at: layers.point,
    })
}
