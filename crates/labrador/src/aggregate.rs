//! The equations of a [`Folded`] under their weights, as a linear form that is computed position by
//! position and never stored.
//!
//! Everything in it is a key element or a number known to both sides, times short factors. So
//! weights and factors of pieces are multiplied once, and a position costs one sum of products in
//! residues and one reduction, for all the pieces it covers. The verifier sums all pieces
//! under their challenges, while the prover takes one piece after another.
//!
//! Bounds: an element of a key or of `phi` has coefficients up to `2^47`. It is multiplied by
//! a challenge and a weight, whose coefficients together count for up to 128, and by `1 + 2^b`, which
//! counts for `2^19`. The coefficients of the digits of the garbage of families are reduced first. All terms
//! together are therefore below `2^92`, and the residues hold `2^102`.

use std::borrow::Cow;
use std::ops::Range;

use alphorn_exec::{Backend, Exec, Stopped};

use crate::challenge::many_weights;
use crate::folded::{Families, Folded, Linear};
use crate::form::{pairs, power};
use crate::kernel::{Dispatch, Pass, Vectors};
use crate::key::Scratch;
use crate::ring::{Ntt, Rq, Scaled, Small, Transforms};
use crate::schedule::{Cut, Level};
use crate::transcript::{Stream, is_left_out};

/// The weights of the equations (2) to (5); (6) has weight 1, or one for each family.
struct Weights {
    first: Vec<Ntt>,
    outer: Vec<Ntt>,
    garbage: Vec<Ntt>,
    inner: Vec<Ntt>,
    sum: Ntt,
    /// Weights of (6), one per family.
    families: Vec<Ntt>,
}

impl Weights {
    fn draw(level: &Level, first: usize, stream: &mut Stream, backend: Backend) -> Self {
        let mut many = |count: usize| {
            let weights = many_weights(stream, count);
            backend.residues_bounded(&weights, 2)
        };
        let (first, outer) = (many(first), many(level.kappa_outer));
        let (garbage, inner) = (many(level.kappa_outer), many(level.kappa));
        let mut out = Self {
            first,
            outer,
            garbage,
            inner,
            sum: many(1).remove(0),
            families: many(level.families),
        };
        for (left_out, weights) in [
            (is_left_out!(stream, First), &mut out.first[..]),
            (is_left_out!(stream, Outer), &mut out.outer),
            (is_left_out!(stream, Garbage), &mut out.garbage),
            (is_left_out!(stream, Inner), &mut out.inner),
            (
                is_left_out!(stream, Sum),
                std::slice::from_mut(&mut out.sum),
            ),
            (is_left_out!(stream, Families), &mut out.families),
        ] {
            if left_out {
                weights.fill(Ntt::zero());
            }
        }
        out
    }

    /// Returns the right side of the sum of all equations under their weights.
    fn right_side(&self, folded: &Folded<'_>, backend: Backend) -> Rq {
        let rhs = std::slice::from_ref(&folded.rhs);
        let mut sum = Rq::ZERO;
        // (4) and (6), and those of families, have zero on the right.
        let openings = [
            (std::slice::from_ref(&self.sum), rhs),
            (&self.first, &folded.openings.u0),
            (&self.outer, &folded.openings.u1),
            (&self.garbage, &folded.u2),
        ];
        for (weights, u) in openings {
            let u = backend.transforms(u);
            sum.add(&backend.element(&backend.dot(weights.iter().zip(&u))));
        }
        sum
    }
}

/// The linear form of all equations of a relation, each with its weight, over a cut witness.
pub(crate) struct Aggregate<'a> {
    folded: &'a Folded<'a>,
    cut: Cut,
    weights: Weights,
    pairs: Vec<(usize, usize)>,
    /// Coefficient of each `h_(f,i)` in equations (5) and (6); empty without families.
    shared: Vec<Rq>,
    /// The form of equation (6).
    phi: Cow<'a, [Rq]>,
}

/// Returns an integer as an element.
fn constant(x: i16) -> Ntt {
    let mut element = Small::ZERO;
    element.0[0] = x;
    Ntt::from_small_bounded(&element, x.unsigned_abs())
}

/// Positions per task.
const PLACES: usize = 32;

impl<'a> Aggregate<'a> {
    /// Draws the weights from `stream`.
    pub(crate) fn draw(
        folded: &'a Folded<'a>,
        cut: &Cut,
        stream: &mut Stream,
        exec: Exec<'_>,
    ) -> Result<Self, Stopped> {
        let (level, first) = (folded.level, folded.openings.u0.len());
        let weights = Weights::draw(level, first, stream, exec.backend());
        let mut shared = Vec::new();
        let phi = match &folded.linear {
            Linear::One(phi) => Cow::Borrowed(&phi[..]),
            Linear::Families(families) => {
                shared = of_families(folded, families, &weights, exec)?;
                Cow::Owned(families.forms.combine(&weights.families, exec)?)
            }
        };
        Ok(Self {
            folded,
            cut: *cut,
            weights,
            shared,
            phi,
            pairs: pairs(level.cut.pieces).collect(),
        })
    }

    /// Returns the right side of the sum of all equations.
    pub(crate) fn right_side(&self, backend: Backend) -> Rq {
        self.weights.right_side(self.folded, backend)
    }

    /// Returns the form under one factor per piece; pieces without a factor are left out.
    pub(crate) fn under(&self, factors: &[Option<Ntt>], backend: Backend) -> Under<'_> {
        assert_eq!(factors.len(), self.cut.pieces, "a factor for each piece");
        let z = self.cut.z_pieces;
        // `z = z_0 + 2^b z_1`: both halves have the same form, so their factors are joined, the upper one times
        // `2^b`. The search keeps `b` at 12 or less, so the constant fits 16 bits.
        let base = constant(1 << self.folded.level.z_base);
        let (low, rest) = factors.split_at(z);
        let (high, v) = rest.split_at(z);
        let response = low.iter().zip(high).map(|(low, high)| {
            let mut sum = low.clone();
            if let Some(high) = high {
                let shifted = backend.product(high, &base);
                sum.get_or_insert_with(Ntt::zero).add(&shifted);
            }
            sum.map(|factor| OfResponse::new(self, &factor, backend))
        });
        Under {
            of: self,
            response: response.collect(),
            digits: (v.iter())
                .map(|factor| factor.as_ref().map(|c| OfDigits::new(self, c, backend)))
                .collect(),
        }
    }

    /// Adds the form to a vector of all positions.
    pub(crate) fn add_to(&self, phi: &mut [Rq], exec: Exec<'_>) -> Result<(), Stopped> {
        let rank = self.cut.rank;
        for (piece, phi) in phi.chunks_exact_mut(rank).enumerate() {
            let mut factors = vec![None; self.cut.pieces];
            factors[piece] = Some(constant(1));
            let under = self.under(&factors, exec.backend());
            exec.try_fill(phi, PLACES, |task, phi| {
                let first = task * PLACES;
                let mut sums = vec![Ntt::zero(); phi.len()];
                under.add(first..first + phi.len(), &mut sums, exec.backend());
                let sums = exec.backend().elements(&sums);
                for (phi, sum) in phi.iter_mut().zip(&sums) {
                    phi.add(sum);
                }
            })?;
        }
        Ok(())
    }
}

/// Returns `a_(f,i)` under the weight of (5) plus `c_i` under the weight of (6).
fn of_families(
    folded: &Folded<'_>,
    families: &Families,
    weights: &Weights,
    exec: Exec<'_>,
) -> Result<Vec<Rq>, Stopped> {
    let (level, backend) = (folded.level, exec.backend());
    let pieces = level.cut.pieces;
    let mut out = vec![Rq::ZERO; weights.families.len() * pieces];
    exec.try_fill(&mut out, pieces, |family, out| {
        let range = family * pieces..(family + 1) * pieces;
        let coefficients = backend.transforms(&families.coefficients[range]);
        for ((a, c), out) in coefficients.iter().zip(&folded.challenges).zip(out) {
            let terms = [(a, &weights.sum), (c, &weights.families[family])];
            *out = backend.element(&backend.dot(terms));
        }
    })?;
    Ok(out)
}

/// Factors that equations (4) and (6) give to a piece of the two halves of `z`.
struct OfResponse {
    /// The negated factor, for `phi`.
    own: Scaled,
    /// The same times each weight of (4), for the rows of the inner key.
    rows: Vec<Scaled>,
}

impl OfResponse {
    fn new(of: &Aggregate<'_>, factor: &Ntt, backend: Backend) -> Self {
        // The equations read `sum c_i t_i - A z = 0` and `sum c_i c_j h_ij - <phi, z> = 0`; see `add_counts` for the
        // other side.
        let own = backend.product(factor, &constant(-1));
        Self {
            rows: backend.scaled_products(&own, &of.weights.inner),
            own: backend.scaled(&[own]).remove(0),
        }
    }
}

/// Factors of a piece of digits: the factor itself, and its products with the weights of (2) and (3) and with
/// the power that each digit of `t` and `h` stands for.
struct OfDigits {
    own: Scaled,
    first: Vec<Scaled>,
    outer: Vec<Scaled>,
    garbage: Vec<Scaled>,
    powers: Vec<Scaled>,
}

impl OfDigits {
    fn new(of: &Aggregate<'_>, factor: &Ntt, backend: Backend) -> Self {
        let (level, weights) = (of.folded.level, &of.weights);
        let powers = (0..level.t_digits as u32).map(|digit| power(level.t_base * digit));
        let powers = Ntt::constants(&powers.collect::<Vec<_>>(), backend);
        Self {
            first: backend.scaled_products(factor, &weights.first),
            outer: backend.scaled_products(factor, &weights.outer),
            garbage: backend.scaled_products(factor, &weights.garbage),
            powers: backend.scaled_products(factor, &powers),
            own: backend.scaled(std::slice::from_ref(factor)).remove(0),
        }
    }
}

/// The form under factors of the pieces, see [`Aggregate::under`].
pub(crate) struct Under<'a> {
    of: &'a Aggregate<'a>,
    response: Vec<Option<OfResponse>>,
    digits: Vec<Option<OfDigits>>,
}

impl Under<'_> {
    /// Adds the sums over all pieces at some positions.
    pub(crate) fn add(&self, places: Range<usize>, sums: &mut [Ntt], backend: Backend) {
        backend.run(AddPlaces(self, places, sums));
    }

    /// Adds the contribution of positions of `z` from number `first` on.
    #[inline(always)]
    fn add_response<V: Vectors>(
        &self,
        of: &OfResponse,
        first: usize,
        sums: &mut [Ntt],
        scratch: &mut Scratch<V>,
    ) {
        let mut residues = Ntt::zero();
        for (phi, sum) in self.of.phi[first..].iter().zip(&mut *sums) {
            residues.set_rq_in::<V>(phi);
            sum.add_scaled_in::<V>(&residues, &of.own);
        }
        let key = &self.of.folded.keys.inner;
        key.add_columns_in::<V>(&of.rows, first, sums, scratch);
    }

    /// Adds the contribution of digits of `v` from number `first` on.
    #[inline(always)]
    fn add_digits<V: Vectors>(
        &self,
        of: &OfDigits,
        first: usize,
        sums: &mut [Ntt],
        scratch: &mut Scratch<V>,
    ) {
        let folded = self.of.folded;
        let (level, keys) = (folded.level, folded.keys);
        // Digits under `u0` come first in `v`, then those under `u1`, then those under `u2`.
        let ends = [
            folded.openings.first_digits,
            level.digits_outer(),
            usize::MAX,
        ];
        let of_key = [
            (&keys.first, &of.first),
            (&keys.outer, &of.outer),
            (&keys.garbage, &of.garbage),
        ];
        let (mut start, last) = (0, first + sums.len());
        for (end, (key, weights)) in ends.into_iter().zip(of_key) {
            let (from, to) = (first.max(start), last.min(end));
            if from < to {
                let sums = &mut sums[from - first..to - first];
                key.add_columns_in::<V>(weights, from - start, sums, scratch);
            }
            start = end;
        }
        self.add_counts::<V>(of, first, sums);
    }

    /// Adds the coefficients of digits of `v` from number `first` on in equations (4) to (6).
    #[inline(always)]
    fn add_counts<V: Vectors>(&self, of: &OfDigits, first: usize, sums: &mut [Ntt]) {
        let Aggregate {
            folded, weights, ..
        } = self.of;
        let (level, challenges): (&Level, _) = (folded.level, &folded.challenges);
        // Coefficient of the element whose consecutive digits are being added.
        let mut counts = Ntt::zero();
        for (index, sum) in (first..).zip(sums) {
            let linear = index.checked_sub(level.digits_outer());
            let within = linear.unwrap_or(index);
            let (element, digit) = (within / level.t_digits, within % level.t_digits);
            if let Some(shared) = linear.and_then(|_| self.of.shared.get(element)) {
                // These coefficients are full residues, so the power is multiplied in modulo `Q` and not as one more
                // wide factor.
                counts.set_shifted_in::<V>(shared, level.t_base * digit as u32);
                sum.add_scaled_in::<V>(&counts, &of.own);
                continue;
            }
            // The range of a task may begin with any digit of an element.
            if digit == 0 || index == first {
                if linear.is_none() {
                    let weight = &weights.inner[element % level.kappa];
                    counts = challenges[element / level.kappa].times_in::<V>(weight);
                } else {
                    let (i, j) = self.of.pairs[element];
                    counts = challenges[i].times_in::<V>(&challenges[j]);
                    if i == j {
                        counts.add_in::<V>(&weights.sum);
                    }
                }
            }
            sum.add_scaled_in::<V>(&counts, &of.powers[digit]);
        }
    }
}

struct AddPlaces<'a>(&'a Under<'a>, Range<usize>, &'a mut [Ntt]);

impl Pass for AddPlaces<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let Self(under, places, sums) = self;
        let mut scratch = Scratch::new();
        let rank = under.of.cut.rank;
        let (length, digits) = (under.of.phi.len(), under.of.folded.level.digits());
        for (piece, of) in under.response.iter().enumerate() {
            let first = piece * rank + places.start;
            let count = length.saturating_sub(first).min(sums.len());
            if let Some(of) = of.as_ref().filter(|_| count > 0) {
                under.add_response::<V>(of, first, &mut sums[..count], &mut scratch);
            }
        }
        for (piece, of) in under.digits.iter().enumerate() {
            let first = piece * rank + places.start;
            let count = digits.saturating_sub(first).min(sums.len());
            if let Some(of) = of.as_ref().filter(|_| count > 0) {
                under.add_digits::<V>(of, first, &mut sums[..count], &mut scratch);
            }
        }
    }
}
