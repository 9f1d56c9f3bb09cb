//! Cross-checks a sample of all verdicts with code that shares nothing with the scheme's own.

use super::lanes::{Lanes, Queued};
use crate::Progress;
use alphorn_scheme::{Claim, Env, Keys, Verdict, Work};
use alphorn_types::Epoch;
use rayon::prelude::*;
use std::sync::Arc;

/// One in this many claims about a single signature is checked.
const SIGNATURES_EACH: u64 = 1024;

/// One in this many claims about a group is checked.
const GROUPS_EACH: u64 = 16;

/// Decides claims with an implementation other than the scheme's own. The caller supplies it, since
/// the simulator names no scheme.
pub trait CrossCheck: Send + Sync {
    /// Whether a claim holds; none if there is no second way to decide it.
    fn holds(&self, keys: &Keys, claim: &Claim) -> Option<bool>;
}

/// Results of the cross-check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrossCounts {
    /// Claims about single signatures that were decided twice.
    pub signatures: u64,
    /// Claims about groups that were decided twice.
    pub groups: u64,
    /// Claims on which the two implementations differ; zero in an honest run.
    pub differences: u64,
}

/// A claim, and where to find its first verdict.
pub(super) struct Sample {
    index: usize,
    item: usize,
    claim_index: usize,
    epoch: Epoch,
    claim: Claim,
}

pub(super) struct Sampler {
    check: Arc<dyn CrossCheck>,
    signatures_seen: u64,
    groups_seen: u64,
    counts: CrossCounts,
}

impl Sampler {
    pub(super) fn new(check: Arc<dyn CrossCheck>) -> Self {
        Sampler {
            check,
            signatures_seen: 0,
            groups_seen: 0,
            counts: CrossCounts::default(),
        }
    }

    pub(super) fn counts(&self) -> CrossCounts {
        self.counts
    }

    /// Selects the claims of a batch to be decided twice: the first of each kind and then one in
    /// every fixed number of them.
    pub(super) fn sample(&mut self, jobs: &[Queued]) -> Vec<Sample> {
        let mut samples = Vec::new();
        for (index, queued) in jobs.iter().enumerate() {
            let Work::Verify(job) = &queued.job else {
                continue;
            };
            for (item, claims) in job.items.iter().enumerate() {
                for (claim_index, claim) in claims.claims.iter().enumerate() {
                    if self.is_due(claim) {
                        samples.push(Sample {
                            index,
                            item,
                            claim_index,
                            epoch: job.epoch,
                            // Its job is gone by the time that the verdict is compared.
                            claim: claim.clone(),
                        });
                    }
                }
            }
        }
        samples
    }

    fn is_due(&mut self, claim: &Claim) -> bool {
        let (seen, each) = match claim {
            Claim::One { .. } | Claim::Selected { .. } => {
                (&mut self.signatures_seen, SIGNATURES_EACH)
            }
            Claim::Group { .. } => (&mut self.groups_seen, GROUPS_EACH),
        };
        *seen += 1;
        (*seen - 1).is_multiple_of(each)
    }

    /// Decides the samples again and compares the results with the verdicts of their jobs.
    pub(super) fn decide<'v>(
        &mut self,
        env: &Env,
        lanes: &Lanes,
        samples: Vec<Sample>,
        verdicts: &dyn Fn(usize) -> Option<&'v [Verdict]>,
        progress: &mut dyn Progress,
    ) {
        if samples.is_empty() {
            return;
        }
        let first = |sample: &Sample| match verdicts(sample.index)?.get(sample.item)? {
            Verdict::Valid => Some(true),
            Verdict::Invalid { claim } if *claim == sample.claim_index => Some(false),
            Verdict::Invalid { claim } if *claim > sample.claim_index => Some(true),
            // Verification stops at the first claim that fails.
            Verdict::Invalid { .. } => None,
        };
        let decided: Vec<(&Sample, bool)> = samples
            .iter()
            .filter_map(|sample| Some((sample, first(sample)?)))
            .collect();
        let check = self.check.as_ref();
        let second = |(sample, first): &(&Sample, bool)| {
            let again = check.holds(env.keys(sample.epoch)?, &sample.claim)?;
            Some(again == *first)
        };
        let compared: Vec<Option<bool>> = lanes
            .pool()
            .install(|| decided.par_iter().map(second).collect());
        for ((sample, _), equal) in decided.iter().zip(compared) {
            let Some(equal) = equal else { continue };
            match sample.claim {
                Claim::One { .. } | Claim::Selected { .. } => self.counts.signatures += 1,
                Claim::Group { .. } => self.counts.groups += 1,
            }
            self.counts.differences += u64::from(!equal);
        }
        let count = decided.len() as u64;
        progress.phase("cross_check", count, count);
    }
}
