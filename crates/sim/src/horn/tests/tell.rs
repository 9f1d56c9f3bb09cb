//! A run as recorded in its trace.

use super::{TEXT, coded, scenario};
use crate::horn::tell::{LINES, Teller, cells_ns};
use crate::horn::{EvidenceBody, HornRun, Plan, run};
use crate::run::{Observe, Progress};
use crate::scenario::{Protocol, Scenario, TraceLevel};
use alphorn_scheme::SessionId;
use alphorn_scheme::model::CostTable;
use alphorn_types::trace::{Event, Record};
use alphorn_types::{Bitfield, Slot, Support, Unit};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Keeps the records.
struct Listener {
    level: TraceLevel,
    threads: usize,
    records: Vec<Record>,
}

impl Observe for Listener {
    fn progress(&mut self, _: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn slots(&self) -> TraceLevel {
        self.level
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn trace(&mut self, records: Vec<Record>) {
        self.records.extend(records);
    }
}

fn told(scenario: &Scenario, level: TraceLevel) -> (HornRun, Vec<Record>) {
    told_on(1, scenario, level)
}

fn told_on(threads: usize, scenario: &Scenario, level: TraceLevel) -> (HornRun, Vec<Record>) {
    let Protocol::Horn(horn) = &scenario.protocol else {
        panic!("no slot");
    };
    let mut listener = Listener {
        level,
        threads,
        records: Vec::new(),
    };
    let run = run(scenario, horn, 1, &mut listener).unwrap();
    (run, listener.records)
}

fn of<'a>(records: &'a [Record], kind: &'a str) -> impl Iterator<Item = &'a Record> {
    let is_of = move |record: &&Record| record.event.kind() == kind;
    records.iter().filter(is_of)
}

#[test]
fn a_run_is_the_same_whether_it_is_told_or_not() {
    // With faults, whose nodes take a slower path through the world.
    let faults = "\n[[fault]]\nkind = \"drop_votes\"\nshare_pct = 20\nfactor_pct = 30\nfrom_ms = 0\nuntil_ms = 60000\n\
                  [[fault]]\nkind = \"slow_cpu\"\nshare_pct = 30\nfactor_pct = 700\nfrom_ms = 0\nuntil_ms = 60000\n";
    for text in [TEXT.to_owned(), format!("{TEXT}{faults}")] {
        let scenario = super::scenario_of(&text, &[("protocol.slots", "2")]);
        let (silent, nothing) = told(&scenario, TraceLevel::None);
        assert!(nothing.is_empty());
        for level in [TraceLevel::Summary, TraceLevel::Full] {
            let (run, records) = told(&scenario, level);
            assert!(!records.is_empty());
            assert_eq!(run.outcome, silent.outcome, "{level:?}");
            assert_eq!((run.votes, run.slots), (silent.votes, silent.slots.clone()));
        }
    }
}

#[test]
fn a_slot_is_told_as_a_live_node_tells_it() {
    let scenario = scenario(&[("protocol.slots", "2")]);
    let (run, records) = told(&scenario, TraceLevel::Full);
    assert!(records.is_sorted_by_key(|record| record.t));
    for record in &records {
        let line = record.to_line().unwrap();
        assert_eq!(&Record::from_line(&line).unwrap(), record);
    }
    let first = &records[0].event;
    let genesis = |event: &Event| match event {
        Event::Genesis {
            validators,
            committees,
            subs,
            offsets_ms,
            ..
        } => Some((*validators, *committees, *subs, offsets_ms.len())),
        _ => None,
    };
    assert_eq!(genesis(first), Some((2048, 2, 4, 5)));
    // Aggregates and collections match those of the run: of its last slot, sixteen per cell and committee.
    let of_last = |kind| {
        let slot = |record: &&Record| match &record.event {
            Event::Aggregate { slot, .. } | Event::Collection { slot, .. } => *slot == 1,
            _ => false,
        };
        of(&records, kind).filter(slot).count() as u64
    };
    assert_eq!((of_last("aggregate"), of_last("collection")), run.published);
    // All cells end full, and never have more collected than aggregated, nor more aggregated than seen.
    let mut ends: BTreeMap<(u64, usize), [u8; 3]> = BTreeMap::new();
    for record in of(&records, "cells") {
        let Event::Cells {
            slot,
            from,
            seen,
            aggregated,
            collected,
        } = &record.event
        else {
            unreachable!();
        };
        for at in 0..seen.as_slice().len() {
            let stages = [seen, aggregated, collected].map(|stage| stage.as_slice()[at]);
            assert!(stages.is_sorted_by(|a, b| a >= b), "{stages:?}");
            ends.insert((*slot, *from as usize + at), stages);
        }
    }
    assert_eq!(ends.len(), 2 * 8);
    assert!(ends.values().all(|stages| *stages == [100; 3]), "{ends:?}");
    // Blocks have their roots, and reach all nodes.
    let roots = of(&records, "slot").filter_map(|record| match &record.event {
        Event::Slot { slot, root, .. } if !root.is_empty() => Some(*slot),
        _ => None,
    });
    assert_eq!(roots.collect::<Vec<_>>(), [1, 2]);
    assert_eq!(of(&records, "broadcast").count(), 2 * 96);
    let two_thirds: Vec<(u64, u64)> = of(&records, "finality")
        .filter_map(|record| match record.event {
            Event::Finality {
                two_thirds_ms,
                two_thirds_slot,
                ..
            } => two_thirds_slot.zip(two_thirds_ms),
            _ => None,
        })
        .collect();
    assert_eq!(two_thirds.len(), 2);
    assert_eq!(two_thirds.iter().map(|it| it.0).collect::<Vec<_>>(), [0, 1]);
    let at_ms = run.at_proposer.at_ns[0].unwrap() / 1_000_000;
    assert!(
        two_thirds[1].1.abs_diff(at_ms) <= 1,
        "{two_thirds:?} {at_ms}"
    );
    // A few nodes are followed, and all their activity is recorded.
    let names = |kind| -> BTreeSet<&str> { of(&records, kind).map(|r| r.n.as_ref()).collect() };
    let followed = names("peer");
    assert!((2..=8).contains(&followed.len()), "{followed:?}");
    assert_eq!(names("job"), followed);
    assert_eq!(names("bytes"), followed);
    assert!(names("session").is_subset(&followed));
    let (_, summary) = told(&scenario, TraceLevel::Summary);
    for kind in ["job", "session", "bytes", "peer"] {
        assert_eq!(of(&summary, kind).count(), 0, "{kind}");
    }
    assert_eq!(of(&summary, "cells").count(), of(&records, "cells").count());
}

#[test]
fn a_trace_is_bounded_by_construction() {
    // Two percent of the votes belong to silent nodes, some of which have no block when the run ends.
    let fault = "\n[[fault]]\nkind = \"crash\"\nshare_pct = 5\nfrom_ms = 0\nuntil_ms = 60000\n";
    let scenario = super::scenario_of(&format!("{TEXT}{fault}"), &[("protocol.slots", "2")]);
    let (_, records) = told(&scenario, TraceLevel::Full);
    for (kind, bytes_max, lines_max) in LINES {
        // Faults of the scenario have their own length limit.
        let own = of(&records, kind).filter(|record| record.n != "horn-test");
        let lengths = own.map(|record| record.to_line().unwrap().len());
        let lengths: Vec<usize> = lengths.collect();
        assert!(
            lengths.len() <= lines_max,
            "{kind}: {} lines",
            lengths.len()
        );
        // Numbers are longer in a larger run: slots, times and nodes by at most 40 digits in total.
        let longest = lengths.into_iter().max().unwrap_or(0);
        assert!(longest + 40 <= bytes_max, "{kind}: {longest} bytes");
    }
    let missed = of(&records, "broadcast").filter(|record| {
        matches!(
            record.event,
            Event::Broadcast {
                deliver_ns: None,
                ..
            }
        )
    });
    assert!(missed.count() > 0);
    // 2^20 validators in 32 committees of 64 cells, and as many cells as a layout can have.
    let slot_ns = 22_000_000_000;
    for (cells, slots) in [(8, 1), (2048, 1), (2048, 32), (65_536, 1), (65_536, 32)] {
        let times = 2 * slots * slot_ns / cells_ns(cells, slots * slot_ns);
        let bytes = times * (u64::from(cells) * 4 + 160 * u64::from(cells.div_ceil(8192)));
        assert!(
            bytes <= 4 << 20,
            "{cells} cells, {slots} slots: {bytes} bytes"
        );
    }
}

#[test]
fn of_more_cells_and_slots_than_lines_some_are_told() {
    let scenario = scenario(&[
        ("protocol.validators", "16384"),
        ("protocol.committees", "512"),
        ("protocol.subcommittees", "8"),
        ("protocol.aggregators", "1"),
        ("protocol.collectors", "1"),
        ("protocol.slots", "32"),
    ]);
    let Protocol::Horn(horn) = &scenario.protocol else {
        panic!("no slot");
    };
    let plan = Arc::new(Plan::new(&scenario, horn, CostTable::example(), 1).unwrap());
    let layout = plan.config.layout;
    let mut teller = Teller::new(plan.clone(), &scenario);
    let body = |slot: Slot, unit: Unit| EvidenceBody {
        slot,
        unit,
        sender: 0,
        support: Arc::new(Support::from_multiplicities(&[1]).unwrap()),
        signers: Bitfield::ones(1),
        votes: 1,
        parts: Arc::new([]),
        data: vec![0; 8].into(),
    };
    for slot in plan.followed() {
        for cell in layout.cells() {
            teller.aggregated(0, &body(slot, cell.into()), 1);
        }
        for committee in 0..layout.committees() {
            teller.published(0, &body(slot, Unit::new(2, committee, 0)));
        }
    }
    let records = teller.take();
    for (kind, _, lines_max) in &LINES[..2] {
        // More of each were published than are recorded.
        assert_eq!(of(&records, kind).count(), *lines_max, "{kind}");
    }
}

/// A session bounds work of the slot. A Horn node's work for broadcasts is not of that kind: it publishes, which is
/// a duty, and verifies and decodes, which are verdicts. Reed-Solomon shards are not recoded.
#[test]
fn jobs_of_broadcasts_open_no_session() {
    let more = [("protocol.slots", "2"), ("protocol.bundled", "false")];
    let scenario = coded::scenario_with(&[&coded::CODED[..], &more].concat());
    let (_, records) = told(&scenario, TraceLevel::Full);
    let sessions = of(&records, "session").filter_map(|record| match record.event {
        Event::Session { id, .. } => Some(id),
        _ => None,
    });
    let sessions: BTreeSet<u64> = sessions.collect();
    assert!(!sessions.is_empty(), "those of aggregates");
    for slot in [0, 1].map(Slot) {
        let seq = u32::MAX - 1;
        assert!(
            !sessions.contains(&SessionId { slot, seq }.number()),
            "{slot:?}"
        );
    }
}

#[test]
fn a_trace_is_the_same_on_any_threads() {
    let scenario = super::scenario_of(TEXT, &[("protocol.slots", "2")]);
    // Left out: the state of the chain is read whenever the observer is polled.
    let lines = |threads| {
        let (run, records) = told_on(threads, &scenario, TraceLevel::Full);
        let told = records
            .iter()
            .filter(|of| !matches!(of.event, Event::Finality { .. }));
        let mut lines: Vec<String> = told.map(|record| record.to_line().unwrap()).collect();
        lines.sort_unstable();
        (run.outcome.event_hash, lines)
    };
    let one = lines(1);
    assert!(one.1.len() > 500, "{} lines", one.1.len());
    assert!(one == lines(3));
}
