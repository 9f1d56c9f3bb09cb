//! Whether a devnet did what it should.

use super::{Plan, end};
use crate::error::Result;
use crate::report::table;
use alphorn_node::summary::Summary;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Slots by which finality may lie behind.
const FINALITY_SLOTS: u64 = 3;

/// Figures over all nodes.
pub(super) struct Verdict {
    nodes: Vec<Vec<String>>,
    missed: u64,
    /// Judged slots that a node did not judge.
    unjudged: u64,
    coverage_min: f64,
    coverage_mean: f64,
    two_thirds_p50_ms: f64,
    two_thirds_max_ms: f64,
    finalised_min: u64,
    finalised_wanted: u64,
    /// Different finalised blocks of the least slot that any node finalised.
    disagreement: bool,
    slots: u64,
}

impl Verdict {
    pub(super) fn new(plan: &Plan, summaries: &[Summary]) -> Self {
        let judged = plan.warmup..plan.warmup + plan.slots;
        let missed = |summary: &Summary| -> u64 {
            judged
                .clone()
                .filter_map(|slot| summary.missed.get(&slot))
                .sum()
        };
        let unjudged = |summary: &Summary| {
            judged
                .clone()
                .filter(|slot| !summary.missed.contains_key(slot))
                .count() as u64
        };
        let shares: Vec<f64> = summaries
            .iter()
            .flat_map(|summary| {
                let credited = judged
                    .clone()
                    .filter_map(|slot| summary.credited.get(&slot));
                credited.map(|count| *count as f64 / f64::from(summary.validators.max(1)))
            })
            .collect();
        let mut two_thirds: Vec<f64> = summaries
            .iter()
            .flat_map(|summary| {
                summary
                    .two_thirds_ms
                    .range(judged.clone())
                    .map(|(_, ms)| *ms)
            })
            .collect();
        two_thirds.sort_by(f64::total_cmp);
        let finalised: BTreeSet<(u64, &str)> = summaries
            .iter()
            .map(|summary| (summary.finalised_slot, summary.finalised.as_str()))
            .collect();
        let slots: BTreeSet<u64> = finalised.iter().map(|(slot, _)| *slot).collect();
        Verdict {
            nodes: summaries
                .iter()
                .map(|summary| row(summary, missed(summary)))
                .collect(),
            missed: summaries.iter().map(missed).sum(),
            unjudged: summaries.iter().map(unjudged).sum(),
            coverage_min: shares.iter().copied().fold(1.0, f64::min),
            coverage_mean: shares.iter().sum::<f64>() / (shares.len().max(1)) as f64,
            two_thirds_p50_ms: two_thirds.get(two_thirds.len() / 2).copied().unwrap_or(0.0),
            two_thirds_max_ms: two_thirds.last().copied().unwrap_or(0.0),
            finalised_min: summaries
                .iter()
                .map(|s| s.finalised_slot)
                .min()
                .unwrap_or(0),
            finalised_wanted: judged.end.saturating_sub(FINALITY_SLOTS),
            disagreement: finalised.len() > slots.len(),
            slots: plan.slots,
        }
    }

    pub(super) fn table(&self) -> String {
        let header = [
            "node",
            "done / late / missed",
            "missed, judged",
            "phase lag p50 / p99.9 / max ms",
            "aggregate p50 / p95 / max ms",
            "late",
            "salvaged",
            "prove busy s",
            "link MB in / out",
        ];
        let table = table(&header, &self.nodes);
        let verdict = match self.failure(0) {
            None => "PASS".to_owned(),
            Some((_, why)) => format!("FAIL: {why}"),
        };
        format!(
            "{table}\n{} slots, coverage {:.2} % (least {:.2} %), two thirds after {:.0} ms \
             (median; most {:.0} ms), finalised {} (wanted {})\n{verdict}",
            self.slots,
            self.coverage_mean * 100.0,
            self.coverage_min * 100.0,
            self.two_thirds_p50_ms,
            self.two_thirds_max_ms,
            self.finalised_min,
            self.finalised_wanted,
        )
    }

    fn failure(&self, allow_missed: u64) -> Option<(u8, String)> {
        if self.disagreement {
            return Some((5, "nodes disagree on a finalised block".into()));
        }
        if self.missed > allow_missed {
            return Some((1, format!("{} duties missed", self.missed)));
        }
        if self.unjudged > 0 {
            return Some((1, format!("{} slots were not judged", self.unjudged)));
        }
        if self.finalised_min < self.finalised_wanted {
            let (at, wanted) = (self.finalised_min, self.finalised_wanted);
            return Some((5, format!("finality stands at slot {at}, wanted {wanted}")));
        }
        None
    }

    /// Exit code 1 for missed duties, 5 for finality.
    pub(super) fn check(&self, allow_missed: u64) -> Result<()> {
        match self.failure(allow_missed) {
            None => Ok(()),
            Some((1, why)) => Err(crate::error::Error::Check(why)),
            Some((code, why)) => Err(end(code, why)),
        }
    }

    pub(super) fn fields(&self, summaries: &[Summary]) -> Map<String, Value> {
        let value = json!({
            "missed": self.missed,
            "unjudged": self.unjudged,
            "coverage_min": self.coverage_min,
            "coverage_mean": self.coverage_mean,
            "time_to_two_thirds_ms": {"p50": self.two_thirds_p50_ms, "max": self.two_thirds_max_ms},
            "finalised_min": self.finalised_min,
            "finalised_wanted": self.finalised_wanted,
            "agreement": !self.disagreement,
            "nodes": summaries,
        });
        match value {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }
}

fn row(summary: &Summary, missed: u64) -> Vec<String> {
    let sum = |count: fn(&alphorn_node::summary::DutyCounts) -> u64| -> u64 {
        summary.duties.values().map(count).sum()
    };
    let lag = summary.phase_lag_ms;
    let aggregate = summary.jobs.get("aggregate").copied().unwrap_or_default();
    let late: u64 = summary.jobs.values().map(|jobs| jobs.late).sum();
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    vec![
        summary.name.clone(),
        format!(
            "{} / {} / {}",
            sum(|d| d.done),
            sum(|d| d.late),
            sum(|d| d.missed)
        ),
        missed.to_string(),
        format!("{:.1} / {:.1} / {:.1}", lag.p50, lag.p999, lag.max),
        format!(
            "{:.1} / {:.1} / {:.1}",
            aggregate.run_ms.p50, aggregate.run_ms.p95, aggregate.run_ms.max
        ),
        late.to_string(),
        summary.salvaged.to_string(),
        summary
            .lanes_busy_s
            .get(1)
            .map_or_else(String::new, |s| format!("{s:.1}")),
        format!(
            "{:.2} / {:.2}",
            megabytes(summary.link_bytes[0]),
            megabytes(summary.link_bytes[1])
        ),
    ]
}
