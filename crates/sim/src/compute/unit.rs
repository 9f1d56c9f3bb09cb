//! A piece of real work, shared by all tickets that requested it.

use super::meter::Stage;
use alphorn_proto::job::AssignJob;
use alphorn_scheme::{Outcome, Output, Product, Task, Verdict, Work};
use sha2::{Digest, Sha256};

/// Bookkeeping bytes charged for each kept result.
const KEPT_BYTES: u64 = 256;

pub(super) struct Unit {
    pub(super) state: State,
    /// Number of tickets waiting for the result.
    pub(super) claims: u32,
    /// Digest of the inputs; none for work that is never shared.
    pub(super) identity: Option<[u8; 32]>,
    pub(super) stage: Stage,
    pub(super) op: &'static str,
    pub(super) items: u64,
    pub(super) prior_ns: u64,
}

pub(super) enum State {
    Waiting(Work),
    Running,
    Done(Outcome<Output>),
}

impl State {
    /// The result, if it is the same every time the job runs. Excludes refusals, which a later key
    /// table may lift, and key tables, which are in the environment.
    pub(super) fn kept_product(&self) -> Option<&Product> {
        match self {
            State::Done(Outcome::Done(Output {
                product,
                keys: None,
            })) => Some(product),
            _ => None,
        }
    }
}

impl Unit {
    /// Verdicts of a verification that has run.
    pub(super) fn verdicts(&self) -> Option<&[Verdict]> {
        match self.state.kept_product() {
            Some(Product::Verdicts(verdicts)) => Some(verdicts),
            _ => None,
        }
    }
}

/// Identifies what a job computes: jobs with the same identity have the same result. None for jobs
/// that use secrets, which are never shared.
pub(super) fn identity(job: &Work) -> Option<[u8; 32]> {
    let mut hash = Sha256::new();
    match job {
        Work::Foreign(_) => {
            let assign: &AssignJob = job.foreign()?;
            hash.update(b"assign");
            hash.update(assign.epoch.0.to_le_bytes());
            hash.update(assign.mix);
            shape(&mut hash, &assign.layout);
        }
        Work::Prepare(prepare) => {
            hash.update(b"prepare");
            hash.update(prepare.assignment.epoch().0.to_le_bytes());
            shape(&mut hash, prepare.assignment.layout());
            for member in prepare.assignment.members() {
                hash.update(member.to_le_bytes());
            }
        }
        job => {
            hash.update(b"encoded");
            // Tasks that use secrets have no encoding, and therefore no identity.
            hash.update(job.encode()?);
        }
    }
    Some(hash.finalize().into())
}

fn shape(hash: &mut Sha256, layout: &alphorn_types::Layout) {
    hash.update(layout.validators().to_le_bytes());
    hash.update(layout.committees().to_le_bytes());
    hash.update(layout.subcommittees().to_le_bytes());
}

/// Approximate size of a kept result in bytes.
pub(super) fn weight(product: &Product) -> u64 {
    let bytes = match product {
        Product::Assigned(assignment) => assignment.members().len() * 8,
        Product::Evidence(evidence) => {
            let support = &evidence.support;
            evidence.bytes.len() + support.planes_count() * support.len().div_ceil(8)
        }
        Product::Bundle { bytes, .. } => bytes.len(),
        Product::Verdicts(verdicts) => std::mem::size_of_val(verdicts.as_slice()),
        Product::Signed(all) | Product::Selected(all) => all.iter().map(<[u8]>::len).sum(),
        // Coded pieces occur only in runs that keep no results.
        Product::Prepared(_) | Product::Foreign(_) => 0,
    };
    bytes as u64 + KEPT_BYTES
}
