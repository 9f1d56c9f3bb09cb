//! The relation that a level leaves to the next one.

use alphorn_exec::{Backend, Exec, Stopped};

use crate::key::{FIRST, GARBAGE, INNER, Key, OUTER};
use crate::ring::{Ntt, Rq};
use crate::schedule::{Cut, Level, Schedule};

/// The commitment keys of a schedule.
pub struct Keys {
    /// Commits to pieces.
    pub(crate) inner: Key,
    /// Commits to the digits of the first part of `t`, at levels that make two commitments to `t`.
    pub(crate) first: Key,
    /// Commits to the other digits of `t`.
    pub(crate) outer: Key,
    /// Commits to the digits of `h`.
    pub(crate) garbage: Key,
    /// Backend for all computations with these keys.
    pub(crate) backend: Backend,
}

impl Keys {
    /// Draws keys for the proofs of a schedule. Longer keys begin with the same elements, so one set
    /// serves every shorter schedule.
    #[must_use]
    pub fn expand(schedule: &Schedule, backend: Backend) -> Self {
        let (inner, outer) = schedule.key_lengths();
        Self::with_lengths(inner, outer, backend)
    }

    /// Draws keys for all schedules whose [`Schedule::key_lengths`] are at most these.
    #[must_use]
    pub fn with_lengths(inner: usize, outer: usize, backend: Backend) -> Self {
        Self {
            inner: Key::expand(INNER, inner, backend),
            first: Key::expand(FIRST, outer, backend),
            outer: Key::expand(OUTER, outer, backend),
            garbage: Key::expand(GARBAGE, outer, backend),
            backend,
        }
    }

    /// Whether the keys are long enough for a schedule.
    #[must_use]
    pub fn serve(&self, schedule: &Schedule) -> bool {
        let (inner, outer) = schedule.key_lengths();
        let lengths = [
            (&self.inner, inner),
            (&self.first, outer),
            (&self.outer, outer),
            (&self.garbage, outer),
        ];
        lengths.iter().all(|(key, length)| key.length() >= *length)
    }
}

/// The public data after a level: its commitments, challenges and amortised form. The witness is
/// `z_0, z_1` of the level's rank, then `v`, the digits of `t` and `h`:
///
/// 1. the squared norm of all is at most `norm_sq_out`;
/// 2. `B1 (t digits) = u1`, or `B0 (first t digits) = u0` and `B1 (other t digits) = u1`;
/// 3. `B2 (h digits) = u2`;
/// 4. `A z = sum c_i t_i`;
/// 5. `sum h_ii = b`;
/// 6. `<phi, z> = sum_{i<=j} c_i c_j h_ij`.
///
/// If all pieces share families of forms, `phi_i = sum_f a_(f,i) psi_f`, the garbage is
/// `h_(f,i) = <psi_f, s_i>`, the sum in (5) is `sum a_(f,i) h_(f,i)`, and (6) is replaced by
/// `<psi_f, z> = sum c_i h_(f,i)` for every family.
pub(crate) struct Folded<'a> {
    pub(crate) level: &'a Level,
    pub(crate) keys: &'a Keys,
    /// `c_1 .. c_r`.
    pub(crate) challenges: Vec<Ntt>,
    pub(crate) linear: Linear,
    /// `b`.
    pub(crate) rhs: Rq,
    pub(crate) openings: Openings,
    pub(crate) u2: Vec<Rq>,
}

/// The linear forms after a level.
pub(crate) enum Linear {
    /// `sum c_i phi_i`.
    One(Vec<Rq>),
    /// Families of forms that all pieces share.
    Families(Families),
}

/// Linear forms that are sums of a few shared forms.
pub(crate) struct Families {
    pub(crate) forms: Box<dyn Combine>,
    /// `a_(f,i)`, family by family.
    pub(crate) coefficients: Vec<Rq>,
}

/// The forms of families.
pub(crate) trait Combine: Sync {
    /// Returns `sum_f factors[f] psi_f`. The factors of forms of single pieces are short: weights or challenges.
    fn combine(&self, factors: &[Ntt], exec: Exec<'_>) -> Result<Vec<Rq>, Stopped>;
}

/// The commitments to the digits of `t`.
pub(crate) struct Openings {
    /// Empty if `u1` opens all digits of `t`.
    pub(crate) u0: Vec<Rq>,
    /// Digits of `t` under `u0`.
    pub(crate) first_digits: usize,
    pub(crate) u1: Vec<Rq>,
}

/// Returns the position of element `index` of `(z_0 | z_1 | v)` in the cut witness.
pub(crate) fn place(cut: &Cut, rank: usize, index: usize) -> usize {
    let span = cut.z_pieces * cut.rank;
    match index {
        i if i < rank => i,
        i if i < 2 * rank => span + i - rank,
        i => 2 * (span - rank) + i,
    }
}

impl Folded<'_> {
    /// Returns the number of elements of `(z_0 | z_1 | v)`.
    fn length(&self) -> usize {
        2 * self.level.cut.rank + self.level.digits()
    }

    /// Returns the elements of the cut witness that must be zero: those after the halves of `z` and after `v`.
    /// No equation of the relation covers them, so each has one of its own.
    pub(crate) fn padding(&self, cut: &Cut) -> Vec<usize> {
        let rank = self.level.cut.rank;
        let mut used = vec![false; cut.pieces * cut.rank];
        for index in 0..self.length() {
            used[place(cut, rank, index)] = true;
        }
        (0..used.len()).filter(|&index| !used[index]).collect()
    }
}
