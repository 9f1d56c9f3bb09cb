use super::manifest::Manifest;
use super::*;

fn outcome(delivered: u64, missing: usize) -> Outcome {
    let node = |node| NodeRecord {
        node,
        role: "relay",
        bytes_up: 300,
        dup_bytes: 50,
        ..NodeRecord::default()
    };
    let mut delays_ns: Vec<Option<u64>> = (1..=delivered).map(|ms| Some(ms * 1_000_000)).collect();
    delays_ns.resize(delays_ns.len() + missing, None);
    Outcome {
        payload_bytes: 100,
        nodes: (0..100).map(node).collect(),
        delays_ns,
        useful_bytes: 9_900,
        series: vec![Bin {
            from_ns: 0,
            kind: "chunk",
            msgs: 3,
            bytes: 9,
        }],
        ..Outcome::default()
    }
}

#[test]
fn who_never_delivers_is_infinitely_late() {
    let all = outcome(100, 0).summary();
    let ms = |n: u64| Some(n * 1_000_000);
    assert_eq!(
        (all.t50_ns, all.t90_ns, all.t95_ns),
        (ms(50), ms(90), ms(95))
    );
    assert_eq!((all.t99_ns, all.t100_ns), (ms(99), ms(100)));
    let one = outcome(99, 1).summary();
    assert_eq!((one.t99_ns, one.t100_ns), (ms(99), None));
    let two = outcome(98, 2).summary();
    assert_eq!(
        (two.t95_ns, two.t99_ns, two.delivered_pct),
        (ms(95), None, 98.0)
    );
    assert_eq!(Outcome::default().summary().t50_ns, None);
}

#[test]
fn who_never_arrives_is_late() {
    let at = |times: &[Option<u64>], permille| Times::of(times.iter().copied()).at(permille);
    assert_eq!(at(&[Some(3), None, Some(1), Some(2)], 750), Some(3));
    assert_eq!(at(&[Some(3), None], 990), None);
    assert_eq!(at(&[], 500), None);
}

#[test]
fn sent_and_waste_are_in_payloads_a_node() {
    let summary = outcome(100, 0).summary();
    assert_eq!((summary.sent_ratio, summary.dup_ratio), (3.0, 0.5));
    assert!((summary.waste_ratio.unwrap() - 2.01).abs() < 1e-9);
    let mut slots = outcome(100, 0);
    slots.votes = Some(Votes {
        cast: 1,
        in_block: 1,
        two_thirds_ns: None,
        most_ns: None,
        slots: 3,
        connections: [40, 70],
    });
    let figures = slots.summary();
    assert_eq!(figures.waste_ratio, None);
    // Total bytes sent by a node, over three slots.
    let sent = slots.nodes.iter().map(|node| node.bytes_up).sum::<u64>() as f64;
    let votes = figures.votes.unwrap();
    assert_eq!((votes.connections_p50, votes.connections_max), (40, 70));
    let mb = votes.sent_mb;
    assert!((mb * 3.0 * 1e6 * slots.nodes.len() as f64 - sent).abs() < 1e-3);
}

#[test]
fn expectations_that_do_not_hold_are_named() {
    let expect = Expect {
        t50_ms_max: Some(50),
        t90_ms_max: Some(89),
        t99_ms_max: Some(500),
        sent_max: Some(2.9),
        delivered_pct_min: Some(99.0),
        ..Expect::default()
    };
    assert_eq!(
        outcome(98, 2).summary().failures(&expect),
        [
            "t90 = 90 ms, expected 89 ms",
            "t99 = none, expected 500 ms",
            "sent = 3.000, expected at most 2.9",
            "delivered = 98.000 %, expected 99 %",
        ]
    );
    assert!(
        outcome(98, 2)
            .summary()
            .failures(&Expect::default())
            .is_empty()
    );
}

#[test]
fn tables_have_as_many_cells_as_heads() {
    let outcome = outcome(3, 1);
    let cells = |line: &str| line.trim_end().split(',').count();
    assert_eq!(cells(&summary_row(&outcome)), cells(SUMMARY_HEAD));
    assert!(summary_row(&outcome).contains("2000000,none,none"));
    for table in [
        nodes(&outcome, &["full"], &["EU"]),
        cdf(&outcome),
        series(&outcome),
    ] {
        let mut lines = table.lines();
        let head = cells(lines.next().unwrap());
        assert!(
            lines.clone().count() > 0 && lines.all(|line| cells(line) == head),
            "{table}"
        );
    }
    assert!(cdf(&outcome).ends_with("3000000,3,4\n"));
    assert!(nodes(&outcome, &["full"], &["EU"]).contains("\n7,full,EU,relay,none,none,300,"));
}

#[test]
fn figures_are_the_summary_in_other_units() {
    let outcome = Outcome {
        delays_ns: vec![Some(1_500_000), Some(3_000_000), None],
        bounds: Bounds {
            lb1_ns: 500_000,
            ..Bounds::default()
        },
        event_hash: 0xab,
        ..Outcome::default()
    };
    let figures = outcome.summary();
    assert_eq!((figures.t50_ns, figures.t90_ns), (Some(3_000_000), None));
    assert_eq!(
        (figures.lb.lb1_ns, figures.event_hash.as_str()),
        (500_000, "00000000000000ab")
    );
    let json = serde_json::to_string(&Manifest {
        figures: Some(figures.clone()),
        ..Manifest::default()
    })
    .unwrap();
    for part in ["\"t50_ms\":3.0", "\"t90_ms\":null", "\"lb1_ms\":0.5"] {
        assert!(json.contains(part), "{json}");
    }
    let read: Manifest = serde_json::from_str(&json).unwrap();
    assert_eq!(read.figures, Some(figures));
}
