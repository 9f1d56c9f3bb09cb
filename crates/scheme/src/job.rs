//! The tasks of a scheme: what a role asks for, and what it gets back.

mod code;

use crate::{
    Bytes, Claim, Ctx, Evidence, Features, Form, Item, Op, Part, Refused, Reservation, Role,
    Scheme, SchemeError, SignItem, Signatures, Statement, Task, TaskError, Verdict, Watermark,
    verify_claims,
};
use alphorn_types::{Assignment, DecodeError, Epoch, Slot, Validator};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Key tables kept at a time: the previous, the current and the next epoch.
pub const EPOCHS_MAX: usize = 3;

/// What the tasks of a scheme need beside their inputs.
pub struct Env<S: Scheme> {
    scheme: Arc<S>,
    registry: Arc<S::Registry>,
    signers: Option<Arc<S::Signers>>,
    keys: BTreeMap<Epoch, Arc<S::Keys>>,
    secret: [u8; 32],
    self_verify: bool,
}

impl<S: Scheme> Clone for Env<S> {
    fn clone(&self) -> Self {
        Env {
            scheme: self.scheme.clone(),
            registry: self.registry.clone(),
            signers: self.signers.clone(),
            keys: self.keys.clone(),
            secret: self.secret,
            self_verify: self.self_verify,
        }
    }
}

impl<S: Scheme> Env<S> {
    /// An environment without signers and key tables. `secret` seeds the random weights of batch
    /// verification: drawn at start by a node, taken from the scenario's seed by the simulator.
    pub fn new(scheme: Arc<S>, registry: Arc<S::Registry>, secret: [u8; 32]) -> Self {
        Env {
            scheme,
            registry,
            signers: None,
            keys: BTreeMap::new(),
            secret,
            self_verify: true,
        }
    }

    /// The same with secret keys; never handed to a child process.
    #[must_use]
    pub fn with_signers(mut self, signers: Arc<S::Signers>) -> Self {
        self.signers = Some(signers);
        self
    }

    /// The same, with or without the check of each produced aggregate by the public verifier
    /// (on by default).
    #[must_use]
    pub fn with_self_verify(mut self, self_verify: bool) -> Self {
        self.self_verify = self_verify;
        self
    }

    /// The same on the scheme's portable kernel, for a retry after a doubtful result.
    #[must_use]
    pub fn portable(&self) -> Self {
        Env {
            scheme: Arc::new(self.scheme.portable()),
            ..self.clone()
        }
    }

    /// Adds the key table of an epoch; the oldest beyond [`EPOCHS_MAX`] are dropped.
    pub fn insert_keys(&mut self, epoch: Epoch, keys: Arc<S::Keys>) {
        self.keys.insert(epoch, keys);
        while self.keys.len() > EPOCHS_MAX {
            self.keys.pop_first();
        }
    }

    /// The key table of an epoch.
    pub fn keys(&self, epoch: Epoch) -> Option<&Arc<S::Keys>> {
        self.keys.get(&epoch)
    }

    /// The scheme.
    pub fn scheme(&self) -> &Arc<S> {
        &self.scheme
    }

    /// The registry of public keys.
    pub fn registry(&self) -> &Arc<S::Registry> {
        &self.registry
    }

    fn keys_or_refuse(&self, epoch: Epoch) -> Result<&Arc<S::Keys>, TaskError> {
        self.keys(epoch)
            .ok_or_else(|| TaskError::Refused(format!("no key table for epoch {}", epoch.0)))
    }

    fn signers_or_refuse(&self) -> Result<&Arc<S::Signers>, TaskError> {
        self.signers
            .as_ref()
            .ok_or_else(|| TaskError::Refused("no secret keys here".into()))
    }
}

/// Sign for validators held here. Whoever runs it admits it first, see [`SignJob::admit`].
#[derive(Debug)]
pub struct SignJob {
    /// The slot that the signatures belong to.
    pub slot: Slot,
    /// What to sign.
    pub items: Vec<SignItem>,
    permits: Mutex<Option<Vec<Reservation>>>,
}

impl SignJob {
    /// A job that is not admitted yet.
    pub fn new(slot: Slot, items: Vec<SignItem>) -> Self {
        SignJob {
            slot,
            items,
            permits: Mutex::new(None),
        }
    }

    /// Reserves a slot for each item. The job can then be run once.
    ///
    /// # Errors
    /// [`Refused`] with the index of the first item that the store refuses; the reservations
    /// made before it are burnt.
    pub fn admit(&self, store: &dyn Watermark) -> Result<(), (usize, Refused)> {
        let mut permits = Vec::with_capacity(self.items.len());
        for (i, item) in self.items.iter().enumerate() {
            let permit = store.reserve(item.validator, item.role, self.slot, item.guard);
            permits.push(permit.map_err(|refused| (i, refused))?);
        }
        let mut slot = self.permits.lock().map_err(|_| (0, Refused::NotDurable))?;
        *slot = Some(permits);
        Ok(())
    }

    fn take_permits(&self) -> Result<Vec<Reservation>, TaskError> {
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

/// Prove selection by lottery for validators held here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectJob {
    /// The lottery's message.
    pub message: [u8; 32],
    /// Whose tickets.
    pub validators: Vec<Validator>,
}

/// Verify protocol messages; the verdict on each is exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyJob {
    /// What is verified, for costs and metrics.
    pub op: Op,
    /// The epoch whose key table applies.
    pub epoch: Epoch,
    /// What each message claims.
    pub items: Vec<Item>,
}

/// Make an aggregate of verified votes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregateJob {
    /// The epoch whose key table applies.
    pub epoch: Epoch,
    /// What the evidence will prove.
    pub statement: Statement,
    /// (Position in the support, signature), positions ascending.
    pub votes: Vec<(u32, Bytes)>,
}

/// Combine verified aggregates to a collection, or pieces over one committee to a larger one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CombineJob {
    /// `collect` or `merge`, for costs and metrics.
    pub op: Op,
    /// The epoch whose key table applies.
    pub epoch: Epoch,
    /// What the evidence will prove.
    pub statement: Statement,
    /// The pieces.
    pub parts: Vec<Part>,
    /// Greatest multiplicity of the result.
    pub multiplicity_max: u8,
}

/// Prepare the key table of an epoch.
#[derive(Clone, Debug)]
pub struct PrepareJob {
    /// The committees of the epoch.
    pub assignment: Arc<Assignment>,
}

/// What a role asks of a scheme; names no scheme, so that the protocol needs no type parameter.
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
    /// Prepare a key table.
    Prepare(PrepareJob),
}

/// What a role gets back.
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
    /// The key table of an epoch is ready.
    Prepared(Epoch),
}

/// What a [`Job`] yields: the role's product and, from [`PrepareJob`], the key table that the
/// driver puts into [`Env`].
pub struct JobOutput<S: Scheme> {
    /// For the role.
    pub product: Product,
    /// For the driver.
    pub keys: Option<Arc<S::Keys>>,
}

impl<S: Scheme> Clone for JobOutput<S> {
    fn clone(&self) -> Self {
        JobOutput {
            product: self.product.clone(),
            keys: self.keys.clone(),
        }
    }
}

impl<S: Scheme> From<Product> for JobOutput<S> {
    fn from(product: Product) -> Self {
        JobOutput {
            product,
            keys: None,
        }
    }
}

/// Inputs of a job, decoded for subset tests.
pub struct PreparedJob<S: Scheme> {
    claims: S::Prepared,
    keys: Arc<S::Keys>,
    /// Index of the first claim of each input, and the number of claims.
    bounds: Vec<usize>,
}

impl Work {
    /// The operation, for costs and metrics.
    pub fn op(&self) -> Op {
        match self {
            Work::Sign(job) => match job.items.first().map(|item| item.role) {
                None | Some(Role::Vote) => Op::Sign,
                Some(_) => Op::DutySign,
            },
            Work::Select(_) => Op::DutySign,
            Work::Verify(job) => job.op,
            Work::Aggregate(_) => Op::Aggregate,
            Work::Combine(job) => job.op,
            Work::Prepare(_) => Op::Prepare,
        }
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
                (job.parts.len() as u64, signers)
            }
            Work::Prepare(job) => (u64::from(job.assignment.layout().validators()), 0),
        }
    }

    /// The claims of the inputs, one entry an input; none for jobs without testable inputs.
    fn inputs<S: Scheme>(&self, env: &Env<S>) -> Option<(Epoch, Vec<Vec<Claim>>)> {
        match self {
            Work::Verify(job) => Some((
                job.epoch,
                job.items.iter().map(|item| item.claims.clone()).collect(),
            )),
            Work::Aggregate(job) => {
                let assignment = env.scheme.assignment(env.keys(job.epoch)?);
                let claim = |(position, signature): &(u32, Bytes)| {
                    let position = job.statement.first.saturating_add(*position);
                    vec![Claim::One {
                        validator: assignment
                            .members()
                            .get(position as usize)
                            .map_or(Validator(u32::MAX), |v| Validator(*v)),
                        role: Role::Vote,
                        slot: job.statement.slot,
                        message: job.statement.message,
                        signature: signature.clone(),
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
            Work::Sign(_) | Work::Select(_) | Work::Prepare(_) => None,
        }
    }
}

fn task_error(error: SchemeError) -> TaskError {
    match error {
        SchemeError::Stopped => TaskError::Stopped,
        SchemeError::Malformed(i) => TaskError::Invalid(vec![i]),
        other => TaskError::Refused(other.to_string()),
    }
}

/// [`Work`] together with the scheme that does it: the unit that a worker schedules.
pub struct Job<S: Scheme> {
    /// What is to be done.
    pub work: Work,
    scheme: std::marker::PhantomData<fn() -> S>,
}

impl<S: Scheme> From<Work> for Job<S> {
    fn from(work: Work) -> Self {
        Job {
            work,
            scheme: std::marker::PhantomData,
        }
    }
}

impl<S: Scheme> Job<S> {
    fn run_verify(
        env: &Env<S>,
        job: &VerifyJob,
        ctx: &mut Ctx<'_, S::Scratch>,
    ) -> Result<JobOutput<S>, TaskError> {
        let keys = env.keys_or_refuse(job.epoch)?;
        let claims: Vec<Claim> = job
            .items
            .iter()
            .flat_map(|item| item.claims.iter().cloned())
            .collect();
        let good = verify_claims(env.scheme.as_ref(), keys, &claims, &env.secret, ctx);
        if ctx.stopped() {
            return Err(TaskError::Stopped);
        }
        let mut rest = good.as_slice();
        let verdicts = job.items.iter().map(|item| {
            let (own, after) = rest.split_at(item.claims.len());
            rest = after;
            own.iter()
                .position(|good| !good)
                .map_or(Verdict::Valid, |claim| Verdict::Invalid { claim })
        });
        Ok(Product::Verdicts(verdicts.collect()).into())
    }

    /// The public verifier on evidence: one claim under the statement.
    fn verify_evidence(
        env: &Env<S>,
        epoch: Epoch,
        statement: &Statement,
        evidence: &Evidence,
        ctx: &mut Ctx<'_, S::Scratch>,
    ) -> bool {
        let claim = [Claim::Group {
            statement: *statement,
            evidence: evidence.clone(),
        }];
        env.keys(epoch).is_some_and(|keys| {
            verify_claims(env.scheme.as_ref(), keys, &claim, &env.secret, ctx) == [true]
        })
    }

    /// Checks produced evidence; on failure tells bad inputs from a fault of our own.
    fn finish(
        &self,
        env: &Env<S>,
        epoch: Epoch,
        statement: &Statement,
        evidence: Evidence,
        ctx: &mut Ctx<'_, S::Scratch>,
    ) -> Result<JobOutput<S>, TaskError> {
        if env.self_verify && !Self::verify_evidence(env, epoch, statement, &evidence, ctx) {
            if ctx.stopped() {
                return Err(TaskError::Stopped);
            }
            let bad = self.bad_inputs(env, ctx);
            return Err(if bad.is_empty() {
                TaskError::SelfVerifyFailed
            } else {
                TaskError::Invalid(bad)
            });
        }
        Ok(Product::Evidence(evidence).into())
    }

    fn bad_inputs(&self, env: &Env<S>, ctx: &mut Ctx<'_, S::Scratch>) -> Vec<usize> {
        let Some((epoch, inputs)) = self.work.inputs(env) else {
            return Vec::new();
        };
        let Some(keys) = env.keys(epoch) else {
            return Vec::new();
        };
        let claims: Vec<Claim> = inputs.into_iter().flatten().collect();
        let good = verify_claims(env.scheme.as_ref(), keys, &claims, &env.secret, ctx);
        (0..good.len()).filter(|i| !good[*i]).collect()
    }
}

impl<S: Scheme> Task for Job<S> {
    type Env = Env<S>;
    type Output = JobOutput<S>;
    type Scratch = S::Scratch;
    type Prepared = PreparedJob<S>;

    fn features(&self, env: &Env<S>) -> Features {
        let op = self.work.op();
        let (n, m) = self.work.size();
        let cost = env.scheme.cost(op, n, m);
        Features {
            kind: op.kind(),
            class: n.max(1).next_power_of_two().trailing_zeros() as u8,
            inputs: u32::try_from(n).unwrap_or(u32::MAX),
            prior_ns: cost.ns,
            memory_bytes: cost.memory_bytes,
        }
    }

    fn prefix(&self, n: usize) -> Option<Self> {
        let work = match &self.work {
            Work::Verify(job) if n <= job.items.len() => Work::Verify(VerifyJob {
                items: job.items[..n].to_vec(),
                ..job.clone()
            }),
            Work::Aggregate(job) if (1..=job.votes.len()).contains(&n) => {
                Work::Aggregate(AggregateJob {
                    votes: job.votes[..n].to_vec(),
                    ..job.clone()
                })
            }
            Work::Combine(job) if (1..=job.parts.len()).contains(&n) => Work::Combine(CombineJob {
                parts: job.parts[..n].to_vec(),
                ..job.clone()
            }),
            _ => return None,
        };
        Some(work.into())
    }

    fn run(&self, env: &Env<S>, ctx: &mut Ctx<'_, S::Scratch>) -> Result<JobOutput<S>, TaskError> {
        ctx.checkpoint()?;
        match &self.work {
            Work::Sign(job) => {
                let permits = job.take_permits()?;
                let signed =
                    env.scheme
                        .sign(env.signers_or_refuse()?, job.slot, &job.items, permits, ctx);
                Ok(Product::Signed(signed.map_err(task_error)?).into())
            }
            Work::Select(job) => {
                let proofs =
                    env.scheme
                        .select(env.signers_or_refuse()?, &job.message, &job.validators, ctx);
                Ok(Product::Selected(proofs.map_err(task_error)?).into())
            }
            Work::Verify(job) => Self::run_verify(env, job, ctx),
            Work::Aggregate(job) => {
                let keys = env.keys_or_refuse(job.epoch)?;
                let made = env
                    .scheme
                    .aggregate(keys, &job.statement, &job.votes, ctx)
                    .map_err(task_error)?;
                self.finish(env, job.epoch, &job.statement, made, ctx)
            }
            Work::Combine(job) => {
                let keys = env.keys_or_refuse(job.epoch)?;
                let made =
                    env.scheme
                        .combine(keys, &job.statement, &job.parts, job.multiplicity_max, ctx);
                self.finish(
                    env,
                    job.epoch,
                    &job.statement,
                    made.map_err(task_error)?,
                    ctx,
                )
            }
            Work::Prepare(job) => {
                let keys = env
                    .scheme
                    .keys(&env.registry, &job.assignment, ctx)
                    .map_err(task_error)?;
                Ok(JobOutput {
                    product: Product::Prepared(job.assignment.epoch()),
                    keys: Some(Arc::new(keys)),
                })
            }
        }
    }

    fn prepare(&self, env: &Env<S>, ctx: &mut Ctx<'_, S::Scratch>) -> Option<PreparedJob<S>> {
        let (epoch, inputs) = self.work.inputs(env)?;
        let keys = env.keys(epoch)?.clone();
        let mut bounds = vec![0];
        let mut claims = Vec::new();
        for input in inputs {
            claims.extend(input);
            bounds.push(claims.len());
        }
        let claims = env.scheme.prepare(&keys, &claims, &env.secret, ctx);
        Some(PreparedJob {
            claims,
            keys,
            bounds,
        })
    }

    fn check(&self, env: &Env<S>, prepared: &PreparedJob<S>, range: Range<usize>) -> bool {
        let claims = prepared.bounds[range.start]..prepared.bounds[range.end];
        claims.is_empty() || env.scheme.check(&prepared.keys, &prepared.claims, claims)
    }

    fn locate(
        &self,
        env: &Env<S>,
        prepared: &PreparedJob<S>,
        ctx: &mut Ctx<'_, S::Scratch>,
    ) -> Option<Vec<usize>> {
        let bad = env.scheme.locate(&prepared.keys, &prepared.claims, ctx)?;
        let mut inputs: Vec<usize> = bad
            .into_iter()
            .map(|claim| prepared.bounds.partition_point(|bound| *bound <= claim) - 1)
            .collect();
        inputs.dedup();
        Some(inputs)
    }

    fn verify_output(
        &self,
        env: &Env<S>,
        output: &JobOutput<S>,
        ctx: &mut Ctx<'_, S::Scratch>,
    ) -> bool {
        match (&self.work, &output.product) {
            (Work::Aggregate(job), Product::Evidence(made)) => {
                Self::verify_evidence(env, job.epoch, &job.statement, made, ctx)
            }
            (Work::Combine(job), Product::Evidence(made)) => {
                Self::verify_evidence(env, job.epoch, &job.statement, made, ctx)
            }
            (Work::Sign(job), Product::Signed(signed)) => signed.len() == job.items.len(),
            (Work::Select(job), Product::Selected(proofs)) => proofs.len() == job.validators.len(),
            (Work::Verify(job), Product::Verdicts(verdicts)) => verdicts.len() == job.items.len(),
            (Work::Prepare(job), Product::Prepared(epoch)) => *epoch == job.assignment.epoch(),
            _ => false,
        }
    }

    fn isolate(&self, env: &Env<S>) -> bool {
        let layer = match &self.work {
            Work::Aggregate(job) => job.statement.layer,
            Work::Combine(job) => job.statement.layer,
            _ => return false,
        };
        env.scheme.abilities().form(layer) == Form::Proof
    }

    fn encode(&self) -> Option<Vec<u8>> {
        code::encode(&self.work)
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        code::decode(bytes).map(Job::from)
    }
}
