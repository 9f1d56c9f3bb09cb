//! What a node says over HTTP.
//!
//! | module | paths |
//! |---|---|
//! | `eth` | `/eth/…`: names and shapes of the beacon API |
//! | `lean` | `/lean/v0/…`: names and shapes of the lean clients |
//! | `own` | `/alphorn/v0/…` and `/metrics`: what only this node knows |
//! | `events` | the streams of events of both interfaces |
//! | `submit` of the crate | `POST /alphorn/v0/votes`: takes a vote |
//! | `admin` | what changes something: asks for the bearer token of the file `api.token` |
//!
//! `/` leads to `/dashboard/`, where the program mounts the page.
//!
//! Handlers read the last summary and the last snapshot and never wait for the loop; when its queue
//! of commands is full they say so. Every error is `{"code": …, "message": …}`.

mod admin;
mod eth;
mod events;
mod lean;
mod own;
#[cfg(test)]
mod tests;

use crate::blocks::Latest;
use crate::health::Reason;
use crate::run::Control;
use crate::submit;
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

/// Most bytes of a request's body.
const BODY_BYTES_MAX: usize = 1 << 20;
/// How long a handler may take until its answer begins.
pub(crate) const HANDLER_TIME_MAX: Duration = Duration::from_secs(5);
/// How the program calls itself.
const VERSION: &str = concat!("alphorn/", env!("CARGO_PKG_VERSION"));

/// What the handlers share.
#[derive(Clone)]
pub struct Api {
    /// The last summary.
    pub summary: watch::Receiver<Arc<Summary>>,
    /// What else the node shows.
    pub window: Window,
    /// Commands to the loop.
    pub control: mpsc::Sender<Control>,
    /// The token that admin requests must bear.
    pub token: Arc<str>,
    /// The places of those who read streams.
    pub clients: Clients,
    /// What was found out about the machine at the start.
    pub doctor: Arc<Value>,
    /// The checkpoint that others can begin with.
    pub checkpoint: Latest,
}

/// An error as the interface tells it.
#[derive(Debug)]
struct Problem(StatusCode, String);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Problem(code, message) = self;
        let body = json!({"code": code.as_u16(), "message": message});
        (code, Json(body)).into_response()
    }
}

/// The answer to what cannot be answered: `{"code": …, "message": …}`.
pub fn problem(code: StatusCode, message: impl Into<String>) -> Response {
    Problem(code, message.into()).into_response()
}

/// The same to a request that makes no sense.
fn bad(message: impl Into<String>) -> Problem {
    Problem(StatusCode::BAD_REQUEST, message.into())
}

impl Api {
    /// All paths.
    pub fn router(self) -> Router {
        Router::new()
            .merge(eth::routes())
            .merge(lean::routes())
            .merge(own::routes())
            .merge(events::routes())
            .merge(admin::routes())
            .layer(middleware::from_fn(in_time))
            // It has times of its own, for the body and for the verdict, so that who hands in a vote hears
            // what became of it.
            .route("/alphorn/v0/votes", post(submit::votes))
            .route("/", get(home))
            .fallback(unknown)
            .method_not_allowed_fallback(wrong_method)
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .with_state(self)
    }

    /// The path of the metrics alone, for whom another port is open.
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

    /// Whether a request bears the token.
    pub(crate) fn admits(&self, headers: &HeaderMap) -> bool {
        bears(headers, &self.token)
    }

    fn send(&self, command: Control) -> Response {
        match self.control.try_send(command) {
            Ok(()) => Json(json!({"data": "accepted"})).into_response(),
            Err(_) => busy("too many commands wait"),
        }
    }
}

/// Whether a request bears a token, compared in constant time.
pub fn bears(headers: &HeaderMap, token: &str) -> bool {
    let value = headers.get(header::AUTHORIZATION);
    let given = value.and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer "));
    given.is_some_and(|given| {
        let (given, token) = (given.as_bytes(), token.as_bytes());
        let differ = given.iter().zip(token).fold(0, |acc, (a, b)| acc | (a ^ b));
        given.len() == token.len() && differ == 0
    })
}

/// The answer to who should come back.
pub(crate) fn busy(why: &str) -> Response {
    let answer = problem(StatusCode::SERVICE_UNAVAILABLE, why);
    ([(header::RETRY_AFTER, "1")], answer).into_response()
}

/// Slots between the clock and the head.
fn distance(summary: &Summary) -> u64 {
    summary.slot.saturating_sub(summary.head_slot)
}

/// 200 well, 206 catching up and well otherwise, 503 not well.
fn health_code(summary: &Summary) -> StatusCode {
    match summary.health[..] {
        [] => StatusCode::OK,
        [Reason::Behind] => StatusCode::PARTIAL_CONTENT,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// What is not well, by name and for people.
fn reasons(summary: &Summary) -> Value {
    let reason = |reason: &Reason| json!({"reason": reason.name(), "text": reason.text()});
    summary.health.iter().map(reason).collect()
}

/// The page, which the program mounts beside these paths.
async fn home() -> Redirect {
    Redirect::temporary("/dashboard/")
}

/// The answer to a path that there is not.
pub async fn unknown(request: Request) -> Response {
    let path = request.uri().path();
    problem(StatusCode::NOT_FOUND, format!("there is no {path}"))
}

/// The answer to a method that a path does not take.
pub async fn wrong_method(request: Request) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    let why = format!("{path} does not take {method}");
    problem(StatusCode::METHOD_NOT_ALLOWED, why)
}

/// Gives up what takes too long, for example a body that trickles in. An answer that has begun, as
/// a stream of events, goes on.
async fn in_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(HANDLER_TIME_MAX, next.run(request)).await {
        Ok(answer) => answer,
        Err(_) => too_late(),
    }
}

/// The answer to a request that took too long, or did not come whole.
pub(crate) fn too_late() -> Response {
    problem(
        StatusCode::REQUEST_TIMEOUT,
        format!("no answer within {} s", HANDLER_TIME_MAX.as_secs()),
    )
}
