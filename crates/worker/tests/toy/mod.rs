//! A task whose inputs are commands: what a prover does on its bad days.

use alphorn_scheme::{Class, Ctx, Features, Group, SessionId, Task, TaskError};
use alphorn_types::{DecodeError, Reader, Slot, Time, Writer};
use alphorn_worker::Request;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What an input does to whoever runs it.
pub(crate) const GOOD: u8 = 0;
/// A bad signature.
pub(crate) const BAD: u8 = 1;
/// A panic.
pub(crate) const PANIC: u8 = 2;
/// The process aborts.
pub(crate) const ABORT: u8 = 3;
/// Nothing any more, not even a beat.
pub(crate) const HANG: u8 = 4;
/// Memory without end.
pub(crate) const OOM: u8 = 5;
/// A wrong result on fast kernels.
pub(crate) const WRONG: u8 = 6;
/// A wrong result on every kernel.
pub(crate) const WRONG_EVERYWHERE: u8 = 7;
/// Bytes of the result that are not the result's.
pub(crate) const WRONG_BYTES: u8 = 8;
/// Work that beats and does not listen.
pub(crate) const DEAF: u8 = 9;

/// A proof of somebody else: the job only verifies.
pub(crate) const PROOF: u8 = 10;

/// Nothing any more until [`AWAKE`].
pub(crate) const ASLEEP: u8 = 11;

/// Whether jobs that sleep go on.
pub(crate) static AWAKE: AtomicBool = AtomicBool::new(false);

/// How often jobs of this process that hear nothing have beaten.
pub(crate) static DEAF_BEATS: AtomicU64 = AtomicU64::new(0);

/// Adds its inputs, after a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Toy {
    pub(crate) inputs: Vec<u8>,
    /// Names the job and its inputs.
    pub(crate) seed: u64,
    pub(crate) work_us: u64,
    pub(crate) isolate: bool,
    /// What the scheduler is told, nanoseconds.
    pub(crate) prior_ns: u64,
    pub(crate) memory_bytes: u64,
}

impl Toy {
    pub(crate) fn new(inputs: &[u8]) -> Self {
        Toy {
            inputs: inputs.to_vec(),
            seed: 0,
            work_us: 0,
            isolate: false,
            prior_ns: 1_000_000,
            memory_bytes: 1,
        }
    }
}

/// Which kernel runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ToyEnv {
    pub(crate) portable: bool,
}

fn sum(inputs: &[u8]) -> u64 {
    inputs.iter().map(|input| u64::from(*input) + 1).sum()
}

impl Task for Toy {
    type Env = ToyEnv;
    type Output = u64;
    type Scratch = Vec<u8>;
    type Prepared = Vec<u8>;

    fn features(&self, _: &ToyEnv) -> Features {
        Features {
            kind: 1,
            class: 1,
            inputs: self.inputs.len() as u32,
            prior_ns: self.prior_ns,
            memory_bytes: self.memory_bytes,
        }
    }

    fn part(&self, inputs: Range<usize>) -> Option<Self> {
        let inputs = self.inputs.get(inputs).filter(|part| !part.is_empty())?;
        let inputs = inputs.to_vec();
        Some(Toy {
            inputs,
            ..self.clone()
        })
    }

    fn run(&self, env: &ToyEnv, ctx: &mut Ctx<'_, Vec<u8>>) -> Result<u64, TaskError> {
        let until = Instant::now() + Duration::from_micros(self.work_us);
        while Instant::now() < until {
            ctx.checkpoint()?;
            std::thread::sleep(Duration::from_micros(self.work_us.min(1000)));
        }
        let mut result = sum(&self.inputs);
        for input in &self.inputs {
            match *input {
                PANIC => panic!("commanded"),
                ABORT => std::process::abort(),
                HANG => std::thread::sleep(Duration::from_secs(3600)),
                ASLEEP => {
                    while !AWAKE.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
                OOM => loop {
                    // Touched, so that it is no promise only.
                    let grown = ctx.scratch.len() + (16 << 20);
                    ctx.scratch.resize(grown, 1);
                    ctx.checkpoint()?;
                },
                DEAF => loop {
                    DEAF_BEATS.fetch_add(1, Ordering::Relaxed);
                    ctx.beat();
                    std::thread::sleep(Duration::from_millis(1));
                },
                WRONG if !env.portable => result += 1,
                WRONG_EVERYWHERE => result += 1,
                _ => {}
            }
        }
        Ok(result)
    }

    fn prepare(&self, _: &ToyEnv, _: &mut Ctx<'_, Vec<u8>>) -> Option<Vec<u8>> {
        Some(self.inputs.clone())
    }

    fn prepare_in(&self, _: &ToyEnv, order: &[u32], _: &mut Ctx<'_, Vec<u8>>) -> Option<Vec<u8>> {
        let input = |place: &u32| self.inputs.get(*place as usize).copied();
        order.iter().map(input).collect()
    }

    fn check(&self, _: &ToyEnv, prepared: &Vec<u8>, range: Range<usize>) -> bool {
        prepared[range].iter().all(|input| *input != BAD)
    }

    fn locate(&self, _: &ToyEnv, _: &Vec<u8>, _: &mut Ctx<'_, Vec<u8>>) -> Option<Vec<usize>> {
        None
    }

    fn verify_output(&self, _: &ToyEnv, output: &u64, _: &mut Ctx<'_, Vec<u8>>) -> bool {
        *output == sum(&self.inputs) && !self.inputs.contains(&BAD)
    }

    fn verifies(&self) -> bool {
        self.inputs.contains(&PROOF)
    }

    fn isolate(&self, _: &ToyEnv) -> bool {
        self.isolate
    }

    fn encode(&self) -> Option<Vec<u8>> {
        let mut w = Writer::with_capacity(64);
        w.u64(self.seed);
        w.u64(self.work_us);
        w.u8(u8::from(self.isolate));
        w.u64(self.prior_ns);
        w.u64(self.memory_bytes);
        w.bytes_u32_prefixed(&self.inputs);
        Some(w.into_vec())
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        let toy = Toy {
            seed: r.u64()?,
            work_us: r.u64()?,
            isolate: r.u8()? == 1,
            prior_ns: r.u64()?,
            memory_bytes: r.u64()?,
            inputs: r.bytes_u32_prefixed(1 << 20)?.to_vec(),
        };
        r.finish()?;
        Ok(toy)
    }

    fn encode_output(&self, output: &u64) -> Option<Vec<u8>> {
        let wrong = u64::from(self.inputs.contains(&WRONG_BYTES));
        Some((output + wrong).to_le_bytes().to_vec())
    }

    fn decode_output(&self, bytes: &[u8]) -> Result<u64, DecodeError> {
        let mut r = Reader::new(bytes);
        let output = r.u64()?;
        r.finish()?;
        Ok(output)
    }

    fn portable(_: &ToyEnv) -> Option<ToyEnv> {
        Some(ToyEnv { portable: true })
    }

    fn input_digest(&self, index: usize) -> Option<[u8; 32]> {
        let input = *self.inputs.get(index)?;
        let mut name = [0; 32];
        name[..8].copy_from_slice(&self.seed.to_le_bytes());
        name[8] = input;
        (input != GOOD).then_some(name)
    }

    fn is_pointless(&self, _: &ToyEnv) -> bool {
        self.isolate && self.inputs.is_empty()
    }
}

/// A group of the committee `index` in slot 1.
pub(crate) fn group(index: u16) -> Group {
    Group {
        slot: Slot(1),
        message: [0; 32],
        committee: Some(index),
        subcommittee: None,
    }
}

/// A job for slot 1.
pub(crate) fn request(class: Class, index: u16, work: Toy, soft: Time, hard: Time) -> Request<Toy> {
    Request {
        client: 0,
        session: SessionId {
            slot: Slot(1),
            seq: 0,
        },
        group: group(index),
        replaces: None,
        class,
        soft,
        hard,
        votes: work.inputs.len() as u32,
        bytes: work.inputs.len() as u64,
        work,
    }
}
