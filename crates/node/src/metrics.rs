//! A summary as Prometheus reads it. Where the ecosystem has a name for a figure (leanMetrics), it
//! has that name here; all others begin with `alphorn_`.
//!
//! No label carries a peer, a validator or a root, so the number of series is bounded by the kinds
//! of things that a node does.

use crate::lanes::Troubles;
use crate::summary::{Summary, TimesMs};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::atomic::AtomicU64;

/// The content type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, String)>;

/// The registry of one scrape.
struct Page(Registry);

impl Page {
    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        let gauge = Gauge::<f64, AtomicU64>::default();
        gauge.set(value);
        self.0.register(name, help, gauge);
    }

    /// A counter; the text adds `_total` to its name.
    fn counter(&mut self, name: &str, help: &str, value: u64) {
        let counter = Counter::<u64>::default();
        counter.inc_by(value);
        self.0.register(name, help, counter);
    }

    fn counters(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, u64)>,
    ) {
        let family = Family::<Labels, Counter>::default();
        for (labels, value) in values {
            family.get_or_create(&labels).inc_by(value);
        }
        self.0.register(name, help, family);
    }

    fn gauges(&mut self, name: &str, help: &str, values: impl IntoIterator<Item = (Labels, f64)>) {
        let family = Family::<Labels, Gauge<f64, AtomicU64>>::default();
        for (labels, value) in values {
            family.get_or_create(&labels).set(value);
        }
        self.0.register(name, help, family);
    }

    /// The quantiles of a distribution, in seconds.
    fn quantiles(&mut self, name: &str, help: &str, times: &TimesMs) {
        let all = [
            ("0.5", times.p50),
            ("0.95", times.p95),
            ("0.99", times.p99),
            ("0.999", times.p999),
            ("1", times.max),
        ];
        let label = |(share, ms): (&str, f64)| (vec![("quantile", share.to_owned())], ms / 1e3);
        self.gauges(name, help, all.into_iter().map(label));
    }
}

/// The page of a scrape.
///
/// # Errors
/// If the text cannot be written, which a string never refuses.
pub fn text(summary: &Summary) -> Result<String, fmt::Error> {
    let mut page = Page(Registry::default());
    chain(&mut page, summary);
    duties(&mut page, summary);
    machine(&mut page, summary);
    network(&mut page, summary);
    let mut text = String::new();
    encode(&mut text, &page.0)?;
    Ok(text)
}

fn chain(page: &mut Page, summary: &Summary) {
    let node = vec![
        ("name", summary.name.clone()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("scheme", summary.scheme.clone()),
    ];
    page.gauges("lean_node_info", "This node", [(node, 1.0)]);
    let kernel = |(krate, level): (&String, &String)| {
        let labels = vec![("crate", krate.clone()), ("kernel", level.clone())];
        (labels, 1.0)
    };
    page.gauges(
        "alphorn_kernel_info",
        "The kernels that were chosen by a measurement",
        summary.kernels.iter().map(kernel),
    );
    let slots = [
        ("lean_current_slot", "Slot by the clock", summary.slot),
        ("lean_head_slot", "Slot of the head", summary.head_slot),
        (
            "lean_latest_justified_slot",
            "Slot of the justified checkpoint",
            summary.justified_slot,
        ),
        (
            "lean_latest_finalized_slot",
            "Slot of the finalised checkpoint",
            summary.finalised_slot,
        ),
        (
            "lean_validators_count",
            "Validators whose duties are done here",
            u64::from(summary.local_validators),
        ),
        (
            "alphorn_finality_lag_slots",
            "Slots between the clock and the finalised checkpoint",
            summary.slot.saturating_sub(summary.finalised_slot),
        ),
    ];
    for (name, help, value) in slots {
        page.gauge(name, help, value as f64);
    }
    if let Some((_, credited)) = summary.credited.last_key_value() {
        let ratio = *credited as f64 / f64::from(summary.validators.max(1));
        page.gauge(
            "alphorn_coverage_ratio",
            "Share of all votes in the chain, last judged slot",
            ratio,
        );
    }
    if let Some((_, ms)) = summary.two_thirds_ms.last_key_value() {
        let help =
            "From the slot's start until two thirds stood in verified collections, last slot";
        page.gauge("alphorn_time_to_two_thirds_seconds", help, ms / 1e3);
    }
}

fn duties(page: &mut Page, summary: &Summary) {
    let results = summary.duties.iter().flat_map(|(duty, counts)| {
        let of = |result: &str, count| {
            (
                vec![("duty", duty.clone()), ("result", result.to_owned())],
                count,
            )
        };
        [
            of("done", counts.done),
            of("late", counts.late),
            of("missed", counts.missed),
        ]
    });
    page.counters("alphorn_duties", "Duties of the local validators", results);
    let counters = [
        (
            "alphorn_worker_salvaged",
            "Own late results that were still used",
            summary.salvaged,
        ),
        (
            "alphorn_worker_stale",
            "Own results that came too late or added nothing",
            summary.stale,
        ),
        (
            "alphorn_watermark_refusals",
            "Signing jobs that the store of marks refused",
            summary.signing_refused,
        ),
        (
            "alphorn_missed_phase",
            "Phases that had passed before the loop ran",
            summary.phases_missed,
        ),
        (
            "alphorn_evidence",
            "Pairs of contradicting statements",
            summary.evidence,
        ),
    ];
    for (name, help, value) in counters {
        page.counter(name, help, value);
    }
}

fn machine(page: &mut Page, summary: &Summary) {
    page.quantiles(
        "alphorn_tick_lag_seconds",
        "How late phases began",
        &summary.phase_lag_ms,
    );
    page.quantiles(
        "alphorn_lag_probe_seconds",
        "How late the loop woke",
        &summary.probe_lag_ms,
    );
    page.quantiles(
        "alphorn_loop_handle_seconds",
        "How long turns took",
        &summary.turn_ms,
    );
    page.counter("alphorn_loop_stalls", "Turns above 5 ms", summary.stalls);
    page.counter(
        "alphorn_clock_steps",
        "Steps of the wall clock",
        summary.clock_steps,
    );
    let jobs = summary.jobs.iter();
    let count = |(kind, jobs): (&String, &crate::summary::JobCounts)| {
        (vec![("kind", kind.clone())], jobs.run_ms.count)
    };
    page.counters("alphorn_worker_jobs", "Jobs that ended", jobs.map(count));
    let quantiles = summary.jobs.iter().flat_map(|(kind, jobs)| {
        let of = |share: &str, ms: f64| {
            let labels = vec![("kind", kind.clone()), ("quantile", share.to_owned())];
            (labels, ms / 1e3)
        };
        [
            of("0.5", jobs.run_ms.p50),
            of("0.95", jobs.run_ms.p95),
            of("1", jobs.run_ms.max),
        ]
    });
    page.gauges("alphorn_worker_job_seconds", "How long jobs ran", quantiles);
    let busy = ["fast", "prove"].into_iter().zip(&summary.lanes_busy_s);
    let lane = |(lane, s): (&str, &f64)| (vec![("lane", lane.to_owned())], *s);
    page.gauges(
        "alphorn_worker_lane_busy_seconds",
        "How long lanes were busy",
        busy.map(lane),
    );
    troubles(page, &summary.troubles);
    let files = ["safety", "node"].into_iter().zip(summary.commit_ms_max);
    let longest = files.map(|(file, ms)| (vec![("file", file.to_owned())], ms / 1e3));
    page.gauges(
        "alphorn_store_commit_seconds_max",
        "Longest commit",
        longest,
    );
}

fn troubles(page: &mut Page, troubles: &Troubles) {
    let restarts = [("crash", troubles.crashes), ("hang", troubles.hangs)];
    let cause = |(cause, count): (&str, u64)| (vec![("cause", cause.to_owned())], count);
    page.counters(
        "alphorn_worker_restarts",
        "Runs that ended with their lane or its process",
        restarts.into_iter().map(cause),
    );
    page.counter(
        "alphorn_worker_self_verify_failures",
        "Own results that failed their verification",
        troubles.self_verify_failures,
    );
    page.counter(
        "alphorn_worker_stale_frames",
        "Frames of processes that were replaced",
        troubles.stale_frames,
    );
    let gauges = [
        (
            "alphorn_worker_quarantined",
            "Inputs and jobs that are not run again",
            troubles.quarantined,
        ),
        (
            "alphorn_worker_degraded",
            "1 while long jobs are refused",
            u64::from(troubles.degraded),
        ),
        (
            "alphorn_worker_kernel_disabled",
            "1 after a kernel gave a wrong result",
            u64::from(troubles.kernel_disabled),
        ),
    ];
    for (name, help, value) in gauges {
        page.gauge(name, help, value as f64);
    }
}

fn network(page: &mut Page, summary: &Summary) {
    page.gauge(
        "lean_connected_peers",
        "Connected peers",
        summary.peers as f64,
    );
    let bytes = summary.topics.iter().flat_map(|(kind, moved)| {
        let of = |direction: &str, bytes| {
            let labels = vec![
                ("topic_kind", kind.clone()),
                ("direction", direction.to_owned()),
            ];
            (labels, bytes)
        };
        [of("in", moved.bytes_in), of("out", moved.bytes_out)]
    });
    page.counters("alphorn_net_bytes", "Bytes of gossip messages", bytes);
    let duplicates = summary.topics.values().map(|moved| moved.duplicates).sum();
    page.counter(
        "alphorn_net_duplicates",
        "Gossip messages that came again",
        duplicates,
    );
    let reasons = |counts: &std::collections::BTreeMap<String, u64>| -> Vec<(Labels, u64)> {
        let one = |(reason, count): (&String, &u64)| (vec![("reason", reason.clone())], *count);
        counts.iter().map(one).collect()
    };
    page.counters(
        "alphorn_net_drops",
        "What the network dropped",
        reasons(&summary.drops),
    );
    page.counters(
        "alphorn_peer_reports",
        "Misbehaviour of peers",
        reasons(&summary.reports),
    );
    page.counters(
        "alphorn_rejects",
        "Messages that were not taken",
        reasons(&summary.rejects),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::DutyCounts;

    #[test]
    fn every_line_is_a_sample_or_a_comment() {
        let mut summary = Summary {
            name: "node-\"1\"".into(),
            validators: 10,
            slot: 9,
            finalised_slot: 7,
            ..Summary::default()
        };
        summary.credited.insert(6, 5);
        summary.kernels.insert("hash".into(), "avx512".into());
        let vote = DutyCounts {
            due: 3,
            done: 2,
            late: 0,
            missed: 1,
        };
        summary.duties.insert("vote".into(), vote);
        let text = text(&summary).unwrap();
        assert!(text.ends_with("# EOF\n"));
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(
                name.starts_with("lean_") || name.starts_with("alphorn_"),
                "{line}"
            );
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
        let has = |line: &str| text.lines().any(|other| other == line);
        assert!(
            has("alphorn_duties_total{duty=\"vote\",result=\"missed\"} 1"),
            "{text}"
        );
        assert!(has("alphorn_coverage_ratio 0.5"), "{text}");
        assert!(
            has("alphorn_kernel_info{crate=\"hash\",kernel=\"avx512\"} 1.0"),
            "{text}"
        );
        assert!(has("alphorn_finality_lag_slots 2.0"), "{text}");
    }
}
