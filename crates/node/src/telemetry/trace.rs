//! The live trace of a node: the records that the page shows.
//!
//! The loop pushes, and readers share what was pushed. See [`Ring`]. A record that cannot be
//! represented (a layout beyond the bounds of a trace) is counted and left out.

use super::event;
use super::waiting::Waiting;
use crate::engine::Judged;
use crate::lanes::Ended;
use crate::telemetry::jobs::outcome;
use alphorn_net::{Kind, PeerStatus, Status};
use alphorn_proto::Spawn;
use alphorn_proto::chain::Chain;
use alphorn_proto::horn::{CollectionView, Config, Finality, SlotView};
use alphorn_proto::slot::Boundary;
use alphorn_proto::wire::Topic;
use alphorn_scheme::{Class, Group, Op, Outcome, Product, SessionId};
use alphorn_types::trace::{CellCounts, Event, Name, Record, Ring, RingLimits};
use alphorn_types::{Cell, Slot, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

/// How often traffic and peers are recorded.
const TRAFFIC_NS: u64 = 1_000_000_000;
/// Sessions whose opening is remembered, so that it is recorded only once.
const SESSIONS_MAX: usize = 256;

/// The trace of one run of a node.
pub(super) struct Tracer {
    ring: Arc<Mutex<Ring>>,
    waiting: Waiting<Record>,
    name: Name,
    genesis: Time,
    now: Time,
    /// The current slot, and the state of its cells.
    slot: Option<Slot>,
    cells: CellCounts,
    has_block: bool,
    finality: Finality,
    sessions: BTreeSet<SessionId>,
    order: VecDeque<SessionId>,
    traffic_at: Time,
    traffic: BTreeMap<Kind, (u64, u64)>,
    peers: BTreeMap<u64, (String, i64)>,
    /// Records that a trace cannot hold.
    refused: u64,
}

impl Tracer {
    /// Creates a trace that starts now.
    pub(super) fn new(name: &str, scheme: &str, config: &Config, now: Time) -> Self {
        let layout = config.layout;
        let ring = Ring::new(now.as_nanos(), RingLimits::default());
        let mut tracer = Tracer {
            ring: Arc::new(Mutex::new(ring)),
            waiting: Waiting::default(),
            name: name.to_owned().into(),
            genesis: config.genesis,
            cells: CellCounts::new(layout),
            now,
            slot: None,
            has_block: false,
            finality: Finality::default(),
            sessions: BTreeSet::new(),
            order: VecDeque::new(),
            traffic_at: now,
            traffic: BTreeMap::new(),
            peers: BTreeMap::new(),
            refused: 0,
        };
        let (scheme, timing) = (scheme.to_owned().into(), &config.timing);
        let genesis = Event::genesis(scheme, &layout, timing.slot_ms(), timing.offsets_ms());
        tracer.push(genesis);
        tracer
    }

    /// State shared by readers.
    pub(super) fn ring(&self) -> Arc<Mutex<Ring>> {
        self.ring.clone()
    }

    pub(super) fn record(&mut self, now: Time, event: &event::Event<'_>) {
        use event::Event;
        self.now = now;
        match *event {
            Event::ClockStep(step) => self.fault("clock", format!("{step:?} ns")),
            Event::Phase { boundary, lag_ns } => self.phase(boundary, lag_ns),
            Event::Received { topic, .. }
            | Event::Delivered { topic }
            | Event::Published { topic } => self.message(topic),
            Event::Reported { peer, reason } => self.fault("report", format!("{peer}: {reason}")),
            Event::Contradiction => self.fault("evidence", "two contradicting statements".into()),
            Event::SourceBlamed { source, slot } => {
                let detail = format!("validator {source} broadcast no message in slot {slot}");
                self.fault("source", detail);
            }
            Event::Doppelganger(doppelganger) => {
                self.fault("doppelganger", doppelganger.to_string())
            }
            Event::Judged(judged) => self.judged(judged),
            Event::Collection(one) => self.collection(one),
            Event::JobSpawned(spawn) => self.spawn(spawn),
            Event::JobEnded(ended, _) => self.ended(ended),
            Event::PeerUp { peer, id, .. } => self.peer_up(peer, &id.to_string()),
            Event::PeerDown { peer, reason } => self.peer_down(peer, reason.name()),
            Event::TwoThirds { slot, ms, finality } => {
                self.finality(finality, Some((slot, ms as u64)));
            }
            _ => {}
        }
    }

    fn push(&mut self, event: Event) {
        let record = Record {
            t: self.since_genesis(self.now),
            n: self.name.clone(),
            event,
        };
        let refused = &mut self.refused;
        self.waiting.put(&self.ring, record, |ring, record| {
            *refused += u64::from(ring.push(&record).is_err());
        });
    }

    /// Writes what was held back for readers.
    pub(super) fn catch_up(&mut self) {
        let refused = &mut self.refused;
        self.waiting.catch_up(&self.ring, |ring, record| {
            *refused += u64::from(ring.push(&record).is_err());
        });
    }

    /// Records that are not in the trace.
    pub(super) fn left_out(&self) -> u64 {
        self.refused + self.waiting.lost
    }

    fn since_genesis(&self, time: Time) -> i64 {
        let ns = i128::from(time.as_nanos()) - i128::from(self.genesis.as_nanos());
        i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
    }

    /// A slot began, so cells are reset.
    fn begin(&mut self, slot: Slot, chain: &Chain) {
        self.slot = Some(slot);
        self.cells.clear();
        self.has_block = false;
        self.push(Event::Slot {
            slot: slot.0,
            proposer: chain.proposer(slot).0,
            // Not known yet. The same record follows with it once a block is accepted (`take_view`).
            root: String::new(),
        });
    }

    /// A phase began.
    fn phase(&mut self, boundary: Boundary, lag_ns: u64) {
        self.push(Event::Phase {
            slot: boundary.slot.0,
            phase: boundary.phase.name().into(),
            lag_us: lag_ns / 1_000,
        });
    }

    /// A message was received or sent. Votes are counted by their cell.
    fn message(&mut self, topic: Topic) {
        if let Topic::Vote { cell } = topic {
            self.cells.see(cell);
        }
    }

    /// A job is about to be submitted. The first one of a session in this slot opens it.
    fn spawn(&mut self, spawn: &Spawn) {
        if spawn.class != Class::Current || !self.sessions.insert(spawn.session) {
            return;
        }
        if self.order.len() >= SESSIONS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.sessions.remove(&oldest);
        }
        self.order.push_back(spawn.session);
        let soft = self.since_genesis(spawn.soft);
        self.push(Event::Session {
            id: spawn.session.number(),
            // The soft bound may have passed already, and the trace requires `open <= soft <= hard`.
            open: self.since_genesis(self.now).min(soft),
            soft,
            hard: self.since_genesis(spawn.hard).max(soft),
        });
    }

    /// A job ended.
    fn ended(&mut self, ended: &Ended) {
        let outcome = outcome(&ended.outcome);
        let t_end = self.since_genesis(self.now);
        let ns = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        // A lane reports how long a job waited and ran. Its end is the time at which the loop hears of it, which is
        // now.
        let t_start = t_end.saturating_sub(ns(ended.ran_ns));
        self.push(Event::Job {
            id: ended.job.0,
            kind: ended.op.into(),
            inputs: ended.run.map_or(0, |run| run.inputs),
            t_submit: t_start.saturating_sub(ns(ended.queued_ns)),
            t_start,
            t_end,
            predicted_ms: ended
                .run
                .map_or(0, |run| run.predicted_ns.div_ceil(1_000_000)),
            outcome: outcome.into(),
            lane: ended.run.map_or(0, |run| run.lane),
        });
        match &ended.outcome {
            Outcome::Done(Product::Evidence(evidence)) if ended.op == Op::Aggregate.name() => {
                let votes = evidence.support.signer_count();
                self.aggregate(&ended.group, votes, ended.ran_ns / 1_000_000, ended.late);
            }
            Outcome::Done(_) | Outcome::Cancelled | Outcome::Superseded => {}
            Outcome::Refused(why) => self.fault(ended.op, format!("{outcome}: {why}")),
            _ => self.fault(ended.op, outcome.to_owned()),
        }
    }

    fn aggregate(&mut self, group: &Group, votes: usize, ms: u64, late: bool) {
        let (Some(c), Some(s)) = (group.committee, group.subcommittee) else {
            return;
        };
        let votes = u32::try_from(votes).unwrap_or(u32::MAX);
        if self.slot == Some(group.slot) {
            let cell = Cell {
                committee: c,
                subcommittee: s,
            };
            self.cells.aggregate(cell, votes);
        }
        self.push(Event::Aggregate {
            slot: group.slot.0,
            c,
            s,
            votes,
            ms,
            late,
        });
    }

    /// A collection was accepted.
    fn collection(&mut self, one: &CollectionView) {
        self.push(Event::Collection {
            slot: one.vote.slot.0,
            c: one.committee,
            votes: u32::try_from(one.support.signer_count()).unwrap_or(u32::MAX),
            bytes: one.bytes as u64,
        });
    }

    /// Something went wrong.
    fn fault(&mut self, kind: &'static str, detail: String) {
        self.push(Event::Fault {
            kind: kind.into(),
            detail,
        });
    }

    /// Duties were judged. Missed ones are recorded.
    fn judged(&mut self, judged: &Judged) {
        let all = judged.all();
        if all.missed > 0 {
            let kinds = [
                (judged.propose.missed, "blocks"),
                (judged.vote.missed, "votes"),
                (judged.aggregate.missed, "aggregates"),
                (judged.collect.missed, "collections"),
            ];
            let kinds = kinds.iter().filter(|(missed, _)| *missed > 0);
            let kinds: Vec<String> = kinds.map(|(n, kind)| format!("{n} {kind}")).collect();
            let detail = format!("slot {}: {}", judged.slot.0, kinds.join(", "));
            self.fault("missed", detail);
        }
    }

    /// The state of the slot by the clock, recorded every quarter of a second.
    pub(super) fn slot(&mut self, now: Time, slot: Slot, chain: &Chain, view: Option<&SlotView>) {
        self.now = now;
        if self.slot.is_none_or(|told| told < slot) {
            self.begin(slot, chain);
        }
        if let Some(view) = view {
            self.take_view(slot, chain, view);
        }
        for event in self.cells.all(slot.0) {
            self.push(event);
        }
    }

    fn take_view(&mut self, slot: Slot, chain: &Chain, view: &SlotView) {
        if let Some(block) = view.block.filter(|_| !self.has_block) {
            self.has_block = true;
            self.push(Event::Slot {
                slot: slot.0,
                proposer: chain.proposer(slot).0,
                root: hex::encode(block.root),
            });
        }
        for (c, signers) in (0..).zip(&view.coverage) {
            self.cells.collect_committee(c, signers);
        }
    }

    /// The position of the chain, recorded when it moves.
    pub(super) fn finality(&mut self, standing: Finality, two_thirds: Option<(Slot, u64)>) {
        if standing != self.finality || two_thirds.is_some() {
            self.finality = standing;
            self.push(standing.event(two_thirds));
        }
    }

    /// A peer connected.
    fn peer_up(&mut self, peer: u64, id: &str) {
        // The end of an identity distinguishes peers. All begin alike.
        let short = id
            .get(id.len().saturating_sub(8)..)
            .unwrap_or(id)
            .to_owned();
        self.peers.insert(peer, (short.clone(), 0));
        self.push(Event::Peer {
            short,
            event: "connected".into(),
            score: 0,
        });
    }

    /// A peer disconnected.
    fn peer_down(&mut self, peer: u64, reason: &'static str) {
        if let Some((short, score)) = self.peers.remove(&peer) {
            self.push(Event::Peer {
                short,
                event: reason.into(),
                score,
            });
        }
    }

    /// Records traffic and scores since the last second, if it has passed.
    pub(super) fn traffic(&mut self, status: impl FnOnce() -> Status) {
        if self.now < self.traffic_at {
            return;
        }
        self.traffic_at = self.now.saturating_add_ns(TRAFFIC_NS);
        let status = status();
        for kind in Kind::ALL {
            let moved = status.kind(kind);
            let (received, sent) = (moved.bytes_in, moved.bytes_out);
            let before = self.traffic.insert(kind, (received, sent));
            let (in_before, out_before) = before.unwrap_or((0, 0));
            if (received, sent) != (in_before, out_before) {
                self.push(Event::Bytes {
                    topic_kind: kind.name().into(),
                    received: received.saturating_sub(in_before),
                    sent: sent.saturating_sub(out_before),
                });
            }
        }
        for peer in status.peers.iter() {
            self.score(peer);
        }
    }

    fn score(&mut self, peer: &PeerStatus) {
        // Scores fade all the time, so only whole points are worth a record.
        let rounded = peer.score.round() as i64;
        let Some((short, score)) = self.peers.get_mut(&peer.peer) else {
            return;
        };
        if *score != rounded {
            *score = rounded;
            let short = short.clone();
            self.push(Event::Peer {
                short,
                event: "score".into(),
                score: rounded,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_proto::horn::{Horn, Local, SchemeInfo};
    use alphorn_scheme::JobId;
    use alphorn_scheme::model::{CostTable, Model};
    use alphorn_types::Layout;
    use alphorn_worker::Run;

    /// A trace that starts a second before genesis: two committees of two cells of twelve.
    fn tracer() -> (Tracer, Horn) {
        let scheme = Model::new(CostTable::example()).unwrap();
        let layout = Layout::new(48, 2, 2).unwrap();
        let info = SchemeInfo::of(&scheme, &layout);
        let mut config = Config::new(layout, &info);
        config.genesis = Time::from_millis(10_000);
        let horn = Horn::new(config.clone(), info, Local::observer(&layout)).unwrap();
        let begin = Time::from_millis(9_000);
        (Tracer::new("n", "model", &config, begin), horn)
    }

    fn told(tracer: &Tracer) -> Vec<Record> {
        let lines = tracer.ring.lock().unwrap().snapshot().lines;
        let read = |line: &alphorn_types::trace::Line| Record::from_line(&line.json).unwrap();
        lines.iter().map(read).collect()
    }

    #[test]
    fn votes_are_counted_by_cell_and_slot() {
        let (mut tracer, horn) = tracer();
        let cell = Cell {
            committee: 0,
            subcommittee: 1,
        };
        let seen = |tracer: &Tracer| {
            let records = told(tracer);
            let cells = records.iter().rev().find_map(|record| match &record.event {
                Event::Cells { slot, seen, .. } => Some((*slot, seen.as_slice().to_vec())),
                _ => None,
            });
            cells.unwrap()
        };
        let now = Time::from_millis(10_100);
        tracer.slot(now, Slot(0), horn.chain(), None);
        for _ in 0..6 {
            tracer.message(Topic::Vote { cell });
        }
        tracer.message(Topic::Block);
        tracer.slot(now, Slot(0), horn.chain(), None);
        assert_eq!(seen(&tracer), (0, vec![0, 50, 0, 0]));
        tracer.slot(now, Slot(1), horn.chain(), None);
        assert_eq!(seen(&tracer), (1, vec![0; 4]));
        let outside = Cell {
            committee: 0,
            subcommittee: 2,
        };
        tracer.message(Topic::Vote { cell: outside });
        tracer.slot(now, Slot(1), horn.chain(), None);
        assert_eq!(
            seen(&tracer),
            (1, vec![0; 4]),
            "no cell of another committee"
        );
        let first = &told(&tracer)[0];
        assert!(matches!(first.event, Event::Genesis { validators: 48, .. }));
        assert_eq!(first.t, -1_000_000_000);
        assert_eq!(tracer.refused, 0);
    }

    #[test]
    fn a_job_has_its_times_and_one_that_failed_is_a_fault() {
        let (mut tracer, _) = tracer();
        tracer.now = Time::from_millis(10_020);
        let group = Group::of_slot(Slot(0));
        let run = Run {
            lane: 2,
            inputs: 7,
            predicted_ns: 1_500_000,
        };
        tracer.ended(&Ended {
            outcome: Outcome::Crashed,
            run: Some(run),
            queued_ns: 5_000_000,
            ran_ns: 10_000_000,
            ..Ended::refused(JobId(3), "aggregate", group, String::new())
        });
        let records = told(&tracer);
        let expected = Event::Job {
            id: 3,
            kind: "aggregate".into(),
            inputs: 7,
            t_submit: 5_000_000,
            t_start: 10_000_000,
            t_end: 20_000_000,
            predicted_ms: 2,
            outcome: "crashed".into(),
            lane: 2,
        };
        assert_eq!(records[1].event, expected);
        let fault = Event::Fault {
            kind: "aggregate".into(),
            detail: "crashed".into(),
        };
        assert_eq!(records[2].event, fault);
        assert_eq!(records.len(), 3);
    }

    #[test]
    fn peers_are_told_of_by_the_end_of_their_names() {
        let (mut tracer, _) = tracer();
        tracer.peer_up(4, "16Uiu2HAm0123456789");
        tracer.peer_down(4, "lost");
        tracer.peer_down(4, "lost");
        let records = told(&tracer);
        let told: Vec<(String, String)> = records
            .iter()
            .filter_map(|record| match &record.event {
                Event::Peer { short, event, .. } => Some((short.clone(), event.to_string())),
                _ => None,
            })
            .collect();
        let one = |event: &str| ("23456789".to_owned(), event.to_owned());
        assert_eq!(told, [one("connected"), one("lost")]);
    }
}
