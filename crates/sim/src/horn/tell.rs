//! Traces the slots of a run in the records of a live node, for the page: what the network did, from the first
//! phase to the block that carries the votes.
//!
//! A run of any size stays below [`BYTES_MAX`]. Cells are recorded no more often than fits, aggregates and
//! collections are the first of each cell and committee, and a block is recorded for a sample of its receivers. The
//! activity of a few single nodes is recorded by the world ([`World::follow`](crate::world::World)).

use super::message::{BlockBody, EvidenceBody, HornMessage, Inner};
use super::plan::Plan;
use crate::gossip::Message;
use crate::scenario::{Scenario, hex};
use crate::world::{follow, node_name, signed};
use alphorn_proto::horn::Finality;
use alphorn_proto::slot::Phase;
use alphorn_proto::wire::Topic;
use alphorn_scheme::Op;
use alphorn_types::trace::{CELLS_PER_LINE_MAX, CellCounts, Event, Name, Record};
use alphorn_types::{Bitfield, Cell, Slot, Time, Validator};
use std::collections::VecDeque;
use std::sync::Arc;

/// Upper bound on the bytes of a trace of slots, whatever is run.
const BYTES_MAX: usize = 20_000_000;
/// Bytes of all cell lines together.
const CELLS_BYTES_MAX: u64 = 4 << 20;
/// Bytes of a cell line, without the cells.
const LINE_BYTES: u64 = 160;
/// Minimum interval between cell records.
const CELLS_NS: u64 = 100_000_000;
/// Maximum number of aggregates, collections and block receivers recorded.
const AGGREGATES_MAX: u32 = 32_768;
const COLLECTIONS_MAX: u32 = 8_192;
const RECEIVERS_MAX: u32 = 8_192;
/// The broadcast kind of a block.
const BLOCK: u8 = 1;
/// Maximum number of scenario faults recorded, and of letters describing each.
const SCENARIO_FAULTS_MAX: usize = 256;
const FAULT_LETTERS_MAX: usize = 400;
/// Maximum number of nodes followed.
const FOLLOWED_MAX: usize = 8;

/// Kinds of lines, maximum bytes of one, and maximum number of them.
pub(super) const LINES: [(&str, usize, usize); 8] = [
    ("aggregate", 160, AGGREGATES_MAX as usize),
    ("collection", 140, COLLECTIONS_MAX as usize),
    ("broadcast", 290, RECEIVERS_MAX as usize),
    ("job", 270, follow::JOBS_MAX),
    ("session", 170, follow::SESSIONS_MAX),
    ("bytes", 150, follow::TRAFFIC_MAX),
    ("fault", 170, follow::FAULTS_MAX),
    ("peer", 140, FOLLOWED_MAX * follow::PEERS_MAX),
];

/// Room for slots, their phases, finality and the faults of the scenario.
const OTHERS_BYTES: usize = 200_000;

const fn most_bytes() -> usize {
    let (mut sum, mut i) = (CELLS_BYTES_MAX as usize + OTHERS_BYTES, 0);
    while i < LINES.len() {
        sum += LINES[i].1 * LINES[i].2;
        i += 1;
    }
    sum
}

const _: () = assert!(most_bytes() <= BYTES_MAX);

/// How a block reached a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    /// The node published it.
    Own,
    There,
    Not,
}

/// A slot whose votes are followed.
#[derive(Debug)]
struct Told {
    counts: CellCounts,
    is_dirty: bool,
    /// Number of aggregates of each cell, and collections of each committee, recorded.
    aggregates: Vec<u32>,
    collections: Vec<u32>,
    has_two_thirds: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Teller {
    plan: Arc<Plan>,
    /// Name used for records that belong to no node.
    network: Name,
    slots: Vec<Told>,
    records: Vec<Record>,
    /// Records due at known times.
    coming: VecDeque<Record>,
    /// Cells are recorded at multiples of this many nanoseconds of the run.
    cells_ns: u64,
    cells_at: u64,
    /// Maximum number recorded per cell and per committee. For each block, receivers with numbers that are
    /// multiples of `stride` are recorded.
    aggregates_max: u32,
    collections_max: u32,
    stride: u32,
    /// How many may still be recorded.
    aggregates_left: u32,
    collections_left: u32,
    receivers_left: u32,
    finality: Finality,
    /// The newest block of the observer.
    head: Slot,
    /// Votes that have reached a node that serves them, by slot and position.
    seen: Vec<Bitfield>,
}

/// Returns the nodes that a trace follows: one of each role, and one of each class not among these. Roles are those
/// of honest nodes in the first slot.
pub(super) fn sample(plan: &Plan, class: &[u16], honest: &[bool]) -> Vec<u32> {
    let mut nodes: Vec<u32> = Vec::new();
    let levels = (1..=plan.config.layout.levels()).rev();
    let first = |level: u8| {
        let servers = plan.serving(level).iter().flatten();
        let mut hosts = servers.map(|server| plan.host(server.validator));
        hosts.find(|node| honest[*node as usize])
    };
    let proposer = Some(observer(plan));
    for node in [proposer].into_iter().chain(levels.map(first)).flatten() {
        if !nodes.contains(&node) {
            nodes.push(node);
        }
    }
    let others = (0..).zip(class.iter().zip(honest));
    for (node, (own, is_honest)) in others {
        let has = nodes.iter().any(|node| class[*node as usize] == *own);
        // `LINES` has room for the neighbours of this many nodes.
        if *is_honest && !has && nodes.len() < FOLLOWED_MAX {
            nodes.push(node);
        }
    }
    nodes
}

/// The node whose phases and chain are recorded: the host of the proposer that is to carry the last votes.
pub(super) fn observer(plan: &Plan) -> u32 {
    plan.host(plan.proposer(plan.last()))
}

impl Teller {
    /// Creates a teller for the slots of a plan.
    pub(super) fn new(plan: Arc<Plan>, scenario: &Scenario) -> Teller {
        let layout = plan.config.layout;
        let (cells, slots) = (layout.cells_count(), plan.slots);
        let told = |_: Slot| Told {
            counts: CellCounts::new(layout),
            is_dirty: false,
            aggregates: vec![0; cells as usize],
            collections: vec![0; layout.committees().into()],
            has_two_thirds: false,
        };
        let mut teller = Teller {
            slots: plan.followed().map(told).collect(),
            network: scenario.name.clone().into(),
            records: Vec::new(),
            coming: VecDeque::new(),
            cells_ns: cells_ns(cells, plan.slot_end().as_nanos() * u64::from(slots)),
            cells_at: 0,
            // The same number for each cell, or the first ones would take all. At least one, as `aggregates_left` is
            // the bound.
            aggregates_max: (AGGREGATES_MAX / (cells * slots)).max(1),
            collections_max: (COLLECTIONS_MAX / (u32::from(layout.committees()) * slots)).max(1),
            // The same nodes for every block, so that a node can be followed from block to block.
            stride: (plan.nodes * plan.blocks().count() as u32).div_ceil(RECEIVERS_MAX),
            aggregates_left: AGGREGATES_MAX,
            collections_left: COLLECTIONS_MAX,
            receivers_left: RECEIVERS_MAX,
            finality: Finality::default(),
            head: plan.slot,
            seen: vec![Bitfield::new(layout.validators() as usize); slots as usize],
            plan,
        };
        teller.by_the_clock(scenario);
        teller
    }

    /// Prepares the records due at known times: names, phases and faults.
    fn by_the_clock(&mut self, scenario: &Scenario) {
        let plan = self.plan.clone();
        let timing = plan.config.timing;
        let network = self.network.clone();
        let scheme = plan.scheme().to_owned().into();
        let layout = &plan.config.layout;
        let genesis = Event::genesis(scheme, layout, timing.slot_ms(), timing.offsets_ms());
        let mut coming = vec![self.record(0, network.clone(), genesis)];
        let observer = name(observer(&plan));
        let begins = plan.followed().chain(plan.blocks());
        let mut begins: Vec<Slot> = begins.collect();
        begins.sort_unstable();
        begins.dedup();
        for slot in begins {
            let root = String::new();
            let event = self.slot(slot, root);
            coming.push(self.record(plan.slot_start(slot).as_nanos(), network.clone(), event));
            for phase in Phase::all(layout.levels()) {
                let event = Event::Phase {
                    slot: slot.0,
                    phase: phase.name().into(),
                    lag_us: 0,
                };
                let at = plan.phase_of(slot, phase);
                if (plan.begin()..plan.end()).contains(&at) {
                    coming.push(self.record(at.as_nanos(), observer.clone(), event));
                }
            }
        }
        let faults = crate::report::trace::faults(scenario);
        for (from_ms, mut event) in faults.take(SCENARIO_FAULTS_MAX) {
            if let Event::Fault { detail, .. } = &mut event {
                *detail = detail.chars().take(FAULT_LETTERS_MAX).collect();
            }
            let from_ns = from_ms.saturating_mul(1_000_000);
            coming.push(self.record(from_ns, network.clone(), event));
        }
        // This is stable, so a slot comes before its first phase.
        coming.sort_by_key(|record| record.t);
        self.coming = coming.into();
    }

    fn slot(&self, slot: Slot, root: String) -> Event {
        Event::Slot {
            slot: slot.0,
            proposer: self.plan.proposer_of(slot),
            root,
        }
    }

    /// A record at a time of the run.
    fn record(&self, now_ns: u64, n: Name, event: Event) -> Record {
        let t = self.time(now_ns);
        Record { t, n, event }
    }

    fn time(&self, now_ns: u64) -> i64 {
        let t = self.plan.since_genesis(Time::from_nanos(now_ns));
        signed(t.as_nanos())
    }

    fn push(&mut self, now_ns: u64, n: Name, event: Event) {
        let record = self.record(now_ns, n, event);
        self.records.push(record);
    }

    /// Records everything due up to now, and the progress of the cells in the meantime.
    pub(super) fn until(&mut self, now_ns: u64) {
        while self.cells_at <= now_ns.min(self.plan.end().as_nanos()) {
            self.clock(self.cells_at);
            self.cells(self.cells_at);
            self.cells_at += self.cells_ns;
        }
        self.clock(now_ns);
    }

    fn clock(&mut self, now_ns: u64) {
        let now = self.time(now_ns);
        while let Some(record) = self.coming.pop_front() {
            if record.t > now {
                return self.coming.push_front(record);
            }
            self.records.push(record);
        }
    }

    /// Records the cells of slots that are not over, and of those that changed.
    fn cells(&mut self, now_ns: u64) {
        let now = Time::from_nanos(now_ns);
        for (place, slot) in self.plan.followed().enumerate() {
            let is_now =
                (self.plan.slot_start(slot)..self.plan.slot_start(slot.next())).contains(&now);
            let told: &mut Told = &mut self.slots[place];
            if !std::mem::take(&mut told.is_dirty) && !is_now {
                continue;
            }
            for event in told.counts.changed(slot.0) {
                self.push(now_ns, self.network.clone(), event);
            }
        }
    }

    fn told(&mut self, slot: Slot) -> Option<&mut Told> {
        let place = self.plan.place(slot)?;
        let told = &mut self.slots[place as usize];
        told.is_dirty = true;
        Some(told)
    }

    /// A node casts a vote. The vote counts as seen if the node itself is to sum the votes of this cell.
    pub(super) fn voted(&mut self, node: u32, slot: Slot, validator: Validator) {
        let Some(position) = self.plan.assignment.position(validator) else {
            return;
        };
        let cell = self.plan.config.layout.cell_of(position);
        let servers = self.plan.servers_of(slot, cell.into()).iter();
        let mut hosts = servers.map(|server| self.plan.host(server.validator));
        if hosts.any(|host| host == node) {
            self.see(slot, cell, position);
        }
    }

    /// A message arrived. Nodes of a window run one after the other, so an arrival within the minimum latency after
    /// a time may be recorded as of that time.
    pub(super) fn arrived(&mut self, message: &HornMessage) {
        let Inner::Whole(Message::Data { id, .. } | Message::Relay { id, .. }) = &message.inner
        else {
            return;
        };
        let plan = &self.plan;
        if let Topic::Vote { cell } = plan.topic(message.topic) {
            let position = plan.config.layout.cell_range(cell).start + id.0;
            let slot = Slot(plan.slot.0 + u64::from(plan.place_of(message.topic)));
            self.see(slot, cell, position);
        }
    }

    fn see(&mut self, slot: Slot, cell: Cell, position: u32) {
        let seen = self
            .plan
            .place(slot)
            .map(|place| &mut self.seen[place as usize]);
        let position = position as usize;
        let Some(seen) = seen.filter(|seen| position < seen.len() && !seen.get(position)) else {
            return;
        };
        seen.set(position);
        if let Some(told) = self.told(slot) {
            told.counts.see(cell);
        }
    }

    /// An aggregate is published. `votes` is the number of votes of its cell that are in an aggregate by now.
    pub(super) fn aggregated(&mut self, now_ns: u64, body: &EvidenceBody, votes: usize) {
        let Some(cell) = body.unit.cell() else {
            return;
        };
        let post = self.plan.post(body.unit) as usize;
        let (max, left) = (self.aggregates_max, self.aggregates_left);
        let Some(told) = self.told(body.slot) else {
            return;
        };
        told.counts.aggregate(cell, votes as u32);
        if told.aggregates[post] >= max || left == 0 {
            return;
        }
        told.aggregates[post] += 1;
        self.aggregates_left -= 1;
        // Aggregates are wanted when the next level begins.
        let wanted = self.plan.level_start(body.slot, 2);
        let event = Event::Aggregate {
            slot: body.slot.0,
            c: cell.committee,
            s: cell.subcommittee,
            votes: body.votes,
            ms: self.plan.evidence_ns(Op::Aggregate, body.votes.into()) / 1_000_000,
            late: now_ns > wanted.as_nanos(),
        };
        self.push(now_ns, name(self.plan.host(body.sender)), event);
    }

    /// A collection is published.
    pub(super) fn published(&mut self, now_ns: u64, body: &EvidenceBody) {
        let (max, left) = (self.collections_max, self.collections_left);
        let Some(told) = self.told(body.slot) else {
            return;
        };
        let count = &mut told.collections[usize::from(body.unit.committee)];
        if *count >= max || left == 0 {
            return;
        }
        *count += 1;
        self.collections_left -= 1;
        let event = Event::Collection {
            slot: body.slot.0,
            c: body.unit.committee,
            votes: body.votes,
            bytes: body.data.len() as u64,
        };
        self.push(now_ns, name(self.plan.host(body.sender)), event);
    }

    /// A collection has reached the proposer that is to carry its votes. The proposer can now credit `signers` of
    /// the committee, and `votes` in total.
    pub(super) fn credited(
        &mut self,
        now_ns: u64,
        slot: Slot,
        committee: u16,
        signers: &Bitfield,
        votes: u64,
    ) {
        let validators = u64::from(self.plan.config.layout.validators());
        let begin_ns = self.plan.slot_start(slot).as_nanos();
        let Some(told) = self.told(slot) else {
            return;
        };
        told.counts.collect_committee(committee, signers);
        // The flag is set only once two thirds are there, so this goes on exactly once in a slot.
        if 3 * votes < 2 * validators || std::mem::replace(&mut told.has_two_thirds, true) {
            return;
        }
        let ms = now_ns.saturating_sub(begin_ns) / 1_000_000;
        let finality = Finality {
            // Finality is read when the run pauses, but the head follows every import.
            head: self.head,
            ..self.finality
        };
        let event = finality.event(Some((slot, ms)));
        self.push(now_ns, self.network.clone(), event);
    }

    /// A block is published.
    pub(super) fn proposed(&mut self, now_ns: u64, node: u32, block: &BlockBody) {
        let event = self.slot(block.slot, hex(&block.root));
        self.push(now_ns, name(node), event);
    }

    /// A node has a block, possibly its own.
    pub(super) fn imported(&mut self, now_ns: u64, node: u32, block: &BlockBody) {
        let is_own = node == self.plan.host(self.plan.proposer_of(block.slot));
        if node == observer(&self.plan) {
            self.head = self.head.max(block.slot);
        }
        if is_own || node.is_multiple_of(self.stride) {
            let reached = match is_own {
                true => Reached::Own,
                false => Reached::There,
            };
            self.receiver(now_ns, node, block, reached);
        }
    }

    /// The run is over: records what changed since cells were last recorded.
    pub(super) fn end(&mut self, now_ns: u64) {
        self.until(now_ns);
        self.cells(now_ns);
    }

    /// A node still has no block when the run ends.
    pub(super) fn missed(&mut self, now_ns: u64, node: u32, block: &BlockBody) {
        if node.is_multiple_of(self.stride) {
            self.receiver(now_ns, node, block, Reached::Not);
        }
    }

    fn receiver(&mut self, now_ns: u64, node: u32, block: &BlockBody, reached: Reached) {
        if self.receivers_left == 0 {
            return;
        }
        self.receivers_left -= 1;
        let at = self.time(now_ns);
        let event = Event::Broadcast {
            id: hex(&block.root[..8]),
            kind: BLOCK,
            slot: block.slot.0,
            header_ns: None,
            first_ns: (reached == Reached::Own).then_some(at),
            done_ns: (reached != Reached::Not).then_some(at),
            deliver_ns: (reached != Reached::Not).then_some(at),
            bytes: match reached {
                Reached::There => block.data.len() as u64,
                Reached::Own | Reached::Not => 0,
            },
            dependent: 0,
            invalid: 0,
        };
        self.push(now_ns, name(node), event);
    }

    /// Records the state of the observer's chain when it has moved.
    pub(super) fn stands(&mut self, now_ns: u64, finality: Finality) {
        if finality != self.finality {
            self.finality = finality;
            self.push(now_ns, name(observer(&self.plan)), finality.event(None));
        }
    }

    /// Takes the records since the last call.
    pub(super) fn take(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }
}

/// How often cells are recorded, such that all their lines fit. Each followed slot is recorded for twice its
/// length, until its votes are in a block.
pub(super) fn cells_ns(cells: u32, slots_ns: u64) -> u64 {
    let lines = (cells as usize).div_ceil(CELLS_PER_LINE_MAX) as u64;
    // Three percentages of four letters for three bytes.
    let bytes = u64::from(cells) * 4 + LINE_BYTES * lines;
    let times = (CELLS_BYTES_MAX / bytes).max(1);
    (2 * slots_ns).div_ceil(times).max(CELLS_NS)
}

fn name(node: u32) -> Name {
    node_name(node).into()
}
