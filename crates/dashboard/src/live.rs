//! A running trace: a stream of events, and a snapshot that rebuilds the current state.

use crate::assets::guards;
use crate::clients::Clients;
use crate::follow::{Live, Wanted, follow, sink_lines};
use crate::{Asker, Source, address};
use alphorn_types::trace::{Line, Ring};
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, extract::State};
use std::sync::{Arc, Mutex};

#[derive(Clone)]
struct Shared {
    source: Arc<dyn Live>,
    clients: Clients,
}

/// The routes of a live source.
pub(crate) fn routes(source: Arc<dyn Live>, clients: Clients) -> Router {
    Router::new()
        .route("/trace", get(events))
        .route("/trace/snapshot", get(snapshot))
        .with_state(Shared { source, clients })
}

/// The response when all seats are taken.
pub(crate) fn full() -> Response {
    let text = "too many clients read this trace\n";
    let retry = [(RETRY_AFTER, "5")];
    (StatusCode::SERVICE_UNAVAILABLE, guards(), retry, text).into_response()
}

/// The snapshot as JSON lines.
async fn snapshot(State(shared): State<Shared>, from: Asker) -> Response {
    let Some((mut sink, body)) = shared.clients.of(address(from)).admit() else {
        return full();
    };
    tokio::spawn(async move {
        let batch = shared.source.snapshot().unwrap_or_default();
        let json = |text: &mut String, line: &Line| {
            text.push_str(&line.json);
            text.push('\n');
        };
        sink_lines(&mut sink, String::new(), &batch.lines, json).await
    });
    let headers = [
        (CONTENT_TYPE, "application/jsonl; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
    ];
    (guards(), headers, Body::from_stream(body)).into_response()
}

/// The stream of events.
async fn events(State(shared): State<Shared>, from: Asker, headers: HeaderMap) -> Response {
    let clients = shared.clients.of(address(from));
    match follow(shared.source, &clients, &headers, Wanted::All) {
        Some(stream) => (guards(), stream).into_response(),
        None => full(),
    }
}

impl From<Arc<Mutex<Ring>>> for Source {
    fn from(ring: Arc<Mutex<Ring>>) -> Self {
        Source::Live(ring)
    }
}
