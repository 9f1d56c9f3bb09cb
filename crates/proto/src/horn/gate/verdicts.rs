//! Handling of verification results.

use alphorn_scheme::{self as scheme, Outcome, Product};
use std::collections::BTreeSet;

use super::votes::spawn_votes;
use super::{Gate, Job};
use crate::horn::effects::Origin;
use crate::horn::role::Lent;

/// Maximum number of jobs for the same messages, each without those that a worker named before.
const TRIES_MAX: u8 = 4;

/// The failed claim of each message, or none. Returns nothing if the job has no verdicts.
pub(super) fn failed_claims(outcome: Outcome<Product>, items: usize) -> Option<Vec<Option<usize>>> {
    match outcome {
        // A list of another length says nothing about any message: the job counts as not run, and no peer
        // is blamed.
        Outcome::Done(Product::Verdicts(verdicts)) if verdicts.len() == items => {
            let claim = |verdict| match verdict {
                scheme::Verdict::Valid => None,
                scheme::Verdict::Invalid { claim } => Some(claim),
            };
            Some(verdicts.into_iter().map(claim).collect())
        }
        _ => None,
    }
}

impl Job {
    /// Removes the messages at these indices.
    fn take(&mut self, named: &[usize]) -> Vec<Origin> {
        fn take<M>(
            messages: &mut Vec<M>,
            named: &[usize],
            origin: impl Fn(&M) -> Origin,
        ) -> Vec<Origin> {
            let named: BTreeSet<usize> = named.iter().copied().collect();
            let (mut taken, mut left) = (Vec::new(), Vec::new());
            for (i, message) in std::mem::take(messages).into_iter().enumerate() {
                match named.contains(&i) {
                    true => taken.push(origin(&message)),
                    false => left.push(message),
                }
            }
            *messages = left;
            taken
        }
        match self {
            Self::Votes { votes, .. } => take(votes, named, |vote| vote.origin),
            Self::Aggregates { aggregates, .. } => take(aggregates, named, |one| one.origin),
            Self::Proposers { blocks, .. } => take(blocks, named, |block| block.origin),
            // A block is verified as a whole or not at all.
            Self::Block(_) => Vec::new(),
        }
    }

    /// Whether its messages may be verified again.
    fn may_again(&self) -> bool {
        let (messages, tries) = match self {
            Self::Votes { votes, tries, .. } => (votes.len(), *tries),
            Self::Aggregates {
                aggregates, tries, ..
            } => (aggregates.len(), *tries),
            Self::Proposers { blocks, tries } => (blocks.len(), *tries),
            Self::Block(_) => return false,
        };
        messages > 0 && tries < TRIES_MAX
    }
}

impl Gate {
    /// Handles messages that a worker named because they crash the worker; it verified no others. The
    /// named ones are not accepted, and no peer is blamed for them, because nothing is proven. The others
    /// are verified without them.
    pub(super) fn verify_rest(&mut self, lent: &mut Lent<'_>, mut job: Job, named: &[usize]) {
        let gone = job.take(named);
        gone.iter().for_each(|origin| lent.fx.ignore(*origin));
        // Where nothing was removed the next job would be the same as this one, and crash as well.
        if gone.is_empty() || !job.may_again() {
            return self.finished(lent, job, Outcome::Crashed);
        }
        match job {
            // `spawn_votes` would drop votes of a slot that is over, and each of them needs a verdict.
            Job::Votes { slot, .. } if !lent.slots.contains_key(&slot) => {
                return self.finished(lent, job, Outcome::Crashed);
            }
            Job::Votes {
                slot,
                cell,
                votes,
                tries,
            } => spawn_votes(lent, slot, cell, votes, tries + 1),
            Job::Aggregates {
                queue,
                epoch,
                stage,
                aggregates,
                tries,
            } => self.spawn_aggregates(lent, queue, epoch, stage, aggregates, tries + 1),
            Job::Proposers { blocks, tries } => self.spawn_proposers(lent, blocks, tries + 1),
            Job::Block(_) => {}
        }
        lent.fx.counters.jobs_failed += 1;
    }
}
