//! [`Work`] as a task that a worker schedules.

use super::held::{self, Scratch};
use super::{
    AggregateJob, BundleJob, CombineJob, Env, Keys, Output, Product, VerifyJob, Work, code, product,
};
use crate::{
    Claim, Ctx, Evidence, Features, Form, Layer, SchemeError, Statement, Task, TaskError, Verdict,
};
use alphorn_types::{DecodeError, Epoch};
use std::ops::Range;

/// Inputs of a job, decoded for subset tests.
pub struct PreparedWork {
    claims: held::Prepared,
    keys: Keys,
    /// Index of the first claim of each input, and the number of claims.
    bounds: Vec<usize>,
}

impl From<SchemeError> for TaskError {
    fn from(error: SchemeError) -> Self {
        match error {
            SchemeError::Stopped => TaskError::Stopped,
            SchemeError::Malformed(i) => TaskError::Invalid(vec![i]),
            other => TaskError::Refused(other.to_string()),
        }
    }
}

impl Work {
    fn run_verify(
        env: &Env,
        job: &VerifyJob,
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Result<Output, TaskError> {
        let keys = env.keys_or_refuse(job.epoch)?;
        let claims: Vec<Claim> = job
            .items
            .iter()
            .flat_map(|item| item.claims.iter().cloned())
            .collect();
        let good = env.held.verify(keys, &claims, &env.secret, ctx);
        // A stopped verification answers false for what it did not test. Such verdicts must not reach the peers
        // that sent the messages.
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

    /// Runs the public verifier on evidence: one claim under the statement.
    fn verify_evidence(
        env: &Env,
        epoch: Epoch,
        statement: &Statement,
        evidence: &Evidence,
        ctx: &mut Ctx<'_, Scratch>,
    ) -> bool {
        let claim = [Claim::Group {
            statement: *statement,
            evidence: evidence.clone(),
        }];
        env.keys(epoch)
            .is_some_and(|keys| env.held.verify(keys, &claim, &env.secret, ctx) == [true])
    }

    /// Checks produced evidence; on failure, distinguishes bad inputs from an internal fault.
    fn finish(
        &self,
        env: &Env,
        epoch: Epoch,
        statement: &Statement,
        evidence: Evidence,
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Result<Output, TaskError> {
        if env.self_verify && !Self::verify_evidence(env, epoch, statement, &evidence, ctx) {
            if ctx.stopped() {
                return Err(TaskError::Stopped);
            }
            // The inputs were verified before, so they are tested again only after a result turned out to be
            // wrong.
            let bad = self.bad_inputs(env, ctx);
            // A stopped search gives no information about the inputs.
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
        env: &Env,
        epoch: Epoch,
        inputs: Vec<Vec<Claim>>,
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Option<PreparedWork> {
        let keys = env.keys(epoch)?.clone();
        let mut bounds = vec![0];
        let mut claims = Vec::new();
        for input in inputs {
            claims.extend(input);
            bounds.push(claims.len());
        }
        let claims = env.held.prepare(&keys, &claims, &env.secret, ctx);
        Some(PreparedWork {
            claims,
            keys,
            bounds,
        })
    }

    fn bad_inputs(&self, env: &Env, ctx: &mut Ctx<'_, Scratch>) -> Vec<usize> {
        let Some((epoch, inputs)) = self.inputs(env) else {
            return Vec::new();
        };
        let Some(keys) = env.keys(epoch) else {
            return Vec::new();
        };
        let claims: Vec<Claim> = inputs.into_iter().flatten().collect();
        let good = env.held.verify(keys, &claims, &env.secret, ctx);
        // The number of a claim is that of its input: jobs that make evidence have one claim for each.
        (0..good.len()).filter(|i| !good[*i]).collect()
    }
}

impl Task for Work {
    type Env = Env;
    type Output = Output;
    type Scratch = Scratch;
    type Prepared = PreparedWork;

    fn features(&self, env: &Env) -> Features {
        let op = match self.op() {
            Ok(op) => op,
            Err(foreign) => return foreign.features(),
        };
        let (n, m) = self.size();
        let cost = env.held.cost(op, n, m);
        // What `part` cuts and `check` counts. The size of united lists counts their signers.
        let inputs = match self {
            Work::Combine(job) => job.parts.len() as u64,
            _ => n,
        };
        Features {
            kind: op.kind(),
            // The binary logarithm of the size, rounded up.
            class: n.max(1).next_power_of_two().trailing_zeros() as u8,
            inputs: u32::try_from(inputs).unwrap_or(u32::MAX),
            prior_ns: cost.ns,
            memory_bytes: cost.memory_bytes,
        }
    }

    fn part(&self, inputs: Range<usize>) -> Option<Self> {
        let (is_empty, end) = (inputs.is_empty(), inputs.end);
        let fits = |count: usize| inputs.start <= end && end <= count;
        let work = match self {
            // Nothing to verify is a job that succeeds, whereas evidence cannot be made of nothing: the others
            // need an input.
            Work::Verify(job) if fits(job.items.len()) => Work::Verify(VerifyJob {
                items: job.items[inputs].to_vec(),
                ..job.clone()
            }),
            Work::Aggregate(job) if !is_empty && fits(job.votes.len()) => {
                Work::Aggregate(AggregateJob {
                    votes: job.votes[inputs].to_vec(),
                    ..job.clone()
                })
            }
            Work::Combine(job) if !is_empty && fits(job.parts.len()) => Work::Combine(CombineJob {
                parts: job.parts[inputs].to_vec(),
                ..job.clone()
            }),
            Work::Bundle(job) if !is_empty && fits(job.collections.len()) => {
                Work::Bundle(BundleJob {
                    collections: job.collections[inputs].to_vec(),
                })
            }
            _ => return None,
        };
        Some(work)
    }

    fn run(&self, env: &Env, ctx: &mut Ctx<'_, Scratch>) -> Result<Output, TaskError> {
        ctx.checkpoint()?;
        match self {
            Work::Sign(job) => {
                let permits = job.take_permits()?;
                let signed = env.held.sign(job.slot, &job.items, permits, ctx)?;
                Ok(Product::Signed(signed).into())
            }
            Work::Select(job) => {
                let proofs = env.held.select(&job.message, &job.validators, ctx)?;
                Ok(Product::Selected(proofs).into())
            }
            Work::Verify(job) => Self::run_verify(env, job, ctx),
            Work::Aggregate(job) => {
                let keys = env.keys_or_refuse(job.epoch)?;
                let made = env.held.aggregate(keys, &job.statement, &job.votes, ctx)?;
                self.finish(env, job.epoch, &job.statement, made, ctx)
            }
            Work::Combine(job) => {
                let keys = env.keys_or_refuse(job.epoch)?;
                let max = job.multiplicity_max;
                let made = env
                    .held
                    .combine(keys, &job.statement, &job.parts, max, ctx)?;
                self.finish(env, job.epoch, &job.statement, made, ctx)
            }
            Work::Bundle(job) => job.run(env, ctx),
            Work::VerifyBundle(job) => job.run(env, ctx),
            Work::Prepare(job) => {
                let epoch = job.assignment.epoch();
                Ok(Output {
                    product: Product::Prepared(epoch),
                    keys: Some((epoch, env.make_keys(&job.assignment, ctx)?)),
                })
            }
            Work::Foreign(job) => job.run().map(Output::from),
        }
    }

    fn prepare(&self, env: &Env, ctx: &mut Ctx<'_, Scratch>) -> Option<PreparedWork> {
        let (epoch, inputs) = self.inputs(env)?;
        Self::prepared(env, epoch, inputs, ctx)
    }

    fn prepare_in(
        &self,
        env: &Env,
        order: &[u32],
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Option<PreparedWork> {
        let (epoch, mut inputs) = self.inputs(env)?;
        // Moved without a copy: `order` is a permutation, so each input is taken once.
        let placed = order
            .iter()
            .map(|input| inputs.get_mut(*input as usize).map(std::mem::take));
        let placed = placed.collect::<Option<Vec<_>>>()?;
        Self::prepared(env, epoch, placed, ctx)
    }

    fn check(&self, env: &Env, prepared: &PreparedWork, range: Range<usize>) -> bool {
        let claims = prepared.bounds[range.start]..prepared.bounds[range.end];
        // A range of inputs without claims holds. The scheme is not asked, as no batch of nothing need be
        // defined.
        claims.is_empty() || env.held.check(&prepared.keys, &prepared.claims, claims)
    }

    fn locate(
        &self,
        env: &Env,
        prepared: &PreparedWork,
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Option<Vec<usize>> {
        let bad = env.held.locate(&prepared.keys, &prepared.claims, ctx)?;
        let mut inputs: Vec<usize> = bad
            .into_iter()
            // The last input that starts at or before the claim; one without claims shares its
            // bound with the next.
            .map(|claim| prepared.bounds.partition_point(|bound| *bound <= claim) - 1)
            .collect();
        // Claims ascend, so those of one input are adjacent.
        inputs.dedup();
        Some(inputs)
    }

    fn verify_output(&self, env: &Env, output: &Output, ctx: &mut Ctx<'_, Scratch>) -> bool {
        match (self, &output.product) {
            (Work::Aggregate(job), Product::Evidence(made)) => {
                Self::verify_evidence(env, job.epoch, &job.statement, made, ctx)
            }
            (Work::Combine(job), Product::Evidence(made)) => {
                Self::verify_evidence(env, job.epoch, &job.statement, made, ctx)
            }
            (Work::Bundle(job), Product::Bundle { count, bytes }) => {
                job.holds(env, *count, bytes, ctx)
            }
            // Verdicts have no public verifier; only their number can be wrong in a way that is noticed here.
            (Work::VerifyBundle(_), Product::Verdicts(verdicts)) => verdicts.len() == 1,
            (Work::Sign(job), Product::Signed(signed)) => signed.len() == job.items.len(),
            (Work::Select(job), Product::Selected(proofs)) => proofs.len() == job.validators.len(),
            (Work::Verify(job), Product::Verdicts(verdicts)) => verdicts.len() == job.items.len(),
            (Work::Prepare(job), Product::Prepared(epoch)) => *epoch == job.assignment.epoch(),
            // It never left this process.
            (Work::Foreign(_), _) => true,
            _ => false,
        }
    }

    fn isolate(&self, env: &Env) -> bool {
        let layer = match self {
            Work::Aggregate(job) => job.statement.layer,
            Work::Combine(job) => job.statement.layer,
            Work::Bundle(_) => Layer::Collection,
            _ => return false,
        };
        env.held.abilities().form(layer) == Form::Proof
    }

    fn verifies(&self) -> bool {
        matches!(self, Work::Verify(_) | Work::VerifyBundle(_))
    }

    fn encode(&self) -> Option<Vec<u8>> {
        code::encode(self)
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        code::decode(bytes)
    }

    fn encode_output(&self, output: &Output) -> Option<Vec<u8>> {
        product::encode(&output.product)
    }

    fn decode_output(&self, bytes: &[u8]) -> Result<Output, DecodeError> {
        product::decode(bytes).map(Output::from)
    }

    fn portable(env: &Env) -> Option<Env> {
        Some(env.portable())
    }

    fn input_digest(&self, index: usize) -> Option<[u8; 32]> {
        product::input_digest(self, index)
    }
}
