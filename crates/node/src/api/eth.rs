//! Names and shapes of the beacon API: numbers are text, responses are under `data`.
//!
//! Fields that a node does not have are empty or zero: there is no execution layer and no fork. The
//! genesis' validators root is the network's identity, and its fork version the first bytes of
//! that.

use super::{Api, Problem, VERSION, bad, distance, health_code, reasons};
use crate::telemetry::hex;
use alphorn_net::PeerStatus;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Map, Value, json};

pub(super) fn routes() -> Router<Api> {
    Router::new()
        .route("/eth/v1/node/health", get(health))
        .route("/eth/v1/node/version", get(version))
        .route("/eth/v1/node/identity", get(identity))
        .route("/eth/v1/node/syncing", get(syncing))
        .route("/eth/v1/node/peers", get(peers))
        .route("/eth/v1/beacon/genesis", get(genesis))
        .route("/eth/v1/config/spec", get(spec))
        .route(
            "/eth/v2/validator/aggregate_attestation",
            get(no_beacon_encoding),
        )
}

fn data(value: Value) -> Json<Value> {
    Json(json!({ "data": value }))
}

async fn health(State(api): State<Api>) -> Response {
    let last = api.last();
    let code = health_code(&last);
    let message = match code {
        StatusCode::OK => "well",
        StatusCode::PARTIAL_CONTENT => "catching up",
        _ => "not well",
    };
    let body = json!({"code": code.as_u16(), "message": message, "reasons": reasons(&last)});
    (code, Json(body)).into_response()
}

async fn version() -> Json<Value> {
    data(json!({"version": VERSION}))
}

async fn identity(State(api): State<Api>) -> Json<Value> {
    data(json!({
        "peer_id": api.window.info.id.to_string(),
        "enr": api.window.info.record,
        "p2p_addresses": api.snapshot().addresses,
        "discovery_addresses": [],
        "metadata": {"seq_number": "0", "attnets": "0x0000000000000000", "syncnets": "0x00"},
    }))
}

async fn syncing(State(api): State<Api>) -> Json<Value> {
    let last = api.last();
    data(json!({
        "head_slot": last.head_slot.to_string(),
        "sync_distance": distance(&last).to_string(),
        "is_syncing": last.is_behind(),
        "is_optimistic": false,
        "el_offline": false,
    }))
}

/// The direction of a connection.
pub(super) fn direction(peer: &PeerStatus) -> &'static str {
    match peer.outbound {
        true => "outbound",
        false => "inbound",
    }
}

/// Peers of a state and a direction, as given by the query. All listed peers are connected.
async fn peers(
    State(api): State<Api>,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let Query(query) = query.map_err(|error| bad(error.body_text()))?;
    let (mut states, mut directions) = (Vec::new(), Vec::new());
    for (name, value) in &query {
        let (known, wanted): (&[&str], _) = match name.as_str() {
            "state" => (
                &["disconnected", "connecting", "connected", "disconnecting"],
                &mut states,
            ),
            "direction" => (&["inbound", "outbound"], &mut directions),
            _ => continue,
        };
        for one in value.split(',') {
            if !known.contains(&one) {
                let why = format!("{name} = {one:?}, must be one of {}", known.join(", "));
                return Err(bad(why));
            }
            wanted.push(one);
        }
    }
    let is_wanted = |wanted: &[&str], value| wanted.is_empty() || wanted.contains(&value);
    let snapshot = api.snapshot();
    let connected =
        snapshot.net.peers.iter().filter(|peer| {
            is_wanted(&states, "connected") && is_wanted(&directions, direction(peer))
        });
    let told: Vec<Value> = connected
        .map(|peer| {
            json!({
                "peer_id": peer.id.to_string(),
                "enr": null,
                "last_seen_p2p_address": peer.address.to_string(),
                "state": "connected",
                "direction": direction(peer),
            })
        })
        .collect();
    let count = told.len();
    Ok(Json(json!({"data": told, "meta": {"count": count}})))
}

async fn genesis(State(api): State<Api>) -> Json<Value> {
    let config = &api.window.info.config;
    let seconds = config.genesis.as_nanos() / 1_000_000_000;
    data(json!({
        "genesis_time": seconds.to_string(),
        "genesis_validators_root": hex(&config.network_id),
        "genesis_fork_version": hex(&config.network().0),
    }))
}

async fn spec(State(api): State<Api>) -> Json<Value> {
    let info = &api.window.info;
    let config = &info.config;
    let (slot_ms, layout) = (config.timing.slot_ms(), &config.layout);
    let mut fields = Map::new();
    let mut put = |name: &str, value: String| fields.insert(name.to_owned(), value.into());
    put("CONFIG_NAME", "alphorn".to_owned());
    let preset = config.timing.preset_name().unwrap_or("custom");
    put("PRESET_BASE", preset.to_owned());
    put("SLOT_DURATION_MS", slot_ms.to_string());
    // A slot that is not a whole number of seconds has none.
    if slot_ms.is_multiple_of(1_000) {
        put("SECONDS_PER_SLOT", (slot_ms / 1_000).to_string());
    }
    put("SLOTS_PER_EPOCH", config.epoch_slots.to_string());
    put("GENESIS_FORK_VERSION", hex(&config.network().0));
    put("MAX_COMMITTEES_PER_SLOT", layout.committees().to_string());
    let mut levels = config
        .levels
        .iter()
        .map(|level| level.publishers.to_string());
    let lowest = levels.next().unwrap_or_default();
    put("TARGET_AGGREGATORS_PER_COMMITTEE", lowest.clone());
    put(
        "MAX_ATTESTATIONS",
        config.collections_per_block_max.to_string(),
    );
    put("ALPHORN_SCHEME", info.scheme.clone());
    put("ALPHORN_VALIDATORS", layout.validators().to_string());
    put(
        "ALPHORN_SUBCOMMITTEES_PER_COMMITTEE",
        layout.subcommittees().to_string(),
    );
    put(
        "ALPHORN_COLLECTORS_PER_COMMITTEE",
        levels.next_back().unwrap_or(lowest),
    );
    data(Value::Object(fields))
}

async fn no_beacon_encoding() -> Problem {
    let why = "collections of this network have no encoding of the beacon chain; what a committee \
               collected is at /alphorn/v0/slots/{slot}/committees/{committee}";
    Problem(StatusCode::NOT_IMPLEMENTED, why.to_owned())
}
