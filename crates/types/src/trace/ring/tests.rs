use super::{Batch, Ring, RingLimits};
use crate::trace::{Event, Percents, Record};
use proptest::prelude::*;

const LIMITS: RingLimits = RingLimits {
    high_lines_max: 8,
    high_bytes_max: 4_096,
    low_lines_max: 4,
    low_bytes_max: 2_048,
    snapshot_high_max: 3,
};

fn record(event: Event) -> Record {
    Record {
        t: 0,
        n: "a".into(),
        event,
    }
}

fn low(detail: usize) -> Record {
    record(Event::Fault {
        kind: "test".into(),
        detail: "x".repeat(detail),
    })
}

fn high() -> Record {
    record(Event::Bytes {
        topic_kind: "vote".into(),
        received: 1,
        sent: 2,
    })
}

fn genesis() -> Record {
    record(Event::Genesis {
        scheme: "model".into(),
        validators: 8,
        committees: 1,
        subs: 2,
        slot_ms: 4_000,
        offsets_ms: vec![0, 800],
    })
}

fn cells(from: u32) -> Record {
    let percents = Percents::new(vec![50]);
    record(Event::Cells {
        slot: 1,
        from,
        seen: percents.clone(),
        aggregated: percents.clone(),
        collected: percents,
    })
}

fn positions(batch: &Batch) -> Vec<u64> {
    batch.lines.iter().map(|line| line.position).collect()
}

fn filled(records: &[Record]) -> Ring {
    let mut ring = Ring::new(7, LIMITS);
    for record in records {
        ring.push(record).unwrap();
    }
    ring
}

#[test]
fn readers_get_what_follows_in_order() {
    let ring = filled(&[genesis(), high(), low(1), high(), high()]);
    assert_eq!(ring.newest(), 5);
    let first = ring.after(0, 3);
    assert_eq!(positions(&first), [1, 2, 3]);
    assert_eq!((first.dropped, first.position), (0, 3));
    let rest = ring.after(first.position, 3);
    assert_eq!((positions(&rest), rest.position), (vec![4, 5], 5));
    assert_eq!(
        ring.after(5, 3),
        Batch {
            position: 5,
            ..Batch::default()
        }
    );
    assert_eq!(ring.after(u64::MAX, 3).position, 5);
    assert_eq!(first.lines[0].kind, "genesis");
    assert!(!first.lines[0].json.ends_with('\n'));
}

#[test]
fn many_lines_of_the_high_rate_leave_those_of_the_low_rate() {
    let mut records = vec![genesis(), low(1)];
    records.extend(std::iter::repeat_n(high(), 100));
    let ring = filled(&records);
    let batch = ring.after(0, 1_000);
    assert_eq!(positions(&batch)[..3], [1, 2, 95]);
    assert_eq!((batch.lines.len(), batch.dropped), (10, 92));
    // A reader in the middle of the gap is informed of its own share of it.
    assert_eq!(ring.after(50, 1_000).dropped, 44);
}

#[test]
fn bytes_are_bounded_as_lines_are() {
    let ring = filled(&[low(900), low(900), low(900)]);
    assert_eq!(positions(&ring.after(0, 10)), [2, 3]);
    // A line larger than the total bound is counted and dropped.
    let ring = filled(&[low(3_000)]);
    let batch = ring.after(0, 10);
    assert_eq!(
        (batch.lines.len(), batch.dropped, batch.position),
        (0, 1, 1)
    );
}

#[test]
fn a_snapshot_has_genesis_and_cells_however_old() {
    let mut records = vec![genesis(), cells(0), cells(1), cells(0)];
    records.extend(std::iter::repeat_n(low(1), 6));
    records.extend(std::iter::repeat_n(high(), 20));
    let ring = filled(&records);
    let snapshot = ring.snapshot();
    assert_eq!(positions(&snapshot), [1, 3, 4, 7, 8, 9, 10, 28, 29, 30]);
    assert_eq!(snapshot.position, 30);
    assert!(ring.after(snapshot.position, 10).lines.is_empty());
}

#[test]
fn cells_from_anywhere_do_not_grow_the_ring() {
    let records: Vec<Record> = (0..100).map(cells).collect();
    assert_eq!(filled(&records).cells.len(), LIMITS.low_lines_max);
}

#[test]
fn refused_records_leave_no_trace() {
    let mut ring = filled(&[high()]);
    assert!(ring.push(&low(100_000)).is_err());
    assert_eq!((ring.newest(), ring.instance()), (1, 7));
}

proptest! {
    #[test]
    fn positions_dropped_and_lines_always_add_up(
        kinds in proptest::collection::vec(0_u8..4, 0..60),
        reads in proptest::collection::vec((0_u64..70, 1_usize..12), 1..10),
    ) {
        let records: Vec<Record> = kinds
            .iter()
            .map(|kind| match kind {
                0 => low(10),
                1 => cells(3),
                2 => genesis(),
                _ => high(),
            })
            .collect();
        let ring = filled(&records);
        for (position, lines_max) in reads {
            let batch = ring.after(position, lines_max);
            let from = position.min(ring.newest());
            prop_assert_eq!(from + batch.dropped + batch.lines.len() as u64, batch.position);
            prop_assert!(batch.lines.len() <= lines_max);
            prop_assert!(positions(&batch).is_sorted_by(|a, b| a < b));
        }
        prop_assert!(positions(&ring.snapshot()).is_sorted_by(|a, b| a < b));
    }
}
