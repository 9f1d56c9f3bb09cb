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
    /// What the senders sign, which a node verifies before the evidence.
    senders: Vec<Item>,
    is_over: bool,
}

/// A verification, measured alone on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verification {
    /// Messages that were verified.
    pub items: u64,
    /// Claims in them, those of their senders among them.
    pub claims: u64,
    /// Signers that the claims name, each as often as it is named.
    pub signers: u64,
    /// Whether every message was found valid.
    pub all_valid: bool,
    /// Nanoseconds on the whole pool, the best runs: proofs of selection and envelopes, then the evidence.
    pub pooled_ns: u64,
    /// Nanoseconds on one thread, the best runs.
    pub single_ns: u64,
    /// The same for the evidence of the votes alone: what the proposal of Horn counts.
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
            senders: Vec::new(),
            is_over: false,
        }
    }

    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    /// Remembers the inputs of a job that is watched for, or of senders; those of one epoch, up to the bound.
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
        if *self.epoch.get_or_insert(job.epoch) == job.epoch {
            let room = ITEMS_MAX - items.len();
            items.extend(job.items.iter().take(room).cloned());
        }
    }

    /// The job of all that was watched for, and that of its senders if there are any.
    pub(super) fn into_jobs(self) -> Option<(VerifyJob, Option<VerifyJob>)> {
        let epoch = self.epoch?;
        let job = |op, items: Vec<Item>| VerifyJob { op, epoch, items };
        let senders = (!self.senders.is_empty()).then(|| job(Op::DutyVerify, self.senders));
        (!self.items.is_empty()).then(|| (job(self.op, self.items), senders))
    }
}

/// Runs of a verification from which the best counts.
const REPEATS: u32 = 3;

/// Runs verifications alone, on the whole pool and on one thread, some times each.
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
