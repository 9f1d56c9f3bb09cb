//! Jobs of Horn's state machines. They are charged by the cost table, and run on the model scheme when virtual time
//! says that they end.
//!
//! All nodes share one bench. Results that are the same for all of them are computed once: committees and key
//! tables, by the values they are drawn from, and verdicts on evidence, by its bytes.

use crate::role::Labour;
use crate::role::caster::CodedWork;
use alphorn_broadcast::rlnc::ModelRs;
use alphorn_proto::job::AssignJob;
use alphorn_scheme::model::{CostTable, Model, ModelKeys, ModelRegistry, ModelSigners, TableError};
use alphorn_scheme::{
    Bytes, Claim, Ctx, Env, Features, MemoryWatermark, Outcome, PrepareJob, Product, Reservation,
    Role, Schedulable, Scheme as _, Scratch, SignItem, Statement, Task, Verdict, VerifyBundleJob,
    VerifyJob, Work,
};
use alphorn_types::{Assignment, Epoch, Slot, Support, Validator};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use twox_hash::XxHash3_64;

/// A node's code, without content.
pub(crate) type Code = ModelRs;

/// Maximum number of verdicts on evidence kept; beyond it all are forgotten.
const VERDICTS_MAX: usize = 1 << 20;
/// Hash seeds for the two halves of an evidence name.
const NAME_SEEDS: [u64; 2] = [0x686f_726e_0030, 0x686f_726e_0031];

/// Runs the jobs of all nodes of a run.
pub(crate) struct Bench {
    /// Used for costs only; it has no key table.
    costs: Env,
    model: Model,
    registry: Arc<ModelRegistry>,
    watermark: MemoryWatermark,
    kept: Mutex<Kept>,
}

/// Results that are computed once.
struct Kept {
    /// Includes the key tables so far.
    env: Env,
    keys: BTreeMap<Epoch, ModelKeys>,
    /// Keyed by what the chain supplied for the epoch.
    assigned: BTreeMap<[u8; 32], Arc<Assignment>>,
    /// Keyed by name of the evidence.
    verdicts: HashMap<[u64; 2], bool>,
    scratch: Scratch,
}

impl fmt::Debug for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bench({})", self.model.table().scheme)
    }
}

impl Bench {
    /// Creates a bench for the validators of these committees, which were drawn from `mix`. The first caller that
    /// needs the keys of their epoch prepares them.
    ///
    /// # Errors
    /// [`TableError`] if the table is out of bounds.
    pub(crate) fn new(
        table: CostTable,
        mix: [u8; 32],
        assignment: Arc<Assignment>,
    ) -> Result<Self, TableError> {
        let validators = assignment.layout().validators();
        let model = Model::new(table)?;
        let registry = Arc::new(ModelRegistry { validators });
        let signers = Arc::new(ModelSigners { validators });
        // The model can only verify the results of its own jobs by computing them again.
        let env = Env::signing(Arc::new(model.clone()), registry.clone(), signers, [0; 32])
            .with_self_verify(false);
        Ok(Bench {
            costs: env.clone(),
            model,
            registry,
            watermark: MemoryWatermark::new(validators),
            kept: Mutex::new(Kept {
                env,
                keys: BTreeMap::new(),
                assigned: BTreeMap::from([(mix, assignment)]),
                verdicts: HashMap::new(),
                scratch: Scratch::default(),
            }),
        })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // A panic ends the run.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a job of the protocol, with its costs. Committees and keys are ready when an epoch starts, so a run of
    /// its first slots is not charged for them.
    pub(crate) fn job(self: &Arc<Self>, work: Work) -> Box<HornWork> {
        let mut features = work.features(&self.costs);
        if matches!(work, Work::Prepare(_) | Work::Foreign(_)) {
            features.prior_ns = 0;
        }
        Box::new(HornWork {
            isolated: work.isolate(&self.costs),
            features,
            work,
            bench: self.clone(),
        })
    }

    /// Signs with the key of a validator, whatever was signed before. For adversaries.
    pub(crate) fn sign(
        &self,
        slot: Slot,
        validator: Validator,
        role: Role,
        message: [u8; 32],
    ) -> Option<Bytes> {
        let validators = self.registry.validators;
        let item = SignItem::new(validator, role, message);
        // Not by the watermark, which would refuse a second vote in a slot.
        let permit = Reservation::issue(slot, &item);
        let scratch = &mut ();
        let ctx = &mut Ctx::single(scratch);
        let signers = ModelSigners { validators };
        let signed = self.model.sign(&signers, slot, &[item], vec![permit], ctx);
        Some(signed.ok()?.iter().next()?.into())
    }

    /// Runs a job.
    pub(crate) fn run(&self, work: &Work) -> Outcome<Product> {
        let kept = &mut *self.kept();
        match work {
            Work::Verify(job) => self.verify(kept, job),
            Work::Prepare(job) => self.prepare(kept, job),
            Work::Foreign(_) => kept.assign(work),
            Work::Sign(job) => match job.admit(&self.watermark) {
                Ok(()) => kept.run(work),
                Err((i, refused)) => Outcome::Refused(format!("item {i}: {refused}")),
            },
            Work::Select(_) | Work::Aggregate(_) | Work::Combine(_) | Work::Bundle(_) => {
                kept.run(work)
            }
            Work::VerifyBundle(job) => kept.verify_bundle(work, job),
        }
    }

    fn prepare(&self, kept: &mut Kept, job: &PrepareJob) -> Outcome<Product> {
        let epoch = job.assignment.epoch();
        // The epoch alone does not name the committees, as branches may draw different ones.
        if kept.env.assignment(epoch) == Some(&job.assignment) {
            return Outcome::Done(Product::Prepared(epoch));
        }
        let scratch = &mut ();
        // `verify` asks the scheme directly, with these. The job puts them into the environment as well.
        let keys = self
            .model
            .keys(&self.registry, &job.assignment, &mut Ctx::single(scratch));
        match keys {
            Ok(keys) => kept.keys.insert(epoch, keys),
            Err(error) => return Outcome::Refused(error.to_string()),
        };
        kept.run(&Work::Prepare(job.clone()))
    }

    /// Returns the scheme's verdicts. Each piece of evidence is checked once, however many nodes ask.
    fn verify(&self, kept: &mut Kept, job: &VerifyJob) -> Outcome<Product> {
        let Kept { keys, verdicts, .. } = kept;
        let Some(keys) = keys.get(&job.epoch) else {
            return Outcome::Refused(format!("no key table for epoch {}", job.epoch.0));
        };
        let check = |claim: &Claim| {
            let (claims, scratch) = (std::slice::from_ref(claim), &mut ());
            let ctx = &mut Ctx::single(scratch);
            self.model.prepare(keys, claims, &[0; 32], ctx) == [true]
        };
        let mut holds = |claim: &Claim| match claim {
            Claim::One { .. } | Claim::Selected { .. } => check(claim),
            Claim::Group {
                statement,
                evidence,
            } => {
                if verdicts.len() >= VERDICTS_MAX {
                    verdicts.clear();
                }
                let name = name(&evidence.bytes, |hasher| {
                    name_claim(hasher, job.epoch, statement, &evidence.support);
                });
                *verdicts.entry(name).or_insert_with(|| check(claim))
            }
        };
        let verdict = |item: &alphorn_scheme::Item| {
            let failed = item.claims.iter().position(|claim| !holds(claim));
            failed.map_or(Verdict::Valid, |claim| Verdict::Invalid { claim })
        };
        Outcome::Done(Product::Verdicts(job.items.iter().map(verdict).collect()))
    }
}

impl Kept {
    fn run(&mut self, work: &Work) -> Outcome<Product> {
        let ran = work.run(&self.env, &mut Ctx::single(&mut self.scratch));
        Outcome::from(ran).map(|output| self.env.take_keys(output))
    }

    /// Returns the verdict on the evidence of a block, which is checked once however many nodes ask.
    fn verify_bundle(&mut self, work: &Work, job: &VerifyBundleJob) -> Outcome<Product> {
        let name = name(&job.evidence, |hasher| {
            for entry in &job.entries {
                name_claim(hasher, entry.epoch, &entry.statement, &entry.support);
            }
        });
        if let Some(holds) = self.verdicts.get(&name) {
            let verdict = match holds {
                true => Verdict::Valid,
                // The evidence of a block is a single claim.
                false => Verdict::Invalid { claim: 0 },
            };
            return Outcome::Done(Product::Verdicts(vec![verdict]));
        }
        let ran = self.run(work);
        if let Outcome::Done(Product::Verdicts(verdicts)) = &ran {
            if self.verdicts.len() >= VERDICTS_MAX {
                self.verdicts.clear();
            }
            self.verdicts.insert(name, verdicts[0].is_valid());
        }
        ran
    }

    fn assign(&mut self, work: &Work) -> Outcome<Product> {
        let job: Option<&AssignJob> = work.foreign();
        let known = job.and_then(|job| {
            let known = self.assigned.get(&job.mix)?;
            // Committees follow from the epoch as well, which the key does not have.
            (known.epoch() == job.epoch).then(|| known.clone())
        });
        if let Some(known) = known {
            return Outcome::Done(Product::Assigned(known));
        }
        let ran = self.run(work);
        if let (Some(job), Outcome::Done(Product::Assigned(assignment))) = (job, &ran) {
            self.assigned.insert(job.mix, assignment.clone());
        }
        ran
    }
}

/// Names evidence together with what it claims to prove, which `claims` feeds to the hasher. A collision is as
/// unlikely as for any 128-bit hash, and there is no adversary searching for one.
fn name(evidence: &[u8], claims: impl Fn(&mut XxHash3_64)) -> [u64; 2] {
    NAME_SEEDS.map(|seed| {
        let mut hasher = XxHash3_64::with_seed(seed);
        claims(&mut hasher);
        hasher.write(evidence);
        hasher.finish()
    })
}

fn name_claim(hasher: &mut XxHash3_64, epoch: Epoch, statement: &Statement, support: &Support) {
    hasher.write_u64(epoch.0);
    hasher.write_u8(statement.layer as u8);
    hasher.write_u32(statement.first);
    hasher.write_u32(statement.len);
    hasher.write_u64(statement.slot.0);
    hasher.write(&statement.message);
    support.planes().hash(hasher);
}

/// A job of a state machine.
#[derive(Debug)]
pub(crate) struct HornWork {
    work: Work,
    features: Features,
    isolated: bool,
    bench: Arc<Bench>,
}

impl HornWork {
    /// The work to be done.
    pub(crate) fn work(&self) -> &Work {
        &self.work
    }
}

/// A job of a node: of the protocol, or of its broadcasts.
#[derive(Debug)]
pub(crate) enum NodeWork {
    /// Of the protocol. Boxed, since jobs waiting for a lane are kept in tables.
    Horn(Box<HornWork>),
    /// Of a broadcast in coded pieces.
    Code(CodedWork<Code>),
}

/// The product of a node's job.
#[derive(Debug)]
pub(crate) enum NodeProduct {
    /// Of the protocol.
    Horn(Outcome<Product>),
    /// Of a broadcast.
    Code(Option<alphorn_broadcast::Product<Code>>),
}

impl NodeWork {
    /// The work of the protocol, if it is that.
    pub(crate) fn work(&self) -> Option<&Work> {
        match self {
            NodeWork::Horn(horn) => Some(horn.work()),
            NodeWork::Code(_) => None,
        }
    }
}

impl Schedulable for NodeWork {
    fn features(&self) -> Features {
        match self {
            NodeWork::Horn(horn) => horn.features,
            NodeWork::Code(code) => code.features(),
        }
    }

    fn prefix(&self, inputs: u32) -> Option<Self> {
        match self {
            NodeWork::Horn(horn) => {
                let work = horn.work.part(0..inputs as usize)?;
                Some(NodeWork::Horn(horn.bench.job(work)))
            }
            NodeWork::Code(code) => Some(NodeWork::Code(code.prefix(inputs)?)),
        }
    }

    fn isolated(&self) -> bool {
        match self {
            NodeWork::Horn(horn) => horn.isolated,
            NodeWork::Code(code) => code.isolated(),
        }
    }
}

impl Labour for NodeWork {
    type Product = NodeProduct;

    fn name(&self) -> &'static str {
        match self {
            NodeWork::Horn(horn) => horn.work().name(),
            NodeWork::Code(code) => code.name(),
        }
    }

    fn run(self) -> NodeProduct {
        match self {
            NodeWork::Horn(horn) => NodeProduct::Horn(horn.bench.run(&horn.work)),
            NodeWork::Code(code) => NodeProduct::Code(code.run()),
        }
    }
}
