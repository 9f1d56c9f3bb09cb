//! Metrics that the service exports to Prometheus.

use crate::ask::Who;
use crate::service::Service;
use alphorn_node::api::problem;
use alphorn_node::telemetry::{CONTENT_TYPE, Page, labels};
use alphorn_worker::Status;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

pub(crate) async fn metrics(State(service): State<Arc<Service>>, Who(_): Who) -> Response {
    let status = service.worker().status();
    let (ended, clients, live) = {
        let book = service.book();
        (book.ended.clone(), book.clients(), book.live())
    };
    let mut page = Page::default();
    let rows = ended.iter().map(|((kind, state), count)| {
        let labels = labels([("kind", *kind), ("state", *state)]);
        (labels, *count)
    });
    page.totals("alphorn_worker_jobs", "Jobs that have ended", rows);
    put_counts(&mut page, &status);
    for (name, help, value) in [
        ("queued", "Jobs that wait", status.queued),
        ("running", "Jobs that run", status.running),
        (
            "live",
            "Jobs that wait, run, or are about to be noted",
            live,
        ),
        ("clients", "Clients that are remembered", clients),
        ("readers", "Readers of events", service.readers.taken()),
        (
            "quarantined",
            "Inputs and jobs that are not run again",
            status.quarantined,
        ),
        (
            "abandoned",
            "Threads that never came back",
            status.abandoned as usize,
        ),
        (
            "degraded",
            "Whether long jobs are refused",
            usize::from(status.degraded),
        ),
        (
            "kernel_disabled",
            "Whether a kernel gave wrong results and is not used",
            usize::from(status.kernel_disabled),
        ),
    ] {
        page.gauge(&format!("alphorn_worker_{name}"), help, value as f64);
    }
    match page.text() {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// Writes the worker's counters.
fn put_counts(page: &mut Page, status: &Status) {
    let counts = status.counts;
    for (name, help, value) in [
        ("accepted", "Jobs that were taken", counts.accepted),
        ("refused", "Jobs that were not taken", counts.refused),
        ("late", "Results after their soft deadline", counts.late),
        (
            "crashes",
            "Runs that panicked or whose process died",
            counts.crashes,
        ),
        ("hangs", "Runs that were given up", counts.hangs),
        (
            "self_verify_failures",
            "Results that failed their own verification",
            counts.self_verify_failures,
        ),
    ] {
        page.total(&format!("alphorn_worker_{name}"), help, value);
    }
    let busy = [
        ("fast", counts.fast_busy_ns),
        ("prove", counts.prove_busy_ns),
    ];
    let busy = busy.map(|(lane, ns)| (labels([("lanes", lane)]), ns / 1_000_000));
    page.totals(
        "alphorn_worker_busy_ms",
        "Milliseconds that lanes ran jobs",
        busy,
    );
}
