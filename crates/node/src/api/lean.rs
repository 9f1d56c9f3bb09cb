//! Names and shapes of the lean clients: numbers are numbers, responses have no envelope.

use super::{Api, Problem, VERSION, distance, health_code, reasons};
use crate::telemetry::{Snapshot, hex};
use alphorn_proto::wire::{Checkpoint, Root};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Map, Value, json};

pub(super) fn routes() -> Router<Api> {
    Router::new()
        .route("/lean/v0/health", get(health))
        .route("/lean/v0/config/spec", get(spec))
        .route("/lean/v0/genesis", get(genesis))
        .route("/lean/v0/checkpoints/justified", get(justified))
        .route("/lean/v0/fork_choice", get(fork_choice))
        .route("/lean/v0/states/finalized", get(no_state))
        .route("/lean/v0/node/identity", get(identity))
        .route("/lean/v0/node/syncing", get(syncing))
}

async fn health(State(api): State<Api>) -> Response {
    let last = api.last();
    let code = health_code(&last);
    let status = match code {
        StatusCode::OK => "healthy",
        _ => "unhealthy",
    };
    let mut body = json!({"status": status, "service": "lean-rpc-api"});
    if code != StatusCode::OK {
        body["reasons"] = reasons(&last);
    }
    (code, Json(body)).into_response()
}

async fn spec(State(api): State<Api>) -> Json<Value> {
    let config = &api.window.info.config;
    let (slot_ms, offsets_ms) = (config.timing.slot_ms(), config.timing.offsets_ms());
    let intervals = offsets_ms.len() as u64;
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    put("MILLISECONDS_PER_SLOT", slot_ms.into());
    put("INTERVALS_PER_SLOT", intervals.into());
    // Phases of different lengths have no common length.
    let interval_ms = slot_ms / intervals;
    let is_even = (0..).zip(offsets_ms).all(|(i, at)| *at == i * interval_ms);
    if is_even && interval_ms * intervals == slot_ms {
        put("MILLISECONDS_PER_INTERVAL", interval_ms.into());
    }
    put("PHASE_OFFSETS_MS", json!(offsets_ms));
    put(
        "ATTESTATION_COMMITTEE_COUNT",
        config.layout.committees().into(),
    );
    let digest = hex(&config.network().0);
    put("FORK_DIGEST", digest.trim_start_matches("0x").into());
    Json(Value::Object(fields))
}

async fn genesis(State(api): State<Api>) -> Json<Value> {
    let config = &api.window.info.config;
    Json(json!({
        "genesis_time": config.genesis.as_nanos() / 1_000_000_000,
        "validator_count": config.layout.validators(),
    }))
}

async fn justified(State(api): State<Api>) -> Json<Value> {
    let justified = api.snapshot().justified;
    Json(json!({"slot": justified.slot.0, "root": hex(&justified.root)}))
}

/// The blocks from the finalised one on, and the weight behind each.
async fn fork_choice(State(api): State<Api>) -> Json<Value> {
    let snapshot = api.snapshot();
    let nodes = snapshot.tree.iter().map(|block| {
        json!({
            "root": hex(&block.root),
            "slot": block.header.slot.0,
            "parent_root": hex(&block.header.parent),
            "proposer_index": block.header.proposer.0,
            "weight": block.weight,
        })
    });
    let checkpoint = |at: &Checkpoint| json!({"slot": at.slot.0, "root": hex(&at.root)});
    let last = api.last();
    let safe_slot = last.two_thirds_ms.last_key_value();
    let safe_slot = safe_slot.map_or(0, |(slot, _)| *slot);
    Json(json!({
        "nodes": nodes.collect::<Vec<Value>>(),
        "head": hex(&snapshot.head.root),
        "justified": checkpoint(&snapshot.justified),
        "finalized": checkpoint(&snapshot.finalised),
        "safe_target": hex(&safe_target(&snapshot, safe_slot)),
        "validator_count": api.window.info.config.layout.validators(),
    }))
}

/// The last block of the head's chain that is not after the last slot in which two thirds of all votes were in verified
/// collections, or the finalised one if that is older.
fn safe_target(snapshot: &Snapshot, safe_slot: u64) -> Root {
    let mut root = snapshot.head.root;
    // Every block is after its parent in the list, so one pass from the end follows the chain down.
    for block in snapshot.tree.iter().rev() {
        if block.root == root {
            if block.header.slot.0 <= safe_slot {
                return root;
            }
            root = block.header.parent;
        }
    }
    snapshot.finalised.root
}

/// There is no state besides the chain, so there are no state bytes for a lean client to read.
async fn no_state() -> Problem {
    let why = "there is no state besides the chain; its blocks and weights are at \
               /lean/v0/fork_choice";
    Problem(StatusCode::NOT_IMPLEMENTED, why.to_owned())
}

async fn identity(State(api): State<Api>) -> Json<Value> {
    let id = api.window.info.id.to_string();
    Json(json!({"version": VERSION, "peer_id": id}))
}

async fn syncing(State(api): State<Api>) -> Json<Value> {
    let last = api.last();
    Json(json!({
        "is_syncing": last.is_behind(),
        "head_slot": last.head_slot,
        "sync_distance": distance(&last),
        "finalized_slot": last.finalised_slot,
    }))
}
