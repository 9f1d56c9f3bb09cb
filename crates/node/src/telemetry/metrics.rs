//! Metrics for Prometheus. A figure for which the ecosystem has a name (leanMetrics) has that name here, with its
//! labels and at least its buckets. All others begin with `alphorn_`.
//!
//! Events are counted and timed in the library's own counters and histograms, which the loop writes and a scrape reads
//! (`counted`). Current state comes from the last summary and snapshot (`lean`, `own`).
//!
//! No label contains a peer, a validator or a root, and a peer's agent is mapped to one of a few names. The number of
//! series is therefore bounded by the kinds of things that a node does.

mod counted;
mod jobs;
mod lean;
mod own;
mod page;

use super::{NodeInfo, Snapshot, Summary};
use alphorn_dashboard::Clients;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;
use std::fmt;

pub(super) use counted::Counted;
pub use page::{Labels, Page, labels};

/// The content type of the OpenMetrics text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The content type of the older form, served to clients that do not ask for OpenMetrics.
pub(crate) const PLAIN_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Converts an OpenMetrics page to the older text format of Prometheus, where a counter has the name of its sample, and
/// units and the end are omitted.
pub(crate) fn plain(page: &str) -> String {
    let mut text = String::with_capacity(page.len() + page.len() / 16);
    let mut help: Option<(&str, &str)> = None;
    for line in page.lines() {
        let said = |what: &str| line.strip_prefix(what)?.split_once(' ');
        if let Some(named) = said("# HELP ") {
            // Written with its type, on which the suffix of its name depends.
            help = Some(named);
        } else if let Some((name, kind)) = said("# TYPE ") {
            let suffix = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            let kind = match kind {
                "info" | "stateset" => "gauge",
                "unknown" => "untyped",
                "gaugehistogram" => "histogram",
                kind => kind,
            };
            if let Some((_, help)) = help.take().filter(|(of, _)| *of == name) {
                text += &format!("# HELP {name}{suffix} {help}\n");
            }
            text += &format!("# TYPE {name}{suffix} {kind}\n");
        // Units and the end have no line in the older form.
        } else if !line.starts_with("# ") {
            text += line;
            text.push('\n');
        }
    }
    text
}

/// The page for a scrape: counters, histograms and current state.
///
/// # Errors
/// If the text cannot be written, which never happens with a string.
pub fn text(
    counted: &Registry,
    summary: &Summary,
    snapshot: &Snapshot,
    info: &NodeInfo,
    clients: &Clients,
) -> Result<String, fmt::Error> {
    let mut page = Page::default();
    lean::put(&mut page, summary, snapshot, info);
    own::put(&mut page, summary, snapshot);
    page.total(
        "alphorn_dashboard_dropped",
        "Lines that readers of streams were told they had missed",
        clients.dropped(),
    );
    page.gauge(
        "alphorn_dashboard_clients",
        "Readers of streams",
        clients.taken() as f64,
    );
    let mut text = String::new();
    encode_registry(&mut text, counted)?;
    encode_registry(&mut text, &page.0)?;
    encode_eof(&mut text)?;
    Ok(text)
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::DutyCounts;

    #[test]
    fn the_older_form_names_counters_as_their_samples() {
        let page = "# HELP a_b What.\n# TYPE a_b counter\na_b_total{x=\"y\"} 3\n\
                    # HELP c_seconds When.\n# TYPE c_seconds gauge\n# UNIT c_seconds seconds\n\
                    c_seconds 1.5\n# EOF\n";
        let expected = "# HELP a_b_total What.\n# TYPE a_b_total counter\na_b_total{x=\"y\"} 3\n\
                        # HELP c_seconds When.\n# TYPE c_seconds gauge\nc_seconds 1.5\n";
        assert_eq!(plain(page), expected);
    }

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
        summary.broadcasts.published = 4;
        summary.broadcasts.frame_bytes = [10, 20];
        summary.kernels.insert("hash".into(), "avx512".into());
        let vote = DutyCounts {
            due: 3,
            done: 2,
            late: 0,
            missed: 1,
        };
        summary.duties.insert("vote".into(), vote);
        let (snapshot, info) = (Snapshot::default(), NodeInfo::example());
        let text = text(
            &Registry::default(),
            &summary,
            &snapshot,
            &info,
            &Clients::new(),
        );
        let text = text.unwrap();
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
            has("alphorn_broadcasts_total{result=\"published\"} 4"),
            "{text}"
        );
        let out = "alphorn_broadcast_bytes_total{what=\"frames\",direction=\"out\"} 20";
        assert!(has(out), "{text}");
        assert!(
            has("alphorn_kernel_info{crate=\"hash\",kernel=\"avx512\"} 1.0"),
            "{text}"
        );
        assert!(has("alphorn_finality_lag_slots 2.0"), "{text}");
    }
}
