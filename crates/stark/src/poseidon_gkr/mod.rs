//! The argument for many permutations of one kind: from random sums of their outputs to random points of their
//! inputs and of the committed cubes.
//!
//! Permutations are numbered by a row h in H, the sixteenth roots of unity, and a unit y on a cube. A unit has
//! *high* coordinates (its group, its place within an instance) and *lane* coordinates (the instance within the
//! group). A point is (z, high, lanes) with the weights L_h(z)·eq(high, ·)·eq(lanes, ·). The used units form
//! *blocks*: all lanes of one group and place. An unused unit permutes zeros, and its states are constants.
//!
//! From the last round to the first, a layer reduces claims on all lanes of the state at one point to claims at
//! another: one *skip* message binds the row by a polynomial of degree 45, and sumcheck binds the coordinates of
//! the unit. All partial rounds form one layer, whose claims include all cubes except the last, u_0 … u_18 of
//! width 16 and u_0 … u_21 of width 24, which are committed.
//!
//! Poseidon2 multiplies its input by a matrix before the first round. The first round leaves claims on the
//! product; the matrix is invertible, so they are claims on the input.

mod layers;
mod output;
mod passes;
mod prover;
pub(crate) mod skip;
#[cfg(test)]
mod tests;
mod verifier;

pub(crate) use prover::prove;
pub(crate) use verifier::verify;

use crate::error::VerifyError;
use crate::extension::Ext;
use crate::multilinear::Scalar;
use crate::poseidon::{Kind, WIDTH_24};

/// The last full round.
const LAST: usize = 7;

/// Number of coefficients in a skip message without c_0: degree 45.
const SKIP_DEGREE: usize = 45;

/// The same in the output layer, whose weights have degree 15 themselves.
const OUTPUT_SKIP_DEGREE: usize = 60;

/// Degree of the rounds that bind the high coordinates in the output layer.
const OUTPUT_ROUND_DEGREE: usize = 4;

/// Degree of all other rounds.
const ROUND_DEGREE: usize = 3;

/// Number of lanes for which weights are given: those of the widest state.
pub(crate) const LANES: usize = WIDTH_24;

/// The units that are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Units {
    /// The permutation.
    pub(crate) kind: Kind,
    /// Number of coordinates of an instance within its group.
    pub(crate) lanes_log2: usize,
    /// Number of coordinates of a unit within an instance.
    pub(crate) places_log2: usize,
    /// Number of coordinates of a group.
    pub(crate) groups_log2: usize,
    /// The first group that may be used.
    pub(crate) first_group: usize,
    /// Number of used groups.
    pub(crate) groups: usize,
    /// The used units of an instance.
    pub(crate) places: Vec<usize>,
}

impl Units {
    pub(crate) fn blocks(&self) -> usize {
        self.groups * self.places.len()
    }

    pub(crate) fn high_log2(&self) -> usize {
        self.groups_log2 + self.places_log2
    }

    /// The high coordinates of a block as an index.
    pub(crate) fn high(&self, block: usize) -> usize {
        let group = self.first_group + block / self.places.len();
        group << self.places_log2 | self.places[block % self.places.len()]
    }

    /// The error if a full round (0 to 7) does not hold. Rounds are numbered together with the partial ones, which
    /// are the fourth.
    fn refused(&self, round: usize) -> VerifyError {
        self.refused_at(round + if round < 4 { 0 } else { self.kind.partial() })
    }

    fn refused_at(&self, round: usize) -> VerifyError {
        match self.kind {
            Kind::Narrow | Kind::Own => VerifyError::PoseidonLayer(round),
            Kind::Wide => VerifyError::WidePoseidonLayer(round),
        }
    }

    /// The error if the partial rounds do not hold.
    fn partial_refused(&self) -> VerifyError {
        self.refused_at(4)
    }
}

/// The point of claims on states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Point<E> {
    /// The coordinate that replaces the row.
    pub(crate) z: E,
    /// Coordinates of group and place.
    pub(crate) high: Vec<E>,
    /// Coordinates of the instance.
    pub(crate) lanes: Vec<E>,
}

/// Weights of outputs in rows: 16 rows for each place, used or not.
#[derive(Clone, Debug)]
pub(crate) enum RowWeights<E> {
    /// For each row the weights of the lanes; a state may have fewer lanes.
    Table(Vec<[E; LANES]>),
    /// Weights of rows times weights of the first lanes.
    Product {
        /// Of the rows.
        rows: Vec<E>,
        /// Of the lanes.
        lanes: Vec<E>,
    },
}

impl<E: Scalar> RowWeights<E> {
    /// For each row, the sum of its weights times the values of the lanes.
    fn sums(&self, zero: E, values: &[E]) -> Vec<E> {
        let dot = |weights: &[E]| {
            let terms = weights.iter().zip(values);
            terms.fold(zero, |sum, (w, x)| sum + *w * *x)
        };
        match self {
            RowWeights::Table(rows) => rows.iter().map(|weights| dot(weights)).collect(),
            RowWeights::Product { rows, lanes } => {
                let sum = dot(lanes);
                rows.iter().map(|weight| *weight * sum).collect()
            }
        }
    }

    /// The weights of each row.
    fn table(&self, zero: E) -> Vec<[E; LANES]> {
        let row = |weight: &E, lanes: &[E]| {
            let lane = |i: usize| lanes.get(i).map_or(zero, |lane| *weight * *lane);
            std::array::from_fn(lane)
        };
        match self {
            RowWeights::Table(rows) => rows.clone(),
            RowWeights::Product { rows, lanes } => rows.iter().map(|w| row(w, lanes)).collect(),
        }
    }
}

/// A sum of outputs of permutations, Σ weight(row, lane)·κ(group)·eq(lanes, ·)·output = value.
#[derive(Clone, Debug)]
pub(crate) struct OutputClaim<E> {
    /// Weights of rows and the lanes of their states.
    pub(crate) weights: RowWeights<E>,
    /// κ for each used group.
    pub(crate) groups: Vec<E>,
    /// The point of the instances.
    pub(crate) lanes: Vec<E>,
    /// The sum.
    pub(crate) value: E,
}

/// The claims that remain to be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaves<E> {
    /// The point of the claims on cubes.
    pub(crate) cubes_at: Point<E>,
    /// All cubes except the last.
    pub(crate) cubes: Vec<E>,
    /// The point of the claims on inputs.
    pub(crate) inputs_at: Point<E>,
    /// The lanes of the inputs.
    pub(crate) inputs: Vec<E>,
}

/// Weights of the partial layer: of all cubes, and of state and committed cubes.
struct PartialWeights<E> {
    cubes: Vec<E>,
    linear: Vec<E>,
}

/// Number of extension elements that [`prove`] sends.
pub(crate) fn sent(units: &Units) -> usize {
    let (rounds, lanes) = (units.lanes_log2 * ROUND_DEGREE, units.kind.lanes());
    let full = SKIP_DEGREE + rounds + units.high_log2() * ROUND_DEGREE + lanes;
    let output = OUTPUT_SKIP_DEGREE + rounds + units.high_log2() * OUTPUT_ROUND_DEGREE + lanes;
    // Seven full rounds and the layer of partial rounds, which sends its cubes in addition.
    output + 8 * full + units.kind.cubes()
}

/// Elements of the field that the prover computes with.
type Values = Vec<Ext>;
