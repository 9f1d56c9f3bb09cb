//! Requests that change the node, and queries about what can be changed.
//!
//! | path | body |
//! |---|---|
//! | `POST /alphorn/v0/admin/shutdown` | none |
//! | `POST /alphorn/v0/admin/peers` | `{"block": ID}`, `{"unblock": ID}` or `{"dial": ADDRESS}` |
//! | `GET`, `POST /lean/v0/admin/aggregator` | `{"enabled": BOOL}` |
//!
//! A node whose validators are selected aggregates and collects unless this is switched off.

use super::{Api, Problem, bad, busy};
use crate::run::Control;
use alphorn_net::{Address, AddressError, KeyError};
use axum::extract::State;
use axum::extract::rejection::StringRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) fn routes() -> Router<Api> {
    Router::new()
        .route("/alphorn/v0/admin/shutdown", post(shutdown))
        .route("/alphorn/v0/admin/peers", post(peers))
        .route("/lean/v0/admin/aggregator", get(role).post(set_role))
}

/// An admin request about a peer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum PeerCommand {
    Block(String),
    Unblock(String),
    Dial(String),
}

/// A request to aggregate or not.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleCommand {
    enabled: bool,
}

/// Whether a request carries the token.
fn check(api: &Api, headers: &HeaderMap) -> Result<(), Problem> {
    let why = || "the token of api.token is needed".to_owned();
    let admits = api.admits(headers);
    admits
        .then_some(())
        .ok_or_else(|| Problem(StatusCode::UNAUTHORIZED, why()))
}

/// Parses an authorised request.
fn read<T: for<'a> Deserialize<'a>>(
    api: &Api,
    headers: &HeaderMap,
    body: Result<String, StringRejection>,
) -> Result<T, Problem> {
    check(api, headers)?;
    let body = body.map_err(|error| Problem(error.status(), error.body_text()))?;
    // Fields are identified by name alone, so a list of them is not a valid request.
    if !body.trim_start().starts_with('{') {
        return Err(bad("the body must be an object in JSON"));
    }
    serde_json::from_str(&body).map_err(|error| bad(error.to_string()))
}

async fn shutdown(State(api): State<Api>, headers: HeaderMap) -> Result<Response, Problem> {
    check(&api, &headers)?;
    Ok(api.send(Control::Shutdown))
}

async fn peers(
    State(api): State<Api>,
    headers: HeaderMap,
    body: Result<String, StringRejection>,
) -> Result<Response, Problem> {
    let id = |id: String| id.parse().map_err(|error: KeyError| bad(error.to_string()));
    let command = match read(&api, &headers, body)? {
        PeerCommand::Block(who) => Control::Block(id(who)?, true),
        PeerCommand::Unblock(who) => Control::Block(id(who)?, false),
        PeerCommand::Dial(address) => {
            let address: Result<Address, AddressError> = address.parse();
            Control::Dial(address.map_err(|error| bad(error.to_string()))?)
        }
    };
    Ok(api.send(command))
}

async fn role(State(api): State<Api>) -> Json<Value> {
    let enabled = api.last().is_aggregator;
    Json(json!({"enabled": enabled, "is_aggregator": enabled}))
}

async fn set_role(
    State(api): State<Api>,
    headers: HeaderMap,
    body: Result<String, StringRejection>,
) -> Result<Response, Problem> {
    let RoleCommand { enabled } = read(&api, &headers, body)?;
    let previous = api.last().is_aggregator;
    if enabled != previous && api.control.try_send(Control::Aggregate(enabled)).is_err() {
        return Ok(busy("too many commands wait"));
    }
    let body = json!({"enabled": enabled, "is_aggregator": enabled, "previous": previous});
    Ok(Json(body).into_response())
}
