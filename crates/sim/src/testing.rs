//! A small world for the scheme without cryptography, a protocol that follows a script, and a network of
//! equal nodes with a log of what happens in it.

use crate::charge::Processor;
use crate::compute::{Compute, ComputeConfig};
use crate::graph::Graph;
use crate::latency::Latency;
use crate::net::{NetConfig, Rate};
use crate::role::flood::FloodMessage;
use crate::role::{Delivery, Role as Simulated, Wire};
use crate::run::{Observe, Progress};
use crate::scenario::{self, Link};
use crate::world::{Limits, Probe, WorldConfig};
use alphorn_proto::wire::Topic;
use alphorn_proto::{Input, Output, Protocol, Spawn, Verdict};
use alphorn_scheme::model::{CostTable, Model, ModelRegistry, ModelSigners};
use alphorn_scheme::{
    self as scheme, AggregateJob, Claim, Class, Ctx, Env, Group, Item, JobId, Layer,
    MemoryWatermark, Op, Role, Scheme, Scratch, SessionId, SignItem, SignJob, Statement, VerifyJob,
    Work,
};
use alphorn_types::{Assignment, Epoch, Layout, Slot, Time, Validator};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Validators of the small world.
pub(crate) const VALIDATORS: u32 = 8;
/// The signed message.
pub(crate) const MESSAGE: [u8; 32] = [5; 32];
/// Nanoseconds that the example table charges per item.
pub(crate) const ITEM_NS: u64 = 1_000;

/// A message that delays the rest of a script by 20 ns.
pub(crate) const POSTPONE: u8 = 255;

pub(crate) fn model() -> Model {
    Model::new(CostTable::example()).unwrap()
}

/// Two cells of four validators in order, with the keys of epoch 0 ready.
pub(crate) fn env() -> Env {
    let registry = Arc::new(ModelRegistry {
        validators: VALIDATORS,
    });
    let layout = Layout::new(VALIDATORS, 1, 2).unwrap();
    let assignment = Assignment::new(Epoch(0), layout, (0..VALIDATORS).collect()).unwrap();
    let signers = Arc::new(ModelSigners {
        validators: VALIDATORS,
    });
    let mut env = Env::signing(Arc::new(model()), registry, signers, [3; 32]);
    let mut scratch = Scratch::default();
    let keys = env.make_keys(&Arc::new(assignment), &mut Ctx::single(&mut scratch));
    env.insert_keys(Epoch(0), keys.unwrap());
    env
}

pub(crate) fn compute(config: ComputeConfig) -> Compute {
    Compute::new(env(), Arc::new(MemoryWatermark::new(VALIDATORS)), config).unwrap()
}

pub(crate) fn session(seq: u32) -> SessionId {
    SessionId { slot: Slot(1), seq }
}

/// Votes of `validators` in slot `slot`.
pub(crate) fn sign(slot: u64, validators: std::ops::Range<u32>) -> Work {
    let item = |validator| SignItem {
        validator: Validator(validator),
        role: Role::Vote,
        message: MESSAGE,
        guard: None,
    };
    let items = validators.map(item).collect();
    Work::Sign(SignJob::new(Slot(slot), items))
}

/// The signature that [`sign`] creates, or an invalid one.
pub(crate) fn claim(validator: u32, good: bool) -> Claim {
    let item = SignItem::new(Validator(validator), Role::Vote, MESSAGE);
    let permit = scheme::Reservation::issue(Slot(1), &item);
    let signers = ModelSigners {
        validators: VALIDATORS,
    };
    let mut scratch = ();
    let mut ctx = Ctx::single(&mut scratch);
    let signed = model().sign(&signers, Slot(1), &[item], vec![permit], &mut ctx);
    let mut signature = signed.unwrap().iter().next().unwrap().to_vec();
    signature[0] ^= u8::from(!good);
    Claim::One {
        validator: Validator(validator),
        role: Role::Vote,
        slot: Slot(1),
        message: MESSAGE,
        signature: signature.into(),
    }
}

pub(crate) fn verify(claims: impl IntoIterator<Item = Claim>) -> Work {
    let item = |claim| Item {
        claims: vec![claim],
    };
    Work::Verify(VerifyJob {
        op: Op::VerifyVotes,
        epoch: Epoch(0),
        items: claims.into_iter().map(item).collect(),
    })
}

/// An aggregate of the first cell by members `0..count` of an epoch.
pub(crate) fn aggregate(epoch: u64, count: u32) -> Work {
    let signature = |validator| match claim(validator, true) {
        Claim::One { signature, .. } => signature,
        _ => unreachable!("a single signature"),
    };
    Work::Aggregate(AggregateJob {
        epoch: Epoch(epoch),
        statement: Statement {
            layer: Layer::Aggregate,
            first: 0,
            len: 4,
            slot: Slot(1),
            message: MESSAGE,
        },
        votes: (0..count).map(|i| (i, signature(i).into())).collect(),
    })
}

pub(crate) fn spawn(job: u64, session: SessionId, hard: Time, work: Work) -> Output {
    Output::Spawn(Spawn {
        job: JobId(job),
        session,
        group: Group::of_slot(session.slot),
        class: Class::Current,
        soft: hard,
        hard,
        work,
    })
}

pub(crate) fn publish(topic: Topic, byte: u8) -> Output {
    Output::Publish {
        topic,
        data: vec![byte; 3].into(),
    }
}

/// Emits each output of its script at its time, accepts every message, and logs every input.
#[derive(Default)]
pub(crate) struct Scripted {
    pub(crate) script: VecDeque<(u64, Output)>,
    pub(crate) log: Vec<(u64, String)>,
    outputs: VecDeque<Output>,
    /// Whether its deadline stays in the past.
    pub(crate) is_stuck: bool,
}

impl Scripted {
    pub(crate) fn new(script: impl IntoIterator<Item = (u64, Output)>) -> Self {
        Scripted {
            script: script.into_iter().collect(),
            ..Self::default()
        }
    }

    /// The log as lines, each with its time.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |(at, what): &(u64, String)| format!("{at} {what}");
        self.log.iter().map(line).collect()
    }
}

impl Protocol for Scripted {
    fn handle(&mut self, now: Time, input: Input) {
        let what = match input {
            Input::Message {
                from, token, data, ..
            } => {
                let verdict = Verdict::Accept;
                self.outputs.push_back(Output::Verdict { token, verdict });
                if data[0] == POSTPONE {
                    self.script.iter_mut().for_each(|(at, _)| *at += 20);
                }
                format!("message {} of {from}", data[0])
            }
            Input::Finished { job, outcome } => {
                let outcome = format!("{outcome:?}");
                let name = outcome.split(['(', ' ']).next().unwrap_or_default();
                format!("job {} {name}", job.0)
            }
            Input::Deadline => {
                while let Some((at, _)) = self.script.front()
                    && *at <= now.as_nanos()
                    && !self.is_stuck
                {
                    let (_, output) = self.script.pop_front().unwrap();
                    self.outputs.push_back(output);
                }
                "deadline".into()
            }
            Input::PeerUp { peer } => format!("up {peer}"),
            Input::SendReady { .. } | Input::PeerDown { .. } => unreachable!("an ideal network"),
        };
        self.log.push((now.as_nanos(), what));
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn next_deadline(&self) -> Option<Time> {
        self.script.front().map(|(at, _)| Time::from_nanos(*at))
    }
}

/// Bandwidth of the nodes of [`equals`].
pub(crate) const RATE: Rate = Rate {
    up_bps: 25_000_000,
    down_bps: 50_000_000,
};

/// A world of equal nodes that handle messages at once, on one thread.
pub(crate) fn equals(graph: Graph, latency: &scenario::Latency) -> WorldConfig {
    let nodes = graph.nodes();
    let regions = Latency::regions_of(latency, 3, nodes);
    WorldConfig {
        net: NetConfig {
            graph: graph.into(),
            latency: Latency::new(latency, regions).into(),
            link: Link::default(),
            dial: None,
            rates: vec![RATE],
            rate: vec![0; nodes as usize].into(),
            handle_ns: 0,
            seed: 3,
            kinds: FloodMessage::KINDS.len(),
            paced: false,
        },
        processors: vec![Processor {
            cores: 4,
            factor_pct: 100,
        }],
        processor: vec![0; nodes as usize].into(),
        limits: Limits {
            events_max: 10_000_000,
            sim_time_max_ns: 100_000_000_000,
            quiet_ns: u64::MAX,
        },
        threads: 1,
    }
}

/// (nanoseconds, node, payload) of every delivery, and (node, about, reason) of every report.
#[derive(Debug, Default)]
pub(crate) struct Log(
    pub(crate) Vec<(u64, u32, u32)>,
    pub(crate) Vec<(u32, u32, &'static str)>,
);

impl<R: Simulated<Delivery = Delivery>> Probe<R> for Log {
    fn delivered(&mut self, now_ns: u64, node: u32, delivered: &Delivery) {
        self.0.push((now_ns, node, delivered.item));
    }

    fn reported(&mut self, _: u64, node: u32, about: u32, reason: &'static str) {
        self.1.push((node, about, reason));
    }
}

/// A null observer that lets a run use this many threads.
#[derive(Debug)]
pub(crate) struct OnThreads(pub(crate) usize);

impl Observe for OnThreads {
    fn progress(&mut self, _: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn threads(&self) -> usize {
        self.0
    }
}
