//! Targets of `alphorn-node`: what a node recorded, and its state machines under any input.

use alphorn_node::engine::{Doppelganger, Engine, Host, Judged, Kept, Settings};
use alphorn_node::record::{Record, Recorder, Replayed, replay};
use alphorn_proto::chain::Anchor;
use alphorn_proto::horn::{Config, Horn, Local, SchemeInfo, Selection, Shown};
use alphorn_proto::slot::Timing;
use alphorn_proto::wire::{Reject, Root, Topic};
use alphorn_proto::{Evidence, Input, Peer, Spawn, Token, Verdict};
use alphorn_scheme::model::{CostTable, Model, ModelRegistry, ModelSigners};
use alphorn_scheme::{
    Bytes, Ctx, Env, JobId, MemoryWatermark, Outcome, Product, Scratch, SessionId, Task, Work,
};
use alphorn_types::{Bitfield, Layout, Slot, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Validators of the network, in one committee of two cells.
const VALIDATORS: u32 = 8;
/// Slots of a seed.
const SLOTS: u64 = 3;

/// Reads a record and gives its inputs to the state machines of a node: whatever it says came, they
/// return, and the same follows each time and however the file is read.
///
/// # Panics
///
/// If a second replay, from a file that is read byte by byte, comes to something else.
pub fn node_inputs(data: &[u8]) -> bool {
    let whole = replayed(data);
    let in_bytes = replayed(OneByOne(data));
    assert_eq!(whole, in_bytes, "the same inputs, something else follows");
    whole.is_ok()
}

/// Records of a node that hosts everybody, from its start and with a block of an earlier run.
pub(crate) fn node_inputs_seeds() -> Vec<Vec<u8>> {
    let (first, block) = recorded(None);
    vec![first, recorded(block).0]
}

/// A file that gives one byte at a time.
struct OneByOne<'a>(&'a [u8]);

impl Read for OneByOne<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = buffer.len().min(1);
        self.0.read(&mut buffer[..count])
    }
}

fn replayed(source: impl Read) -> Result<Replayed, String> {
    let record = Record::open(source).map_err(|error| error.to_string())?;
    replay(record, horn(), settings()).map_err(|error| error.to_string())
}

fn settings() -> Settings {
    Settings {
        first_slot: Slot(0),
        started: None,
        used: Slot(0),
        behind: BTreeMap::new(),
    }
}

fn model() -> Model {
    Model::new(CostTable::example()).expect("the example is within its bounds")
}

fn horn() -> Horn {
    let layout = Layout::new(VALIDATORS, 1, 2).expect("a legal layout");
    let info = SchemeInfo::of(&model(), &layout);
    let mut config = Config::new(layout, &info);
    config.timing = Timing::LEAN;
    config.genesis = Time::from_millis(10_000);
    config.selection = Selection::Rank;
    config.epoch_slots = 2;
    let all = Bitfield::ones(VALIDATORS as usize);
    let local = Local {
        voters: all.clone(),
        validators: all,
        // What it sends comes back to it, so that the record has messages of each kind.
        trust_own: true,
    };
    Horn::new(config, info, local).expect("a legal configuration")
}

/// Carries out what the machines want: jobs at once, messages come back from a peer.
struct Ports {
    env: Env,
    marks: MemoryWatermark,
    inputs: VecDeque<Input>,
    tokens: u64,
    block: Option<Bytes>,
}

impl Host for Ports {
    fn publish(&mut self, topic: Topic, data: Bytes) {
        self.tokens += 1;
        self.inputs.push_back(Input::Message {
            from: Peer(1),
            topic,
            token: Token(self.tokens),
            data,
        });
    }

    fn subscribe(&mut self, _: &BTreeSet<Topic>) {}

    fn verdict(&mut self, _: Token, _: Verdict) {}

    fn report(&mut self, peer: Peer, reason: Reject) {
        panic!("an honest {peer} is reported: {reason}");
    }

    fn spawn(&mut self, spawn: Spawn) {
        let outcome = run(&mut self.env, &self.marks, spawn.work);
        let job: JobId = spawn.job;
        self.inputs.push_back(Input::Finished { job, outcome });
    }

    fn cancel(&mut self, _: SessionId) {}

    fn reserve(&mut self, _: Slot) {}

    fn evidence(&mut self, _: Evidence) {
        panic!("nobody equivocates");
    }

    fn keep_block(&mut self, _: Slot, _: Root, data: Bytes) {
        self.block = Some(data);
    }

    fn keep_message(&mut self, _: Kept) {}

    fn doppelganger(&mut self, _: Doppelganger) {}

    fn raise(&mut self, _: Shown) {}

    fn keep_anchor(&mut self, _: Anchor) {}

    fn judged(&mut self, _: Judged) {}
}

fn run(env: &mut Env, marks: &MemoryWatermark, work: Work) -> Outcome<Product> {
    if let Work::Sign(job) = &work
        && let Err((_, refused)) = job.admit(marks)
    {
        return Outcome::Refused(refused.to_string());
    }
    let done = work.run(env, &mut Ctx::single(&mut Scratch::default()));
    done.map(|output| env.take_keys(output)).into()
}

/// The record of some slots, and the last block of them.
fn recorded(restored: Option<Bytes>) -> (Vec<u8>, Option<Bytes>) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("alphorn-fuzz-{}-{number}.record", std::process::id());
    let path = std::env::temp_dir().join(name);
    let recorder = Recorder::create(&path, b"seed");
    let mut recorder = recorder.expect("the temporary folder can be written");
    let mut ports = Ports {
        env: Env::signing(
            Arc::new(model()),
            Arc::new(ModelRegistry {
                validators: VALIDATORS,
            }),
            Arc::new(ModelSigners {
                validators: VALIDATORS,
            }),
            [7; 32],
        ),
        marks: MemoryWatermark::new(VALIDATORS),
        inputs: VecDeque::new(),
        tokens: 0,
        block: None,
    };
    let mut machines = horn();
    if let Some(block) = &restored {
        recorder.restored(block);
        // It is of another run of the same network, so it fits.
        let _ = machines.restore(block);
    }
    let end = machines.clock().slot_start(Slot(SLOTS));
    let mut engine = Engine::new(machines, settings());
    let mut now = Time::from_millis(9_000);
    while now < end {
        let input = ports.inputs.pop_front().unwrap_or(Input::Deadline);
        recorder.handle(&mut engine, now, input, &mut ports);
        if ports.inputs.is_empty() {
            now = engine.next_deadline().map_or(end, |next| next.max(now));
        }
    }
    let told = recorder.finish();
    let bytes = std::fs::read(&path);
    let _ = std::fs::remove_file(&path);
    assert!(told.whole, "the disk was slower than the machines");
    (bytes.expect("it was written"), ports.block)
}
