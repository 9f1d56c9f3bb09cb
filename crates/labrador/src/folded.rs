//! The relation that a level leaves to the next one.

use std::ops::Range;

use alphorn_exec::{Backend, Exec, Stopped};

use crate::challenge::weight;
use crate::form::{Equations, Form, Quadratic, pairs, shifted};
use crate::kernel::{Dispatch, Pass, Vectors};
use crate::key::{FIRST, GARBAGE, INNER, Key, OUTER};
use crate::ring::{Ntt, Rq};
use crate::schedule::{Cut, Level, Schedule};
use crate::transcript::Stream;

/// The commitment keys of a schedule.
pub struct Keys {
    /// Commits to pieces.
    pub(crate) inner: Key,
    /// Commits to the digits of the first part of `t`; empty if there is one commitment.
    pub(crate) first: Key,
    /// Commits to the other digits of `t` and to those of `g`.
    pub(crate) outer: Key,
    /// Commits to the digits of `h`.
    pub(crate) garbage: Key,
    /// What everything over these keys is computed with.
    pub(crate) backend: Backend,
}

impl Keys {
    /// Keys for proofs with one or two openings at the first level, pieces of up to `inner`
    /// elements and up to `outer` digits. Longer keys begin with the same elements, so one set
    /// serves every schedule that is shorter.
    #[must_use]
    pub fn expand(inner: usize, outer: usize, openings: usize, backend: Backend) -> Self {
        Self {
            inner: Key::expand(INNER, inner, backend),
            first: Key::expand(FIRST, if openings > 1 { outer } else { 0 }, backend),
            outer: Key::expand(OUTER, outer, backend),
            garbage: Key::expand(GARBAGE, outer, backend),
            backend,
        }
    }

    /// Bytes of memory of the keys.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let keys = [&self.inner, &self.first, &self.outer, &self.garbage];
        keys.iter().map(|key| key.bytes()).sum()
    }

    /// Whether the keys are long enough for a schedule.
    #[must_use]
    pub fn serve(&self, schedule: &Schedule, openings: usize) -> bool {
        let (inner, outer) = schedule.key_lengths();
        let first = if openings > 1 { outer } else { 0 };
        let lengths = [
            (&self.inner, inner),
            (&self.first, first),
            (&self.outer, outer),
            (&self.garbage, outer),
        ];
        lengths.iter().all(|(key, length)| key.length() >= *length)
    }
}

/// What is public after a level: its commitments, challenges and amortised form. The witness is
/// `z_0, z_1` of the level's rank, then `v`, the digits of `t`, `g` and `h`:
///
/// 1. the squared norm of all is at most `norm_sq_out`;
/// 2. `B1 (t digits | g digits) = u1`, or `B0 (first t digits) = u0` and
///    `B1 (other t digits | g digits) = u1`;
/// 3. `B2 (h digits) = u2`;
/// 4. `A z = sum c_i t_i`;
/// 5. `sum a_ij g_ij + sum h_ii = b`;
/// 6. `<z, z> = sum c_i^2 g_ii + 2 sum_{i<j} c_i c_j g_ij`, if any equation is quadratic;
/// 7. `<phi, z> = sum_{i<=j} c_i c_j h_ij`.
pub struct Folded<'a> {
    pub(crate) level: &'a Level,
    pub(crate) keys: &'a Keys,
    /// `c_1 .. c_r`.
    pub(crate) challenges: Vec<Ntt>,
    /// `sum c_i phi_i`.
    pub(crate) phi: Vec<Rq>,
    /// `a_ij`.
    pub(crate) quadratic: Quadratic,
    /// `b`.
    pub(crate) rhs: Rq,
    pub(crate) openings: Openings,
    pub(crate) u2: Vec<Rq>,
}

/// The commitments to the digits of `t` and `g`.
pub(crate) struct Openings {
    /// Empty if `u1` opens all digits of `t`.
    pub(crate) u0: Vec<Rq>,
    /// Digits of `t` under `u0`.
    pub(crate) first_digits: usize,
    pub(crate) u1: Vec<Rq>,
}

/// The weights of the equations (2) to (6); (7) has weight 1.
struct Weights {
    first: Vec<Ntt>,
    outer: Vec<Ntt>,
    garbage: Vec<Ntt>,
    inner: Vec<Ntt>,
    norm: Ntt,
    sum: Ntt,
}

impl Weights {
    fn draw(level: &Level, first: usize, stream: &mut Stream) -> Self {
        let mut one = || Ntt::from_small_bounded(&weight(stream), 2);
        Self {
            first: (0..first).map(|_| one()).collect(),
            outer: (0..level.kappa_outer).map(|_| one()).collect(),
            garbage: (0..level.kappa_outer).map(|_| one()).collect(),
            inner: (0..level.kappa).map(|_| one()).collect(),
            norm: one(),
            sum: one(),
        }
    }
}

/// The place of element `index` of `(z_0 | z_1 | v)` in the cut witness.
pub(crate) fn place(cut: &Cut, rank: usize, index: usize) -> usize {
    let span = cut.z_pieces * cut.rank;
    match index {
        i if i < rank => i,
        i if i < 2 * rank => span + i - rank,
        i => 2 * (span - rank) + i,
    }
}

impl Folded<'_> {
    /// Elements of `(z_0 | z_1 | v)`.
    fn length(&self) -> usize {
        2 * self.level.cut.rank + self.level.digits()
    }

    /// Equation (6) on the pieces of `z = z_0 + 2^base z_1`.
    fn add_norm(&self, cut: &Cut, weights: &Weights, form: &mut Form) {
        let mut square = Rq::ZERO;
        square.sub(&weights.norm.to_rq());
        let base = self.level.z_base;
        let mixed = shifted(&square, base + 1);
        let upper = shifted(&square, 2 * base);
        for low in 0..cut.z_pieces {
            let high = cut.z_pieces + low;
            form.add_quadratic(low, low, &square);
            form.add_quadratic(low, high, &mixed);
            form.add_quadratic(high, high, &upper);
        }
    }
}

/// The coefficients of equations (4) and (7) on places of `z_0`.
struct OfResponse<'a>(&'a Folded<'a>, &'a Weights, Range<usize>);

impl Pass for OfResponse<'_> {
    type Output = Vec<Rq>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Vec<Rq> {
        let Self(folded, weights, places) = self;
        let mut out = Vec::with_capacity(places.len());
        for k in places {
            let mut factor = Rq::ZERO;
            factor.sub(&folded.phi[k]);
            let column = (folded.keys.inner).transposed_in::<V>(&weights.inner, k);
            factor.sub(&column.to_rq_in::<V>());
            out.push(factor);
        }
        out
    }
}

/// The coefficients of equations (2) and (4) on the digits of `t` of one piece.
struct OfInner<'a>(&'a Folded<'a>, &'a Weights, usize);

impl Pass for OfInner<'_> {
    type Output = Vec<Rq>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Vec<Rq> {
        let Self(folded, weights, piece) = self;
        let level = folded.level;
        let mut column = piece * level.kappa * level.t_digits;
        let mut out = Vec::with_capacity(level.kappa * level.t_digits);
        for inner in &weights.inner {
            let factor = folded.challenges[piece].times_in::<V>(inner);
            let factor = factor.to_rq_in::<V>();
            for digit in 0..level.t_digits {
                let mut sum = folded.under_outer::<V>(weights, column);
                sum.add(&shifted(&factor, level.t_base * digit as u32));
                out.push(sum);
                column += 1;
            }
        }
        out
    }
}

/// The coefficients on the digits of `g` and of `h` of some pairs, those of `g` by equations (2),
/// (5) and (6), those of `h` by (3), (5) and (7).
struct OfGarbage<'a> {
    folded: &'a Folded<'a>,
    weights: &'a Weights,
    /// The number of the first pair.
    first: usize,
    pairs: &'a [(usize, usize)],
}

impl Pass for OfGarbage<'_> {
    type Output = [Vec<Rq>; 2];

    #[inline(always)]
    fn run<V: Vectors>(self) -> [Vec<Rq>; 2] {
        let (folded, weights, level) = (self.folded, self.weights, self.folded.level);
        let g_start = level.digits_outer() - level.g_digits * level.cut.pairs();
        let mut out = [const { Vec::new() }; 2];
        for (pair, &(i, j)) in (self.first..).zip(self.pairs) {
            let product = folded.challenges[i].times_in::<V>(&folded.challenges[j]);
            if level.g_digits > 0 {
                let mut factor = product.times_in::<V>(&weights.norm).to_rq_in::<V>();
                if i != j {
                    factor = factor.scaled(2);
                }
                if let Some(a) = folded.quadratic.get(&(i, j)) {
                    let product = Ntt::from_rq_in::<V>(a).times_in::<V>(&weights.sum);
                    factor.add(&product.to_rq_in::<V>());
                }
                for digit in 0..level.g_digits {
                    let column = g_start + pair * level.g_digits + digit;
                    let mut sum = folded.under_outer::<V>(weights, column);
                    sum.add(&shifted(&factor, level.g_base * digit as u32));
                    out[0].push(sum);
                }
            }
            let mut factor = product;
            if i == j {
                factor.add_in::<V>(&weights.sum);
            }
            let factor = factor.to_rq_in::<V>();
            for digit in 0..level.t_digits {
                let column = pair * level.t_digits + digit;
                let key = (folded.keys.garbage).transposed_in::<V>(&weights.garbage, column);
                let mut sum = key.to_rq_in::<V>();
                sum.add(&shifted(&factor, level.t_base * digit as u32));
                out[1].push(sum);
            }
        }
        out
    }
}

impl Folded<'_> {
    /// Equation (2) on digit `column` of `t` and `g`.
    #[inline(always)]
    fn under_outer<V: Vectors>(&self, weights: &Weights, column: usize) -> Rq {
        let product = match column.checked_sub(self.openings.first_digits) {
            Some(column) => self.keys.outer.transposed_in::<V>(&weights.outer, column),
            None => self.keys.first.transposed_in::<V>(&weights.first, column),
        };
        product.to_rq_in::<V>()
    }

    fn right_side(&self, weights: &Weights) -> Rq {
        let mut sum = Ntt::from_rq(&self.rhs).times(&weights.sum).to_rq();
        let openings = [
            (&weights.first, &self.openings.u0),
            (&weights.outer, &self.openings.u1),
            (&weights.garbage, &self.u2),
        ];
        for (weights, u) in openings {
            for (weight, u) in weights.iter().zip(u) {
                sum.add(&Ntt::from_rq(u).times(weight).to_rq());
            }
        }
        sum
    }
}

/// Places of `z`, and pairs of pieces, of a task.
const PLACES: usize = 128;
const PAIRS: usize = 16;

impl Equations for Folded<'_> {
    fn aggregate(
        &self,
        cut: &Cut,
        stream: &mut Stream,
        form: &mut Form,
        exec: Exec<'_>,
    ) -> Result<(), Stopped> {
        let (level, backend, exec) = (self.level, exec.backend(), exec);
        let rank = level.cut.rank;
        let weights = Weights::draw(level, self.openings.u0.len(), stream);
        let response = exec.try_map(rank.div_ceil(PLACES), |task| {
            let places = task * PLACES..rank.min((task + 1) * PLACES);
            backend.run(OfResponse(self, &weights, places))
        })?;
        for (k, factor) in response.iter().flatten().enumerate() {
            form.phi[place(cut, rank, rank + k)].add(&shifted(factor, level.z_base));
            form.phi[place(cut, rank, k)].add(factor);
        }
        let inner = exec.try_map(level.cut.pieces, |piece| {
            backend.run(OfInner(self, &weights, piece))
        })?;
        let pairs: Vec<(usize, usize)> = pairs(level.cut.pieces).collect();
        let garbage = exec.try_map(pairs.len().div_ceil(PAIRS), |task| {
            let first = task * PAIRS;
            backend.run(OfGarbage {
                folded: self,
                weights: &weights,
                first,
                pairs: &pairs[first..pairs.len().min(first + PAIRS)],
            })
        })?;
        // The digits of t, g and h follow each other.
        let digits = (inner.iter().flatten())
            .chain(garbage.iter().flat_map(|of| &of[0]))
            .chain(garbage.iter().flat_map(|of| &of[1]));
        for (column, sum) in digits.enumerate() {
            form.phi[place(cut, rank, 2 * rank + column)].add(sum);
        }
        if level.g_digits > 0 {
            self.add_norm(cut, &weights, form);
        }
        form.rhs.add(&self.right_side(&weights));
        Ok(())
    }

    fn lift(&self, _: &Cut, _: &mut Stream, _: &mut Form) {}

    fn lifts_linear_forms(&self) -> bool {
        false
    }

    /// The places behind the halves of `z` and behind `v`. If they could be chosen freely, the
    /// sum (6) would run over them and any norm could be forged.
    fn padding(&self, cut: &Cut) -> Vec<usize> {
        let rank = self.level.cut.rank;
        let mut used = vec![false; cut.pieces * cut.rank];
        for index in 0..self.length() {
            used[place(cut, rank, index)] = true;
        }
        (0..used.len()).filter(|&index| !used[index]).collect()
    }
}
