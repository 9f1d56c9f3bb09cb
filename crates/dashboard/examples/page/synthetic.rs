//! A made-up trace, the same on each machine: numbers that look like those of a small devnet and
//! mean nothing. What it must add up to is counted beside it.

use alphorn_types::trace::{Event, Percents, Record};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const COMMITTEES: u16 = 8;
const SUBS: u16 = 16;
const CELLS: usize = COMMITTEES as usize * SUBS as usize;
const VOTES_OF_CELL: u32 = 64;
const SLOT_MS: u64 = 4_000;
const OFFSETS_MS: [u64; 5] = [0, 800, 1_600, 2_400, 3_200];
const PHASES: [&str; 5] = ["propose", "vote", "aggregate", "collect", "decide"];
const TOPICS: [(&str, u64); 4] = [
    ("vote", 90_000),
    ("aggregate", 140_000),
    ("collection", 60_000),
    ("block", 220_000),
];
const LANES: u16 = 3;

/// SplitMix64 (Steele, Lea, Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

const fn ns(ms: u64) -> i64 {
    (ms * 1_000_000) as i64
}

/// Records of so many slots, in the order of time; the first is the genesis.
pub(crate) fn records(slots: u64) -> Vec<Record> {
    let mut random = Random(1);
    let mut records = vec![Record {
        t: 0,
        n: "synthetic".into(),
        event: Event::Genesis {
            scheme: "model".into(),
            validators: CELLS as u32 * VOTES_OF_CELL,
            committees: COMMITTEES,
            subs: SUBS,
            slot_ms: SLOT_MS,
            offsets_ms: OFFSETS_MS.to_vec(),
        },
    }];
    for slot in 0..slots {
        let from = records.len();
        let mut maker = Maker {
            slot,
            random: &mut random,
            records: &mut records,
        };
        maker.chain();
        maker.votes();
        maker.work();
        maker.network();
        // Stable: equal times keep their order.
        records[from..].sort_by_key(|record| record.t);
    }
    records
}

/// Makes the records of one slot.
struct Maker<'a> {
    slot: u64,
    random: &'a mut Random,
    records: &'a mut Vec<Record>,
}

impl Maker<'_> {
    fn put(&mut self, node: u64, ms: u64, event: Event) {
        self.records.push(Record {
            t: ns(self.slot * SLOT_MS + ms),
            n: format!("node-{node}").into(),
            event,
        });
    }

    fn chain(&mut self) {
        let slot = self.slot;
        // One slot in nineteen has no block: nodes say who should have proposed it, and no root.
        let has_block = slot % 19 != 7;
        let root = format!("{:016x}", self.random.next());
        let proposer = self.random.below(CELLS as u64) as u32;
        self.put(
            0,
            5,
            Event::Slot {
                slot,
                proposer,
                root: if has_block { root } else { String::new() },
            },
        );
        if has_block {
            let two_thirds_ms = Some(3_090 + self.random.below(120));
            let finality = Event::Finality {
                head: slot,
                justified: slot.saturating_sub(1),
                finalised: slot.saturating_sub(2),
                two_thirds_ms,
                two_thirds_slot: Some(slot),
            };
            self.put(0, 3_900, finality);
        }
        for (offset_ms, phase) in OFFSETS_MS.into_iter().zip(PHASES) {
            for node in 0..4 {
                let lag_us = 40 + self.random.below(1_800);
                let phase = phase.into();
                self.put(
                    node,
                    offset_ms + 2,
                    Event::Phase {
                        slot,
                        phase,
                        lag_us,
                    },
                );
            }
        }
        for node in 0..2 {
            let start = ns(slot * SLOT_MS);
            let session = Event::Session {
                id: slot * 2 + node,
                open: start + ns(1_450),
                soft: start + ns(2_350),
                hard: start + ns(3_600),
            };
            self.put(node, 1_450, session);
        }
    }

    fn votes(&mut self) {
        let slot = self.slot;
        // Of each cell: percent of votes that never come, and milliseconds that it lags behind.
        let cells: Vec<(u64, u64)> = (0..CELLS as u64)
            .map(|cell| {
                let committee = cell / u64::from(SUBS);
                (
                    self.random.below(12),
                    committee * 40 + self.random.below(240),
                )
            })
            .collect();
        // Quarters of a second, as a node tells them.
        for tick in 0..16_u64 {
            let ms = tick * 250;
            let stage = |begin: u64, length: u64| {
                let percent = |&(missing, lag): &(u64, u64)| {
                    let passed = ms.saturating_sub(begin + lag).min(length);
                    (passed * (100 - missing) / length) as u8
                };
                Percents::new(cells.iter().map(percent).collect())
            };
            let cells = Event::Cells {
                slot,
                from: 0,
                seen: stage(700, 700),
                aggregated: stage(1_500, 800),
                collected: stage(2_300, 800),
            };
            self.put(0, ms + 1, cells);
        }
    }

    fn work(&mut self) {
        let slot = self.slot;
        for cell in 0..CELLS as u16 {
            let (c, s) = (cell / SUBS, cell % SUBS);
            let run_ms = 45 + self.random.below(40);
            let start_ms = 1_500 + u64::from(cell / (4 * LANES)) * 88;
            let late = self.random.below(40) == 0;
            let node = u64::from(cell % 4);
            let votes = VOTES_OF_CELL - self.random.below(6) as u32;
            let at = |ms: u64| ns(slot * SLOT_MS + ms);
            let job = Event::Job {
                id: slot * CELLS as u64 + u64::from(cell),
                kind: "aggregate".into(),
                inputs: votes,
                t_submit: at(start_ms - 30),
                t_start: at(start_ms),
                t_end: at(start_ms + run_ms),
                predicted_ms: 78,
                outcome: if late { "crashed" } else { "done" }.into(),
                lane: (cell / 4) % LANES,
            };
            self.put(node, start_ms + run_ms, job);
            let made = Event::Aggregate {
                slot,
                c,
                s,
                votes,
                ms: run_ms,
                late,
            };
            self.put(node, start_ms + run_ms, made);
        }
        for c in 0..COMMITTEES {
            let votes = u32::from(SUBS) * VOTES_OF_CELL - self.random.below(60) as u32;
            let bytes = 200 + self.random.below(100);
            let ms = 2_500 + self.random.below(600);
            let collection = Event::Collection {
                slot,
                c,
                votes,
                bytes,
            };
            self.put(u64::from(c) % 4, ms, collection);
        }
    }

    fn network(&mut self) {
        for second in 0..4 {
            for (kind, mean) in TOPICS {
                let (received, sent) = (self.random.below(2 * mean), self.random.below(2 * mean));
                let bytes = Event::Bytes {
                    topic_kind: kind.into(),
                    received,
                    sent,
                };
                self.put(0, second * 1_000 + 990, bytes);
            }
        }
        let peer = self.random.below(12);
        let event = Event::Peer {
            short: format!("16Uiu2{peer:02}"),
            event: ["connected", "graft", "prune", "bad signature"][(peer % 4) as usize].into(),
            score: 40 - (peer * 9) as i64,
        };
        self.put(0, 3_000, event);
        if self.slot % 5 == 3 {
            let fault = Event::Fault {
                kind: "self_verify_failed".into(),
                detail: format!("slot {}: <b>markup</b> & quotes \" are text", self.slot),
            };
            self.put(1, 2_700, fault);
        }
        for node in 0..4 {
            let from = ns(self.slot * SLOT_MS + 2_600);
            let after = |ms: u64| Some(from + ns(ms));
            let done = 40 + node * 25 + self.random.below(20);
            let broadcast = Event::Broadcast {
                id: format!("{:08x}", self.slot),
                kind: 2,
                slot: self.slot,
                header_ns: after(0),
                first_ns: after(1 + node),
                done_ns: after(done),
                deliver_ns: after(done + 4),
                bytes: 300_000 + self.random.below(9_000),
                dependent: self.random.below(5) as u32,
                invalid: 0,
            };
            self.put(node, 2_604 + done, broadcast);
        }
    }
}

/// What a page that shows these records must show, counted from the records alone.
pub(crate) fn expected(records: &[Record]) -> Value {
    let mut tally = Tally::default();
    for record in records {
        tally.add(record);
    }
    tally.to_json()
}

/// Sums over records.
#[derive(Default)]
struct Tally {
    counts: BTreeMap<&'static str, u64>,
    nodes: BTreeSet<String>,
    peers: BTreeSet<String>,
    /// Bytes in and out by topic.
    topics: BTreeMap<String, (u64, u64)>,
    outcomes: BTreeMap<String, u64>,
    late: u64,
    over: u64,
    aggregate_votes: u64,
    aggregate_ms: u64,
    collection_votes: u64,
    collection_bytes: u64,
    lag_max_us: u64,
    /// The newest percentages of collected votes.
    collected: Vec<u8>,
    finality: Value,
}

impl Tally {
    fn add(&mut self, record: &Record) {
        *self.counts.entry(record.event.kind()).or_default() += 1;
        if !matches!(record.event, Event::Genesis { .. } | Event::Fault { .. }) {
            self.nodes.insert(record.n.to_string());
        }
        match &record.event {
            Event::Phase { lag_us, .. } => self.lag_max_us = self.lag_max_us.max(*lag_us),
            Event::Aggregate {
                votes, ms, late, ..
            } => {
                self.aggregate_votes += u64::from(*votes);
                self.aggregate_ms += ms;
                self.late += u64::from(*late);
            }
            Event::Collection { votes, bytes, .. } => {
                self.collection_votes += u64::from(*votes);
                self.collection_bytes += bytes;
            }
            Event::Job {
                t_start,
                t_end,
                predicted_ms,
                outcome,
                ..
            } => {
                self.over += u64::from(t_end - t_start > ns(*predicted_ms));
                *self.outcomes.entry(outcome.to_string()).or_default() += 1;
            }
            Event::Bytes {
                topic_kind,
                received,
                sent,
            } => {
                let sum = self.topics.entry(topic_kind.to_string()).or_default();
                *sum = (sum.0 + received, sum.1 + sent);
            }
            Event::Peer { short, .. } => {
                self.peers.insert(short.clone());
            }
            Event::Cells { collected, .. } => self.collected = collected.as_slice().to_vec(),
            Event::Finality {
                head,
                justified,
                finalised,
                two_thirds_ms,
                ..
            } => {
                self.finality = json!({"head": head, "justified": justified, "finalised": finalised,
                    "twoThirdsMs": two_thirds_ms});
            }
            _ => {}
        }
    }

    fn to_json(&self) -> Value {
        let count = |kind: &str| self.counts.get(kind).copied().unwrap_or(0);
        let bytes: BTreeMap<_, _> = self
            .topics
            .iter()
            .map(|(kind, (received, sent))| (kind, json!({"in": received, "out": sent})))
            .collect();
        let sum: u64 = self
            .collected
            .iter()
            .map(|&percent| u64::from(percent))
            .sum();
        json!({
            "records": self.counts.values().sum::<u64>(), "nodes": self.nodes.len(),
            "slots": count("slot"), "peers": self.peers.len(), "aggregates": count("aggregate"),
            "aggregatesLate": self.late, "aggregateVotes": self.aggregate_votes,
            "aggregateMs": self.aggregate_ms, "collections": count("collection"),
            "collectionVotes": self.collection_votes, "collectionBytes": self.collection_bytes,
            "jobs": count("job"), "jobsOver": self.over, "outcomes": self.outcomes, "bytes": bytes,
            "faults": count("fault"), "lagMaxUs": self.lag_max_us, "finality": self.finality,
            "collectedMean": sum as f64 / CELLS as f64, "committees": COMMITTEES, "subs": SUBS,
        })
    }
}
