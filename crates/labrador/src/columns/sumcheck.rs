//! The sumcheck: the randomness of both sides, the messages, and the verifier.
//!
//! Over the index `x` of a column, a row and a coefficient, with `s` the multilinear extension of the
//! rows of all columns, which is zero beyond the last one, it shows
//!
//! `sum eq(tau, column) (normed(row) s(x)^2 + xi Phi(x) s(x)) = beta^2 sum eq(tau, i) + xi sum eq(tau, i) <u, c_i>`
//!
//! where `u_y = eq(t, y)` and `Phi` is chosen such that `sum Phi s` is the inner product of `u` with
//! `s1 + h s2 - q v`: `u` on `s1`, `-q u` on `v`, and on `s2` the `w_i` with `<w_i, s> = <u, h_i s>`.
//! Coefficients are bound first, then rows, then columns, each from the highest bit on.

use std::ops::Range;

use alphorn_exec::{Exec, Stopped};

use super::layout::{COEFFICIENT_BITS, Layout};
use super::relation::{InnerProducts, Limbs, Relation};
use crate::error::Reject;
use crate::field::{COORDINATES, F, eq, eq_table};
use crate::kernel::Dispatch;
use crate::lanes::{DotLanes, Fx8, LANES, eq_lanes};
use crate::ring::DEGREE;
use crate::transcript::{Transcript, is_left_out};
use crate::verify::Verifier;

/// Randomness drawn before the first round.
pub(super) struct Drawn {
    /// For the bits of a column index.
    pub(super) tau: Vec<F>,
    /// For the bits of a coefficient index within a polynomial.
    pub(super) t: Vec<F>,
    /// The weight of the relation.
    pub(super) xi: F,
    /// The weight of the norms: one.
    pub(super) norms: F,
}

impl Drawn {
    pub(super) fn new(layout: &Layout, transcript: &Transcript) -> Self {
        let mut stream = transcript.seed("sumcheck", 0).stream();
        let mut many = |count| (0..count).map(|_| F::draw(&mut stream)).collect();
        let degree = DEGREE * layout.extension;
        let (tau, t) = (many(layout.column_bits()), many(degree.ilog2() as usize));
        let xi = F::draw(&mut stream);
        let unless = |left_out: bool, x: F| if left_out { F::ZERO } else { x };
        Self {
            tau,
            t,
            xi: unless(is_left_out!(transcript, Relation), xi),
            norms: unless(is_left_out!(transcript, Norms), F::ONE),
        }
    }

    /// `u`.
    pub(super) fn u(&self) -> Vec<F> {
        eq_table(&self.t)
    }
}

/// The point at which the extension of the rows is opened: bit `b` of each index is coordinate `b`.
#[derive(Clone, Debug, Default)]
pub(super) struct Point {
    pub(super) coefficient: Vec<F>,
    pub(super) row: Vec<F>,
    pub(super) column: Vec<F>,
}

impl Point {
    /// Builds the point from the challenges of all rounds in order.
    pub(super) fn new(layout: &Layout, challenges: &[F]) -> Self {
        let (coefficient, rest) = challenges.split_at(COEFFICIENT_BITS);
        let (row, column) = rest.split_at(layout.row_bits());
        let turned = |part: &[F]| part.iter().rev().copied().collect();
        Self {
            coefficient: turned(coefficient),
            row: turned(row),
            column: turned(column),
        }
    }
}

/// Number of coefficients of a round's polynomial that are sent besides the linear one, as `p(0) + p(1)` is known.
pub(super) fn sent(round: usize) -> usize {
    if round < COEFFICIENT_BITS { 2 } else { 3 }
}

pub(super) fn rounds(layout: &Layout) -> usize {
    COEFFICIENT_BITS + layout.row_bits() + layout.column_bits()
}

/// Returns `p(r)`, given the claim `p(0) + p(1)` and all coefficients except the linear one.
pub(super) fn next_claim(claim: F, sent: &[F], r: F) -> F {
    let higher = sent[1..].iter().fold(F::ZERO, |sum, &c| sum.plus(c));
    let linear = claim.minus(sent[0]).minus(sent[0]).minus(higher);
    // Horner's rule over (c0, c1, c2, c3).
    let mut out = F::ZERO;
    for &c in sent[1..].iter().rev() {
        out = out.plus(c).times(r);
    }
    out.plus(linear).times(r).plus(sent[0])
}

/// Draws the challenge after a round's message.
pub(super) fn challenge(transcript: &Transcript) -> F {
    // The index may stay the same, since the message of each round changes the state.
    F::draw(&mut transcript.seed("round", 0).stream())
}

/// Columns per task: the data computed from them stays in the cache.
const CHUNK: usize = 64;
const _: () = assert!(CHUNK.is_multiple_of(LANES));

/// Returns `sum_i weights[i] <x_i, w>` over this many vectors, where `products` computes the products for a range.
fn weighted(
    w: &[F],
    weights: &[Fx8],
    count: usize,
    products: impl Fn(&Limbs, Range<usize>) -> Vec<F> + Sync,
    exec: Exec<'_>,
) -> Result<F, Stopped> {
    let limbs = Limbs::new(w);
    let parts = exec.try_map(count.div_ceil(CHUNK), |task| {
        let range = task * CHUNK..count.min((task + 1) * CHUNK);
        let weights = &weights[range.start / LANES..];
        let values = Fx8::of_all(&products(&limbs, range));
        exec.backend().run(DotLanes(&values, weights))
    })?;
    Ok(parts.into_iter().fold(F::ZERO, F::plus))
}

/// Returns the claimed sum.
pub(super) fn claim(
    layout: &Layout,
    relation: &Relation<'_>,
    drawn: &Drawn,
    exec: Exec<'_>,
) -> Result<F, Stopped> {
    let columns = eq_lanes(&drawn.tau, exec.backend());
    let weight = |column: usize| columns[column / LANES].get(column % LANES);
    // Only columns that exist: `s` is zero beyond them, and so are its norms and targets.
    let norms = (0..layout.columns).fold(F::ZERO, |sum, column| sum.plus(weight(column)));
    let products = |limbs: &Limbs, range| {
        relation.with_targets(range, |targets| {
            exec.backend().run(InnerProducts(limbs, targets))
        })
    };
    let targets = weighted(&drawn.u(), &columns, layout.columns, products, exec)?;
    let norms = norms.times(F::of(layout.norm_sq as i64)).times(drawn.norms);
    Ok(norms.plus(drawn.xi.times(targets)))
}

/// Returns `g` with `<h, g> = sum_y E_y w_y` for the `w` of `h`, where `E_y = eq(point, y)`. It is the product of
/// `u` and `E(Y^-1)`, both of which are products of binomials.
fn transposed_weights(t: &[F], point: &[F]) -> Vec<F> {
    let degree = 1usize << t.len();
    let mut g = vec![F::ZERO; degree];
    g[0] = F::ONE;
    let mut multiply = |p: F, step: usize, negative: bool| {
        let rest = F::ONE.minus(p);
        let before = g.clone();
        for (k, out) in g.iter_mut().enumerate() {
            // Coefficient k receives that of k - step, or of k + step; Y^d = -1.
            let (from, wraps) = match negative {
                false => ((k + degree - step) % degree, k < step),
                true => ((k + step) % degree, k + step >= degree),
            };
            // While few binomials have been multiplied, most coefficients are zero.
            if before[from] == F::ZERO && before[k] == F::ZERO {
                continue;
            }
            let moved = before[from].times(p);
            let kept = before[k].times(rest);
            *out = if wraps {
                kept.minus(moved)
            } else {
                kept.plus(moved)
            };
        }
    };
    for (b, (&t, &r)) in t.iter().zip(point).enumerate() {
        multiply(t, 1 << b, false);
        multiply(r, 1 << b, true);
    }
    g
}

/// Returns the required last claim, given the value of `s` at the point.
pub(super) fn expected(
    layout: &Layout,
    relation: &Relation<'_>,
    drawn: &Drawn,
    point: &Point,
    value: F,
    exec: Exec<'_>,
) -> Result<F, Stopped> {
    let rows = eq_table(&point.row);
    let normed = (0..layout.rows()).filter(|&row| layout.is_normed(row));
    let normed = normed.fold(F::ZERO, |sum, row| sum.plus(rows[row]));
    // The lower bits of a row select within a polynomial, the upper ones select the polynomial.
    let (low, high) = point.row.split_at(layout.extension.ilog2() as usize);
    let which = eq_table(high);
    let within: Vec<F> = point.coefficient.iter().chain(low).copied().collect();
    let own = eq(&drawn.t, &within);
    let modulus = F::of(relation.modulus() as i64);
    let columns = eq_lanes(&point.column, exec.backend());
    let g = transposed_weights(&drawn.t, &within);
    let of_range = |limbs: &Limbs, range: Range<usize>| {
        exec.backend()
            .run(InnerProducts(limbs, &relation.factors()[range]))
    };
    let products = weighted(&g, &columns, layout.columns, of_range, exec)?;
    // 0 is `s1`, 1 is `s2`, 2 is `v`. The slack is 3 and in no relation.
    let phi = own
        .times(which[0].minus(modulus.times(which[2])))
        .plus(which[1].times(products));
    let square = drawn.norms.times(normed).times(value.square());
    let sum = square.plus(drawn.xi.times(phi).times(value));
    Ok(eq(&drawn.tau, &point.column).times(sum))
}

/// Reads elements of `F`.
pub(super) fn receive(
    verifier: &mut Verifier<'_>,
    field: &'static str,
    count: usize,
) -> Result<Vec<F>, Reject> {
    let residues = verifier.receiver.residues(field, count * COORDINATES)?;
    let chunks = residues.as_chunks::<COORDINATES>().0.iter();
    // Drops none, as `residues` has rejected everything that is not below `Q`.
    Ok(chunks.filter_map(|&x| F::from_canonical(x)).collect())
}

/// The verifier's side: returns the point, and the value that `s` must have there.
pub(super) fn verify(
    layout: &Layout,
    relation: &Relation<'_>,
    verifier: &mut Verifier<'_>,
) -> Result<(Point, F), Reject> {
    let exec = verifier.exec;
    exec.step("claim of the sumcheck")?;
    let drawn = Drawn::new(layout, &verifier.receiver.transcript);
    let mut claim = claim(layout, relation, &drawn, exec)?;
    let mut challenges = Vec::new();
    for round in 0..rounds(layout) {
        let sent = receive(verifier, "round", sent(round))?;
        let r = challenge(&verifier.receiver.transcript);
        claim = next_claim(claim, &sent, r);
        challenges.push(r);
    }
    let point = Point::new(layout, &challenges);
    let value = receive(verifier, "value", 1)?[0];
    exec.step("end of the sumcheck")?;
    let expected = expected(layout, relation, &drawn, &point, value, exec)?;
    let holds = claim == expected;
    verifier.receiver.require(holds, Reject::Sumcheck)?;
    Ok((point, value))
}
