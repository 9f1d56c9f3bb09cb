//! Whether the host of a devnet had processors to spare. Duties missed on a host that had none say
//! little about the protocol.

use super::faults::Kind;
use crate::machine::{Load, cores};
use alphorn_node::telemetry::Summary;
use serde_json::{Map, Value, json};

/// Nodes whose 99th-percentile wake-up is later than this are waiting for a processor.
const WAKE_UP_MS: f64 = 20.0;
/// The share of the processors that other programs may use.
const OTHERS: f64 = 0.5;

/// Explains what made the host too slow for the nodes, if anything; `faults` are those injected into them.
pub(super) fn complaint(load: Load, nodes: &[Summary], faults: &[Kind]) -> Option<String> {
    let mut why = Vec::new();
    let cores = cores();
    if let Some(before) = load.at_start.filter(|before| *before > cores as f64) {
        why.push(format!(
            "load average {before:.1} on {cores} cores before the start"
        ));
    }
    if load.others > OTHERS {
        let percent = load.others * 100.0;
        why.push(format!(
            "other programs took {percent:.0} % of the processors"
        ));
    }
    // A node that was paused woke late because of that.
    let stood_still = |kind: &Kind| matches!(kind, Kind::Pause | Kind::Slow);
    let late = late_ms(nodes);
    if late > WAKE_UP_MS && !faults.iter().any(stood_still) {
        why.push(format!(
            "nodes woke {late:.0} ms late or more once in a hundred times"
        ));
    }
    if why.is_empty() {
        return None;
    }
    let why = why.join(", ");
    Some(format!(
        "The machine was overloaded ({why}), so this says little of the protocol. Try again with nothing \
         beside it, with fewer --validators, or with longer slots (--preset)."
    ))
}

/// Returns the fields for the report.
pub(super) fn fields(load: Load, nodes: &[Summary]) -> Map<String, Value> {
    let late_ms = json!(late_ms(nodes));
    [
        ("load".to_owned(), json!(load)),
        ("wake_up_lag_p99_ms".to_owned(), late_ms),
    ]
    .into_iter()
    .collect()
}

/// Returns the 99th-percentile wake-up delay of the worst node.
fn late_ms(nodes: &[Summary]) -> f64 {
    let late = nodes.iter().map(|node| node.probe_lag_ms.p99);
    late.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_node::telemetry::TimesMs;

    #[test]
    fn a_machine_without_processors_to_spare_is_named() {
        let node = |p99| Summary {
            probe_lag_ms: TimesMs {
                p99,
                ..TimesMs::default()
            },
            ..Summary::default()
        };
        let nodes = |p99| [node(1.0), node(p99)];
        let load = |at_start, others| Load {
            at_start: Some(at_start),
            others,
        };
        let quiet = load(0.3, 0.1);
        assert_eq!(complaint(quiet, &nodes(12.0), &[]), None);
        let busy = complaint(load(4e6, 0.1), &nodes(12.0), &[]).unwrap();
        assert!(busy.contains("load average 4000000.0 on"), "{busy}");
        assert!(!busy.contains("woke"), "{busy}");
        let others = complaint(load(0.3, 0.9), &nodes(12.0), &[]).unwrap();
        assert!(others.contains("took 90 %"), "{others}");
        let late = complaint(quiet, &nodes(85.0), &[Kind::Kill]).unwrap();
        assert!(late.contains("woke 85 ms late"), "{late}");
        assert_eq!(complaint(quiet, &nodes(85.0), &[Kind::Slow]), None);
        assert_eq!(fields(quiet, &nodes(7.0))["wake_up_lag_p99_ms"], 7.0);
    }
}
