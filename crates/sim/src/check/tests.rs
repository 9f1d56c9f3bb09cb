use super::*;
use crate::gossip::Gossip;
use crate::graph::Graph;
use crate::latency::Latency;
use crate::net::Rate;
use crate::role::flood::{Blob, Flood};
use crate::scenario;

type Mesh = Flood<Gossip<Blob>>;

const MS: u64 = 1_000_000;

fn told(ledger: &Ledger) -> Adversity {
    let nobody = std::iter::empty::<&Mesh>();
    ledger.blame().adversity(&[], nobody)
}

/// Four nodes, all connected, 10 ms apart, 8 Mbit/s: 1000 bytes take 1 ms. Node 3 is dishonest.
fn ledger() -> Ledger {
    let latency = scenario::Latency::Constant {
        ms: 10,
        jitter_pct: 0,
    };
    let rate = Rate {
        up_bps: 8_000_000,
        down_bps: 8_000_000,
    };
    let graph = Graph::stars(4, &[0, 1, 2]).unwrap();
    let latency = Latency::new(&latency, vec![0; 4]);
    let lower_bounds = vec![LowerBounds::of(&graph, &latency, &[rate; 4], 0, 1000)];
    let item = |published_ns| Item {
        source: 0,
        published_ns,
        bytes: 1000,
        lower_bounds: 0,
        equivocal: false,
    };
    let honest = vec![true, true, true, false];
    Ledger::new(vec![item(0), item(100 * MS)], lower_bounds, honest)
}

fn deliver(ledger: &mut Ledger, ms: u64, node: u32, item: u32, bytes: u64) -> Option<Violation> {
    Probe::<Mesh>::delivered(ledger, ms * MS, node, &Delivery { item, bytes });
    ledger.violation().cloned()
}

#[test]
fn deliveries_are_counted_and_late_ones_are_missing() {
    let mut ledger = ledger();
    ledger.end_after(50);
    let is_done = |ledger: &Ledger| Probe::<Mesh>::is_done(ledger);
    assert_eq!(deliver(&mut ledger, 11, 1, 0, 1000), None);
    assert_eq!(deliver(&mut ledger, 13, 3, 0, 1000), None);
    assert!(!is_done(&ledger));
    assert_eq!(deliver(&mut ledger, 120, 2, 1, 1000), None);
    assert!(is_done(&ledger));
    let delays = [Some(11 * MS), None, None, Some(20 * MS)];
    assert_eq!(ledger.delays_ns(), delays);
    assert_eq!((ledger.deliveries(), ledger.useful_bytes()), (3, 3000));
    assert_eq!(
        (ledger.last_delay_ns(2), ledger.last_delay_ns(1)),
        (Some(20 * MS), None)
    );
    // A delivery after the last payload is not the last one.
    assert_eq!(deliver(&mut ledger, 130, 2, 0, 1000), None);
    assert_eq!(ledger.last_delay_ns(2), Some(20 * MS));
}

#[test]
fn nobody_is_faster_than_light() {
    let fast = deliver(&mut ledger(), 10, 1, 0, 1000);
    let (value_ns, min_ns) = (10 * MS, 11 * MS);
    assert_eq!(
        fast,
        Some(Violation::Fast {
            node: 1,
            item: 0,
            value_ns,
            min_ns
        })
    );
}

#[test]
fn what_was_not_published_is_not_delivered() {
    let foreign = |item, bytes, ms| deliver(&mut ledger(), ms, 1, item, bytes);
    for (item, bytes, ms) in [(2, 1000, 500), (0, 999, 500), (1, 1000, 99)] {
        let node = 1;
        assert_eq!(
            foreign(item, bytes, ms),
            Some(Violation::Foreign { node, item, bytes })
        );
    }
    let mut ledger = ledger();
    assert_eq!(deliver(&mut ledger, 50, 1, 0, 1000), None);
    let twice = deliver(&mut ledger, 51, 1, 0, 1000);
    assert_eq!(twice, Some(Violation::Twice { node: 1, item: 0 }));
    assert!(Probe::<Mesh>::is_done(&ledger));
}

#[test]
fn honest_nodes_have_no_proof_against_honest_ones() {
    let mut ledger = ledger();
    for (node, about, reason) in [
        (1, 3, "invalid"),
        (3, 1, "invalid"),
        (1, 2, "broken_promise"),
    ] {
        Probe::<Mesh>::reported(&mut ledger, 0, node, about, reason);
        assert_eq!(ledger.violation(), None);
    }
    Probe::<Mesh>::reported(&mut ledger, 0, 1, 2, "invalid");
    let accused = Violation::Accused {
        node: 1,
        about: 2,
        reason: "invalid",
    };
    assert_eq!(ledger.violation(), Some(&accused));
    // Reports of the cheating node are not counted.
    let told = told(&ledger);
    let expected = [("broken_promise", 1), ("invalid", 2)];
    assert_eq!(
        told.reports,
        expected.map(|(of, n)| (of.to_owned(), n)).into()
    );
    assert_eq!((told.accused, told.evidence), (1, 0));
}

#[test]
fn either_of_two_payloads_is_a_delivery_and_both_are_evidence() {
    let mut ledger = ledger();
    ledger.items[0].equivocal = true;
    // The first payload of the duty has number 0, the second one 2.
    for (ms, node, item) in [(11, 1, 0), (12, 1, 2), (11, 2, 2), (13, 3, 2), (14, 3, 0)] {
        assert_eq!(deliver(&mut ledger, ms, node, item, 1000), None);
    }
    assert_eq!(ledger.delays_ns()[..2], [Some(11 * MS), Some(11 * MS)]);
    // Node 3 is dishonest.
    assert_eq!((ledger.deliveries(), told(&ledger).evidence), (3, 1));
    let twice = Violation::Twice { node: 2, item: 0 };
    assert_eq!(deliver(&mut ledger, 15, 2, 2, 1000), Some(twice));
}

#[test]
fn who_has_forgotten_may_deliver_again() {
    let mut ledger = ledger();
    assert_eq!(deliver(&mut ledger, 11, 1, 0, 1000), None);
    Probe::<Mesh>::restarted(&mut ledger, 20 * MS, 1);
    assert_eq!(deliver(&mut ledger, 30, 1, 0, 1000), None);
    assert_eq!(
        (ledger.deliveries(), ledger.delays_ns()[0]),
        (1, Some(11 * MS))
    );
}
