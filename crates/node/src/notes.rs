//! What a node notes of itself for whoever asks over HTTP, in bounds: single things are counted and
//! timed, the last slots, jobs and sessions are remembered, changes of the chain become events.
//!
//! The loop writes; what others read is a [`Picture`] that it gives away four times a second, and
//! the lines of [`News`], which it pushes and never waits for.

pub mod buckets_table;
mod flights;
mod histogram;
mod measures;
pub(crate) mod news;
mod slots;

use crate::clock::Step;
use crate::engine::Spawn;
use crate::lanes::Ended;
use alphorn_net::{Address, DownReason, NodeId, Status, Transport};
use alphorn_proto::horn::{Horn, SlotView};
use alphorn_proto::slot::{Phase, SlotClock, Timing};
use alphorn_proto::wire::{Checkpoint, Kind, Root, Topic};
use alphorn_proto::{Token, Verdict};
use alphorn_types::{Layout, Slot, Time};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::watch;

pub use flights::{Flight, Landed, SessionNote};
pub use histogram::Histogram;
pub use measures::{JobMeasures, Measures, Split, Turn};
pub use news::{ATTESTATION, BEACON_TOPICS, LEAN_TOPICS, News};
pub use slots::{CollectionNote, CommitteeNote, SLOTS_MAX, SlotNote};

pub(crate) use measures::outcome;
pub(crate) use news::{bitlist, hex};

/// Messages whose verdict is awaited; as many as the network remembers.
const WAITING_MAX: usize = 8_192;
/// Peers whose direction is remembered; the network takes fewer.
const PEERS_MAX: usize = 4_096;
/// Addresses that are listened on.
const ADDRESSES_MAX: usize = 16;
/// How often the slot before the present one is looked at again.
const BEFORE_NS: u64 = 1_000_000_000;

/// What does not change while a node runs.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The node.
    pub name: String,
    /// The signature scheme.
    pub scheme: String,
    /// SHA-256 of the network's parameters and keys.
    pub network_id: [u8; 32],
    /// Its first bytes, in topics and all that is signed.
    pub network: [u8; 4],
    /// When slot 0 begins.
    pub genesis: Time,
    /// When this process began.
    pub started: Time,
    /// Slots and phases.
    pub timing: Timing,
    /// Committees and cells.
    pub layout: Layout,
    /// Slots of an epoch.
    pub epoch_slots: u64,
    /// Those who serve in a unit of each level, as they are aimed at.
    pub publishers: Vec<u16>,
    /// Collections of a block, at most.
    pub collections_per_block_max: u16,
    /// Who this machine is for others.
    pub id: NodeId,
    /// Whether it aggregates and collects when its validators are selected.
    pub is_aggregator: bool,
    /// The chosen kernel of each crate that has several.
    pub kernels: BTreeMap<&'static str, String>,
}

impl Facts {
    pub(crate) fn new(
        name: &str,
        scheme: &str,
        horn: &Horn,
        id: NodeId,
        now: Time,
        kernels: &BTreeMap<&'static str, String>,
    ) -> Self {
        let config = horn.config();
        Facts {
            name: name.to_owned(),
            scheme: scheme.to_owned(),
            network_id: config.network_id,
            network: config.network().0,
            genesis: config.genesis,
            started: now,
            timing: config.timing,
            layout: config.layout,
            epoch_slots: config.epoch_slots,
            publishers: config.levels.iter().map(|level| level.publishers).collect(),
            collections_per_block_max: config.collections_per_block_max,
            id,
            is_aggregator: horn.local().validators().len() > 0,
            kernels: kernels.clone(),
        }
    }
}

#[cfg(test)]
impl Facts {
    /// Of a network of 48 validators in two committees of two cells, with lean's slots.
    pub(crate) fn example() -> Self {
        Facts {
            name: "node-0".into(),
            scheme: "model".into(),
            network_id: [0xab; 32],
            network: [0x0a, 0x1b, 0xff, 0x00],
            genesis: Time::from_millis(1_770_407_233_500),
            started: Time::from_millis(1_770_407_230_000),
            timing: Timing::LEAN,
            layout: Layout::new(48, 2, 2).unwrap(),
            epoch_slots: 4,
            publishers: vec![2, 3],
            collections_per_block_max: 512,
            id: alphorn_net::NodeKey::from_bytes([1; 32]).unwrap().id(),
            is_aggregator: true,
            kernels: [("hash", "portable".to_owned())].into(),
        }
    }
}

/// What a node shows, not older than a quarter of a second while it runs.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// Slot and root of the head.
    pub head: Checkpoint,
    /// The justified checkpoint.
    pub justified: Checkpoint,
    /// The finalised checkpoint.
    pub finalised: Checkpoint,
    /// The last slots, at most [`SLOTS_MAX`].
    pub slots: BTreeMap<u64, Arc<SlotNote>>,
    /// Jobs on their way, the oldest 256.
    pub flying: Vec<Flight>,
    /// How many are on their way.
    pub flying_count: usize,
    /// The last jobs that ended, at most 256.
    pub landed: Vec<Landed>,
    /// The last sessions, at most 256.
    pub sessions: Vec<SessionNote>,
    /// What was counted and timed.
    pub measures: Measures,
    /// The network's counters and peers.
    pub net: Status,
    /// Where this machine listens, as peers dial it.
    pub addresses: Vec<String>,
}

/// What readers of a node share.
#[derive(Clone, Debug)]
pub struct Window {
    /// What does not change.
    pub facts: Arc<Facts>,
    /// The last picture.
    pub picture: watch::Receiver<Arc<Picture>>,
    /// Events.
    pub news: News,
}

/// The loop's side.
pub(crate) struct Notes {
    now: Time,
    clock: SlotClock,
    layout: Layout,
    epoch_slots: u64,
    measures: Measures,
    flights: flights::Flights,
    slots: slots::Slots,
    news: News,
    /// Messages whose verdict is awaited: their kind and arrival.
    waiting: BTreeMap<Token, (Kind, Time)>,
    /// Who made the connection to a peer: 1 if this machine.
    peers: BTreeMap<u64, usize>,
    addresses: Vec<String>,
    phase_at: Option<Time>,
    /// The slot that is looked at, and how many collections of each committee became events.
    told: (Slot, BTreeMap<u16, usize>),
    before_at: Time,
    head: Checkpoint,
    justified: Checkpoint,
    finalised: Checkpoint,
    /// A block was accepted since the head was last looked at.
    has_block: bool,
    /// The last slot whose block was counted.
    block_slot: Option<Slot>,
    pictures: watch::Sender<Arc<Picture>>,
}

impl Notes {
    pub(crate) fn new(horn: &Horn, now: Time) -> Self {
        let config = horn.config();
        let (head, chain) = (horn.head(), horn.chain());
        Notes {
            now,
            clock: *horn.clock(),
            layout: config.layout,
            epoch_slots: config.epoch_slots,
            measures: Measures::default(),
            flights: flights::Flights::default(),
            slots: slots::Slots::default(),
            news: News::new(now.as_nanos()),
            waiting: BTreeMap::new(),
            peers: BTreeMap::new(),
            addresses: Vec::new(),
            phase_at: None,
            told: (Slot(0), BTreeMap::new()),
            before_at: now,
            head: Checkpoint {
                slot: chain.header(&head).map_or(Slot(0), |header| header.slot),
                root: head,
            },
            justified: chain.justified(),
            finalised: chain.finalised(),
            has_block: false,
            block_slot: None,
            pictures: watch::Sender::default(),
        }
    }

    /// What readers share.
    pub(crate) fn window(&self, facts: Facts) -> Window {
        Window {
            facts: Arc::new(facts),
            picture: self.pictures.subscribe(),
            news: self.news.clone(),
        }
    }

    /// The time of all that follows.
    pub(crate) fn at(&mut self, now: Time, step: Option<Step>) {
        self.now = now;
        if let Some(step) = step {
            self.measures.step(step);
        }
    }

    /// A turn of the loop took so long.
    pub(crate) fn turn(&mut self, turn: Turn, took_ns: u64) {
        self.measures.turns[turn as usize].observe(measures::seconds(took_ns));
    }

    /// A phase began, so late.
    pub(crate) fn phase(&mut self, lag_ns: u64) {
        self.measures.tick_lag.observe(measures::seconds(lag_ns));
        if let Some(before) = self.phase_at.replace(self.now) {
            let interval_ns = self.now.since_ns(before);
            self.measures
                .tick_interval
                .observe(measures::seconds(interval_ns));
        }
    }

    /// The loop woke for a probe, so late.
    pub(crate) fn probe(&mut self, lag_ns: u64) {
        self.measures.probe_lag.observe(measures::seconds(lag_ns));
    }

    /// A message of gossip came.
    pub(crate) fn arrived(&mut self, topic: Topic, token: Token, bytes: usize) {
        let kind = topic.kind();
        self.measures.bytes[Measures::place(kind)].observe(bytes as f64);
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_first();
        }
        self.waiting.insert(token, (kind, self.now));
    }

    /// The verdict on a message.
    pub(crate) fn verdict(&mut self, token: Token, verdict: Verdict) {
        if let Some((kind, arrival)) = self.waiting.remove(&token) {
            let waited_ns = self.now.since_ns(arrival);
            self.measures.verdict(kind, waited_ns, verdict);
        }
    }

    /// A message was published here. A proposer makes its block from the phase's start on.
    pub(crate) fn published(&mut self, topic: Topic) {
        if topic.kind() == Kind::Block
            && let Some(slot) = self.clock.slot_at(self.now)
        {
            let start = self.clock.phase_start(slot, Phase::Propose);
            let took_ns = self.now.since_ns(start);
            self.measures
                .block_building
                .observe(measures::seconds(took_ns));
        }
    }

    /// A job is handed out.
    pub(crate) fn spawn(&mut self, spawn: &Spawn) {
        self.flights.begin(self.now, spawn);
    }

    /// A job ended.
    pub(crate) fn ended(&mut self, ended: &Ended) {
        let flight = self.flights.end(self.now, ended);
        self.measures.job(self.now, ended, flight.as_ref());
    }

    /// A block was accepted.
    pub(crate) fn block(&mut self, slot: Slot, root: &Root) {
        self.news.block(slot, root);
        self.has_block = true;
    }

    /// A peer is connected.
    pub(crate) fn peer_up(&mut self, peer: u64, outbound: bool) {
        if self.peers.len() < PEERS_MAX {
            self.peers.insert(peer, usize::from(outbound));
        }
        self.measures.connected[usize::from(outbound)] += 1;
    }

    /// A peer is gone.
    pub(crate) fn peer_down(&mut self, peer: u64, reason: DownReason) {
        if let Some(direction) = self.peers.remove(&peer) {
            self.measures.disconnected[direction][reason as usize] += 1;
        }
    }

    /// A listener has its address.
    pub(crate) fn listening(&mut self, address: SocketAddr, transport: Transport, id: NodeId) {
        let room = ADDRESSES_MAX.saturating_sub(self.addresses.len());
        let addresses = Address::new(address, transport, id);
        let text = addresses.iter().map(ToString::to_string).take(room);
        self.addresses.extend(text);
    }

    /// Looks whether the head is another one, if a block came.
    pub(crate) fn look_at_head(&mut self, horn: &Horn) {
        if std::mem::take(&mut self.has_block) {
            self.chain(horn);
        }
    }

    /// Looks at the chain: each change is an event.
    fn chain(&mut self, horn: &Horn) {
        let (head, chain) = (horn.head(), horn.chain());
        if head != self.head.root
            && let Some(slot) = chain.header(&head).map(|header| header.slot)
        {
            let before = std::mem::replace(&mut self.head, Checkpoint { slot, root: head });
            // One that is not known any more is final, or of a branch that was given up.
            if chain.header(&before.root).is_some() && !chain.is_ancestor(&before.root, &head) {
                let own = chain.ancestors(&before.root);
                let given_up = own.take_while(|(root, _)| !chain.is_ancestor(root, &head));
                self.measures.reorgs.observe(given_up.count() as f64);
            }
            let epoch = |slot: Slot| slot.epoch(self.epoch_slots);
            let is_other_epoch = epoch(slot) != epoch(before.slot);
            self.news.head(slot, &head, is_other_epoch);
        }
        if chain.justified() != self.justified {
            self.justified = chain.justified();
            self.news.justified(&self.justified);
        }
        if chain.finalised() != self.finalised {
            self.finalised = chain.finalised();
            self.measures.finalisations += 1;
            self.news.finalised(&self.finalised);
        }
    }

    /// Looks at the chain and at the present slot, and now and then at the one before.
    pub(crate) fn look(&mut self, horn: &Horn, slot: Slot, view: Option<SlotView>) {
        self.chain(horn);
        if self.now >= self.before_at {
            self.before_at = self.now.saturating_add_ns(BEFORE_NS);
            if let Some(view) = slot.0.checked_sub(1).and_then(|slot| horn.view(Slot(slot))) {
                self.slots.put(view, horn.chain());
            }
        }
        let Some(view) = view else {
            return;
        };
        if self.told.0 != slot {
            self.told = (slot, BTreeMap::new());
        }
        // Those of a committee stand in the order of their acceptance.
        let mut places: BTreeMap<u16, usize> = BTreeMap::new();
        for one in &view.collections {
            let place = places.entry(one.committee).or_default();
            let told = self.told.1.entry(one.committee).or_default();
            *place += 1;
            if *place > *told {
                *told = *place;
                self.news.attestation(one, self.layout.committees());
            }
        }
        if let Some(block) = view.block.filter(|_| self.block_slot < Some(slot)) {
            self.block_slot = Some(slot);
            self.measures.block_payloads.observe(block.entries as f64);
        }
        self.slots.put(view, horn.chain());
    }

    /// Gives a picture away.
    pub(crate) fn show(&self, net: Status) {
        let picture = Picture {
            head: self.head,
            justified: self.justified,
            finalised: self.finalised,
            slots: self.slots.all(),
            flying: self.flights.oldest(),
            flying_count: self.flights.len(),
            landed: self.flights.landed.iter().copied().collect(),
            sessions: self.flights.sessions.iter().copied().collect(),
            measures: self.measures.clone(),
            net,
            addresses: self.addresses.clone(),
        };
        self.pictures.send_replace(Arc::new(picture));
    }
}
