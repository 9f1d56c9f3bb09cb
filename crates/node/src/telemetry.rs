//! Telemetry of a node: each event is emitted once and rendered in several ways.
//!
//! The loop emits an `Event` for each thing that happens. The renderers:
//!
//! | module | audience and output |
//! |---|---|
//! | `metrics` | Prometheus: counters and histograms |
//! | `totals`, `summary` | devnets and operators: figures with quantiles |
//! | `trace` | the page: records of a trace |
//! | `stream` | clients of the interface: events of the chain |
//! | `log` | operators: lines of `tracing` |
//! | `jobs`, `slots` | the interface: the last jobs, sessions and slots |
//!
//! The loop writes and never waits. Readers use a [`Snapshot`] that it publishes four times a second, the metrics
//! registry, and rings of lines.

mod arrivals;
mod assemble;
mod buckets_table;
mod event;
mod evidence;
mod jobs;
mod log;
mod metrics;
mod missed;
mod slots;
mod stream;
mod summary;
mod totals;
mod trace;
mod waiting;

use crate::lanes::Ended;
use alphorn_net::{Address, NodeId, Status, Transport};
use alphorn_proto::chain::Weighed;
use alphorn_proto::horn::{Config, Horn, SlotView};
use alphorn_proto::slot::{Phase, SlotClock};
use alphorn_proto::wire::{Checkpoint, Root, Topic};
use alphorn_proto::{Evidence, Spawn, Token};
use alphorn_types::trace::Ring;
use alphorn_types::{Layout, Slot, Time};
use metrics::Counted;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;
use totals::Totals;
use trace::Tracer;

pub use arrivals::Arrival;
pub(crate) use buckets_table::RATIO;
pub(crate) use event::{Event, Turn};
pub(crate) use evidence::{BYTES_MAX as EVIDENCE_BYTES_MAX, Pair};
pub(crate) use jobs::{EndedJob, InFlight, Session};
pub use metrics::text as metrics_text;
pub use metrics::{CONTENT_TYPE, Labels, Page, labels};
pub(crate) use metrics::{PLAIN_CONTENT_TYPE, plain};
pub use slots::{CollectionRecord, CommitteeRecord, SLOTS_MAX, SlotRecord};
pub(crate) use stream::{ATTESTATION, LIMITS as STREAM_LIMITS, hex};
pub use stream::{BEACON_TOPICS, LEAN_TOPICS, Streams, bitlist};
pub use summary::{DutyCounts, JobCounts, Summary, TimesMs, TopicCounts};
pub(crate) use totals::Ratio;

/// Maximum number of listening addresses.
const ADDRESSES_MAX: usize = 16;
/// How often the previous slot is checked again.
const BEFORE_NS: u64 = 1_000_000_000;

/// Facts that do not change while a node runs.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    /// Name of the node.
    pub(crate) name: String,
    /// The signature scheme.
    pub(crate) scheme: String,
    /// The network.
    pub(crate) config: Config,
    /// When this process started.
    pub(crate) started: Time,
    /// This node's identity towards other nodes.
    pub id: NodeId,
    /// The node record by which other nodes find it (`enr:...`).
    pub(crate) record: String,
    /// Whether at its start it aggregated and collected when its validators were selected.
    pub(crate) is_aggregator: bool,
    /// The chosen kernel of each crate that has several.
    pub(crate) kernels: BTreeMap<&'static str, String>,
}

#[cfg(test)]
impl NodeInfo {
    /// For a network of 48 validators in two committees of two cells, with lean's slots.
    pub(crate) fn example() -> Self {
        use alphorn_proto::horn::SchemeInfo;
        use alphorn_proto::slot::Timing;
        use alphorn_scheme::model::{CostTable, Model};
        let scheme = Model::new(CostTable::example()).unwrap();
        let layout = Layout::new(48, 2, 2).unwrap();
        let mut config = Config::new(layout, &SchemeInfo::of(&scheme, &layout));
        config.network_id = [0xab; 32];
        config.network_id[..4].copy_from_slice(&[0x0a, 0x1b, 0xff, 0x00]);
        config.genesis = Time::from_millis(1_770_407_233_500);
        config.timing = Timing::LEAN;
        config.epoch_slots = 4;
        let key = alphorn_net::NodeKey::from_bytes([1; 32]).unwrap();
        let address = "127.0.0.1:9000".parse().unwrap();
        NodeInfo {
            name: "node-0".into(),
            scheme: "model".into(),
            config,
            started: Time::from_millis(1_770_407_230_000),
            id: key.id(),
            record: key.record(address, alphorn_net::Transport::Quic, 1),
            is_aggregator: true,
            kernels: [("hash", "portable".to_owned())].into(),
        }
    }
}

/// The published state of a node, at most a quarter of a second old while it runs.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Slot and root of the head.
    pub head: Checkpoint,
    /// The justified checkpoint.
    pub justified: Checkpoint,
    /// The finalised checkpoint.
    pub finalised: Checkpoint,
    /// The last slots, at most [`SLOTS_MAX`].
    pub slots: BTreeMap<u64, Arc<SlotRecord>>,
    /// Jobs in flight, the oldest 256.
    pub(crate) in_flight: Vec<InFlight>,
    /// Number of jobs in flight.
    pub(crate) in_flight_count: usize,
    /// The last finished jobs, at most 256.
    pub(crate) ended: Vec<EndedJob>,
    /// The last sessions, at most 256.
    pub(crate) sessions: Vec<Session>,
    /// How accurate job predictions were.
    pub(crate) cost: BTreeMap<&'static str, Ratio>,
    /// Jobs predicted to end in time, and jobs that did: `[predicted][actual]`, no first.
    pub(crate) fit: [[u64; 2]; 2],
    /// The network's counters and peers.
    pub net: Status,
    /// Listening addresses, as peers dial them.
    pub addresses: Vec<String>,
    /// The last pairs of contradicting statements.
    pub(crate) evidence: Arc<[Arc<Pair>]>,
    /// The blocks from the finalised one on, each with the weight behind it.
    pub(crate) tree: Arc<[Weighed]>,
}

/// State shared by the readers of a node.
#[derive(Clone, Debug)]
pub struct Window {
    /// What does not change.
    pub info: Arc<NodeInfo>,
    /// The last snapshot.
    pub snapshot: watch::Receiver<Arc<Snapshot>>,
    /// The metrics registry.
    pub counted: Arc<Registry>,
    /// Streams of chain events.
    pub streams: Streams,
}

/// The loop's side.
pub(crate) struct Telemetry {
    now: Time,
    clock: SlotClock,
    layout: Layout,
    epoch_slots: u64,
    totals: Totals,
    arrivals: arrivals::Arrivals,
    counted: Counted,
    trace: Tracer,
    streams: Streams,
    jobs: jobs::Jobs,
    slots: slots::Slots,
    addresses: Vec<String>,
    evidence: evidence::Pairs,
    missed: missed::Missed,
    tree: Arc<[Weighed]>,
    /// Head and finalised block of the tree.
    tree_of: (Root, Root),
    chain: Seen,
    /// The last slot that was logged.
    logged: Option<Slot>,
    window: Window,
    snapshots: watch::Sender<Arc<Snapshot>>,
}

/// The parts of the chain that have been turned into events so far.
struct Seen {
    head: Checkpoint,
    justified: Checkpoint,
    finalised: Checkpoint,
    /// A block was accepted since the head was last checked.
    has_block: bool,
    /// The last slot whose block was counted.
    block_slot: Option<Slot>,
    /// The current slot, and the number of each committee's collections turned into events.
    collections: (Slot, BTreeMap<u16, usize>),
    /// When the previous slot is checked again.
    before_at: Time,
    /// The slot in which two thirds are awaited.
    two_thirds: Slot,
}

impl Telemetry {
    pub(crate) fn new(info: NodeInfo, horn: &Horn) -> Self {
        let (config, now) = (horn.config(), info.started);
        let (head, chain) = (horn.head(), horn.chain());
        let (counted, registry) = Counted::new(*horn.clock());
        let snapshots = watch::Sender::default();
        let streams = Streams::new(now.as_nanos());
        Telemetry {
            now,
            clock: *horn.clock(),
            layout: config.layout,
            epoch_slots: config.epoch_slots,
            totals: Totals::default(),
            arrivals: arrivals::Arrivals::new(horn.format().clone()),
            counted,
            trace: Tracer::new(&info.name, &info.scheme, config, now),
            jobs: jobs::Jobs::default(),
            slots: slots::Slots::default(),
            addresses: Vec::new(),
            evidence: evidence::Pairs::default(),
            missed: missed::Missed::default(),
            tree: chain.tree().into(),
            tree_of: (head, chain.finalised().root),
            chain: Seen {
                head: Checkpoint {
                    slot: chain.header(&head).map_or(Slot(0), |header| header.slot),
                    root: head,
                },
                justified: chain.justified(),
                finalised: chain.finalised(),
                has_block: false,
                block_slot: None,
                collections: (Slot(0), BTreeMap::new()),
                before_at: now,
                two_thirds: Slot(0),
            },
            logged: None,
            window: Window {
                info: Arc::new(info),
                snapshot: snapshots.subscribe(),
                counted: registry,
                streams: streams.clone(),
            },
            streams,
            snapshots,
        }
    }

    /// State shared by the readers.
    pub(crate) fn window(&self) -> Window {
        self.window.clone()
    }

    /// The trace of this run, which continues as long as the node runs.
    pub(crate) fn ring(&self) -> Arc<Mutex<Ring>> {
        self.trace.ring()
    }

    /// Facts that do not change.
    pub(crate) fn info(&self) -> &NodeInfo {
        &self.window.info
    }

    /// Missed duties by the name of their reason.
    pub(crate) fn missed_reasons(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.missed
            .counts
            .iter()
            .map(|(name, count)| (*name, *count))
    }

    /// Whether another process signs with a local key.
    pub(crate) fn has_doppelganger(&self) -> bool {
        self.totals.doppelganger.is_some()
    }

    /// Records that the trace could not hold.
    pub(crate) fn trace_refused(&self) -> u64 {
        self.trace.left_out()
    }

    /// A validator contradicted itself.
    pub(crate) fn contradiction(&mut self, evidence: Evidence) {
        self.evidence.put(self.now, evidence);
        self.emit(&Event::Contradiction);
    }

    /// Sets the time of all that follows.
    pub(crate) fn at(&mut self, now: Time) {
        self.now = now;
    }

    /// Passes an event to all renderers.
    pub(crate) fn emit(&mut self, event: &Event<'_>) {
        self.missed.record(self.clock.slot_at(self.now), event);
        match event {
            Event::Judged(judged) => {
                for reason in self.missed.reasons(judged) {
                    log::missed(judged.slot, &reason);
                }
            }
            _ => log::record(event),
        }
        self.totals.record(self.now, event);
        self.counted.record(self.now, event);
        self.trace.record(self.now, event);
        self.streams.record(event, &self.layout);
        self.chain.has_block |= matches!(event, Event::BlockAccepted { .. });
        if let Event::Verdict { token, verdict } = *event {
            self.arrivals.verdict(token, verdict);
        }
    }

    /// A message is published here.
    pub(crate) fn published(&mut self, topic: Topic, data: &[u8]) {
        self.arrivals.published(self.now, topic, data);
        self.emit(&Event::Published { topic });
    }

    /// A message arrived, by gossip or by broadcast, and goes to the protocol.
    pub(crate) fn arrived(&mut self, topic: Topic, data: &[u8], token: Token) {
        self.arrivals.received(self.now, topic, data, token);
    }

    /// When the last blocks and collections arrived.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.arrivals.all()
    }

    /// A job is submitted.
    pub(crate) fn job_spawned(&mut self, spawn: &Spawn) {
        self.jobs.begin(self.now, spawn);
        self.emit(&Event::JobSpawned(spawn));
    }

    /// A job ended.
    pub(crate) fn job_ended(&mut self, ended: &Ended) {
        let job = self.jobs.end(self.now, ended);
        self.emit(&Event::JobEnded(ended, job.as_ref()));
    }

    /// A listener has its address.
    pub(crate) fn listening(&mut self, address: SocketAddr, transport: Transport, id: NodeId) {
        for address in Address::new(address, transport, id) {
            let address = address.to_string();
            self.emit(&Event::Listening { address: &address });
            // A socket that died has its address again.
            let is_new = !self.addresses.contains(&address);
            if is_new && self.addresses.len() < ADDRESSES_MAX {
                self.addresses.push(address);
            }
        }
    }

    /// Checks whether the head changed, if a block arrived.
    pub(crate) fn look_at_head(&mut self, horn: &Horn) {
        if std::mem::take(&mut self.chain.has_block) {
            self.look_at_chain(horn);
        }
    }

    /// Checks the chain, and emits each change as an event.
    fn look_at_chain(&mut self, horn: &Horn) {
        let (root, chain) = (horn.head(), horn.chain());
        if root != self.chain.head.root
            && let Some(slot) = chain.header(&root).map(|header| header.slot)
        {
            let head = Checkpoint { slot, root };
            let before = std::mem::replace(&mut self.chain.head, head);
            // A block that is no longer known is final, or on an abandoned branch.
            let is_reorg =
                chain.header(&before.root).is_some() && !chain.is_ancestor(&before.root, &root);
            let given_up = is_reorg.then(|| {
                let own = chain.ancestors(&before.root);
                own.take_while(|(own, _)| !chain.is_ancestor(own, &root))
                    .count()
            });
            let epoch = |slot: Slot| slot.epoch(self.epoch_slots);
            self.emit(&Event::Head {
                head,
                is_other_epoch: epoch(slot) != epoch(before.slot),
                given_up,
            });
        }
        if chain.justified() != self.chain.justified {
            self.chain.justified = chain.justified();
            self.emit(&Event::Justified(&chain.justified()));
        }
        if chain.finalised() != self.chain.finalised {
            self.chain.finalised = chain.finalised();
            self.emit(&Event::Finalised(&chain.finalised()));
        }
    }

    /// Checks whether two thirds of all votes of the slot are in verified collections.
    pub(crate) fn look_at_votes(&mut self, horn: &Horn) {
        let Some(slot) = self.clock.slot_at(self.now) else {
            return;
        };
        let top = Phase::Level(self.clock.timing().levels());
        if self.chain.two_thirds > slot || self.now < self.clock.phase_start(slot, top) {
            return;
        }
        let validators = u64::from(self.layout.validators());
        let covered = horn.view(slot).map_or(0, |view| view.covered());
        if 3 * covered >= 2 * validators {
            self.chain.two_thirds = slot.next();
            self.emit(&Event::TwoThirds {
                slot,
                ms: self.now.since_ns(self.clock.slot_start(slot)) as f64 / 1e6,
                finality: horn.finality(),
            });
        }
    }

    /// Checks cells, chain and traffic, and from time to time the previous slot.
    pub(crate) fn look(&mut self, horn: &Horn, net: impl FnOnce() -> Status) {
        if let Some(slot) = self.clock.slot_at(self.now) {
            let view = horn.view(slot);
            self.trace.slot(self.now, slot, horn.chain(), view.as_ref());
            self.trace.finality(horn.finality(), None);
            self.look_at_chain(horn);
            let tree_of = (self.chain.head.root, self.chain.finalised.root);
            // Weights change with every vote and the tree is copied whole, so without a new head or finality it is at
            // most a second old.
            if self.now >= self.chain.before_at || self.tree_of != tree_of {
                self.tree_of = tree_of;
                self.tree = horn.chain().tree().into();
            }
            // Votes and collections of the slot before are still accepted.
            if self.now >= self.chain.before_at {
                self.chain.before_at = self.now.saturating_add_ns(BEFORE_NS);
                if let Some(view) = slot.0.checked_sub(1).and_then(|slot| horn.view(Slot(slot))) {
                    self.slots.put(view, horn.chain());
                }
            }
            if let Some(view) = view {
                self.look_at_slot(slot, &view);
                self.slots.put(view, horn.chain());
            }
        }
        self.trace.traffic(net);
        self.trace.catch_up();
        self.streams.catch_up();
    }

    /// Emits what is new in the slot by the clock.
    fn look_at_slot(&mut self, slot: Slot, view: &SlotView) {
        if self.chain.collections.0 != slot {
            self.chain.collections = (slot, BTreeMap::new());
        }
        // Collections of a committee are in the order of their acceptance.
        let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
        for one in &view.collections {
            let count = counts.entry(one.committee).or_default();
            *count += 1;
            let told = self.chain.collections.1.entry(one.committee).or_default();
            if *count > *told {
                *told = *count;
                self.emit(&Event::Collection(one));
            }
        }
        if let Some(block) = view.block.filter(|_| self.chain.block_slot < Some(slot)) {
            self.chain.block_slot = Some(slot);
            self.emit(&Event::SlotBlock {
                collections: block.entries,
            });
        }
    }

    /// Publishes a snapshot, and reports a slot that began.
    pub(crate) fn show(&mut self, summary: &Summary, net: Status) {
        if let Some(slot) = self.clock.slot_at(self.now) {
            self.missed.peers(slot, summary.peers);
            if self.logged != Some(slot) {
                self.logged = Some(slot);
                log::slot(summary);
            }
        }
        self.snapshots.send_replace(Arc::new(Snapshot {
            head: self.chain.head,
            justified: self.chain.justified,
            finalised: self.chain.finalised,
            slots: self.slots.all(),
            in_flight: self.jobs.oldest(),
            in_flight_count: self.jobs.len(),
            ended: self.jobs.ended.iter().copied().collect(),
            sessions: self.jobs.sessions.iter().copied().collect(),
            cost: self.totals.cost(),
            fit: self.totals.fit,
            net,
            addresses: self.addresses.clone(),
            evidence: self.evidence.all(),
            tree: self.tree.clone(),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_proto::horn::{CollectionView, Local, SchemeInfo};
    use alphorn_proto::wire::Vote;
    use alphorn_scheme::model::{CostTable, Model};
    use alphorn_types::trace::{Event, Record};
    use alphorn_types::{Bitfield, Support, Validator};

    /// A collection of a committee, with this many signers.
    fn collection(committee: u16, signers: usize) -> CollectionView {
        let mut bits = Bitfield::new(24);
        (0..signers).for_each(|at| bits.set(at));
        CollectionView {
            committee,
            sender: Validator(0),
            vote: Vote::default(),
            support: Arc::new(Support::from_bits(bits)),
            bytes: 100,
        }
    }

    #[test]
    fn collections_of_each_committee_are_recorded_once() {
        let info = NodeInfo::example();
        let scheme = SchemeInfo::of(
            &Model::new(CostTable::example()).unwrap(),
            &info.config.layout,
        );
        let local = Local::observer(&info.config.layout);
        let horn = Horn::new(info.config.clone(), scheme, local).unwrap();
        let mut telemetry = Telemetry::new(info, &horn);
        let view = |collections: &[CollectionView]| SlotView {
            slot: Slot(0),
            votes_seen: 0,
            votes_accepted: 0,
            aggregates_accepted: 0,
            collections_accepted: 0,
            vote: None,
            coverage: Vec::new(),
            collections: collections.to_vec(),
            block: None,
        };
        // A view lists them by committee, so a new one may precede those that are known.
        telemetry.look_at_slot(Slot(0), &view(&[collection(1, 5)]));
        let all = [collection(0, 3), collection(0, 4), collection(1, 5)];
        telemetry.look_at_slot(Slot(0), &view(&all));
        telemetry.look_at_slot(Slot(0), &view(&all));
        telemetry.trace.catch_up();
        let lines = telemetry.trace.ring().lock().unwrap().snapshot().lines;
        let records = lines.iter().map(|line| Record::from_line(&line.json));
        let recorded: Vec<(u16, u32)> = records
            .filter_map(|record| match record.unwrap().event {
                Event::Collection { c, votes, .. } => Some((c, votes)),
                _ => None,
            })
            .collect();
        assert_eq!(recorded, [(1, 5), (0, 3), (0, 4)]);
    }
}
