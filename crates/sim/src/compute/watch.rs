//! What one node verified, measured alone.

use super::lanes::Lanes;
use alphorn_scheme::{Claim, Env, Item, Op, Outcome, Product, VerifyJob, Work};
use alphorn_types::Epoch;

/// Most inputs that are remembered: the most that a verification job has.
const ITEMS_MAX: usize = 4096;

/// The inputs of the verifications of one node.
pub(super) struct Watch {
    node: u32,
    op: Op,
    epoch: Option<Epoch>,
    items: Vec<Item>,
    is_over: bool,
}

/// A verification, measured alone on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verification {
    /// Messages that were verified.
    pub items: u64,
    /// Claims in them.
    pub claims: u64,
    /// Signers that the claims name, each as often as it is named.
    pub signers: u64,
    /// Whether every message was found valid.
    pub all_valid: bool,
    /// Nanoseconds on the whole pool, the best run.
    pub pooled_ns: u64,
    /// Nanoseconds on one thread, the best run.
    pub single_ns: u64,
    /// The same for the evidence of the votes alone, without proofs of selection and envelopes:
    /// what the proposal of Horn counts.
    pub inner_pooled_ns: u64,
    /// On one thread.
    pub inner_single_ns: u64,
}

impl Watch {
    pub(super) fn new(node: u32, op: Op) -> Self {
        Watch {
            node,
            op,
            epoch: None,
            items: Vec::new(),
            is_over: false,
        }
    }

    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    /// Remembers the inputs of a job that is watched for; those of one epoch, up to the bound.
    pub(super) fn note(&mut self, node: u32, work: &Work) {
        let Work::Verify(job) = work else {
            return;
        };
        if self.is_over || node != self.node || job.op != self.op {
            return;
        }
        if *self.epoch.get_or_insert(job.epoch) == job.epoch {
            let room = ITEMS_MAX - self.items.len();
            self.items.extend(job.items.iter().take(room).cloned());
        }
    }

    pub(super) fn into_job(self) -> Option<VerifyJob> {
        Some(VerifyJob {
            op: self.op,
            epoch: self.epoch?,
            items: self.items,
        })
    }
}

/// Runs of a verification from which the best counts.
const REPEATS: u32 = 3;

/// Runs a verification alone, on the whole pool and on one thread, some times each.
pub(super) fn measure(job: &VerifyJob, env: &Env, lanes: &mut Lanes) -> Verification {
    let claims = || job.items.iter().flat_map(|item| &item.claims);
    let inner_claims = |item: &Item| Item {
        claims: item
            .claims
            .iter()
            .filter(|claim| is_inner(claim))
            .cloned()
            .collect(),
    };
    let inner = VerifyJob {
        items: job.items.iter().map(inner_claims).collect(),
        ..job.clone()
    };
    let [pooled, single] = best(job, env, lanes);
    let [inner_pooled, inner_single] = best(&inner, env, lanes);
    Verification {
        items: job.items.len() as u64,
        claims: claims().count() as u64,
        signers: claims().map(Claim::signer_count).sum(),
        all_valid: [pooled, single, inner_pooled, inner_single]
            .iter()
            .all(|best| best.1),
        pooled_ns: pooled.0,
        single_ns: single.0,
        inner_pooled_ns: inner_pooled.0,
        inner_single_ns: inner_single.0,
    }
}

fn is_inner(claim: &Claim) -> bool {
    matches!(claim, Claim::Group { .. })
}

/// The least nanoseconds on the pool and on one thread, and whether all was found valid.
fn best(job: &VerifyJob, env: &Env, lanes: &mut Lanes) -> [(u64, bool); 2] {
    let task = Work::Verify(job.clone());
    let mut best = [(u64::MAX, true); 2];
    for _ in 0..REPEATS {
        let runs = [lanes.run_pooled(env, &task), lanes.run_single(env, &task)];
        for ((least_ns, all_valid), (outcome, wall_ns)) in best.iter_mut().zip(runs) {
            *least_ns = wall_ns.min(*least_ns);
            *all_valid &= matches!(
                outcome,
                Outcome::Done(output) if matches!(
                    &output.product,
                    Product::Verdicts(verdicts)
                        if verdicts.iter().all(|verdict| verdict.is_valid())
                )
            );
        }
    }
    best
}
