//! A run as lines of the trace format that the dashboard reads.

use super::Outcome;
use crate::scenario::{Protocol, Scenario, TraceLevel};
use crate::world::{node_name, signed};
use alphorn_types::trace::{Event, Record};

/// Kind of a broadcast with filler content (`broadcast` records).
const FILLER: u8 = 3;

/// The records of a run in order of time: the scenario, its faults, and what each node received; with
/// [`TraceLevel::Full`] also the bytes that each node received and sent. Empty with [`TraceLevel::None`],
/// and for slots of Horn, which are traced while they run.
///
/// Times are nanoseconds from the start of the run. A node's line carries the time at which it had the
/// last payload, or the latest time of all if it never had it. With several payloads, that time counts
/// from the publication of the last one, whereas the arrival of a first part is known for the earliest
/// ones.
pub fn records(scenario: &Scenario, outcome: &Outcome) -> Vec<Record> {
    let level = scenario.output.trace;
    if level == TraceLevel::None || matches!(scenario.protocol, Protocol::Horn(_)) {
        return Vec::new();
    }
    let last_ns = u64::from(scenario.traffic.count.saturating_sub(1))
        .saturating_mul(scenario.traffic.interval_ms)
        .saturating_mul(1_000_000);
    let is_one = scenario.traffic.count <= 1;
    let end_ns = outcome.nodes.iter().filter_map(|node| node.done_ns).max();
    let id = format!("{:016x}", outcome.seed);
    let mut records = vec![genesis(scenario)];
    let faults = faults(scenario).map(|(from_ms, event)| Record {
        t: signed(from_ms.saturating_mul(1_000_000)),
        n: scenario.name.clone().into(),
        event,
    });
    records.extend(faults);
    for node in &outcome.nodes {
        let done_ns = node.done_ns.map(|ns| signed(last_ns.saturating_add(ns)));
        let end_ns = signed(last_ns.saturating_add(end_ns.unwrap_or(0)));
        let record = |t, event| Record {
            t,
            n: node_name(node.node).into(),
            event,
        };
        let received = Event::Broadcast {
            id: id.clone(),
            kind: FILLER,
            slot: 0,
            header_ns: (!is_one).then(|| signed(last_ns)),
            first_ns: node.first_ns.filter(|_| is_one).map(signed),
            done_ns,
            deliver_ns: done_ns,
            bytes: node.bytes_down,
            dependent: 0,
            invalid: 0,
        };
        records.push(record(done_ns.unwrap_or(end_ns), received));
        if level == TraceLevel::Full {
            let bytes = Event::Bytes {
                topic_kind: "all".into(),
                received: node.bytes_down,
                sent: node.bytes_up,
            };
            records.push(record(end_ns, bytes));
        }
    }
    // The sort is stable: records of equal time keep the order of nodes.
    records.sort_by_key(|record| record.t);
    records
}

fn genesis(scenario: &Scenario) -> Record {
    // Without a cost table no scheme is run.
    let scheme = scenario.costs().ok().flatten();
    let scheme = scheme.map_or_else(|| "model".to_owned(), |table| table.scheme);
    Record {
        t: 0,
        n: scenario.name.clone().into(),
        event: Event::Genesis {
            scheme: scheme.into(),
            validators: 0,
            committees: 0,
            subs: 0,
            slot_ms: scenario.traffic.interval_ms,
            offsets_ms: Vec::new(),
        },
    }
}

/// The faults, with their start times in milliseconds.
pub(crate) fn faults(scenario: &Scenario) -> impl Iterator<Item = (u64, Event)> + '_ {
    scenario.fault.iter().map(|fault| {
        let event = Event::Fault {
            kind: fault.kind.name().into(),
            detail: serde_json::to_string(fault).unwrap_or_default(),
        };
        (fault.from_ms, event)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::NodeRecord;

    fn scenario(level: &str) -> Scenario {
        let text = "name = \"t\"\nschema = 1\n[sim]\nnodes = 3\n[[class]]\nname = \"full\"\nshare_pct = 100\n\
                    down_mbps = 50\nup_mbps = 15\n[protocol]\nkind = \"gossip\"\n[graph]\nkind = \"complete\"\n\
                    [[fault]]\nkind = \"slow_cpu\"\nshare_pct = 50\nfactor_pct = 200\nfrom_ms = 1\nuntil_ms = 2\n";
        let text = format!("{text}[output]\ntrace = \"{level}\"\n");
        Scenario::parse(&text, &[]).unwrap()
    }

    #[test]
    fn lines_are_in_order_and_are_read_again() {
        let node = |node, done_ns| NodeRecord {
            node,
            done_ns,
            bytes_down: 10,
            ..NodeRecord::default()
        };
        let outcome = Outcome {
            nodes: vec![node(0, Some(9_000_000)), node(1, None), node(2, Some(500))],
            ..Outcome::default()
        };
        assert!(records(&scenario("none"), &outcome).is_empty());
        let summary = records(&scenario("summary"), &outcome);
        assert!(summary.is_sorted_by_key(|record| record.t));
        let names: Vec<&str> = summary.iter().map(|record| record.n.as_ref()).collect();
        assert_eq!(names, ["t", "node-2", "t", "node-0", "node-1"]);
        assert!(matches!(&summary[2].event, Event::Fault { kind, .. } if kind == "slow_cpu"));
        for record in &summary {
            let line = record.to_line().unwrap();
            assert_eq!(&Record::from_line(&line).unwrap(), record);
        }
        assert_eq!(
            records(&scenario("full"), &outcome).len(),
            summary.len() + 3
        );
    }

    #[test]
    fn several_payloads_are_timed_from_the_last_one() {
        let outcome = Outcome {
            nodes: vec![NodeRecord {
                first_ns: Some(3),
                done_ns: Some(5),
                ..NodeRecord::default()
            }],
            ..Outcome::default()
        };
        let times = |count: u32| {
            let mut scenario = scenario("summary");
            (scenario.traffic.count, scenario.traffic.interval_ms) = (count, 2000);
            let records = records(&scenario, &outcome);
            records.iter().find_map(|record| match record.event {
                Event::Broadcast {
                    header_ns,
                    first_ns,
                    deliver_ns,
                    ..
                } => Some((header_ns, first_ns, deliver_ns)),
                _ => None,
            })
        };
        assert_eq!(times(1), Some((None, Some(3), Some(5))));
        let last = 4_000_000_000;
        assert_eq!(times(3), Some((Some(last), None, Some(last + 5))));
    }
}
