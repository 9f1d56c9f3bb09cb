//! How a scheme does the work, as a task that a worker schedules.

use super::{AggregateJob, CombineJob, Env, JobOutput, Product, VerifyJob, Work, code, product};
use crate::{
    Claim, Ctx, Evidence, Features, Form, Scheme, SchemeError, Statement, Task, TaskError, Verdict,
    verify_claims,
};
use alphorn_types::{Bitfield, DecodeError, Epoch};
use std::ops::Range;
use std::sync::Arc;

/// Inputs of a job, decoded for subset tests.
pub struct PreparedJob<S: Scheme> {
    claims: S::Prepared,
    keys: Arc<S::Keys>,
    /// Index of the first claim of each input, and the number of claims.
    bounds: Vec<usize>,
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
            // A stopped search says nothing about the inputs.
            if ctx.stopped() {
                return Err(TaskError::Stopped);
            }
            return Err(if bad.is_empty() {
                TaskError::SelfVerifyFailed
            } else {
                TaskError::Invalid(bad)
            });
        }
        Ok(Product::Evidence(evidence).into())
    }

    fn prepared(
        env: &Env<S>,
        epoch: Epoch,
        inputs: Vec<Vec<Claim>>,
        ctx: &mut Ctx<'_, S::Scratch>,
    ) -> Option<PreparedJob<S>> {
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
        Self::prepared(env, epoch, inputs, ctx)
    }

    fn prepare_in(
        &self,
        env: &Env<S>,
        order: &[u32],
        ctx: &mut Ctx<'_, S::Scratch>,
    ) -> Option<PreparedJob<S>> {
        let (epoch, mut inputs) = self.work.inputs(env)?;
        let placed = order
            .iter()
            .map(|input| inputs.get_mut(*input as usize).map(std::mem::take));
        let placed = placed.collect::<Option<Vec<_>>>()?;
        Self::prepared(env, epoch, placed, ctx)
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

    fn encode_output(&self, output: &JobOutput<S>) -> Option<Vec<u8>> {
        product::encode(&output.product)
    }

    fn decode_output(&self, bytes: &[u8]) -> Result<JobOutput<S>, DecodeError> {
        product::decode(bytes).map(JobOutput::from)
    }

    fn portable(env: &Env<S>) -> Option<Env<S>> {
        Some(env.portable())
    }

    fn input_digest(&self, index: usize) -> Option<[u8; 32]> {
        product::input_digest(&self.work, index)
    }

    fn covered_by(&self, signers: &Bitfield) -> bool {
        let held = |position: usize| position < signers.len() && signers.get(position);
        match &self.work {
            Work::Aggregate(job) => job.votes.iter().all(|(at, _)| held(*at as usize)),
            Work::Combine(job) => job.parts.iter().all(|part| {
                let mut named = part.evidence.support.iter();
                named.all(|(at, _)| held(part.offset as usize + at))
            }),
            Work::Sign(_) | Work::Select(_) | Work::Verify(_) | Work::Prepare(_) => false,
        }
    }

    fn is_pointless(&self, env: &Env<S>) -> bool {
        let one = matches!(&self.work, Work::Aggregate(job) if job.votes.len() == 1);
        one && self.isolate(env)
    }
}
