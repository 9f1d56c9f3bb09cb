//! The jobs of the protocol: those of a scheme, and those of the protocol itself.

use crate::broadcast::{CodeJob, CodeProduct};
use crate::horn::committee;
use alphorn_scheme::{self as scheme, Ctx, Env, Features, Keys, Scratch, Task, TaskError};
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

/// What a protocol asks for: the unit that a worker schedules.
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

/// What running [`Work`] yields: the protocol's product and, from the preparation of keys, the key table
/// that the driver puts into [`Env`].
#[derive(Clone)]
pub struct Output {
    /// For the protocol.
    pub product: Product,
    /// For the driver.
    pub keys: Option<Keys>,
}

impl From<scheme::Output> for Output {
    fn from(output: scheme::Output) -> Self {
        Output {
            product: Product::Scheme(output.product),
            keys: output.keys,
        }
    }
}

/// Kind of [`AssignJob`] in [`Features`], above the kinds of a scheme.
pub const KIND_ASSIGN: u16 = 0x100;

impl Task for Work {
    type Env = Env;
    type Output = Output;
    type Scratch = Scratch;
    type Prepared = <scheme::Work as Task>::Prepared;

    fn features(&self, env: &Env) -> Features {
        match self {
            Work::Scheme(job) => job.features(env),
            Work::Assign(job) => {
                let validators = job.layout.validators();
                Features {
                    kind: KIND_ASSIGN,
                    class: validators.next_power_of_two().trailing_zeros() as u8,
                    inputs: 1,
                    prior_ns: u64::from(validators) * SHUFFLE_NS_PER_VALIDATOR,
                    memory_bytes: u64::from(validators) * 8,
                }
            }
            Work::Code(job) => job.features(),
        }
    }

    fn prefix(&self, n: usize) -> Option<Self> {
        match self {
            Work::Scheme(job) => job.prefix(n).map(Work::Scheme),
            Work::Assign(_) | Work::Code(_) => None,
        }
    }

    fn run(&self, env: &Env, ctx: &mut Ctx<'_, Scratch>) -> Result<Output, TaskError> {
        match self {
            Work::Scheme(job) => job.run(env, ctx).map(Output::from),
            Work::Assign(job) => {
                ctx.checkpoint()?;
                let assignment = committee::assignment(job.epoch, &job.mix, job.layout);
                Ok(Output {
                    product: Product::Assigned(Arc::new(assignment)),
                    keys: None,
                })
            }
            Work::Code(job) => {
                ctx.checkpoint()?;
                Ok(Output {
                    product: Product::Coded(Box::new(job.run()?)),
                    keys: None,
                })
            }
        }
    }

    fn prepare(&self, env: &Env, ctx: &mut Ctx<'_, Scratch>) -> Option<Self::Prepared> {
        match self {
            Work::Scheme(job) => job.prepare(env, ctx),
            Work::Assign(_) | Work::Code(_) => None,
        }
    }

    fn check(&self, env: &Env, prepared: &Self::Prepared, range: Range<usize>) -> bool {
        match self {
            Work::Scheme(job) => job.check(env, prepared, range),
            Work::Assign(_) | Work::Code(_) => true,
        }
    }

    fn locate(
        &self,
        env: &Env,
        prepared: &Self::Prepared,
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Option<Vec<usize>> {
        match self {
            Work::Scheme(job) => job.locate(env, prepared, ctx),
            Work::Assign(_) | Work::Code(_) => None,
        }
    }

    fn verify_output(&self, env: &Env, output: &Output, ctx: &mut Ctx<'_, Scratch>) -> bool {
        match (self, &output.product) {
            (Work::Scheme(job), Product::Scheme(product)) => {
                let output = scheme::Output {
                    product: product.clone(),
                    keys: output.keys.clone(),
                };
                job.verify_output(env, &output, ctx)
            }
            (Work::Assign(job), Product::Assigned(assignment)) => assignment.epoch() == job.epoch,
            // Decoding checks the payload's hash, verification is its own check.
            (Work::Code(_), Product::Coded(_)) => true,
            _ => false,
        }
    }

    fn isolate(&self, env: &Env) -> bool {
        match self {
            Work::Scheme(job) => job.isolate(env),
            Work::Assign(_) | Work::Code(_) => false,
        }
    }

    fn encode(&self) -> Option<Vec<u8>> {
        match self {
            Work::Scheme(job) => job.encode(),
            Work::Assign(_) | Work::Code(_) => None,
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        scheme::Work::decode(bytes).map(Work::Scheme)
    }

    fn encode_output(&self, output: &Output) -> Option<Vec<u8>> {
        match (self, &output.product) {
            (Work::Scheme(job), Product::Scheme(product)) => job.encode_output(&scheme::Output {
                product: product.clone(),
                keys: output.keys.clone(),
            }),
            _ => None,
        }
    }

    fn decode_output(&self, bytes: &[u8]) -> Result<Output, DecodeError> {
        match self {
            Work::Scheme(job) => job.decode_output(bytes).map(Output::from),
            Work::Assign(_) | Work::Code(_) => Err(DecodeError::UnknownTag {
                what: "result without bytes",
                value: 0,
            }),
        }
    }

    fn portable(env: &Env) -> Option<Env> {
        <scheme::Work as Task>::portable(env)
    }

    fn prepare_in(
        &self,
        env: &Env,
        order: &[u32],
        ctx: &mut Ctx<'_, Scratch>,
    ) -> Option<Self::Prepared> {
        match self {
            Work::Scheme(job) => job.prepare_in(env, order, ctx),
            Work::Assign(_) | Work::Code(_) => None,
        }
    }

    fn input_digest(&self, index: usize) -> Option<[u8; 32]> {
        match self {
            Work::Scheme(job) => job.input_digest(index),
            Work::Assign(_) | Work::Code(_) => None,
        }
    }

    fn covered_by(&self, signers: &Bitfield) -> bool {
        match self {
            Work::Scheme(job) => job.covered_by(signers),
            Work::Assign(_) | Work::Code(_) => false,
        }
    }

    fn is_pointless(&self, env: &Env) -> bool {
        match self {
            Work::Scheme(job) => job.is_pointless(env),
            Work::Assign(_) | Work::Code(_) => false,
        }
    }
}
