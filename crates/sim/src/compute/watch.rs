//! Measures the verifications of one node in isolation.

use super::lanes::Lanes;
use alphorn_scheme::{Claim, Env, Item, Op, Outcome, Product, VerifyJob, Work};
use alphorn_types::Epoch;

/// Maximum number of recorded inputs, which is also the maximum of a verification job.
const ITEMS_MAX: usize = 4096;

/// The inputs of the verifications of one node.
pub(super) struct Watch {
    node: u32,
    op: Op,
    epoch: Option<Epoch>,
    items: Vec<Item>,
    /// Signatures of the senders, which a node verifies before the evidence.
    senders: Vec<Item>,
    is_over: bool,
}

/// A verification measured with nothing else running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verification {
    /// Messages that were verified.
    pub items: u64,
    /// Claims in those messages, including those of their senders.
    pub claims: u64,
    /// Signers named by the claims, counted each time they are named.
    pub signers: u64,
    /// Whether every message was found valid.
    pub all_valid: bool,
    /// Nanoseconds on the whole pool, summing the best runs of proofs of selection and envelopes and of the
    /// evidence.
    pub pooled_ns: u64,
    /// The same on one thread.
    pub single_ns: u64,
    /// The same for the evidence of the votes only, which is what the Horn proposal counts.
    pub inner_pooled_ns: u64,
    /// The same for that evidence on one thread.
    pub inner_single_ns: u64,
}

impl Watch {
    pub(super) fn new(node: u32, op: Op) -> Self {
        Watch {
            node,
            op,
            epoch: None,
            items: Vec::new(),
            senders: Vec::new(),
            is_over: false,
        }
    }

    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    /// Records the inputs of a watched job, or of senders; those of one epoch, up to the bound.
    pub(super) fn note(&mut self, node: u32, work: &Work) {
        let Work::Verify(job) = work else {
            return;
        };
        if self.is_over || node != self.node {
            return;
        }
        let items = match job.op {
            op if op == self.op => &mut self.items,
            Op::DutyVerify => &mut self.senders,
            _ => return,
        };
        // The measurement is one job, and a job has one epoch.
        if *self.epoch.get_or_insert(job.epoch) == job.epoch {
            let room = ITEMS_MAX - items.len();
            items.extend(job.items.iter().take(room).cloned());
        }
    }

    /// The job of all recorded inputs, and that of their senders if there are any.
    pub(super) fn into_jobs(self) -> Option<(VerifyJob, Option<VerifyJob>)> {
        let epoch = self.epoch?;
        let job = |op, items: Vec<Item>| VerifyJob { op, epoch, items };
        let senders = (!self.senders.is_empty()).then(|| job(Op::DutyVerify, self.senders));
        (!self.items.is_empty()).then(|| (job(self.op, self.items), senders))
    }
}

/// Number of runs of a verification, of which the best counts.
const REPEATS: u32 = 3;

/// Runs verifications with nothing else running, several times each on the whole pool and on one thread.
pub(super) fn measure(
    job: &VerifyJob,
    senders: Option<&VerifyJob>,
    env: &Env,
    lanes: &mut Lanes,
) -> Verification {
    let jobs = || core::iter::once(job).chain(senders);
    let claims = || jobs().flat_map(|job| job.items.iter().flat_map(|item| &item.claims));
    let inner = best(job, env, lanes);
    let of_senders = senders.map_or([(0, true); 2], |senders| best(senders, env, lanes));
    let [pooled_ns, single_ns] = [0, 1].map(|threads| inner[threads].0 + of_senders[threads].0);
    Verification {
        items: job.items.len() as u64,
        claims: claims().count() as u64,
        signers: claims().map(Claim::signer_count).sum(),
        all_valid: inner.iter().chain(&of_senders).all(|best| best.1),
        pooled_ns,
        single_ns,
        inner_pooled_ns: inner[0].0,
        inner_single_ns: inner[1].0,
    }
}

/// Minimum nanoseconds on the pool and on one thread, each with whether all inputs were valid.
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
