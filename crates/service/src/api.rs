//! The paths of the service.
//!
//! | path | description |
//! |---|---|
//! | `GET /worker/v1` | sets, sizes and limits |
//! | `GET /worker/v1/health` | 200, or 503 with the reasons; needs no token |
//! | `GET`, `POST /worker/v1/registries`; `GET`, `DELETE …/{digest}` | the keys of committees |
//! | `POST /worker/v1/jobs/{kind}` | submits a job |
//! | `GET /worker/v1/jobs`; `GET`, `DELETE …/{id}` | the state of jobs; cancels or forgets one |
//! | `GET …/{id}/events`, `GET …/{id}/proof` | a job's states as server-sent events; its proof |
//! | `DELETE /worker/v1/sessions/{name}` | cancels the jobs of a session |
//! | `GET /metrics` | figures for Prometheus |
//!
//! A body is `application/json` or, in SSZ, `application/octet-stream`. Browsers send neither type without a
//! preflight request.

use crate::ask::{Format, Name, Refused, Who, aside, bad, body, missing, query};
use crate::job::{ENTRIES_MAX, Job, Kind, Work};
use crate::metrics::metrics;
use crate::record::{Record, Snapshot};
use crate::registry::{Digest, Registry, proofs};
use crate::service::{Schedule, Service};
use crate::tokens::check_name;
use crate::{json as texts, ssz};
use alphorn_dashboard::{Wanted, follow};
use alphorn_exec::Exec;
use alphorn_node::api::{problem, unknown, wrong_method};
use alphorn_xmss::{EVIDENCE_BYTES_MAX, Set};
use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;

type Shared = State<Arc<Service>>;

/// Returns the router with all paths.
pub fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/worker/v1", get(about))
        .route("/worker/v1/health", get(health))
        .route("/worker/v1/registries", get(registries).post(upload))
        .route(
            "/worker/v1/registries/{digest}",
            get(registry).delete(forget_registry),
        )
        .route("/worker/v1/jobs", get(jobs))
        // In a POST the last part is the kind of job, otherwise its id.
        .route("/worker/v1/jobs/{what}", post(submit).get(job).delete(give_up))
        .route("/worker/v1/jobs/{what}/events", get(events))
        .route("/worker/v1/jobs/{what}/proof", get(proof))
        .route("/worker/v1/sessions/{name}", delete(cancel_session))
        .route("/metrics", get(metrics))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .with_state(service)
}

/// Returns the sizes and bounds of a set.
fn set_json(set: Set) -> Value {
    let (params, proofs) = (set.params(), proofs(set));
    let merged = proofs.merge_security().map(|table| table.least_bits());
    json!({
        "set": set.name(),
        "public_key_bytes": params.public_key_bytes,
        "signature_bytes": params.signature_bytes,
        "slots": params.lifetime(),
        "registry_keys_max": proofs.registry_max(),
        "mergeable_signatures_max": proofs.mergeable_max(),
        "bundle_entries_max": proofs.entries_max(),
        "proof_bytes_max": EVIDENCE_BYTES_MAX,
        "proof_bits": proofs.security().least_bits(),
        "merge_bits": merged,
    })
}

async fn about(State(service): Shared, Who(_): Who) -> Json<Value> {
    let limits = service.limits;
    let sets = service.sets.iter().map(|set| set_json(*set));
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "commit": service.commit,
        "instance": format!("{:016x}", service.instance),
        "kernel": service.backend.name(),
        "kinds": Kind::ALL.map(Kind::name),
        "sets": sets.collect::<Vec<Value>>(),
        "limits": {
            "body_bytes_max": limits.body_bytes_max,
            "jobs_max": limits.jobs_max,
            "entries_max": ENTRIES_MAX,
            "registry_keys_max": limits.registry_keys_max,
            "ended_jobs_max": limits.ended_max,
            "result_bytes_max": limits.result_bytes_max,
            "keep_seconds": limits.keep.as_secs(),
        },
    }))
}

async fn health(State(service): Shared) -> Response {
    let status = service.worker().status();
    let mut reasons = Vec::new();
    if service.book().closing {
        reasons.push("the worker ends".to_owned());
    }
    if status.degraded {
        reasons.push(format!("{} lanes hang", status.abandoned));
    }
    match reasons.is_empty() {
        true => Json(json!({"status": "ready"})).into_response(),
        false => problem(StatusCode::SERVICE_UNAVAILABLE, reasons.join(", ")),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RegistryQuery {
    set: Option<String>,
    #[serde(default)]
    number: u32,
}

fn registry_json(registry: &Registry) -> Value {
    json!({
        "digest": format!("0x{}", hex::encode(registry.digest)),
        "set": registry.set.name(),
        "number": registry.number,
        "keys": registry.len(),
    })
}

/// Decodes the registry of a body, and makes its commitment.
fn registry_of(
    service: &Service,
    format: Format,
    bytes: Bytes,
    asked: RegistryQuery,
) -> Result<Registry, String> {
    let (name, number, keys) = match format {
        Format::Ssz => {
            let name = asked.set.ok_or("set is missing in the query")?;
            (name, asked.number, Err(bytes))
        }
        Format::Json => {
            let text = texts::registry(&bytes)?;
            (text.set, text.number, Ok(text.keys))
        }
    };
    let set = service.sets.iter().find(|set| set.name() == name);
    let set = *set.ok_or_else(|| {
        let names: Vec<&str> = service.sets.iter().map(|set| set.name()).collect();
        format!("set is {name:?}, this worker serves {}", names.join(", "))
    })?;
    let keys = match keys {
        Err(bytes) => bytes,
        Ok(keys) => texts::joined("key", &keys, set.params().public_key_bytes)?,
    };
    let registry = Registry::new(set, number, keys)?;
    registry.committed(Exec::new(service.backend, None))?;
    Ok(registry)
}

async fn upload(
    State(service): Shared,
    Who(who): Who,
    headers: HeaderMap,
    asked: Result<Query<RegistryQuery>, QueryRejection>,
    content: Body,
) -> Result<Response, Refused> {
    let asked = query(asked)?;
    let (format, bytes, room) = body(&service, &who, &headers, content).await?;
    let making = service.clone();
    let made = aside(&service.decoders, room, move || {
        registry_of(&making, format, bytes, asked).map_err(bad)
    });
    let registry = Arc::new(made.await?);
    let answer = registry_json(&registry);
    let is_new = service
        .book()
        .keep_registry(&who, registry, Instant::now())?;
    let code = match is_new {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    Ok((code, Json(answer)).into_response())
}

fn digest(text: &str) -> Result<Digest, Refused> {
    texts::unhex_array("digest", text).map_err(bad)
}

async fn registries(State(service): Shared, Who(who): Who) -> Json<Value> {
    let all = service.book().registries(&who);
    let answer: Vec<Value> = all.iter().map(|one| registry_json(one)).collect();
    Json(json!({"registries": answer}))
}

async fn registry(
    State(service): Shared,
    Who(who): Who,
    Name(name): Name,
) -> Result<Json<Value>, Refused> {
    let digest = digest(&name)?;
    let found = service.book().registry(&who, &digest, Instant::now());
    let found = found.ok_or_else(|| missing(&format!("registry {name}")))?;
    Ok(Json(registry_json(&found)))
}

async fn forget_registry(
    State(service): Shared,
    Who(who): Who,
    Name(name): Name,
) -> Result<StatusCode, Refused> {
    match service.book().forget_registry(&who, &digest(&name)?) {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(missing(&format!("registry {name}"))),
    }
}

/// Decodes the work of a body.
fn work_of(
    service: &Service,
    who: &str,
    kind: Kind,
    format: Format,
    body: &Bytes,
    kept: usize,
) -> Result<Work, String> {
    // The book is locked for each entry, not for as long as the body is decoded.
    let lookup = |digest: &Digest| service.book().registry(who, digest, Instant::now());
    match format {
        Format::Ssz => ssz::decode(kind, body, kept, &lookup),
        Format::Json => texts::decode(kind, body, kept, &lookup),
    }
}

async fn submit(
    State(service): Shared,
    Who(who): Who,
    Name(name): Name,
    headers: HeaderMap,
    schedule: Result<Query<Schedule>, QueryRejection>,
    content: Body,
) -> Result<Response, Refused> {
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
    let kind = kind.ok_or_else(|| missing(&format!("kind of job {name:?}")))?;
    let schedule = query(schedule)?;
    let wait_ms = schedule.wait_ms;
    let (format, bytes, room) = body(&service, &who, &headers, content).await?;
    let taking = service.clone();
    let taken = aside(&service.decoders, room, move || {
        let work = work_of(&taking, &who, kind, format, &bytes, schedule.kept).map_err(bad)?;
        let job = Job {
            work,
            cut: schedule.cut,
        };
        let asked = schedule.asked(&who, &job, &bytes);
        Ok(taking.submit(asked, &schedule, job)?)
    });
    let (number, is_new) = taken.await?;
    if wait_ms > 0 {
        service.wait(number, wait_ms).await;
    }
    let (is_over, snapshot) = state_of(&service, number)?;
    let code = match is_over || !is_new {
        true => StatusCode::OK,
        false => StatusCode::ACCEPTED,
    };
    Ok((code, snapshot).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitQuery {
    #[serde(default)]
    wait_ms: u64,
}

/// Looks up something in a job of a client.
fn of_job<T>(
    service: &Service,
    who: &str,
    id: &str,
    read: impl FnOnce(&Record) -> T,
) -> Result<T, Refused> {
    let mut book = service.book();
    let found = book.find(who, id, Instant::now());
    let found = found.ok_or_else(|| missing(&format!("job {id:?}: it may be forgotten")))?;
    Ok(read(found))
}

/// Returns whether a job has ended, and its state.
fn state_of(service: &Service, number: u64) -> Result<(bool, Snapshot), Refused> {
    let book = service.book();
    let record = book
        .get(number)
        .ok_or_else(|| missing("such job any more"))?;
    Ok((record.is_over(), book.snapshot(record, Instant::now())))
}

async fn job(
    State(service): Shared,
    Who(who): Who,
    Name(id): Name,
    asked: Result<Query<WaitQuery>, QueryRejection>,
) -> Result<Snapshot, Refused> {
    let wait_ms = query(asked)?.wait_ms.min(crate::service::WAIT_MS_MAX);
    let number = of_job(&service, &who, &id, Record::number)?;
    if wait_ms > 0 {
        service.wait(number, wait_ms).await;
    }
    state_of(&service, number).map(|(_, snapshot)| snapshot)
}

async fn jobs(State(service): Shared, Who(who): Who) -> Json<Value> {
    let jobs = service.book().facts(&who, Instant::now());
    Json(json!({"jobs": jobs}))
}

/// Cancels a job in progress, or forgets one that has ended.
async fn give_up(
    State(service): Shared,
    Who(who): Who,
    Name(id): Name,
) -> Result<Response, Refused> {
    let what = |record: &Record| (record.number(), record.is_over(), record.cancel);
    let (number, is_over, session) = of_job(&service, &who, &id, what)?;
    // Read before the job may be forgotten: it is the answer.
    let (_, last) = state_of(&service, number)?;
    if is_over {
        service.book().forget(number);
        return Ok((StatusCode::OK, last).into_response());
    }
    service.worker().cancel(session);
    Ok((StatusCode::ACCEPTED, last).into_response())
}

async fn cancel_session(
    State(service): Shared,
    Who(who): Who,
    Name(name): Name,
) -> Result<Json<Value>, Refused> {
    check_name("session", &name).map_err(bad)?;
    let live: Vec<_> = {
        let book = service.book();
        let own = book.of_client(&who);
        let own = own.filter(|one| one.is_of_session(&name) && !one.is_over());
        own.map(|one| one.cancel).collect()
    };
    live.iter()
        .for_each(|session| service.worker().cancel(*session));
    Ok(Json(json!({"cancelled": live.len()})))
}

async fn events(
    State(service): Shared,
    Who(who): Who,
    Name(id): Name,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let lines = of_job(&service, &who, &id, |record| record.events.clone())?;
    let max = service.readers_max();
    let own = service.readers.named(&who, max);
    let stream = follow(lines, &own, &headers, Wanted::All);
    stream.ok_or_else(|| {
        let why = format!("{max} of your streams of events are open");
        (StatusCode::TOO_MANY_REQUESTS, why).into()
    })
}

async fn proof(State(service): Shared, Who(who): Who, Name(id): Name) -> Result<Response, Refused> {
    let what = |record: &Record| (record.is_over(), record.proof().cloned());
    match of_job(&service, &who, &id, what)? {
        (_, Some(proof)) => {
            let media = [(header::CONTENT_TYPE, "application/octet-stream")];
            Ok((media, proof).into_response())
        }
        (true, None) => Err(missing(&format!("proof: job {id} made none"))),
        (false, None) => {
            let why = format!("job {id} has not ended");
            Err((StatusCode::CONFLICT, why).into())
        }
    }
}
