//! The node's main loop: one thread that drives the protocol and never blocks.
//!
//! It hashes nothing, signs nothing and opens no file. Slow work goes to the lanes, the signer or the archive, and its
//! result comes back as an input. Each turn handles protocol deadlines first, then commands, finished jobs and
//! messages, so a flood of messages cannot delay a duty.

mod broadcasts;
mod exchange;
mod locals;
mod phases;
mod wellness;

use crate::archive::{self, Archive};
use crate::begin::{Begun, begin};
use crate::blocks::{Blocks, BlocksError, Latest};
use crate::cast::{self, Broadcasts, Code};
use crate::clock::{Clock, Source};
use crate::engine::{Doppelganger, Engine, Host, Kept, Settings};
use crate::health::Reason;
use crate::lanes::Lanes;
use crate::local::Reply;
use crate::memory;
use crate::ports::outgoing::Bounds;
use crate::ports::{Disks, Outlets, Ports, REQUESTED};
use crate::record::Recorder;
use crate::safety::{SafetyError, SafetyStore};
use crate::sign_log::SignLog;
use crate::signer::Signer;
use crate::sync::{Standing, Sync};
use crate::telemetry::{self, NodeInfo, Summary, Telemetry, Turn, Window};
use crate::voices::Voices;
use alphorn_net::{Event, Events, Handle, NodeId};
use alphorn_proto::horn::Horn;
use alphorn_proto::slot::SlotClock;
use alphorn_proto::{Input, Peer, Token};
use alphorn_scheme::Bytes;
use alphorn_types::trace::Ring;
use alphorn_types::{Slot, Time, Validator};
use phases::Phases;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};

/// How often the loop measures its own wake-up latency.
const PROBE_NS: u64 = 10_000_000;
/// How often the summary is refreshed and cell and traffic figures are traced.
const SUMMARY_NS: u64 = 250_000_000;
/// Finished jobs and messages handled in one turn.
const TURN_MAX: usize = 64;
/// How long a node waits for its network to shut down. A process that exits while its network still dials is killed by
/// a signal: the cryptography behind QUIC (aws-lc) aborts once process teardown has started to destroy its locks.
pub const NETWORK_END: Duration = Duration::from_secs(2);

/// Commands that an operator may send to a running node.
#[derive(Debug)]
pub enum Control {
    /// Cut off a host, or let it in again.
    Block(NodeId, bool),
    /// Connect to a host.
    Dial(alphorn_net::Address),
    /// Aggregate and collect from now on when local validators are selected, or stop doing so.
    Aggregate(bool),
    /// Process a vote as if it had arrived on its topic.
    Vote(Bytes, Reply),
    /// Shut down.
    Shutdown,
}

/// A node cannot start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A thread cannot be started.
    #[error("a thread cannot be started: {0}")]
    Thread(#[from] std::io::Error),
    /// Stored blocks cannot be read.
    #[error(transparent)]
    Blocks(#[from] BlocksError),
    /// Marks cannot be read.
    #[error(transparent)]
    Safety(#[from] SafetyError),
    /// The network's messages cannot be broadcast.
    #[error("broadcasts: {0}")]
    Cast(#[from] alphorn_broadcast::ConfigError),
}

/// Everything a node is made of.
pub struct Parts<C: Source> {
    /// Its name in traces and tables.
    pub name: String,
    /// The name of the scheme.
    pub scheme: String,
    /// The protocol, before its first input.
    pub horn: Horn,
    /// The marks of the local keys.
    pub safety: Arc<SafetyStore>,
    /// The first slot in which the local keys may sign.
    pub settings: Settings,
    /// Where each right to sign is logged before it is used.
    pub sign_log: Option<SignLog>,
    /// Blocks of earlier runs.
    pub blocks: Blocks,
    /// Another node's state to start from, unless the state of the last run is later.
    pub checkpoint: Option<Bytes>,
    /// The other nodes of the network that this node knows. Their reports of the time take precedence over those of
    /// unknown peers.
    pub known: BTreeSet<NodeId>,
    /// Runs the jobs.
    pub lanes: Arc<dyn Lanes>,
    /// The network's handle.
    pub net: Handle,
    /// The network's events.
    pub events: Events,
    /// Notified when a job has ended.
    pub wake: Arc<Notify>,
    /// Where the time comes from.
    pub source: C,
    /// The code in which the network broadcasts.
    pub code: Code,
    /// What is broadcast instead of gossiped.
    pub cast: cast::Settings,
    /// Seed for the randomness of broadcasts. Must stay secret.
    pub cast_secret: [u8; 32],
    /// Records the inputs.
    pub recorder: Option<Recorder>,
    /// The node record by which other nodes find this one (`enr:...`), for display.
    pub record: String,
    /// Whether the node aggregates and collects, until changed by a command.
    pub is_aggregator: bool,
    /// The chosen kernel of each crate that has several, for reporting.
    pub kernels: BTreeMap<&'static str, String>,
    /// The most bytes that each component takes ([`bound`](crate::memory::bound)), for reporting.
    pub memory: BTreeMap<String, u64>,
}

/// A running node.
pub struct Node<C: Source> {
    engine: Engine,
    cast: Box<dyn Broadcasts>,
    ports: Ports,
    clock: Clock<C>,
    slots: SlotClock,
    /// Which phases have been reported.
    phases: Phases,
    events: Events,
    wake: Arc<Notify>,
    sync: Sync,
    /// When to look again for blocks that messages wait for.
    fetch_at: Time,
    token_next: u64,
    probe_at: Time,
    /// When to refresh the summary, by the monotonic clock.
    summary_ns: u64,
    snapshot: watch::Sender<Arc<Summary>>,
    /// What startup found of earlier runs.
    begun: Begun,
    /// The other nodes of the network.
    known: BTreeSet<NodeId>,
    /// What peers say of the time.
    voices: Voices,
    /// The health problems found at the last summary refresh.
    health: Vec<Reason>,
    /// Damaged files reported so far.
    rebuilt: u64,
    /// Protocol time in milliseconds, for the recorder.
    clock_ms: Arc<AtomicU64>,
    /// Messages of earlier runs that have not been processed yet, and their initial number.
    returning: std::vec::IntoIter<Kept>,
    returning_all: u64,
    recorder: Option<Recorder>,
    memory: BTreeMap<String, u64>,
}

impl<C: Source> Node<C> {
    /// Builds a node. Its threads start, but nothing else runs yet.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn new(parts: Parts<C>, snapshot: watch::Sender<Arc<Summary>>) -> Result<Self, RunError> {
        let mut horn = parts.horn;
        let mut recorder = parts.recorder;
        let given = parts.checkpoint.as_deref();
        let begun = begin(&mut horn, &parts.blocks, given, recorder.as_mut())?;
        let returning = parts.blocks.messages()?;
        let cast = cast::broadcasts(&horn, &parts.code, parts.cast_secret)?;
        let network = horn.config().network();
        let slots = *horn.clock();
        let settings = parts.settings;
        let mut clock = Clock::new(parts.source);
        let (now, _) = clock.now(|_| None);
        let clock_ms = Arc::new(AtomicU64::new(now.as_nanos() / 1_000_000));
        let stopped = parts.safety.stopped()?;
        let disks = disks(
            parts.safety,
            parts.blocks,
            archive::queue_max(horn.local().validators().len()),
            parts.lanes.clone(),
            parts.sign_log,
            clock_ms.clone(),
            parts.wake.clone(),
        )?;
        let info = NodeInfo {
            name: parts.name,
            scheme: parts.scheme,
            config: horn.config().clone(),
            started: now,
            id: parts.net.id(),
            record: parts.record,
            is_aggregator: parts.is_aggregator && horn.local().validators().len() > 0,
            kernels: parts.kernels,
        };
        let telemetry = Telemetry::new(info, &horn);
        let bounds = Bounds::of(&horn);
        let mut node = Node {
            engine: Engine::new(horn, settings),
            cast,
            ports: Ports::new(Outlets {
                net: parts.net,
                network,
                lanes: parts.lanes,
                disks,
                telemetry,
                cast: parts.cast,
                wake: parts.wake.clone(),
                bounds,
            }),
            clock,
            slots,
            phases: Phases::after(&slots, now),
            events: parts.events,
            wake: parts.wake,
            sync: Sync::default(),
            fetch_at: now,
            token_next: REQUESTED,
            probe_at: now,
            summary_ns: 0,
            snapshot,
            begun,
            known: parts.known,
            voices: Voices::default(),
            health: Vec::new(),
            rebuilt: 0,
            clock_ms,
            returning_all: returning.len() as u64,
            returning: returning.into_iter(),
            recorder,
            memory: parts.memory,
        };
        node.open(now, stopped);
        Ok(node)
    }

    /// Reports, stores and applies everything that startup must before the first turn.
    fn open(&mut self, now: Time, stopped: Option<(Validator, Slot)>) {
        if let Some((validator, slot)) = stopped {
            self.engine.silence();
            self.ports.doppelganger(Doppelganger { validator, slot });
        }
        if let Some(error) = &self.begun.refused {
            let refused = telemetry::Event::CheckpointRefused(error);
            self.ports.telemetry.emit(&refused);
        }
        // The next start, and any query until then, gets what this start was given.
        self.ports.keep_anchor(self.engine.horn().anchor());
        // Queries before the first turn must see this node rather than an empty summary.
        self.snapshot.send_replace(Arc::new(self.summary(now)));
    }

    /// The trace of this run, which continues as long as the node runs.
    pub fn trace(&self) -> Arc<Mutex<Ring>> {
        self.ports.telemetry.ring()
    }

    /// What others may read of this node while it runs.
    pub fn window(&self) -> Window {
        self.ports.telemetry.window()
    }

    /// The last checkpoint that was stored.
    pub fn checkpoint(&self) -> Latest {
        self.ports.archive.counters().latest.clone()
    }

    /// Runs until a shutdown is requested, and returns the last summary.
    pub async fn run(mut self, mut control: mpsc::Receiver<Control>) -> Arc<Summary> {
        self.turn(Turn::Deadline, |node, now| node.feed(now, Input::Deadline));
        loop {
            // Not left to the select: its first poll finds a sleep of zero pending, so anything else that is ready
            // would run first, and a flood could keep it from ever firing.
            if self.until_deadline().is_zero() {
                self.on_deadline();
                tokio::task::yield_now().await;
            }
            let wait = self.until_deadline();
            tokio::select! {
                biased;
                () = sleep(wait) => self.on_deadline(),
                command = control.recv() => match command {
                    Some(Control::Block(id, blocked)) => {
                        let _ = self.ports.net.block(id, blocked);
                    }
                    Some(Control::Dial(address)) => {
                        let _ = self.ports.net.dial(address);
                    }
                    Some(Control::Aggregate(is_on)) => self.aggregate(is_on),
                    Some(Control::Vote(data, reply)) => {
                        self.turn(Turn::Command, |node, now| node.take_vote(now, data, reply));
                    }
                    Some(Control::Shutdown) | None => break,
                },
                () = self.wake.notified() => self.turn(Turn::Finished, Self::take_ended),
                event = self.events.recv() => match event {
                    Some(event) => {
                        self.turn(Turn::Network, |node, now| node.take_events(now, event));
                    }
                    None => break,
                },
            }
        }
        let (last, mut events) = self.end();
        let stopped = async { while events.recv().await.is_some() {} };
        let _ = tokio::time::timeout(NETWORK_END, stopped).await;
        last
    }

    /// Runs the work of one turn and measures how long it took.
    fn turn(&mut self, turn: Turn, act: impl FnOnce(&mut Self, Time)) {
        let began = std::time::Instant::now();
        let now = self.keep_clock();
        let slot = self.slots.slot_at(now).unwrap_or(Slot(0));
        self.ports.offer_messages(slot);
        act(self, now);
        self.ports.telemetry.look_at_head(self.engine.horn());
        self.ask(now);
        let took_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.emit(telemetry::Event::Turn { turn, took_ns });
    }

    fn emit(&mut self, event: telemetry::Event<'_>) {
        self.ports.telemetry.emit(&event);
    }

    /// Updates telemetry on the slot, the chain and the traffic.
    fn look(&mut self) {
        let Ports { telemetry, net, .. } = &mut self.ports;
        telemetry.look(self.engine.horn(), || net.status());
    }

    fn feed(&mut self, now: Time, input: Input) {
        self.hand_in(now, input);
        self.settle(now);
    }

    /// Passes an input to the protocol, which first runs every phase that is due.
    fn hand_in(&mut self, now: Time, input: Input) {
        self.tell_phases(now);
        match &mut self.recorder {
            None => self.engine.handle(now, input, &mut self.ports),
            Some(recorder) => recorder.handle(&mut self.engine, now, input, &mut self.ports),
        }
    }

    fn next_deadline(&self) -> Time {
        let engine = self.engine.next_deadline().unwrap_or(Time::MAX);
        let cast = self.cast.next_deadline().unwrap_or(Time::MAX);
        engine.min(cast).min(self.probe_at)
    }

    /// How long to sleep. Reporting continues while protocol time stands still.
    fn until_deadline(&self) -> Duration {
        let told_ns = self.summary_ns.saturating_sub(self.clock.monotonic_ns());
        let due = self.clock.until(self.next_deadline());
        due.min(Duration::from_nanos(told_ns))
    }

    fn on_deadline(&mut self) {
        self.turn(Turn::Deadline, |node, now| {
            // A wall clock behind protocol time must not cause wake-ups.
            if node.engine.next_deadline().is_some_and(|due| due <= now) {
                node.feed(now, Input::Deadline);
            }
            if node.cast.next_deadline().is_some_and(|due| due <= now) {
                node.cast(now, |cast, ports| cast.deadline(now, ports));
            }
            if node.probe_at <= now {
                let lag_ns = now.since_ns(node.probe_at);
                node.emit(telemetry::Event::Probe { lag_ns });
                node.probe_at = now.saturating_add_ns(PROBE_NS);
                node.ports.telemetry.look_at_votes(node.engine.horn());
                node.keep_hold();
                node.ports.offer_topics();
                node.take_returning(now);
            }
            let monotonic_ns = node.clock.monotonic_ns();
            if node.summary_ns <= monotonic_ns {
                node.summary_ns = monotonic_ns.saturating_add(SUMMARY_NS);
                let summary = Arc::new(node.summary(now));
                node.tell_health(&summary);
                node.snapshot.send_replace(summary.clone());
                node.look();
                let net = node.ports.net.status();
                node.ports.telemetry.show(&summary, net);
            }
        });
    }

    fn take_ended(&mut self, now: Time) {
        for _ in 0..TURN_MAX {
            let Some(ended) = self.ports.ended() else {
                return;
            };
            self.ports.telemetry.job_ended(&ended);
            if ended.job.0 >= cast::JOBS {
                let (job, outcome) = (ended.job, ended.outcome);
                self.cast(now, |cast, ports| cast.finished(now, job, outcome, ports));
                continue;
            }
            let input = Input::Finished {
                job: ended.job,
                outcome: ended.outcome,
            };
            self.feed(now, input);
        }
        // There may be more, so another turn follows at once.
        self.wake.notify_one();
    }

    fn take_events(&mut self, now: Time, first: Event) {
        let mut next = Some(first);
        for _ in 0..TURN_MAX {
            let Some(event) = next else {
                break;
            };
            self.take_event(now, event);
            next = self.events.try_recv();
        }
        // The last one read is past the limit of this turn, but must not be lost.
        if let Some(event) = next {
            self.take_event(now, event);
        }
        // Messages that arrive at the same instant are verified together.
        if self.engine.next_deadline().is_some_and(|due| due <= now) {
            self.feed(now, Input::Deadline);
        }
    }

    fn take_event(&mut self, now: Time, event: Event) {
        match event {
            Event::Message(message) => {
                let topic = message.topic.topic;
                let token = Token(message.token);
                let bytes = message.data.len();
                self.ports.telemetry.arrived(topic, &message.data, token);
                self.emit(telemetry::Event::Received {
                    topic,
                    token,
                    bytes,
                });
                let input = Input::Message {
                    from: Peer(message.peer),
                    topic,
                    token,
                    data: message.data,
                };
                self.feed(now, input);
            }
            Event::PeerUp {
                peer, id, outbound, ..
            } => {
                self.emit(telemetry::Event::PeerUp {
                    peer,
                    id: &id,
                    outbound,
                });
                let (is_own, since_ns) = (self.known.contains(&id), self.clock.monotonic_ns());
                self.sync.peer_up(Peer(peer), is_own);
                self.voices.peer_up(Peer(peer), is_own, since_ns);
                self.keep_hold();
                self.feed(now, Input::PeerUp { peer: Peer(peer) });
                self.cast(now, |cast, ports| cast.peer_up(now, Peer(peer), ports));
            }
            Event::PeerDown { peer, reason } => {
                self.emit(telemetry::Event::PeerDown { peer, reason });
                self.sync.peer_down(Peer(peer));
                self.voices.peer_down(Peer(peer));
                self.feed(now, Input::PeerDown { peer: Peer(peer) });
                self.cast(now, |cast, ports| cast.peer_down(now, Peer(peer), ports));
            }
            Event::Request {
                channel,
                protocol,
                data,
                ..
            } => self.serve(now, channel, &protocol, &data),
            Event::Response { peer, id, result } => {
                self.take_answer(now, Peer(peer), id, result.ok());
            }
            Event::Listening { address, transport } => {
                let id = self.ports.net.id();
                self.ports.telemetry.listening(address, transport, id);
            }
            Event::ListenerLost {
                address,
                transport,
                reason,
            } => {
                self.ports.telemetry.emit(&telemetry::Event::ListenerLost {
                    address,
                    transport,
                    reason: &reason,
                });
            }
            Event::Frame { peer, data } => self.take_frame(now, Peer(peer), &data),
            Event::SendReady { peer, frames } => self.frames_left(now, Peer(peer), frames),
        }
    }

    /// Takes on the aggregator role, or gives it up.
    fn aggregate(&mut self, is_on: bool) {
        let now = self.keep_clock();
        let slot = self.slots.slot_at(now).unwrap_or(Slot(0));
        self.ports.aggregating.set(slot, is_on);
        // The next query must see the change.
        let summary = Arc::new(self.summary(now));
        self.snapshot.send_replace(summary);
    }

    fn standing(&self, now: Time) -> Standing {
        Standing {
            slot: self.slots.slot_at(now).unwrap_or(Slot(0)),
            finalised_slot: self.engine.horn().chain().finalised().slot,
        }
    }

    fn summary(&self, now: Time) -> Summary {
        let mut summary = Summary::new(&self.engine, &self.ports, self.standing(now));
        summary.restored_blocks = self.begun.blocks;
        summary.checkpoint_slot = self.begun.checkpoint.map(|slot| slot.0);
        summary.judge(&self.facts(now, &summary));
        summary.restored_messages = self.returning_all;
        summary.broadcasts = self.cast.counts();
        summary.memory_bound_bytes = memory::total(self.memory.values().copied());
        summary.memory_parts.clone_from(&self.memory);
        summary
    }

    /// Shuts down: no new duty is started, and accepted data is written. The network ends when its events do.
    fn end(mut self) -> (Arc<Summary>, Events) {
        let now = self.keep_clock();
        let mut summary = self.summary(now);
        summary.arrivals = self.ports.telemetry.arrivals();
        summary.recorded = self.recorder.take().map(Recorder::finish);
        let summary = Arc::new(summary);
        self.snapshot.send_replace(summary.clone());
        self.ports.lanes.shutdown();
        self.ports.signer.shutdown();
        self.ports.archive.shutdown();
        self.ports.net.shutdown();
        (summary, self.events)
    }
}

/// Starts the threads that wait for a disk. The signer reads the time from `clock_ms` and wakes the loop.
fn disks(
    safety: Arc<SafetyStore>,
    blocks: Blocks,
    queue_max: usize,
    lanes: Arc<dyn Lanes>,
    sign_log: Option<SignLog>,
    clock_ms: Arc<AtomicU64>,
    wake: Arc<Notify>,
) -> Result<Disks, RunError> {
    let marks = safety.clone();
    let clock_ms = move || clock_ms.load(Ordering::Relaxed);
    let wake = move || wake.notify_one();
    Ok(Disks {
        signer: Signer::start(safety, lanes, sign_log, clock_ms, wake)?,
        archive: Archive::start(blocks, queue_max, move || Some(marks.witness()))?,
    })
}

/// Sleeps. A wait of zero still yields to other tasks.
async fn sleep(wait: Duration) {
    match wait.is_zero() {
        true => tokio::task::yield_now().await,
        false => tokio::time::sleep(wait).await,
    }
}
