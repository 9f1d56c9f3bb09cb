//! The claims that remain after a merge has been opened: values of public polynomials, those of the children and
//! its own, each reduced to one.
//!
//! The wiring of the circuits is one multilinear polynomial 𝓜(row, cell), whose rows are numbered by circuit,
//! matrix and row. The opening leaves Σ_row W(row)·𝓜(row, ζ), and each child that is not a leaf leaves a value at
//! a point (row, cell). A sumcheck over rows reduces all of them to one row, and one over cells to one cell (sums
//! of claims at different points, as in Lund et al. and in later folding schemes). The registry's points are
//! reduced by one sumcheck. Only the verifier of a root evaluates the polynomials.

use alphorn_exec::Exec;

use super::known::{MergeKnown, Outputs};
use super::layout::{
    CELLS_LOG2, CHILD_LOG2, CIRCUITS_LOG2, MATRIX_LOG2, PARTS_LOG2, PRODUCTS_LOG2, REGISTRY_LOG2,
    ROWS_LOG2, WIRING_LOG2,
};
use super::weights::{Claims, Part};
use crate::arith::{Arith, sum};
use crate::error::VerifyError;
use crate::extension::Ext;
use crate::field::Fp;
use crate::kernel::Dispatch;
use crate::multilinear::{eq_points, eq_table, powers};
use crate::sumcheck::{next_claim, read_plain_round};
use crate::transcript::Channel;
use crate::vector::{Outer, Planes, eq_planes};
use crate::whir::Remaining;

/// Degree of all rounds.
const ROUND_DEGREE: usize = 2;

/// The circuits: that of leaves, that of merges, that of bundles.
pub(super) const CIRCUITS: usize = 3;

/// The index of a part's matrix among the matrices of a circuit.
pub(super) fn matrix<E>(part: &Part<E>) -> Option<usize> {
    match part {
        Part::Inputs { .. } => Some(0),
        Part::Outputs { .. } => Some(1),
        Part::Products { matrix, .. } => Some(2 + matrix),
        _ => None,
    }
}

/// One part of the wiring's weights: coefficients for each circuit, and the weights of rows.
pub(super) struct WiringPart<E> {
    pub(super) matrix: usize,
    pub(super) factors: [E; CIRCUITS],
    pub(super) part: Part<E>,
}

/// The weights of the wiring's rows that an opening leaves, and the point of cells.
pub(super) struct WiringWeights<E> {
    pub(super) parts: Vec<WiringPart<E>>,
    pub(super) cell: Vec<E>,
}

/// The weights that an opening leaves.
pub(super) fn wiring_weights<A: Arith>(
    arith: &A,
    known: &MergeKnown<A::Base>,
    claims: &Claims<A::Ext>,
    remaining: &Remaining<A::Ext>,
) -> WiringWeights<A::Ext> {
    let one = arith.ext(Ext::ONE);
    let (child, cell) = remaining.point.split_at(CHILD_LOG2);
    let children = eq_table(one, child);
    let mut parts = Vec::new();
    for (part, factor) in claims.parts(&remaining.factors) {
        let (Some(matrix), Some(groups)) = (matrix(part), groups(part)) else {
            continue;
        };
        // Children of one kind have the same circuit, so their weights add up before the matrix is touched: three
        // coefficients for seven children.
        let all = groups.iter().zip(&children[1..]).map(|(g, e)| *g * *e);
        let all: Vec<A::Ext> = all.collect();
        let of_kind = |flags: &[A::Base]| {
            let terms = all.iter().zip(flags);
            sum(arith, terms.map(|(x, flag)| *x * *flag))
        };
        let [merged, bundled] = [of_kind(&known.merged), of_kind(&known.bundled)];
        // A child that is neither merge nor bundle is a leaf. There is no third list of flags, which could
        // contradict the two.
        let leaves = sum(arith, all.iter().copied()) - merged - bundled;
        parts.push(WiringPart {
            matrix,
            factors: [leaves, merged, bundled].map(|of_kind| factor * of_kind),
            part: part.clone(),
        });
    }
    WiringWeights {
        parts,
        cell: cell.to_vec(),
    }
}

impl<E: crate::multilinear::Scalar> WiringWeights<E> {
    /// The weights' multilinear extension at a point of rows.
    fn at<A: Arith<Ext = E>>(&self, arith: &A, point: &[E]) -> E {
        let one = arith.ext(Ext::ONE);
        let (number, row) = point.split_at(MATRIX_LOG2);
        let numbers = eq_table(one, number);
        let terms = self.parts.iter().map(|part| {
            let coefficients = part.factors.iter().enumerate();
            let coefficients =
                coefficients.map(|(circuit, f)| *f * numbers[circuit << PARTS_LOG2 | part.matrix]);
            sum(arith, coefficients) * row_weight(arith, &part.part, row)
        });
        sum(arith, terms)
    }
}

/// The weights of the children in a part of the wiring's weights.
fn groups<E>(part: &Part<E>) -> Option<&[E]> {
    match part {
        Part::Inputs { groups, .. }
        | Part::Outputs { groups, .. }
        | Part::Products { groups, .. } => Some(groups),
        _ => None,
    }
}

/// The extension of a part's weights of the rows of its matrix.
fn row_weight<A: Arith>(arith: &A, part: &Part<A::Ext>, row: &[A::Ext]) -> A::Ext {
    let one = arith.ext(Ext::ONE);
    let dot = |weights: &[A::Ext], table: &[A::Ext]| {
        let terms = weights.iter().zip(table);
        sum(arith, terms.map(|(w, e)| *w * *e))
    };
    match part {
        Part::Inputs {
            rows,
            lanes,
            elements,
            ..
        } => {
            let (at_element, rest) = row.split_at(elements.len().ilog2() as usize);
            let (at_row, at_lane) = rest.split_at(ROWS_LOG2);
            dot(rows, &eq_table(one, at_row))
                * eq_points(one, lanes, at_lane)
                * dot(elements, &eq_table(one, at_element))
        }
        Part::Outputs { point, .. } => (one - row[0]) * eq_points(one, point, &row[1..]),
        Part::Products { point, .. } => eq_points(one, point, row),
        _ => arith.ext(Ext::ZERO),
    }
}

/// The claims on the wiring, with the factors of the claims of children that leave one.
pub(super) struct WiringClaims<'a, A: Arith> {
    wired: Vec<A::Base>,
    children: &'a [Outputs<A::Ext>],
}

/// A point of rows, a point of cells, and a value.
pub(super) type WiringAt<E> = (Vec<E>, Vec<E>, E);

impl<'a, A: Arith> WiringClaims<'a, A> {
    pub(super) fn new(
        known: &'a MergeKnown<A::Base>,
        children: &'a [Outputs<A::Ext>],
    ) -> WiringClaims<'a, A> {
        WiringClaims {
            wired: known.wired(),
            children,
        }
    }

    /// Factors of the children's claims: powers of a challenge, zero where there is none.
    fn factors(&self, challenge: A::Ext) -> Vec<A::Ext> {
        let factors = powers(challenge, challenge, self.children.len());
        let factors = factors.iter().zip(&self.wired);
        factors.map(|(factor, wired)| *factor * *wired).collect()
    }

    /// Reads the rounds that bind the circuit. If all children are leaves, only the first circuit has a weight:
    /// there are no such rounds, and its coordinates are zero.
    fn read_circuit(
        &self,
        channel: &mut Channel<A>,
        claim: A::Ext,
    ) -> Result<(A::Ext, Vec<A::Ext>), VerifyError> {
        let one = channel.arith.base(Fp::ONE);
        let wired = self.wired.iter();
        // Computed, not given: inside a circuit the kinds of a child's children are hints, and leaving out a round
        // that is needed would prove nothing.
        let any = one - wired.fold(one, |none, wired| none * (one - *wired));
        let (mut claim, mut point) = (claim, Vec::with_capacity(WIRING_LOG2));
        for _ in 0..CIRCUITS_LOG2 {
            let rest = channel.read_where(any, ROUND_DEGREE)?;
            let x = channel.challenge();
            let next = next_claim(&channel.arith, claim, &rest, x);
            // Without such a child the round is read as zeros and changes nothing; a circuit cannot skip it.
            claim = claim + (next - claim) * any;
            point.push(x * any);
        }
        Ok((claim, point))
    }

    /// Reads both sumchecks.
    pub(super) fn read(
        &self,
        channel: &mut Channel<A>,
        weights: &WiringWeights<A::Ext>,
        wired: A::Ext,
    ) -> Result<WiringAt<A::Ext>, VerifyError> {
        let eta = channel.challenge();
        let factors = self.factors(eta);
        let values = factors
            .iter()
            .zip(self.children)
            .map(|(f, c)| *f * c.wiring);
        let claim = wired + sum(&channel.arith, values);
        let (claim, mut row) = self.read_circuit(channel, claim)?;
        let (claim, within) = read_rounds(channel, claim, WIRING_LOG2 - CIRCUITS_LOG2)?;
        row.extend(within);
        // At the random row each claim is about one polynomial of cells. They are sent one by one, because they
        // were made at different points of cells.
        let own = channel.read_one()?;
        let mut of_children = Vec::with_capacity(self.children.len());
        for wired in &self.wired {
            of_children.push(channel.read_where(*wired, 1)?[0]);
        }
        let arith = &mut channel.arith;
        let one = arith.ext(Ext::ONE);
        let terms = factors.iter().zip(self.children).zip(&of_children);
        let terms =
            terms.map(|((f, child), value)| *f * eq_points(one, &child.wiring_row, &row) * *value);
        let excess = weights.at(arith, &row) * own + sum(arith, terms) - claim;
        arith.assert_zero(excess, VerifyError::WiringClaims)?;
        // Drawn after the values were read: with eta, which the prover knew, two false ones could cancel each
        // other in both sums.
        let theta = channel.challenge();
        let factors = self.factors(theta);
        let values = factors.iter().zip(&of_children).map(|(f, v)| *f * *v);
        let claim = own + sum(&channel.arith, values);
        let (claim, cell) = read_rounds(channel, claim, CELLS_LOG2)?;
        let value = channel.read_one()?;
        let arith = &mut channel.arith;
        let terms = factors.iter().zip(self.children);
        let terms = terms.map(|(f, child)| *f * eq_points(one, &child.wiring_cell, &cell));
        let weight = eq_points(one, &weights.cell, &cell) + sum(arith, terms);
        arith.assert_zero(value * weight - claim, VerifyError::WiringClaims)?;
        Ok((row, cell, value))
    }
}

/// Reads plain rounds; returns the remaining claim and the point.
fn read_rounds<A: Arith>(
    channel: &mut Channel<A>,
    claim: A::Ext,
    rounds: usize,
) -> Result<(A::Ext, Vec<A::Ext>), VerifyError> {
    let (mut claim, mut point) = (claim, Vec::with_capacity(rounds));
    for _ in 0..rounds {
        let (next, x) = read_plain_round(channel, claim, ROUND_DEGREE, None)?;
        claim = next;
        point.push(x);
    }
    Ok((claim, point))
}

/// The children's claims on the registry.
pub(super) struct RegistryClaims<'a, A: Arith> {
    known: &'a MergeKnown<A::Base>,
    children: &'a [Outputs<A::Ext>],
}

impl<'a, A: Arith> RegistryClaims<'a, A> {
    pub(super) fn new(
        known: &'a MergeKnown<A::Base>,
        children: &'a [Outputs<A::Ext>],
    ) -> RegistryClaims<'a, A> {
        RegistryClaims { known, children }
    }

    /// Reads the sumcheck; returns a point and the value there.
    pub(super) fn read(
        &self,
        channel: &mut Channel<A>,
    ) -> Result<(Vec<A::Ext>, A::Ext), VerifyError> {
        // An absent child has the factor zero, so its outputs do not count, whatever was read for them.
        let eta = channel.challenge();
        let one = channel.arith.ext(Ext::ONE);
        let factors = powers(one, eta, self.children.len());
        let factors = factors.iter().zip(&self.known.used);
        let factors: Vec<A::Ext> = factors.map(|(f, used)| *f * *used).collect();
        let values = factors
            .iter()
            .zip(self.children)
            .map(|(f, c)| *f * c.registry);
        let claim = sum(&channel.arith, values);
        let rounds = REGISTRY_LOG2 + self.known.dimensions.key_log2;
        let (claim, point) = read_rounds(channel, claim, rounds)?;
        let value = channel.read_one()?;
        let arith = &mut channel.arith;
        let terms = factors.iter().zip(self.children);
        let terms = terms.map(|(f, child)| *f * eq_points(one, &child.registry_at, &point));
        let excess = value * sum(arith, terms) - claim;
        arith.assert_zero(excess, VerifyError::RegistryClaims)?;
        Ok((point, value))
    }
}

/// The weights of all rows of a matrix, for a prover.
pub(super) fn row_weights(exec: Exec<'_>, part: &Part<Ext>) -> Planes {
    match part {
        Part::Inputs {
            rows,
            lanes,
            elements,
            ..
        } => {
            let lanes = Planes::from_exts(&eq_table(Ext::ONE, lanes));
            let backend = exec.backend().fitting(lanes.len());
            let of_row = backend.run(Outer(rows, &lanes));
            backend.run(Outer(elements, &of_row))
        }
        Part::Outputs { point, .. } => {
            let mut weights = Planes::zero(1 << PRODUCTS_LOG2);
            weights.add_at(0, &eq_planes(exec, Ext::ONE, point));
            weights
        }
        Part::Products { point, .. } => eq_planes(exec, Ext::ONE, point),
        _ => Planes::zero(1 << PRODUCTS_LOG2),
    }
}
