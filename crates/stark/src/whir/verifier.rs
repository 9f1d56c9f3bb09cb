//! The verifier, over any arithmetic.

use super::oracle::leaf_start;
#[cfg(test)]
use super::weak;
use super::{OracleParameters, Preset, power_at};
use crate::arith::{Arith, OfLane};
use crate::error::VerifyError;
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::hash::DIGEST;
use crate::merkle::Opened;
use crate::multilinear::{Scalar, eq_points, eq_table, evaluate, powers};
use crate::sumcheck::read_plain_round;
use crate::transcript::Channel;

/// The meaning of a row's elements.
#[derive(Clone, Copy)]
pub(super) enum Slices<'a> {
    /// Base elements of the slices with these numbers.
    Base(&'a [usize]),
    /// Extension elements of all slices.
    Extension,
}

impl Slices<'_> {
    /// The weights of a row's slices, from eq(α, ·).
    pub(super) fn weights<E: Copy>(self, eq: &[E]) -> Vec<E> {
        match self {
            Slices::Base(numbers) => numbers.iter().map(|i| eq[*i]).collect(),
            Slices::Extension => eq.to_vec(),
        }
    }

    /// Σ_i weight_i·row_i.
    pub(super) fn fold<A: Arith>(self, arith: &A, row: &[A::Base], weights: &[A::Ext]) -> A::Ext {
        let zero = arith.ext(Ext::ZERO);
        match self {
            Slices::Base(_) => {
                let terms = weights.iter().zip(row);
                terms.fold(zero, |sum, (w, x)| sum + *w * *x)
            }
            Slices::Extension => {
                let (elements, _) = row.as_chunks::<DEGREE>();
                let terms = weights.iter().zip(elements);
                terms.fold(zero, |sum, (w, x)| sum + *w * arith.join(*x))
            }
        }
    }
}

/// An oracle that has been read: its cap, and a value at a random point.
#[derive(Clone, Debug)]
pub(crate) struct Commitment<A: Arith> {
    cap: Vec<[A::Base; DIGEST]>,
    point: Vec<A::Ext>,
    value: A::Ext,
}

/// Reads an oracle of a polynomial in `coordinates` variables.
pub(crate) fn read_commitment<A: Arith>(
    channel: &mut Channel<A>,
    parameters: &OracleParameters,
    coordinates: usize,
) -> Result<Commitment<A>, VerifyError> {
    let cap = channel.read_base(DIGEST << parameters.cap_log2())?;
    let (cap, _) = cap.as_chunks::<DIGEST>();
    Ok(Commitment {
        cap: cap.to_vec(),
        // Drawn only after the cap is absorbed: a prover that knew the point could commit to a word near two
        // codewords that agree there, and choose between them later.
        point: channel.challenges(coordinates),
        value: channel.read_one()?,
    })
}

/// A weight of the remaining vector, to be evaluated at the end.
enum Weight<A: Arith> {
    /// scale · eq(point, ·).
    Point(A::Ext, Vec<A::Ext>),
    /// Σ scale_i · pow(x_i).
    Powers(Vec<A::Ext>, Vec<A::Base>),
}

/// The verifier between two oracles.
struct State<'a, A: Arith> {
    channel: &'a mut Channel<A>,
    claim: A::Ext,
    /// The oracle whose rows are read next.
    number: usize,
    /// All coordinates bound so far.
    point: Vec<A::Ext>,
    /// Weights, and the number of coordinates already bound when they joined.
    weights: Vec<(usize, Weight<A>)>,
}

/// The result of an opening: `claim` must equal `value` times the weight of all claims at a point.
#[derive(Debug)]
#[must_use = "weights that are not checked prove nothing"]
pub(crate) struct Remaining<E> {
    /// The claim.
    pub(crate) claim: E,
    /// The committed polynomial at the point.
    pub(crate) value: E,
    /// The weight of samples and opened rows at the point.
    pub(crate) weight: E,
    /// The point.
    pub(crate) point: Vec<E>,
    /// The factor of each claim.
    pub(crate) factors: Vec<E>,
}

impl<E: Scalar> Remaining<E> {
    /// Checks the claim, given the weight of all claims at the point.
    pub(crate) fn close<A: Arith<Ext = E>>(
        &self,
        arith: &mut A,
        weight: E,
    ) -> Result<(), VerifyError> {
        let excess = self.claim - self.value * (self.weight + weight);
        arith.assert_zero(excess, VerifyError::Weights)
    }
}

/// Verifies claims with these values on data committed in slices of 2^`slice_log2` elements with these numbers.
/// Leaves their weights at one point.
pub(crate) fn verify<A: Arith>(
    channel: &mut Channel<A>,
    preset: &Preset,
    slice_log2: usize,
    numbers: &[usize],
    commitment: Commitment<A>,
    values: &[A::Ext],
) -> Result<Remaining<A::Ext>, VerifyError> {
    // The factors begin at gamma, not at one: the sample's value has the factor one, which separates it from every
    // claim.
    let gamma = channel.challenge();
    let factors = powers(gamma, gamma, values.len());
    let values = values.iter().zip(&factors).map(|(v, g)| *g * *v);
    let one = channel.arith.ext(Ext::ONE);
    let Commitment { cap, point, value } = commitment;
    let mut state = State {
        claim: values.fold(value, |sum, x| sum + x),
        channel,
        number: 0,
        point: Vec::new(),
        weights: vec![(0, Weight::Point(one, point))],
    };
    let first = &preset.oracles[0];
    state.fold(first.slices_log2, Some(first.fold_bits))?;
    let (mut before, mut before_cap) = (first, cap);
    let mut slices = Slices::Base(numbers);
    // The next oracle is read before rows of the previous one are requested. In the reverse order, a prover could
    // choose the oracle it folds to after seeing which rows are compared.
    for parameters in &preset.oracles[1..] {
        let left = first.slices_log2 + slice_log2 - state.point.len();
        let next = read_commitment(state.channel, parameters, left)?;
        let rows = state.query(before, &before_cap, slices, preset.query_bits)?;
        state.join(Some((next.point, next.value)), rows);
        state.fold(parameters.slices_log2, Some(parameters.fold_bits))?;
        (before, before_cap) = (parameters, next.cap);
        state.number += 1;
        slices = Slices::Extension;
    }
    let last_log2 = preset.last_log2(slice_log2);
    // The last polynomial is not an oracle but all of its coefficients: no proximity to a code is needed, and its
    // queries are claims that are checked with everything else at the end.
    let last = state.channel.read(1 << last_log2)?;
    let rows = state.query(before, &before_cap, slices, preset.query_bits)?;
    state.join(None, rows);
    state.fold(last_log2, None)?;
    let bound = state.point.len() - last_log2;
    let value = evaluate(&last, &state.point[bound..]);
    let arith = &mut state.channel.arith;
    let mut weight = arith.ext(Ext::ZERO);
    for (from, term) in &state.weights {
        // A weight that joined later is a polynomial in the coordinates that were still free at that time.
        let rest = &state.point[*from..];
        weight = match term {
            Weight::Point(scale, point) => weight + *scale * eq_points(one, point, rest),
            Weight::Powers(scales, points) => {
                // One lane per row: in a circuit these powers are the same computation for each row, which the
                // recorder then writes down once.
                let powers = arith.each(points.len(), |_, i| {
                    (Vec::new(), vec![power_at(one, rest, points[i])])
                });
                let powers = powers.iter().flat_map(|(_, power)| power);
                let terms = scales.iter().zip(powers);
                terms.fold(weight, |sum, (scale, power)| sum + *scale * *power)
            }
        };
    }
    Ok(Remaining {
        claim: state.claim,
        value,
        weight,
        point: state.point,
        factors,
    })
}

/// The points of rows, and the folded rows.
type Rows<A> = OfLane<A>;

impl<A: Arith> State<'_, A> {
    /// Rounds of sumcheck, each with a proof of work before the challenge.
    fn fold(&mut self, rounds: usize, bits: Option<u32>) -> Result<(), VerifyError> {
        for _ in 0..rounds {
            let work = bits.map(|bits| (bits, VerifyError::Pow));
            let (claim, x) = read_plain_round(self.channel, self.claim, 2, work)?;
            self.claim = claim;
            self.point.push(x);
        }
        Ok(())
    }

    /// Reads random rows of an oracle; returns each row's point, and the row folded by the coordinates bound last.
    fn query(
        &mut self,
        parameters: &OracleParameters,
        cap: &[[A::Base; DIGEST]],
        slices: Slices<'_>,
        bits: u32,
    ) -> Result<Rows<A>, VerifyError> {
        self.channel.check_work(bits, VerifyError::Pow)?;
        // The work is checked before the indices are drawn, and absorbed with its nonce, so a prover that wants
        // other rows pays for it again.
        let indices = self
            .channel
            .queries(parameters.queries, parameters.rows_log2);
        let folded = self.point.len() - parameters.slices_log2;
        let arith = &mut self.channel.arith;
        let eq = eq_table(arith.ext(Ext::ONE), &self.point[folded..]);
        // Slices that were not committed are zero, so their weights are left out.
        let weights = slices.weights(&eq);
        let width = match slices {
            Slices::Base(numbers) => numbers.len(),
            Slices::Extension => weights.len() * DEGREE,
        };
        let tree = Opened {
            cap,
            // Width and number of the oracle are hashed into each leaf, so a row of one oracle is not a row of
            // another.
            start: leaf_start(width, self.number),
            width,
            error: VerifyError::Merkle {
                oracle: self.number,
            },
        };
        let rows = arith.open(&tree, &indices)?;
        let folded = arith.each(rows.len(), |arith, i| {
            let value = slices.fold(arith, &rows[i], &weights);
            (vec![point_of(arith, &indices[i])], vec![value])
        });
        Ok(folded.into_iter().fold(
            (Vec::new(), Vec::new()),
            |(mut points, mut values), (point, value)| {
                points.extend(point);
                values.extend(value);
                (points, values)
            },
        ))
    }

    /// Joins the claims of an oracle's rows, and of a sample of the next oracle if there is one.
    fn join(&mut self, sample: Option<(Vec<A::Ext>, A::Ext)>, rows: Rows<A>) {
        #[cfg(test)]
        let sample = sample.filter(|_| !weak::is_out(weak::Rule::Sample(self.number + 1)));
        #[cfg(test)]
        let rows = match weak::is_out(weak::Rule::Rows(self.number)) {
            true => (Vec::new(), Vec::new()),
            false => rows,
        };
        let (points, values) = rows;
        // One challenge for the sample and all rows, drawn after the rows were read: their sum is false for it if
        // one of them is.
        let gamma = self.channel.challenge();
        let mut gammas = powers(gamma, gamma, points.len() + 1).into_iter();
        let bound = self.point.len();
        if let Some(((point, value), gamma)) = sample.zip(gammas.next()) {
            self.claim = self.claim + gamma * value;
            self.weights.push((bound, Weight::Point(gamma, point)));
        }
        let gammas: Vec<A::Ext> = gammas.take(points.len()).collect();
        for (gamma, value) in gammas.iter().zip(values) {
            self.claim = self.claim + *gamma * value;
        }
        self.weights.push((bound, Weight::Powers(gammas, points)));
    }
}

/// The point of row k: ω^k.
fn point_of<A: Arith>(arith: &A, index: &[A::Base]) -> A::Base {
    let one = arith.base(Fp::ONE);
    let root = Fp::root_of_unity(index.len() as u32);
    index.iter().enumerate().fold(one, |x, (t, bit)| {
        let power = root.pow(1 << t);
        // A bit selects 1 or ω^(2^t) without a branch, so that the same line is both circuit and verifier.
        x * (one + *bit * arith.base(power - Fp::ONE))
    })
}
