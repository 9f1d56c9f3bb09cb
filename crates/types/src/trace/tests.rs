use proptest::prelude::*;

use super::{CELLS_PER_LINE_MAX, Event, LINE_BYTES_MAX, Percents, Record, TraceError, TraceReader};

fn record(event: Event) -> Record {
    Record {
        t: -5,
        n: "node-0".into(),
        event,
    }
}

fn samples() -> Vec<Record> {
    let percents = |value| Percents::new(vec![value; 3]);
    [
        Event::Genesis {
            scheme: "bls".into(),
            validators: 1 << 20,
            committees: 32,
            subs: 64,
            slot_ms: 32_000,
            offsets_ms: vec![0, 4_000, 8_000, 12_000, 22_000],
        },
        Event::Slot {
            slot: 7,
            proposer: 9,
            root: "00ff".into(),
        },
        Event::Phase {
            slot: 7,
            phase: "vote".into(),
            lag_us: 12,
        },
        Event::Cells {
            slot: 7,
            from: 0,
            seen: percents(100),
            aggregated: percents(50),
            collected: percents(0),
        },
        Event::Aggregate {
            slot: 7,
            c: 1,
            s: 2,
            votes: 511,
            ms: 3,
            late: false,
        },
        Event::Collection {
            slot: 7,
            c: 1,
            votes: 32_000,
            bytes: 900,
        },
        Event::Job {
            id: 1,
            kind: "verify_votes".into(),
            inputs: 512,
            t_submit: 1,
            t_start: 2,
            t_end: 3,
            predicted_ms: 4,
            outcome: "done".into(),
            lane: 0,
        },
        Event::Session {
            id: 1,
            open: 1,
            soft: 2,
            hard: 3,
        },
        Event::Bytes {
            topic_kind: "votes".into(),
            received: 10,
            sent: u64::MAX,
        },
        Event::Peer {
            short: "12D3".into(),
            event: "connected".into(),
            score: -3,
        },
        Event::Finality {
            head: 7,
            justified: 1,
            finalised: 0,
            two_thirds_ms: None,
            two_thirds_slot: None,
        },
        Event::Fault {
            kind: "disk".into(),
            detail: "full".into(),
        },
        Event::Input {
            event: 9,
            what: "message".into(),
            from: Some(3),
            kind: "piece".into(),
            bytes: 5000,
        },
        Event::Output {
            event: 9,
            what: "send".into(),
            to: vec![1, 2],
            kind: "rank".into(),
            amount: 20,
        },
        Event::Broadcast {
            id: "ab".into(),
            kind: 2,
            slot: 7,
            header_ns: Some(-1),
            first_ns: Some(2),
            done_ns: None,
            deliver_ns: None,
            bytes: 70_000,
            dependent: 1,
            invalid: 0,
        },
    ]
    .map(record)
    .to_vec()
}

#[test]
fn every_kind_round_trips_as_a_line() {
    let samples = samples();
    let mut text = String::new();
    for sample in &samples {
        let line = sample.to_line().unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(&Record::from_line(&line).unwrap(), sample);
        text.push_str(&line);
        text.push('\n');
    }
    let read: Vec<Record> = TraceReader::new(text.as_bytes())
        .map(Result::unwrap)
        .collect();
    assert_eq!(read, samples);
}

#[test]
fn lines_look_as_the_page_expects_them() {
    let lines: Vec<String> = samples().iter().map(|r| r.to_line().unwrap()).collect();
    assert_eq!(
        lines[1],
        "{\"t\":-5,\"n\":\"node-0\",\"k\":\"slot\",\"slot\":7,\"proposer\":9,\"root\":\"00ff\"}\n"
    );
    assert!(lines[3].contains(r#""k":"cells","slot":7,"from":0,"seen":"ZGRk""#));
    assert!(lines[8].contains(r#""topic_kind":"votes","in":10,"out":18446744073709551615"#));
}

#[test]
fn the_largest_cells_line_fits() {
    let percents = Percents::new(vec![100; CELLS_PER_LINE_MAX]);
    let line = record(Event::Cells {
        slot: u64::MAX,
        from: (1 << 16) - CELLS_PER_LINE_MAX as u32,
        seen: percents.clone(),
        aggregated: percents.clone(),
        collected: percents,
    })
    .to_line()
    .unwrap();
    assert!(line.len() < LINE_BYTES_MAX, "{} bytes", line.len());
}

#[test]
fn long_lines_are_refused_unparsed() {
    let fault = record(Event::Fault {
        kind: "long".into(),
        detail: "x".repeat(LINE_BYTES_MAX),
    });
    assert!(matches!(fault.to_line(), Err(TraceError::TooLong { .. })));
    let long = "[".repeat(LINE_BYTES_MAX + 1);
    let too_long = |result| matches!(result, Err(TraceError::TooLong { .. }));
    assert!(too_long(Record::from_line(&long)));
    let mut reader = TraceReader::new(long.as_bytes());
    assert!(reader.next().is_some_and(too_long));
    assert!(reader.next().is_none());
}

#[test]
fn bad_lines_are_errors_and_the_next_one_is_read() {
    let good = samples()[1].to_line().unwrap();
    let deep = "[".repeat(1_000);
    for bad in [
        "{}",
        "nonsense",
        r#"{"t":0,"n":"a","k":"unknown"}"#,
        r#"{"t":0,"n":"a","k":"slot","slot":-1,"proposer":0,"root":""}"#,
        r#"{"t":0.5,"n":"a","k":"session","id":0,"open":0,"soft":0,"hard":0}"#,
        &deep,
        "\"\\ud800\"",
    ] {
        assert!(Record::from_line(bad).is_err(), "{bad}");
        let text = format!("{bad}\n{good}");
        let results: Vec<_> = TraceReader::new(text.as_bytes()).collect();
        assert_eq!(results.len(), 2);
        assert!(results[0].is_err() && results[1].is_ok());
    }
    let mut reader = TraceReader::new(&b"\xff\xfe\n"[..]);
    assert!(matches!(reader.next(), Some(Err(TraceError::Json(_)))));
    let extra = r#"{"t":0,"n":"a","k":"fault","kind":"disk","detail":"","more":[1]}"#;
    assert!(Record::from_line(extra).is_ok());
}

#[test]
fn fields_that_do_not_agree_are_refused_both_ways() {
    let percents = |count| Percents::new(vec![1; count]);
    let cells = |from, seen, collected| Event::Cells {
        slot: 1,
        from,
        seen: percents(seen),
        aggregated: percents(seen),
        collected: percents(collected),
    };
    let genesis = |committees, subs, offsets_ms: &[u64]| Event::Genesis {
        scheme: "model".into(),
        validators: 1,
        committees,
        subs,
        slot_ms: 4_000,
        offsets_ms: offsets_ms.to_vec(),
    };
    let session = |soft, hard| Event::Session {
        id: 1,
        open: 5,
        soft,
        hard,
    };
    let legal = [
        cells(65_533, 3, 3),
        genesis(512, 128, &[0, 0, 4_000]),
        genesis(0, 0, &[]),
        session(5, 5),
    ];
    for event in legal {
        let line = record(event).to_line().unwrap();
        assert!(Record::from_line(&line).is_ok(), "{line}");
    }
    let refused = [
        cells(65_534, 3, 3),
        cells(0, 3, 2),
        genesis(2_049, 1, &[]),
        genesis(1, 257, &[]),
        genesis(512, 129, &[]),
        genesis(1, 1, &[800, 0]),
        genesis(1, 1, &[0, 4_001]),
        genesis(1, 1, &[0; 17]),
        session(4, 9),
        session(9, 8),
        Event::Aggregate {
            slot: 1,
            c: 2_048,
            s: 0,
            votes: 1,
            ms: 1,
            late: false,
        },
        Event::Collection {
            slot: 1,
            c: 2_048,
            votes: 1,
            bytes: 1,
        },
        Event::Job {
            id: 1,
            kind: "aggregate".into(),
            inputs: 1,
            t_submit: 3,
            t_start: 2,
            t_end: 4,
            predicted_ms: 1,
            outcome: "done".into(),
            lane: 0,
        },
    ];
    for event in refused {
        let record = record(event);
        assert!(
            matches!(record.to_line(), Err(TraceError::Field { .. })),
            "{record:?}"
        );
        let line = serde_json::to_string(&record).unwrap();
        assert!(
            matches!(Record::from_line(&line), Err(TraceError::Field { .. })),
            "{line}"
        );
    }
    let error = record(session(4, 9)).to_line().unwrap_err();
    assert_eq!(
        error.to_string(),
        "trace line: `soft` is 4, must be 5 or later"
    );
}

#[test]
fn kinds_are_named_as_they_are_written() {
    for sample in samples() {
        let kind = format!("\"k\":\"{}\"", sample.event.kind());
        assert!(sample.to_line().unwrap().contains(&kind));
    }
}

#[test]
fn readers_count_lines_from_one() {
    let good = samples()[1].to_line().unwrap();
    let text = format!("{good}\n{{}}\n{good}");
    let mut reader = TraceReader::new(text.as_bytes());
    let mut numbers = Vec::new();
    while let Some(result) = reader.next() {
        numbers.push((reader.line_number(), result.is_ok()));
        let is_good = reader.line() == good.trim_end().as_bytes();
        assert_eq!(is_good, result.is_ok());
    }
    assert_eq!(numbers, [(1, true), (3, false), (4, true)]);
}

proptest! {
    /// Lines of all kinds with some bytes replaced, added or removed.
    #[test]
    fn broken_lines_are_refused_or_mean_what_is_written_again(
        kind in 0_usize..15,
        edits in proptest::collection::vec((0_usize..400, 0_usize..3, any::<u8>()), 0..6),
    ) {
        let mut line = samples()[kind].to_line().unwrap().into_bytes();
        for (place, what, byte) in edits {
            let place = place % line.len();
            match what {
                0 => line[place] = byte,
                1 => line.insert(place, byte % 0x60 + 0x20),
                _ => drop(line.drain(place..(place + usize::from(byte % 8)).min(line.len() - 1))),
            }
        }
        for record in TraceReader::new(&line[..]).flatten() {
            prop_assert_eq!(Record::from_line(&record.to_line().unwrap()).unwrap(), record);
        }
    }
}
