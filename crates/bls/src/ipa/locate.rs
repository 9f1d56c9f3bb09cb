//! Group testing: finds the proofs of a batch that do not hold.

use alphorn_exec::Exec;

use super::verify::Batch;
use super::{Bases, Claim, IpaError};
use crate::blst_ffi::curve::G1Affine;
use crate::blst_ffi::points::g1;
use crate::rlc::Rlc;

/// Sums over all positions that verifying a single proof costs: over G, H and the committee's keys.
const SUMS_ALONE: usize = 3;

/// Result and cost of [`locate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Indices of the proofs that do not hold, ascending.
    pub bad: Vec<usize>,
    /// Number of tests of a part of the batch.
    pub tests: usize,
    /// Sums over all positions in these tests: two, plus one for each committee of the part.
    pub sums: usize,
}

/// Finds the proofs of a batch that do not hold.
///
/// The parts of a batch have *values*: points that are the identity if all proofs of a part hold. The value of
/// the whole is the sum of the values of its halves, so one test decides both halves. But each test consists of
/// sums over all positions, which cost the same for one proof as for many of its committee. For this reason
/// there are never more tests than proofs, and the search switches to single tests once it has cost more than a
/// tenth of them beyond what it decided.
///
/// All verdicts equal those of [`super::verify`] except with probability 2n·2^-b for n proofs and weights of b
/// bits.
///
/// # Errors
/// [`IpaError::Bases`] if there are too few bases.
pub fn locate(
    bases: &Bases,
    claims: &[Claim<'_>],
    rlc: &Rlc,
    exec: Exec<'_>,
) -> Result<Located, IpaError> {
    let mut batch = Batch::new(bases, claims, rlc)?;
    // Committees stay together; within a committee, an attacker cannot choose the positions of bad proofs.
    let mut order: Vec<usize> = (0..claims.len()).collect();
    batch.stream.shuffle(&mut order);
    order.sort_by_key(|&i| claims[i].statement.committee.digest);
    let mut search = Search {
        batch: &batch,
        exec,
        found: Located {
            bad: Vec::new(),
            tests: 0,
            sums: 0,
        },
        decided: 0,
        sums_allowed: 0,
    };
    search.run(&order);
    let mut found = search.found;
    found.bad.sort_unstable();
    Ok(found)
}

struct Search<'a> {
    batch: &'a Batch<'a>,
    exec: Exec<'a>,
    found: Located,
    /// Number of proofs with a verdict.
    decided: usize,
    /// Number of sums that may be spent before anything is decided.
    sums_allowed: usize,
}

impl Search<'_> {
    fn run(&mut self, order: &[usize]) {
        if order.is_empty() {
            return;
        }
        let whole = self.test(order);
        let n = order.len();
        // At least as many as it takes to find a single bad proof by halving.
        let tests_allowed = (n / 10).max(n.ilog2() as usize + 1);
        self.sums_allowed = self.found.sums + SUMS_ALONE * tests_allowed;
        let mut parts = vec![(order, whole)];
        while let Some((part, value)) = parts.pop() {
            if value.is_infinity() {
                self.decided += part.len();
            } else if part.len() == 1 {
                self.decided += 1;
                self.found.bad.push(part[0]);
            } else {
                let spent = self.found.sums;
                let one_by_one = spent > self.sums_allowed + SUMS_ALONE * self.decided;
                let size = if one_by_one {
                    1
                } else {
                    part.len().div_ceil(2)
                };
                let (left, right) = part.split_at(size);
                let left_value = self.test(left);
                // Values add up, so the other half costs no test.
                let right_value = g1::sum_naive(&[value, left_value.neg()]);
                parts.push((right, right_value));
                parts.push((left, left_value));
            }
        }
    }

    /// Computes the value of a part.
    fn test(&mut self, part: &[usize]) -> G1Affine {
        let digest = |i: &usize| self.batch.claims[*i].statement.committee.digest;
        let committees = part.chunk_by(|a, b| digest(a) == digest(b)).count();
        self.found.tests += 1;
        self.found.sums += 2 + committees;
        self.batch.value(part, self.exec)
    }
}
