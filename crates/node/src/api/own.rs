//! Data specific to this node: its summary, its findings about its host, jobs, costs, peers and the last slots. Times
//! of jobs and sessions are milliseconds from the start of their slot.

use super::{Api, Problem, VERSION, bad, eth, problem};
use crate::telemetry::{
    CONTENT_TYPE, EndedJob, InFlight, PLAIN_CONTENT_TYPE, RATIO, SlotRecord, Snapshot, bitlist,
    hex, metrics_text, plain,
};
use alphorn_proto::slot::SlotClock;
use alphorn_types::{Slot, Time};
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

pub(super) fn routes() -> Router<Api> {
    Router::new()
        .route("/alphorn/v0/status", get(status))
        .route("/alphorn/v0/summary", get(summary))
        .route("/alphorn/v0/checkpoint", get(checkpoint))
        .route("/alphorn/v0/doctor", get(doctor))
        .route("/alphorn/v0/sessions", get(sessions))
        .route("/alphorn/v0/jobs", get(jobs))
        .route("/alphorn/v0/cost", get(cost))
        .route("/alphorn/v0/peers", get(peers))
        .route("/alphorn/v0/slots/{slot}", get(slot))
        .route(
            "/alphorn/v0/slots/{slot}/committees/{committee}",
            get(committee),
        )
        .route("/alphorn/v0/evidence", get(evidence))
        .route("/alphorn/v0/evidence/{number}/{which}", get(statement))
        .merge(metrics_route())
}

/// Whether a scrape asks for OpenMetrics, as Prometheus does.
fn takes_open_metrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let mut accepted = accepted.filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.contains("application/openmetrics-text"))
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
        "health": last.health,
        "checkpoint": api.checkpoint.get().map(|kept| json!({
            "slot": kept.slot.0,
            "digest": hex(&kept.digest),
            "bytes": kept.bytes.len(),
        })),
        "memory_bound_bytes": last.memory_bound_bytes,
    }))
    .into_response()
}

/// The last stored checkpoint, in the form from which another node starts. It may have many megabytes, which readers
/// share without copies of their own.
async fn checkpoint(State(api): State<Api>) -> Response {
    let Some(kept) = api.checkpoint.get() else {
        let why = "there is no checkpoint yet: it is kept once 32 slots have become final";
        return problem(StatusCode::NOT_FOUND, why);
    };
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::ETAG, format!("\"{}\"", hex(&kept.digest))),
    ];
    (headers, Bytes::from_owner(kept.bytes.clone())).into_response()
}

async fn summary(State(api): State<Api>) -> Response {
    Json(api.last().with_memory()).into_response()
}

async fn doctor(State(api): State<Api>) -> Json<Value> {
    let info = &api.window.info;
    Json(json!({
        "version": VERSION,
        "name": info.name,
        "scheme": info.scheme,
        "started_unix_ms": info.started.as_nanos() / 1_000_000,
        "chosen": info.kernels,
        "machine": api.doctor.as_ref(),
    }))
}

/// The times of a slot.
struct Times(SlotClock);

impl Times {
    fn of(api: &Api) -> Self {
        let info = &api.window.info;
        Times(SlotClock::new(info.config.genesis, info.config.timing))
    }

    /// Milliseconds from the start of a slot.
    fn ms(&self, slot: Slot, at: Time) -> f64 {
        let start = self.0.slot_start(slot);
        (at.as_nanos() as f64 - start.as_nanos() as f64) / 1e6
    }
}

async fn sessions(State(api): State<Api>) -> Json<Value> {
    let times = Times::of(&api);
    let snapshot = api.snapshot();
    let told = snapshot.sessions.iter().rev().map(|one| {
        let slot = one.id.slot;
        json!({
            "slot": slot.0,
            "seq": one.id.seq,
            "open_ms": times.ms(slot, one.open),
            "soft_ms": times.ms(slot, one.soft),
            "hard_ms": times.ms(slot, one.hard),
            "jobs": one.jobs,
        })
    });
    Json(json!({"sessions": told.collect::<Vec<Value>>()}))
}

fn in_flight(times: &Times, one: &InFlight) -> Map<String, Value> {
    let slot = one.group.slot;
    let value = json!({
        "id": one.job.0,
        "kind": one.op,
        "class": one.class,
        "slot": slot.0,
        "committee": one.group.committee,
        "subcommittee": one.group.subcommittee,
        "spawned_ms": times.ms(slot, one.spawned),
        "soft_ms": times.ms(slot, one.soft),
        "hard_ms": times.ms(slot, one.hard),
    });
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn ended_job(times: &Times, one: &EndedJob) -> Value {
    let mut fields = in_flight(times, &one.job);
    let ms = |ns: u64| ns as f64 / 1e6;
    let more = [
        ("ended_ms", times.ms(one.job.group.slot, one.at).into()),
        ("outcome", one.outcome.into()),
        ("queue_ms", ms(one.queued_ns).into()),
        ("run_ms", ms(one.ran_ns).into()),
        ("predicted_ms", json!(one.predicted_ns.map(ms))),
        ("late", one.late.into()),
    ];
    fields.extend(more.map(|(name, value)| (name.to_owned(), value)));
    Value::Object(fields)
}

async fn jobs(State(api): State<Api>) -> Json<Value> {
    let times = Times::of(&api);
    let snapshot = api.snapshot();
    let flying = snapshot.in_flight.iter();
    let flying: Vec<Value> = flying.map(|one| in_flight(&times, one).into()).collect();
    let ended = snapshot.ended.iter().rev();
    let ended: Vec<Value> = ended.map(|one| ended_job(&times, one)).collect();
    Json(json!({
        "in_flight_count": snapshot.in_flight_count,
        "in_flight": flying,
        "ended": ended,
    }))
}

/// How long jobs took, and how accurately that was predicted.
async fn cost(State(api): State<Api>) -> Json<Value> {
    let (last, snapshot) = (api.last(), api.snapshot());
    let kinds = snapshot.cost.iter().map(|(kind, ratio)| {
        let bounds = RATIO.iter().map(Some).chain([None]);
        let buckets = bounds.zip(ratio.counts);
        let buckets = buckets.map(|(bound, count)| json!({"up_to": bound, "count": count}));
        let count: u64 = ratio.counts.iter().sum();
        let value = json!({
            "times": last.jobs.get(*kind),
            "predicted_ratio": {
                "count": count,
                "mean": ratio.sum / count.max(1) as f64,
                "buckets": buckets.collect::<Vec<Value>>(),
            },
        });
        ((*kind).to_owned(), value)
    });
    let kinds: Map<String, Value> = kinds.collect();
    // By prediction, then by outcome, each with "no" first.
    let [[late_told, late_untold], [missed, met]] = snapshot.fit;
    Json(json!({
        "kinds": kinds,
        "fit": {
            "predicted_and_met": met,
            "predicted_and_missed": missed,
            "not_predicted_and_met": late_untold,
            "not_predicted_and_missed": late_told,
        },
    }))
}

async fn peers(State(api): State<Api>) -> Json<Value> {
    let snapshot = api.snapshot();
    let peer = |peer: &alphorn_net::PeerStatus| {
        json!({
            "id": peer.id.to_string(),
            "address": peer.address.to_string(),
            "direction": eth::direction(peer),
            "client": peer.client.as_ref(),
            "score": peer.score,
            "bytes_in": peer.bytes_in,
            "bytes_out": peer.bytes_out,
        })
    };
    let peers: Vec<Value> = snapshot.net.peers.iter().map(peer).collect();
    Json(json!({"peers": peers}))
}

/// The record of a slot named in a path.
fn find<'a>(snapshot: &'a Snapshot, name: &str) -> Result<&'a SlotRecord, Problem> {
    let number = number(name, "slot")?;
    let slots = &snapshot.slots;
    slots.get(&number).map(AsRef::as_ref).ok_or_else(|| {
        let range = match (slots.first_key_value(), slots.last_key_value()) {
            (Some((first, _)), Some((last, _))) => format!("slots {first} to {last} are known"),
            _ => "no slot is known yet".to_owned(),
        };
        Problem(StatusCode::NOT_FOUND, format!("slot = {number}, {range}"))
    })
}

fn number(text: &str, what: &str) -> Result<u64, Problem> {
    // `parse` also takes a plus sign, which would give one slot two paths.
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_plain);
    number.ok_or_else(|| bad(format!("{what} = {text:?}, must be a number below 2^64")))
}

async fn slot(
    State(api): State<Api>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, Problem> {
    let Path(name) = path.map_err(|error| bad(error.body_text()))?;
    let snapshot = api.snapshot();
    let note = find(&snapshot, &name)?;
    let included = api.last().credited.get(&note.slot.0).copied();
    Ok(Json(slot_value(note, included)))
}

/// `included`: votes that the chain credits, once the slot has been judged.
fn slot_value(note: &SlotRecord, included: Option<u64>) -> Value {
    let block = note.block.map(|(root, bytes, collections)| {
        json!({"root": hex(&root), "bytes": bytes, "collections": collections})
    });
    let committees = note.committees.iter().map(|one| {
        json!({
            "validators": one.coverage.len(),
            "covered": one.coverage.count_ones(),
            "collections": one.collections.len(),
        })
    });
    json!({
        "slot": note.slot.0,
        "proposer": note.proposer.0,
        "block": block,
        "head": note.vote.map(|vote| hex(&vote.head)),
        "votes": {
            "seen": note.votes_seen,
            "verified": note.votes_verified,
            "collected": note.covered(),
            "included": included,
        },
        "aggregates": note.aggregates,
        "collections": note.collections,
        "committees": committees.collect::<Vec<Value>>(),
    })
}

async fn committee(
    State(api): State<Api>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<Value>, Problem> {
    let Path((slot, committee)) = path.map_err(|error| bad(error.body_text()))?;
    let snapshot = api.snapshot();
    let note = find(&snapshot, &slot)?;
    let number = number(&committee, "committee")?;
    committee_value(&api, note, number).map(Json)
}

fn committee_value(api: &Api, note: &SlotRecord, number: u64) -> Result<Value, Problem> {
    let at = usize::try_from(number).unwrap_or(usize::MAX);
    let one = note.committees.get(at).ok_or_else(|| {
        let count = note.committees.len();
        let why = format!("committee = {number}, must be below {count}");
        Problem(StatusCode::NOT_FOUND, why)
    })?;
    let layout = api.window.info.config.layout;
    let cells = layout
        .cells()
        .filter(|cell| u64::from(cell.committee) == number);
    let cells = cells.map(|cell| {
        let range = layout.cell_in_committee(cell);
        let (from, to) = (range.start as usize, range.end as usize);
        json!({
            "subcommittee": cell.subcommittee,
            "validators": range.len(),
            "covered": one.coverage.count_range(from..to),
        })
    });
    let collections = one.collections.iter().map(|one| {
        json!({
            "sender": one.sender.0,
            "head": hex(&one.head),
            "signers": one.signers,
            "bytes": one.bytes,
        })
    });
    Ok(json!({
        "slot": note.slot.0,
        "committee": number,
        "validators": one.coverage.len(),
        "covered": one.coverage.count_ones(),
        "coverage": hex(&bitlist(&one.coverage)),
        "subcommittees": cells.collect::<Vec<Value>>(),
        "collections": collections.collect::<Vec<Value>>(),
    }))
}

/// The path of the metrics, also for a separate port.
pub(super) fn metrics_route() -> Router<Api> {
    Router::new().route("/metrics", get(metrics))
}

/// The last pairs of contradicting statements, without their bytes.
async fn evidence(State(api): State<Api>) -> Json<Value> {
    let snapshot = api.snapshot();
    let digest = |bytes: &[u8]| json!({"bytes": bytes.len(), "sha256": sha256(bytes)});
    let pairs = snapshot.evidence.iter().map(|pair| {
        json!({
            "number": pair.number,
            "found_unix_ms": pair.at.as_nanos() / 1_000_000,
            "first": digest(&pair.evidence.first),
            "second": digest(&pair.evidence.second),
        })
    });
    let pairs: Vec<Value> = pairs.collect();
    Json(json!({"count": api.last().evidence, "pairs": pairs}))
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// One statement of a pair, in wire format.
async fn statement(
    State(api): State<Api>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<Response, Problem> {
    let Path((name, which)) = path.map_err(|error| bad(error.body_text()))?;
    let wanted = number(&name, "number")?;
    let snapshot = api.snapshot();
    let pairs = &snapshot.evidence;
    let pair = pairs.iter().find(|pair| pair.number == wanted);
    let pair = pair.ok_or_else(|| {
        let range = match (pairs.first(), pairs.last()) {
            (Some(first), Some(last)) => {
                format!("those kept are of {} to {}", first.number, last.number)
            }
            _ => "there is none".to_owned(),
        };
        Problem(StatusCode::NOT_FOUND, format!("number = {wanted}, {range}"))
    })?;
    let bytes = match which.as_str() {
        "first" => pair.evidence.first.clone(),
        "second" => pair.evidence.second.clone(),
        _ => return Err(bad(format!("{which:?}, must be first or second"))),
    };
    let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
    Ok((kind, Bytes::from_owner(bytes)).into_response())
}

async fn metrics(State(api): State<Api>, headers: HeaderMap) -> Response {
    let last = api.last().with_memory();
    let window = &api.window;
    let text = metrics_text(
        &window.counted,
        &last,
        &api.snapshot(),
        &window.info,
        &api.clients,
    );
    match text {
        Ok(text) if takes_open_metrics(&headers) => {
            ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response()
        }
        Ok(text) => ([(header::CONTENT_TYPE, PLAIN_CONTENT_TYPE)], plain(&text)).into_response(),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{Checkpoint, Latest};
    use crate::telemetry::{NodeInfo, Streams, Summary, Window};
    use std::sync::Arc;
    use tokio::sync::{mpsc, watch};

    #[tokio::test]
    async fn readers_of_a_checkpoint_share_its_bytes() {
        let latest = Latest::default();
        latest.set(Some(Checkpoint::new(Slot(64), Slot(63), vec![7; 1 << 20])));
        let kept = latest.get().unwrap();
        let api = Api {
            summary: watch::channel(Arc::new(Summary::default())).1,
            window: Window {
                info: Arc::new(NodeInfo::example()),
                snapshot: watch::channel(Arc::new(Snapshot::default())).1,
                streams: Streams::new(1),
                counted: Arc::default(),
            },
            control: mpsc::channel(1).0,
            token: "secret".into(),
            clients: alphorn_dashboard::Clients::new(),
            doctor: Arc::new(Value::Null),
            checkpoint: latest,
        };
        for _ in 0..2 {
            let body = checkpoint(State(api.clone())).await.into_body();
            let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
            assert_eq!(bytes.as_ptr(), kept.bytes.as_ptr(), "a copy was made");
        }
    }
}
