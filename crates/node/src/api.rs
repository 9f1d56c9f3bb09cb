//! What a node says over HTTP.
//!
//! | path | answer |
//! |---|---|
//! | `GET /eth/v1/node/health` | 200 ready, 206 catching up, 503 not able to do duties |
//! | `GET /eth/v1/node/version`, `GET /lean/v0/health` | as their names say |
//! | `GET /alphorn/v0/summary` | every figure, as [`Summary`] |
//! | `GET /alphorn/v0/status` | slot, head, justified and finalised |
//! | `GET /metrics` | the same for Prometheus |
//! | `POST /alphorn/v0/votes` | takes a vote, as `{"vote": "0x…"}`; 200 once it is accepted and durable |
//! | `POST /alphorn/v0/admin/shutdown` | ends the node |
//! | `POST /alphorn/v0/admin/peers` | `{"block": ID}`, `{"unblock": ID}` or `{"dial": ADDRESS}` |
//!
//! What changes something asks for the bearer token of the file `api.token`. Handlers read the last
//! summary and never wait for the loop; when its queue of commands is full they say so.

use crate::metrics;
use crate::run::Control;
use crate::submit;
use crate::summary::Summary;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Most bytes of a request's body.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Slots by which a head may lie behind the clock before a node counts as catching up.
const BEHIND_SLOTS: u64 = 3;

/// What the handlers share.
#[derive(Clone)]
pub struct Api {
    /// The last summary.
    pub summary: watch::Receiver<Arc<Summary>>,
    /// Commands to the loop.
    pub control: mpsc::Sender<Control>,
    /// The token that admin requests must bear.
    pub token: Arc<str>,
}

/// An admin request about a peer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum PeerCommand {
    Block(String),
    Unblock(String),
    Dial(String),
}

/// An error as the interface tells it.
#[derive(Serialize)]
struct Problem {
    code: u16,
    message: String,
}

pub(crate) fn problem(code: StatusCode, message: impl Into<String>) -> Response {
    let body = Problem {
        code: code.as_u16(),
        message: message.into(),
    };
    (code, Json(body)).into_response()
}

impl Api {
    /// All paths.
    pub fn router(self) -> Router {
        Router::new()
            .route("/eth/v1/node/health", get(health))
            .route("/lean/v0/health", get(lean_health))
            .route("/eth/v1/node/version", get(version))
            .route("/alphorn/v0/status", get(status))
            .route("/alphorn/v0/summary", get(summary))
            .route("/metrics", get(metrics_text))
            .route("/alphorn/v0/votes", post(submit::votes))
            .route("/alphorn/v0/admin/shutdown", post(shutdown))
            .route("/alphorn/v0/admin/peers", post(peers))
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .with_state(self)
    }

    fn last(&self) -> Arc<Summary> {
        self.summary.borrow().clone()
    }

    /// Whether a request bears the token, compared in constant time.
    pub(crate) fn admits(&self, headers: &HeaderMap) -> bool {
        let value = headers.get(header::AUTHORIZATION);
        let given = value.and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.strip_prefix("Bearer "));
        given.is_some_and(|given| {
            let (given, token) = (given.as_bytes(), self.token.as_bytes());
            let differ = given.iter().zip(token).fold(0, |acc, (a, b)| acc | (a ^ b));
            given.len() == token.len() && differ == 0
        })
    }

    fn send(&self, command: Control) -> Response {
        match self.control.try_send(command) {
            Ok(()) => Json(json!({"data": "accepted"})).into_response(),
            Err(_) => {
                let busy = problem(StatusCode::SERVICE_UNAVAILABLE, "too many commands wait");
                ([(header::RETRY_AFTER, "1")], busy).into_response()
            }
        }
    }
}

/// 200 ready, 206 catching up, 503 not able to do duties.
fn health_code(summary: &Summary) -> StatusCode {
    if !summary.can_sign {
        StatusCode::SERVICE_UNAVAILABLE
    } else if summary.head_slot + BEHIND_SLOTS < summary.slot {
        StatusCode::PARTIAL_CONTENT
    } else {
        StatusCode::OK
    }
}

async fn health(State(api): State<Api>) -> StatusCode {
    health_code(&api.last())
}

async fn lean_health(State(api): State<Api>) -> Response {
    let code = health_code(&api.last());
    let healthy = code == StatusCode::OK;
    (
        code,
        Json(json!({"status": if healthy { "healthy" } else { "unhealthy" }})),
    )
        .into_response()
}

async fn version() -> Response {
    let version = concat!("alphorn/", env!("CARGO_PKG_VERSION"));
    Json(json!({"data": {"version": version}})).into_response()
}

async fn status(State(api): State<Api>) -> Response {
    let last = api.last();
    Json(json!({
        "name": last.name,
        "scheme": last.scheme,
        "slot": last.slot,
        "head_slot": last.head_slot,
        "head": last.head,
        "justified_slot": last.justified_slot,
        "finalised_slot": last.finalised_slot,
        "finalised": last.finalised,
        "peers": last.peers,
    }))
    .into_response()
}

async fn summary(State(api): State<Api>) -> Response {
    Json(api.last().as_ref()).into_response()
}

async fn metrics_text(State(api): State<Api>) -> Response {
    match metrics::text(&api.last()) {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

async fn shutdown(State(api): State<Api>, headers: HeaderMap) -> Response {
    match api.admits(&headers) {
        true => api.send(Control::Shutdown),
        false => problem(StatusCode::UNAUTHORIZED, "the token of api.token is needed"),
    }
}

async fn peers(State(api): State<Api>, headers: HeaderMap, body: String) -> Response {
    if !api.admits(&headers) {
        return problem(StatusCode::UNAUTHORIZED, "the token of api.token is needed");
    }
    let command = match serde_json::from_str::<PeerCommand>(&body) {
        Ok(command) => command,
        Err(error) => return problem(StatusCode::BAD_REQUEST, error.to_string()),
    };
    let command = match command {
        PeerCommand::Block(id) => id.parse().map(|id| Control::Block(id, true)),
        PeerCommand::Unblock(id) => id.parse().map(|id| Control::Block(id, false)),
        PeerCommand::Dial(address) => match address.parse() {
            Ok(address) => return api.send(Control::Dial(address)),
            Err(error) => return problem(StatusCode::BAD_REQUEST, error.to_string()),
        },
    };
    match command {
        Ok(command) => api.send(command),
        Err(error) => problem(StatusCode::BAD_REQUEST, error.to_string()),
    }
}
