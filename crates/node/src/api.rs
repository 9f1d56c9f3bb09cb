//! The HTTP interface of a node.
//!
//! | module | paths |
//! |---|---|
//! | `eth` | `/eth/…`: names and shapes of the beacon API |
//! | `lean` | `/lean/v0/…`: names and shapes of the lean clients |
//! | `own` | `/alphorn/v0/…` and `/metrics`: data specific to this node |
//! | `events` | the streams of events of both interfaces |
//! | `submit` | `POST /alphorn/v0/votes`: takes a vote |
//! | `admin` | changes to the node: requires the bearer token of the file `api.token` |
//!
//! `/` redirects to `/dashboard/`, where the program mounts the page.
//!
//! Handlers read the last summary and the last snapshot and never wait for the loop. If its command queue is full, they
//! report that. Every error is `{"code": …, "message": …}`.

mod admin;
mod eth;
mod events;
mod lean;
mod own;
mod submit;
#[cfg(test)]
mod tests;

use crate::blocks::Latest;
use crate::health::Reason;
use crate::run::Control;
use crate::telemetry::{Snapshot, Summary, Window};
use alphorn_dashboard::Clients;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Maximum length of a request body.
const BODY_BYTES_MAX: usize = 1 << 20;
/// How long a handler may take until its response begins.
const HANDLER_TIME_MAX: Duration = Duration::from_secs(5);
/// The program's name and version.
const VERSION: &str = concat!("alphorn/", env!("CARGO_PKG_VERSION"));

/// State shared by the handlers.
#[derive(Clone)]
pub struct Api {
    /// The last summary.
    pub summary: watch::Receiver<Arc<Summary>>,
    /// Other published state of the node.
    pub window: Window,
    /// Commands to the loop.
    pub control: mpsc::Sender<Control>,
    /// The token that admin requests must carry.
    pub token: Arc<str>,
    /// The slots of stream readers.
    pub clients: Clients,
    /// Findings about the host at startup.
    pub doctor: Arc<Value>,
    /// The checkpoint that other nodes can start from.
    pub checkpoint: Latest,
}

/// An error as the interface returns it.
#[derive(Debug)]
struct Problem(StatusCode, String);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Problem(code, message) = self;
        let body = json!({"code": code.as_u16(), "message": message});
        (code, Json(body)).into_response()
    }
}

/// The error response: `{"code": …, "message": …}`.
pub fn problem(code: StatusCode, message: impl Into<String>) -> Response {
    Problem(code, message.into()).into_response()
}

/// The response to an invalid request.
fn bad(message: impl Into<String>) -> Problem {
    Problem(StatusCode::BAD_REQUEST, message.into())
}

impl Api {
    /// Routes for all paths.
    pub fn router(self) -> Router {
        Router::new()
            .merge(eth::routes())
            .merge(lean::routes())
            .merge(own::routes())
            .merge(events::routes())
            .merge(admin::routes())
            .layer(middleware::from_fn(in_time))
            // It has its own timeouts, for the body and for the verdict, so that the submitter of a vote learns its
            // outcome.
            .route("/alphorn/v0/votes", post(submit::votes))
            .route("/", get(home))
            .fallback(unknown)
            .method_not_allowed_fallback(wrong_method)
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .with_state(self)
    }

    /// Routes for the metrics path only, for which another port is open.
    pub fn metrics_router(self) -> Router {
        own::metrics_route()
            .layer(middleware::from_fn(in_time))
            .fallback(unknown)
            .method_not_allowed_fallback(wrong_method)
            .with_state(self)
    }

    fn last(&self) -> Arc<Summary> {
        self.summary.borrow().clone()
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.window.snapshot.borrow().clone()
    }

    /// Whether a request carries the token.
    fn admits(&self, headers: &HeaderMap) -> bool {
        bears(headers, &self.token)
    }

    fn send(&self, command: Control) -> Response {
        match self.control.try_send(command) {
            Ok(()) => Json(json!({"data": "accepted"})).into_response(),
            Err(_) => busy("too many commands wait"),
        }
    }
}

/// Whether a request carries a token, compared in constant time.
pub fn bears(headers: &HeaderMap, token: &str) -> bool {
    let value = headers.get(header::AUTHORIZATION);
    let given = value.and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer "));
    given.is_some_and(|given| {
        let (given, token) = (given.as_bytes(), token.as_bytes());
        // Every byte that both have is compared before anything decides, so the time shows no prefix that was right.
        // The length of a token is no secret.
        let differ = given.iter().zip(token).fold(0, |acc, (a, b)| acc | (a ^ b));
        given.len() == token.len() && differ == 0
    })
}

/// The response to a client that should retry later.
pub(crate) fn busy(why: &str) -> Response {
    let answer = problem(StatusCode::SERVICE_UNAVAILABLE, why);
    ([(header::RETRY_AFTER, "1")], answer).into_response()
}

/// Slots between the clock and the head.
fn distance(summary: &Summary) -> u64 {
    summary.slot.saturating_sub(summary.head_slot)
}

/// 200 if healthy, 206 if catching up and otherwise healthy, 503 if unhealthy.
fn health_code(summary: &Summary) -> StatusCode {
    match summary.health[..] {
        [] => StatusCode::OK,
        [Reason::Behind] => StatusCode::PARTIAL_CONTENT,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Health problems, by name and in readable form.
fn reasons(summary: &Summary) -> Value {
    let reason = |reason: &Reason| json!({"reason": reason.name(), "text": reason.text()});
    summary.health.iter().map(reason).collect()
}

/// Redirects to the page, which the program mounts next to these paths.
async fn home() -> Redirect {
    Redirect::temporary("/dashboard/")
}

/// The response to an unknown path.
pub async fn unknown(request: Request) -> Response {
    let path = request.uri().path();
    problem(StatusCode::NOT_FOUND, format!("there is no {path}"))
}

/// The response to a method that a path does not support.
pub async fn wrong_method(request: Request) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    let why = format!("{path} does not take {method}");
    problem(StatusCode::METHOD_NOT_ALLOWED, why)
}

/// Aborts requests that take too long, for example a body that trickles in. A response that has begun, such as an event
/// stream, continues.
async fn in_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(HANDLER_TIME_MAX, next.run(request)).await {
        Ok(answer) => answer,
        Err(_) => too_late(),
    }
}

/// The response to a request that took too long, or did not arrive completely.
fn too_late() -> Response {
    problem(
        StatusCode::REQUEST_TIMEOUT,
        format!("no answer within {} s", HANDLER_TIME_MAX.as_secs()),
    )
}
