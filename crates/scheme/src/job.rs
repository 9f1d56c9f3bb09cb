//! Jobs requested by roles, and their results: the tasks of a scheme, and other work on the same
//! lanes.

mod bundle;
mod code;
mod env;
mod foreign;
mod held;
mod product;
mod task;

use crate::{
    Bytes, Claim, Evidence, Item, Op, Part, Refused, Reservation, Role, SignItem, Signatures,
    Statement, Tail, TaskError, Verdict, Watermark,
};
use alphorn_types::{Assignment, DecodeError, Epoch, Slot, Validator};
use std::any::Any;
use std::sync::{Arc, Mutex};

pub use bundle::{BundleEntry, BundleJob, VerifyBundleJob};
pub use env::{BRANCH_EPOCH, BRANCHES_MAX, EPOCHS_MAX, Env, branch_place, missing_table};
pub use foreign::{Foreign, Opaque};
pub use held::{Keys, Scratch};

/// Signs for validators whose keys are held here. Must be admitted before it runs, see
/// [`SignJob::admit`].
#[derive(Debug)]
pub struct SignJob {
    /// The slot that the signatures belong to.
    pub slot: Slot,
    /// What to sign: only votes or only duties, since their signatures may differ in length.
    pub items: Vec<SignItem>,
    permits: Mutex<Option<Vec<Reservation>>>,
}

impl SignJob {
    /// Creates a job that is not yet admitted.
    pub fn new(slot: Slot, items: Vec<SignItem>) -> Self {
        SignJob {
            slot,
            items,
            permits: Mutex::new(None),
        }
    }

    /// Reserves a slot for each item. The job can then run once.
    ///
    /// # Errors
    /// [`Refused`] with the index of the first item refused by the store; the reservations made
    /// before it are burnt.
    pub fn admit(&self, store: &dyn Watermark) -> Result<(), (usize, Refused)> {
        let mut permits = Vec::with_capacity(self.items.len());
        for (i, item) in self.items.iter().enumerate() {
            let permit = store.reserve(self.slot, item);
            permits.push(permit.map_err(|refused| (i, refused))?);
        }
        let mut slot = self.permits.lock().map_err(|_| (0, Refused::NotDurable))?;
        *slot = Some(permits);
        Ok(())
    }

    fn take_permits(&self) -> Result<Vec<Reservation>, TaskError> {
        // Taken rather than read: a job that is run again finds no permits and signs nothing.
        let taken = self
            .permits
            .lock()
            .ok()
            .and_then(|mut permits| permits.take());
        taken.ok_or_else(|| {
            TaskError::Refused("the signature was not admitted, or was made before".into())
        })
    }
}

/// Proves selection by lottery for validators whose keys are held here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectJob {
    /// The lottery's message.
    pub message: [u8; 32],
    /// The ticket holders.
    pub validators: Vec<Validator>,
}

/// Verifies protocol messages. The verdict on each is exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyJob {
    /// The operation, for costs and metrics.
    pub op: Op,
    /// The epoch whose key table applies.
    pub epoch: Epoch,
    /// The claims of each message.
    pub items: Vec<Item>,
}

/// Makes an aggregate from verified votes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregateJob {
    /// The epoch whose key table applies.
    pub epoch: Epoch,
    /// What the evidence will prove.
    pub statement: Statement,
    /// (Position in the support, signature), in ascending position order.
    pub votes: Vec<(u32, Tail)>,
}

/// Combines verified aggregates into a collection, or pieces over one committee into a larger one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CombineJob {
    /// `aggregate` for united lists, `collect` or `merge`; for costs and metrics.
    pub op: Op,
    /// The epoch whose key table applies.
    pub epoch: Epoch,
    /// What the evidence will prove.
    pub statement: Statement,
    /// The pieces.
    pub parts: Vec<Part>,
    /// Maximum multiplicity of the result.
    pub multiplicity_max: u8,
}

/// Prepares the key table of an epoch.
#[derive(Clone, Debug)]
pub struct PrepareJob {
    /// The committees of the epoch.
    pub assignment: Arc<Assignment>,
}

/// Work requested by a role: the unit that a worker schedules. It names no scheme, so the protocol
/// and its drivers need no type parameter.
#[derive(Debug)]
pub enum Work {
    /// Sign votes or duties.
    Sign(SignJob),
    /// Prove selection.
    Select(SelectJob),
    /// Verify messages.
    Verify(VerifyJob),
    /// Make an aggregate.
    Aggregate(AggregateJob),
    /// Make a collection, or merge.
    Combine(CombineJob),
    /// Make one piece of evidence from several collections.
    Bundle(BundleJob),
    /// Verify such a piece.
    VerifyBundle(VerifyBundleJob),
    /// Prepare a key table.
    Prepare(PrepareJob),
    /// The protocol's own work.
    Foreign(Box<dyn Foreign>),
}

/// The result returned to a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Product {
    /// Signatures in the order of the items.
    Signed(Signatures),
    /// Proofs of selection in the order of the validators.
    Selected(Signatures),
    /// A verdict for each item.
    Verdicts(Vec<Verdict>),
    /// An aggregate or a collection.
    Evidence(Evidence),
    /// One piece of evidence for several collections.
    Bundle {
        /// The number of requested collections it contains, starting from the first.
        count: usize,
        /// The proof, opaque.
        bytes: Bytes,
    },
    /// The key table of an epoch is ready.
    Prepared(Epoch),
    /// The committees of an epoch, drawn by foreign work.
    Assigned(Arc<Assignment>),
    /// Any other result of foreign work.
    Foreign(Opaque),
}

/// The result of running [`Work`]: the role's product and, from [`PrepareJob`], the key table that
/// the driver puts into [`Env`].
#[derive(Clone)]
pub struct Output {
    /// For the role.
    pub product: Product,
    /// For the driver: the key table of an epoch.
    pub keys: Option<(Epoch, Keys)>,
}

impl From<Product> for Output {
    fn from(product: Product) -> Self {
        Output {
            product,
            keys: None,
        }
    }
}

impl Product {
    /// Its bytes, for records; none for signatures and key tables, which are made where the secrets
    /// are, and for results of foreign work.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        product::encode(self)
    }

    /// The inverse of [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        product::decode(bytes)
    }
}

impl Work {
    /// Its bytes, for digests; none for work that uses secret keys, for key tables and for foreign
    /// work.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        code::encode(self)
    }

    /// Name in traces and metrics.
    pub fn name(&self) -> &'static str {
        match self.op() {
            Ok(op) => op.name(),
            Err(foreign) => foreign.name(),
        }
    }

    /// Foreign work as its own type; none if it has another type or belongs to the scheme.
    pub fn foreign<F: Foreign>(&self) -> Option<&F> {
        let foreign: &dyn Any = self.op().err()?;
        foreign.downcast_ref()
    }

    /// The operation of the scheme, or otherwise the foreign work.
    fn op(&self) -> Result<Op, &(dyn Foreign + 'static)> {
        Ok(match self {
            Work::Sign(job) => match job.items.first().map(|item| item.role) {
                None | Some(Role::Vote) => Op::Sign,
                Some(_) => Op::DutySign,
            },
            Work::Select(_) => Op::DutySign,
            Work::Verify(job) => job.op,
            Work::Aggregate(_) => Op::Aggregate,
            Work::Combine(job) => job.op,
            Work::Bundle(_) => Op::Bundle,
            Work::VerifyBundle(_) => Op::VerifyBundle,
            Work::Prepare(_) => Op::Prepare,
            Work::Foreign(job) => return Err(&**job),
        })
    }

    /// Number of inputs and the second size of [`Op`].
    fn size(&self) -> (u64, u64) {
        match self {
            Work::Sign(job) => (job.items.len() as u64, 0),
            Work::Select(job) => (job.validators.len() as u64, 0),
            Work::Verify(job) => {
                let signers = job
                    .items
                    .iter()
                    .flat_map(|item| &item.claims)
                    .map(Claim::signer_count)
                    .sum();
                (job.items.len() as u64, signers)
            }
            Work::Aggregate(job) => (job.votes.len() as u64, 0),
            Work::Combine(job) => {
                let signers = job
                    .parts
                    .iter()
                    .map(|part| part.evidence.support.signer_count() as u64)
                    .sum();
                // United lists are charged as an aggregate, whose first size is the number of votes.
                match job.op {
                    Op::Aggregate => (signers, 0),
                    _ => (job.parts.len() as u64, signers),
                }
            }
            Work::Bundle(job) => job.size(),
            Work::VerifyBundle(job) => job.size(),
            Work::Prepare(job) => (u64::from(job.assignment.layout().validators()), 0),
            Work::Foreign(_) => (0, 0),
        }
    }

    /// Number of votes that the result may add to those held, and the bytes of its inputs: the
    /// value of an evidence job, and the memory it takes while it waits.
    pub fn weight(&self) -> (u32, u64) {
        let (votes, bytes): (u64, u64) = match self {
            Work::Aggregate(job) => {
                let signatures = job.votes.iter();
                let bytes = signatures.map(|(_, signature)| signature.len() as u64);
                (job.votes.len() as u64, bytes.sum())
            }
            Work::Combine(job) => {
                let parts = job.parts.iter().map(|part| &part.evidence);
                let bytes = parts.clone().map(|evidence| evidence.bytes.len() as u64);
                let votes = parts.map(|evidence| evidence.support.signer_count() as u64);
                (votes.sum(), bytes.sum())
            }
            Work::Bundle(job) => {
                let bytes = job.collections.iter().map(|(_, bytes)| bytes.len() as u64);
                (job.size().1, bytes.sum())
            }
            _ => (0, 0),
        };
        (u32::try_from(votes).unwrap_or(u32::MAX), bytes)
    }

    /// The claims of the inputs, one entry per input; none for jobs without testable inputs.
    fn inputs(&self, env: &Env) -> Option<(Epoch, Vec<Vec<Claim>>)> {
        match self {
            Work::Verify(job) => Some((
                job.epoch,
                job.items.iter().map(|item| item.claims.clone()).collect(),
            )),
            Work::Aggregate(job) => {
                let assignment = env.assignment(job.epoch)?;
                let claim = |(position, signature): &(u32, Tail)| {
                    let position = job.statement.first.saturating_add(*position);
                    vec![Claim::One {
                        validator: assignment
                            .members()
                            .get(position as usize)
                            // There is no such validator, so a position without a member makes the
                            // claim false.
                            .map_or(Validator(u32::MAX), |v| Validator(*v)),
                        role: Role::Vote,
                        slot: job.statement.slot,
                        message: job.statement.message,
                        signature: Bytes::from(&**signature),
                    }]
                };
                Some((job.epoch, job.votes.iter().map(claim).collect()))
            }
            Work::Combine(job) => {
                let claim = |part: &Part| {
                    vec![Claim::Group {
                        statement: part.statement(&job.statement),
                        evidence: part.evidence.clone(),
                    }]
                };
                Some((job.epoch, job.parts.iter().map(claim).collect()))
            }
            // Bundled collections are already verified, and the operation itself reports those that
            // cannot be bundled.
            Work::Bundle(_) | Work::VerifyBundle(_) => None,
            Work::Sign(_) | Work::Select(_) | Work::Prepare(_) | Work::Foreign(_) => None,
        }
    }
}
