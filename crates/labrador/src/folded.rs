//! The relation that a level leaves to the next one.

use crate::challenge::weight;
use crate::form::{Equations, Form, Quadratic, pairs, shifted};
use crate::kernel::{Backend, Pass, Vectors};
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

impl Openings {
    /// One commitment to everything.
    pub(crate) fn one(u1: Vec<Rq>) -> Self {
        Self {
            u0: Vec::new(),
            first_digits: 0,
            u1,
        }
    }
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

    /// Equations (4) and (7) on both halves of `z`.
    #[inline(always)]
    fn add_response<V: Vectors>(&self, cut: &Cut, weights: &Weights, form: &mut Form) {
        let rank = self.level.cut.rank;
        for (k, phi) in self.phi.iter().enumerate() {
            let mut factor = Rq::ZERO;
            factor.sub(phi);
            factor.sub(
                &self
                    .keys
                    .inner
                    .transposed_in::<V>(&weights.inner, k)
                    .to_rq_in::<V>(),
            );
            form.phi[place(cut, rank, rank + k)].add(&shifted(&factor, self.level.z_base));
            form.phi[place(cut, rank, k)].add(&factor);
        }
    }

    /// Equations (2) and (4) on the digits of `t`.
    #[inline(always)]
    fn add_inner<V: Vectors>(&self, cut: &Cut, weights: &Weights, form: &mut Form) {
        let level = self.level;
        let mut column = 0;
        for challenge in &self.challenges {
            for inner in &weights.inner {
                let factor = challenge.times_in::<V>(inner).to_rq_in::<V>();
                for digit in 0..level.t_digits {
                    let shift = level.t_base * digit as u32;
                    let place = place(cut, level.cut.rank, 2 * level.cut.rank + column);
                    let key = match column.checked_sub(self.openings.first_digits) {
                        Some(column) => self.keys.outer.transposed_in::<V>(&weights.outer, column),
                        None => self.keys.first.transposed_in::<V>(&weights.first, column),
                    };
                    form.phi[place].add(&key.to_rq_in::<V>());
                    form.phi[place].add(&shifted(&factor, shift));
                    column += 1;
                }
            }
        }
    }

    /// Equations (2), (5) and (6) on the digits of `g`, (3), (5) and (7) on those of `h`.
    #[inline(always)]
    fn add_garbage<V: Vectors>(&self, cut: &Cut, weights: &Weights, form: &mut Form) {
        let level = self.level;
        let g_start = level.digits_outer() - level.g_digits * level.cut.pairs();
        let offset = |column: usize| place(cut, level.cut.rank, 2 * level.cut.rank + column);
        for (pair, (i, j)) in pairs(level.cut.pieces).enumerate() {
            let product = self.challenges[i].times_in::<V>(&self.challenges[j]);
            if level.g_digits > 0 {
                let mut factor = product.times_in::<V>(&weights.norm).to_rq_in::<V>();
                if i != j {
                    factor = factor.scaled(2);
                }
                if let Some(a) = self.quadratic.get(&(i, j)) {
                    factor.add(
                        &Ntt::from_rq_in::<V>(a)
                            .times_in::<V>(&weights.sum)
                            .to_rq_in::<V>(),
                    );
                }
                for digit in 0..level.g_digits {
                    let column = g_start + pair * level.g_digits + digit;
                    let under = column - self.openings.first_digits;
                    let key = self.keys.outer.transposed_in::<V>(&weights.outer, under);
                    form.phi[offset(column)].add(&key.to_rq_in::<V>());
                    let shift = level.g_base * digit as u32;
                    form.phi[offset(column)].add(&shifted(&factor, shift));
                }
            }
            let mut factor = product;
            if i == j {
                factor.add_in::<V>(&weights.sum);
            }
            let factor = factor.to_rq_in::<V>();
            for digit in 0..level.t_digits {
                let column = pair * level.t_digits + digit;
                let key = self
                    .keys
                    .garbage
                    .transposed_in::<V>(&weights.garbage, column);
                let place = offset(level.digits_outer() + column);
                form.phi[place].add(&key.to_rq_in::<V>());
                form.phi[place].add(&shifted(&factor, level.t_base * digit as u32));
            }
        }
    }

    /// Equation (6) on the pieces of `z = z_0 + 2^base z_1`.
    #[inline(always)]
    fn add_norm<V: Vectors>(&self, cut: &Cut, weights: &Weights, form: &mut Form) {
        let mut square = Rq::ZERO;
        square.sub(&weights.norm.to_rq_in::<V>());
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

struct Aggregate<'a> {
    folded: &'a Folded<'a>,
    cut: &'a Cut,
    weights: Weights,
    form: &'a mut Form,
}

impl Pass for Aggregate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let (folded, cut, weights, form) = (self.folded, self.cut, &self.weights, self.form);
        folded.add_response::<V>(cut, weights, form);
        folded.add_inner::<V>(cut, weights, form);
        folded.add_garbage::<V>(cut, weights, form);
        if folded.level.g_digits > 0 {
            folded.add_norm::<V>(cut, weights, form);
        }
        let openings = [
            (&weights.first, &folded.openings.u0),
            (&weights.outer, &folded.openings.u1),
            (&weights.garbage, &folded.u2),
        ];
        for (weights, u) in openings {
            for (weight, u) in weights.iter().zip(u) {
                let product = Ntt::from_rq_in::<V>(u).times_in::<V>(weight);
                form.rhs.add(&product.to_rq_in::<V>());
            }
        }
        let sum = Ntt::from_rq_in::<V>(&folded.rhs).times_in::<V>(&weights.sum);
        form.rhs.add(&sum.to_rq_in::<V>());
    }
}

impl Equations for Folded<'_> {
    fn aggregate(&self, cut: &Cut, stream: &mut Stream, form: &mut Form) {
        let weights = Weights::draw(self.level, self.openings.u0.len(), stream);
        self.keys.backend.run(Aggregate {
            folded: self,
            cut,
            weights,
            form,
        });
    }

    fn lift(&self, _: &Cut, _: &mut Stream, _: &mut Form) {}

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
