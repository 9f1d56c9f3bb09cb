//! The jobs of the protocol: those of a scheme, and those of the protocol itself.

use crate::broadcast::{CodeJob, CodeProduct};
use crate::horn::committee;
use alphorn_scheme::{self as scheme, Ctx, Env, Features, JobOutput, Scheme, Task, TaskError};
use alphorn_types::{Assignment, Bitfield, DecodeError, Epoch, Layout};
use std::ops::Range;
use std::sync::Arc;

/// Nanoseconds a validator and round of the swap-or-not shuffle, for the cost of [`AssignJob`]:
/// 0.25 s for 2^20 validators and 90 rounds, measured by `horn::shuffle`'s own test on 2 GHz.
const SHUFFLE_NS_PER_VALIDATOR: u64 = 240;

/// Shuffle the validators of an epoch into committees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignJob {
    /// The epoch.
    pub epoch: Epoch,
    /// 32 bytes that the chain supplies for the epoch.
    pub mix: [u8; 32],
    /// Committees and cells.
    pub layout: Layout,
}

/// What a protocol asks for.
#[derive(Debug)]
pub enum Work {
    /// Of the signature scheme.
    Scheme(scheme::Work),
    /// Committees of an epoch.
    Assign(AssignJob),
    /// Of a code.
    Code(Box<CodeJob>),
}

/// What a protocol gets back.
#[derive(Clone, Debug)]
pub enum Product {
    /// Of the signature scheme.
    Scheme(scheme::Product),
    /// Committees of an epoch.
    Assigned(Arc<Assignment>),
    /// Of a code.
    Coded(Box<CodeProduct>),
}

impl From<scheme::Work> for Work {
    fn from(work: scheme::Work) -> Self {
        Work::Scheme(work)
    }
}

impl Work {
    /// The name in traces and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Work::Scheme(work) => work.op().name(),
            Work::Assign(_) => "assign",
            Work::Code(job) => job.name(),
        }
    }
}

/// [`Work`] together with the scheme that does it: the unit that a worker schedules.
pub enum Job<S: Scheme> {
    /// Of the signature scheme.
    Scheme(scheme::Job<S>),
    /// Committees of an epoch.
    Assign(AssignJob),
    /// Of a code.
    Code(Box<CodeJob>),
}

impl<S: Scheme> From<Work> for Job<S> {
    fn from(work: Work) -> Self {
        match work {
            Work::Scheme(work) => Job::Scheme(work.into()),
            Work::Assign(job) => Job::Assign(job),
            Work::Code(job) => Job::Code(job),
        }
    }
}

/// What a [`Job`] yields: the protocol's product and, from the preparation of keys, the key table
/// that the driver puts into [`Env`].
pub struct Output<S: Scheme> {
    /// For the protocol.
    pub product: Product,
    /// For the driver.
    pub keys: Option<Arc<S::Keys>>,
}

impl<S: Scheme> From<JobOutput<S>> for Output<S> {
    fn from(output: JobOutput<S>) -> Self {
        Output {
            product: Product::Scheme(output.product),
            keys: output.keys,
        }
    }
}

impl<S: Scheme> Clone for Output<S> {
    fn clone(&self) -> Self {
        Output {
            product: self.product.clone(),
            keys: self.keys.clone(),
        }
    }
}

/// Kind of [`AssignJob`] in [`Features`], above the kinds of a scheme.
pub const KIND_ASSIGN: u16 = 0x100;

impl<S: Scheme> Task for Job<S> {
    type Env = Env<S>;
    type Output = Output<S>;
    type Scratch = S::Scratch;
    type Prepared = <scheme::Job<S> as Task>::Prepared;

    fn features(&self, env: &Env<S>) -> Features {
        match self {
            Job::Scheme(job) => job.features(env),
            Job::Assign(job) => {
                let validators = job.layout.validators();
                Features {
                    kind: KIND_ASSIGN,
                    class: validators.next_power_of_two().trailing_zeros() as u8,
                    inputs: 1,
                    prior_ns: u64::from(validators) * SHUFFLE_NS_PER_VALIDATOR,
                    memory_bytes: u64::from(validators) * 8,
                }
            }
            Job::Code(job) => job.features(),
        }
    }

    fn prefix(&self, n: usize) -> Option<Self> {
        match self {
            Job::Scheme(job) => job.prefix(n).map(Job::Scheme),
            Job::Assign(_) | Job::Code(_) => None,
        }
    }

    fn run(&self, env: &Env<S>, ctx: &mut Ctx<'_, S::Scratch>) -> Result<Output<S>, TaskError> {
        match self {
            Job::Scheme(job) => job.run(env, ctx).map(Output::from),
            Job::Assign(job) => {
                ctx.checkpoint()?;
                let assignment = committee::assignment(job.epoch, &job.mix, job.layout);
                Ok(Output {
                    product: Product::Assigned(Arc::new(assignment)),
                    keys: None,
                })
            }
            Job::Code(job) => {
                ctx.checkpoint()?;
                Ok(Output {
                    product: Product::Coded(Box::new(job.run()?)),
                    keys: None,
                })
            }
        }
    }

    fn prepare(&self, env: &Env<S>, ctx: &mut Ctx<'_, S::Scratch>) -> Option<Self::Prepared> {
        match self {
            Job::Scheme(job) => job.prepare(env, ctx),
            Job::Assign(_) | Job::Code(_) => None,
        }
    }

    fn check(&self, env: &Env<S>, prepared: &Self::Prepared, range: Range<usize>) -> bool {
        match self {
            Job::Scheme(job) => job.check(env, prepared, range),
            Job::Assign(_) | Job::Code(_) => true,
        }
    }

    fn locate(
        &self,
        env: &Env<S>,
        prepared: &Self::Prepared,
        ctx: &mut Ctx<'_, S::Scratch>,
    ) -> Option<Vec<usize>> {
        match self {
            Job::Scheme(job) => job.locate(env, prepared, ctx),
            Job::Assign(_) | Job::Code(_) => None,
        }
    }

    fn verify_output(
        &self,
        env: &Env<S>,
        output: &Output<S>,
        ctx: &mut Ctx<'_, S::Scratch>,
    ) -> bool {
        match (self, &output.product) {
            (Job::Scheme(job), Product::Scheme(product)) => {
                let output = JobOutput {
                    product: product.clone(),
                    keys: output.keys.clone(),
                };
                job.verify_output(env, &output, ctx)
            }
            (Job::Assign(job), Product::Assigned(assignment)) => assignment.epoch() == job.epoch,
            // Decoding checks the payload's hash, verification is its own check.
            (Job::Code(_), Product::Coded(_)) => true,
            _ => false,
        }
    }

    fn isolate(&self, env: &Env<S>) -> bool {
        match self {
            Job::Scheme(job) => job.isolate(env),
            Job::Assign(_) | Job::Code(_) => false,
        }
    }

    fn encode(&self) -> Option<Vec<u8>> {
        match self {
            Job::Scheme(job) => job.encode(),
            Job::Assign(_) | Job::Code(_) => None,
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        scheme::Job::decode(bytes).map(Job::Scheme)
    }

    fn encode_output(&self, output: &Output<S>) -> Option<Vec<u8>> {
        match (self, &output.product) {
            (Job::Scheme(job), Product::Scheme(product)) => job.encode_output(&JobOutput {
                product: product.clone(),
                keys: output.keys.clone(),
            }),
            _ => None,
        }
    }

    fn decode_output(&self, bytes: &[u8]) -> Result<Output<S>, DecodeError> {
        match self {
            Job::Scheme(job) => job.decode_output(bytes).map(Output::from),
            Job::Assign(_) | Job::Code(_) => Err(DecodeError::UnknownTag {
                what: "result without bytes",
                value: 0,
            }),
        }
    }

    fn portable(env: &Env<S>) -> Option<Env<S>> {
        <scheme::Job<S> as Task>::portable(env)
    }

    fn prepare_in(
        &self,
        env: &Env<S>,
        order: &[u32],
        ctx: &mut Ctx<'_, S::Scratch>,
    ) -> Option<Self::Prepared> {
        match self {
            Job::Scheme(job) => job.prepare_in(env, order, ctx),
            Job::Assign(_) | Job::Code(_) => None,
        }
    }

    fn input_digest(&self, index: usize) -> Option<[u8; 32]> {
        match self {
            Job::Scheme(job) => job.input_digest(index),
            Job::Assign(_) | Job::Code(_) => None,
        }
    }

    fn covered_by(&self, signers: &Bitfield) -> bool {
        match self {
            Job::Scheme(job) => job.covered_by(signers),
            Job::Assign(_) | Job::Code(_) => false,
        }
    }

    fn is_pointless(&self, env: &Env<S>) -> bool {
        match self {
            Job::Scheme(job) => job.is_pointless(env),
            Job::Assign(_) | Job::Code(_) => false,
        }
    }
}
