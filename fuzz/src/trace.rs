//! Target of the trace format of `alphorn-types`.

use alphorn_types::trace::{Event, Percents, Record, Ring, RingLimits, TraceReader};

/// Small enough that an input with some lines fills it.
const LIMITS: RingLimits = RingLimits {
    high_lines_max: 3,
    high_bytes_max: 1 << 12,
    low_lines_max: 2,
    low_bytes_max: 1 << 12,
    snapshot_high_max: 2,
};

/// Reads lines of a trace: each record that is accepted means the same when it is written again,
/// and a ring of them accounts for every line.
///
/// # Panics
///
/// If a record changes on its way, or the ring loses count.
pub fn trace_line(data: &[u8]) -> bool {
    let mut ring = Ring::new(1, LIMITS);
    let mut reader = TraceReader::new(data);
    while let Some(record) = reader.next() {
        assert!(reader.line().len() <= data.len());
        let Ok(record) = record else {
            continue;
        };
        // A line that omits what is optional grows when it is written, and may then be too long.
        if let Ok(line) = record.to_line() {
            let again = Record::from_line(&line).expect("a written line is read");
            assert_eq!(again, record);
            ring.push(&record).expect("a line that was written");
        }
    }
    let batch = ring.after(0, usize::MAX);
    assert_eq!(batch.dropped + batch.lines.len() as u64, ring.newest());
    assert_eq!(ring.snapshot().position, ring.newest());
    ring.newest() > 0
}

/// Lines of kinds with lists, options and numbers with signs.
pub(crate) fn trace_line_seeds() -> Vec<Vec<u8>> {
    let percents = || Percents::new(vec![0, 50, 100]);
    let events = [
        Event::Genesis {
            scheme: "model".into(),
            validators: 64,
            committees: 2,
            subs: 2,
            slot_ms: 4_000,
            offsets_ms: vec![0, 800, 1_600],
        },
        Event::Cells {
            slot: 1,
            from: 3,
            seen: percents(),
            aggregated: percents(),
            collected: percents(),
        },
        Event::Finality {
            head: 3,
            justified: 2,
            finalised: 1,
            two_thirds_ms: Some(700),
            two_thirds_slot: Some(4),
        },
        Event::Output {
            event: 9,
            what: "send".into(),
            to: vec![1, 2],
            kind: "vote".into(),
            amount: 20,
        },
        Event::Fault {
            kind: "disk".into(),
            detail: "\"full\"\n\u{1f4a5}".into(),
        },
    ];
    let lines = events.map(|event| {
        let record = Record {
            t: -5,
            n: "a".into(),
            event,
        };
        record.to_line().expect("a legal record").into_bytes()
    });
    let mut seeds = lines.to_vec();
    seeds.push(lines.concat());
    seeds
}
