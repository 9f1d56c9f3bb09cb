//! The state of the service: clients with their registries, and jobs until they are forgotten.
//!
//! Each client has its own share of every resource, so that no client takes what another one needs:
//! registries, waiting inputs, bodies in flight, kept results. The number of clients is bounded; an
//! idle client is evicted for a new one.

use crate::job::{Kind, Output};
use crate::record::{Events, Record, Snapshot, State, ending};
use crate::registry::{Digest, Registry};
use alphorn_scheme::{Class, JobId, SessionId};
use alphorn_worker::{Finished, Running};
use alphorn_xmss::COMMITTEE_MAX;
use axum::http::StatusCode;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Bytes of a KiB, the unit for bodies in flight.
const KIB: usize = 1 << 10;

/// The share of a client, and the maximum number of clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Clients at a time.
    pub clients_max: usize,
    /// Jobs that are waiting or running.
    pub jobs_max: usize,
    /// Bytes of a body, of bodies in flight, and of the inputs of waiting or running jobs.
    pub body_bytes_max: usize,
    /// Keys of its registries.
    pub registry_keys_max: usize,
    /// Finished jobs that are remembered.
    pub ended_max: usize,
    /// Bytes of their results: proofs and verdicts.
    pub result_bytes_max: usize,
    /// How long they are remembered.
    pub keep: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            clients_max: 8,
            jobs_max: 64,
            body_bytes_max: 96 << 20,
            registry_keys_max: 4 * COMMITTEE_MAX as usize,
            ended_max: 256,
            result_bytes_max: 64 << 20,
            keep: Duration::from_secs(600),
        }
    }
}

/// Why a request is rejected: the status of the answer, and the reason.
pub(crate) type Problem = (StatusCode, String);

/// Room for a body while it is received and decoded.
#[derive(Debug)]
pub(crate) struct Room {
    _bytes: OwnedSemaphorePermit,
    /// One permit: the client's bodies are decoded one after the other, so that they do not take all decoders.
    pub(crate) turn: Arc<Semaphore>,
}

/// A client: the owner of a token, or an address.
struct Client {
    /// Its number for the worker, whose lanes serve clients in turn.
    number: u32,
    registries: BTreeMap<Digest, (Arc<Registry>, Instant)>,
    /// Bodies that are being received, in KiB.
    uploads: Arc<Semaphore>,
    /// See [`Room::turn`].
    turn: Arc<Semaphore>,
    live: usize,
    live_bytes: usize,
    /// Its finished jobs, oldest first.
    ended: VecDeque<u64>,
    ended_bytes: usize,
    /// Time of its last request, or of the last end of one of its jobs.
    used: Instant,
}

/// A client's request, apart from the work itself.
pub(crate) struct Asked {
    pub(crate) client: String,
    pub(crate) name: Option<String>,
    pub(crate) session: Option<String>,
    /// SHA-256 of the request.
    pub(crate) digest: Digest,
    pub(crate) bytes: usize,
    pub(crate) kind: Kind,
    pub(crate) inputs: usize,
}

/// Everything that is remembered.
pub(crate) struct Book {
    limits: Limits,
    /// Distinguishes this process's job names from those of an earlier or later process.
    instance: u64,
    clients: BTreeMap<String, Client>,
    next_client: u32,
    records: BTreeMap<u64, Record>,
    by_job: BTreeMap<JobId, u64>,
    next: u64,
    /// Number of finished jobs by kind and outcome.
    pub(crate) ended: BTreeMap<(&'static str, &'static str), u64>,
    /// Set when no more jobs are accepted.
    pub(crate) closing: bool,
}

impl Book {
    pub(crate) fn new(limits: Limits, instance: u64) -> Book {
        Book {
            limits,
            instance,
            clients: BTreeMap::new(),
            next_client: 0,
            records: BTreeMap::new(),
            by_job: BTreeMap::new(),
            next: 1,
            ended: BTreeMap::new(),
            closing: false,
        }
    }

    /// Returns the client with a name; an idle client is evicted for a new one.
    fn client(&mut self, name: &str, now: Instant) -> Result<&mut Client, Problem> {
        if !self.clients.contains_key(name) {
            if self.clients.len() >= self.limits.clients_max {
                self.forget_a_client()?;
            }
            // One more, since `upload` rounds a body up by as much: one of the greatest length must fit.
            let kib = self.limits.body_bytes_max.div_ceil(KIB) + 1;
            let client = Client {
                number: self.next_client,
                registries: BTreeMap::new(),
                uploads: Arc::new(Semaphore::new(kib)),
                turn: Arc::new(Semaphore::new(1)),
                live: 0,
                live_bytes: 0,
                ended: VecDeque::new(),
                ended_bytes: 0,
                used: now,
            };
            self.next_client = self.next_client.wrapping_add(1);
            self.clients.insert(name.to_owned(), client);
        }
        let max = self.limits.clients_max;
        let client = self.clients.get_mut(name);
        let client = client.ok_or_else(|| too_many(format!("{max} clients are busy")))?;
        client.used = now;
        Ok(client)
    }

    fn forget_a_client(&mut self) -> Result<(), Problem> {
        let kib = self.limits.body_bytes_max.div_ceil(KIB) + 1;
        let idle = self.clients.iter();
        // With all permits back, no body of the client is being received, whose registry or job would be lost.
        let idle = idle.filter(|(_, one)| one.live == 0 && one.uploads.available_permits() == kib);
        let oldest = idle.min_by_key(|(_, one)| one.used);
        let Some(name) = oldest.map(|(name, _)| name.clone()) else {
            let max = self.limits.clients_max;
            return Err(too_many(format!("{max} clients have jobs under way")));
        };
        if let Some(client) = self.clients.remove(&name) {
            for number in client.ended {
                self.records.remove(&number);
            }
        }
        Ok(())
    }

    /// Reserves room for a body of this many bytes while it is received and decoded.
    pub(crate) fn upload(
        &mut self,
        client: &str,
        bytes: usize,
        now: Instant,
    ) -> Result<Room, Problem> {
        let max = self.limits.body_bytes_max;
        if bytes > max {
            let why = format!("a body of {bytes} bytes, at most {max}");
            return Err((StatusCode::PAYLOAD_TOO_LARGE, why));
        }
        let client = self.client(client, now)?;
        let (uploads, turn) = (client.uploads.clone(), client.turn.clone());
        let kib = u32::try_from(bytes / KIB + 1).unwrap_or(u32::MAX);
        match uploads.try_acquire_many_owned(kib) {
            Ok(bytes) => Ok(Room {
                _bytes: bytes,
                turn,
            }),
            Err(_) => Err(too_many(format!(
                "your bodies under way exceed {max} bytes"
            ))),
        }
    }

    /// Keeps a registry, evicting the client's least recently used ones. Returns whether it is new.
    pub(crate) fn keep_registry(
        &mut self,
        client: &str,
        registry: Arc<Registry>,
        now: Instant,
    ) -> Result<bool, Problem> {
        let max = self.limits.registry_keys_max;
        let client = self.client(client, now)?;
        let digest = registry.digest;
        let is_new = client.registries.insert(digest, (registry, now)).is_none();
        let keys = |client: &Client| -> usize {
            let all = client.registries.values();
            all.map(|(registry, _)| registry.len()).sum()
        };
        // Never the one just uploaded, even if it alone is too long: its digest is in the answer.
        while keys(client) > max {
            let others = client.registries.iter();
            let others = others.filter(|(one, _)| **one != digest);
            let oldest = others.min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(one, _)| *one) else {
                break;
            };
            client.registries.remove(&oldest);
        }
        Ok(is_new)
    }

    /// Returns a registry of a client.
    pub(crate) fn registry(
        &mut self,
        client: &str,
        digest: &Digest,
        now: Instant,
    ) -> Option<Arc<Registry>> {
        let client = self.clients.get_mut(client)?;
        client.used = now;
        let (registry, used) = client.registries.get_mut(digest)?;
        *used = now;
        Some(registry.clone())
    }

    /// Returns the registries of a client.
    pub(crate) fn registries(&self, client: &str) -> Vec<Arc<Registry>> {
        let client = self.clients.get(client);
        let all = client.map(|client| client.registries.values());
        let all = all.into_iter().flatten();
        all.map(|(registry, _)| registry.clone()).collect()
    }

    /// Forgets a registry; jobs in progress keep it.
    pub(crate) fn forget_registry(&mut self, client: &str, digest: &Digest) -> bool {
        let client = self.clients.get_mut(client);
        client.is_some_and(|client| client.registries.remove(digest).is_some())
    }

    /// Returns the job that a client already has under this name, if it is the same job.
    pub(crate) fn named(&self, asked: &Asked) -> Result<Option<u64>, Problem> {
        let Some(name) = &asked.name else {
            return Ok(None);
        };
        let own = self.records.values();
        let mut own = own.filter(|one| one.client == asked.client);
        match own.find(|one| one.name.as_ref() == Some(name)) {
            None => Ok(None),
            Some(one) if one.asked == asked.digest => Ok(Some(one.number)),
            Some(_) => Err((
                StatusCode::CONFLICT,
                format!("another job has the name {name}"),
            )),
        }
    }

    /// Checks whether a client may submit one more job; returns the number of the job and of the client.
    pub(crate) fn admit(&mut self, asked: &Asked, now: Instant) -> Result<(u64, u32), Problem> {
        let limits = self.limits;
        let number = self.next;
        let client = self.client(&asked.client, now)?;
        if client.live >= limits.jobs_max {
            let max = limits.jobs_max;
            return Err(too_many(format!("{max} of your jobs are under way")));
        }
        if client.live_bytes + asked.bytes > limits.body_bytes_max {
            let (live, max) = (client.live_bytes, limits.body_bytes_max);
            let bytes = asked.bytes;
            return Err(too_many(format!(
                "{bytes} bytes and {live} of your jobs under way, together at most {max}"
            )));
        }
        // Nothing is counted yet: the worker may still refuse the job, and only `insert` follows if it does not.
        Ok((number, client.number))
    }

    /// Remembers a job that was accepted under the number of [`Book::admit`].
    pub(crate) fn insert(
        &mut self,
        asked: Asked,
        job: JobId,
        cancel: SessionId,
        now: Instant,
    ) -> u64 {
        let number = self.next;
        self.next += 1;
        if let Some(client) = self.clients.get_mut(&asked.client) {
            client.live += 1;
            client.live_bytes += asked.bytes;
        }
        let record = Record {
            number,
            client: asked.client,
            kind: asked.kind,
            name: asked.name,
            asked: asked.digest,
            session: asked.session,
            cancel,
            bytes: asked.bytes,
            inputs: asked.inputs,
            accepted: now,
            state: State::Queued,
            events: Events::new(self.instance ^ number),
            over: watch::Sender::new(false),
        };
        let snapshot = record.snapshot(self.instance, now);
        record.events.push("queued", snapshot, false);
        self.by_job.insert(job, number);
        self.records.insert(number, record);
        number
    }

    /// Returns a job of a client by the name that the service gave it, and marks the client as recently
    /// used.
    pub(crate) fn find(&mut self, client: &str, id: &str, now: Instant) -> Option<&Record> {
        let (instance, number) = id.split_once('-')?;
        if u64::from_str_radix(instance, 16) != Ok(self.instance) {
            return None;
        }
        let record = self.records.get(&number.parse().ok()?)?;
        if record.client != client {
            return None;
        }
        if let Some(client) = self.clients.get_mut(client) {
            client.used = now;
        }
        Some(record)
    }

    /// Returns the job with a number.
    pub(crate) fn get(&self, number: u64) -> Option<&Record> {
        self.records.get(&number)
    }

    /// Returns the state of a job.
    pub(crate) fn snapshot(&self, record: &Record, now: Instant) -> Snapshot {
        record.snapshot(self.instance, now)
    }

    /// Returns the states of a client's jobs without lists: those of hundreds of jobs have millions of
    /// values.
    pub(crate) fn facts(&self, client: &str, now: Instant) -> Vec<Map<String, Value>> {
        let own = self.of_client(client);
        own.map(|record| record.facts(self.instance, now)).collect()
    }

    /// Returns the jobs of a client.
    pub(crate) fn of_client<'a>(&'a self, client: &'a str) -> impl Iterator<Item = &'a Record> {
        let all = self.records.values();
        all.filter(move |record| record.client == client)
    }

    /// Returns the number of waiting or running jobs.
    pub(crate) fn live(&self) -> usize {
        self.by_job.len()
    }

    /// Returns the number of clients remembered.
    pub(crate) fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Records which jobs are running.
    pub(crate) fn progress(&mut self, running: &[Running], now: Instant) {
        for one in running {
            let record = self.by_job.get(&one.job);
            // A job may have ended since the worker was asked what runs.
            let Some(record) = record.and_then(|number| self.records.get_mut(number)) else {
                continue;
            };
            let begins = matches!(record.state, State::Queued);
            record.state = State::Running(*one);
            let state = record.snapshot(self.instance, now);
            match begins {
                true => record.events.push("running", state, false),
                false => record.events.push("progress", state, true),
            }
        }
    }

    /// Records the end of a job.
    pub(crate) fn end(&mut self, finished: Finished<Output>, now: Instant) {
        let number = self.by_job.remove(&finished.job);
        let Some(record) = number.and_then(|number| self.records.get_mut(&number)) else {
            return;
        };
        let ending = ending(finished, record.inputs, now);
        *self
            .ended
            .entry((record.kind.name(), ending.state))
            .or_default() += 1;
        let bytes = ending.bytes();
        record.state = State::Ended(ending);
        record.events.end(record.snapshot(self.instance, now));
        record.over.send_replace(true);
        let (number, client, live_bytes) = (record.number, record.client.clone(), record.bytes);
        if let Some(client) = self.clients.get_mut(&client) {
            client.live -= 1;
            client.live_bytes -= live_bytes;
            client.ended.push_back(number);
            client.ended_bytes += bytes;
            // The client has not yet had a chance to fetch this result, so it is not the first to be
            // evicted.
            client.used = now;
        }
        self.forget_ended(&client, now);
    }

    /// Forgets finished jobs that are beyond a client's share or too old.
    fn forget_ended(&mut self, name: &str, now: Instant) {
        let limits = self.limits;
        let Some(client) = self.clients.get_mut(name) else {
            return;
        };
        while let Some(number) = client.ended.front() {
            let record = self.records.get(number);
            let ending = record.and_then(Record::ending);
            let age = ending.map(|ending| now.saturating_duration_since(ending.at));
            let age = age.unwrap_or(Duration::MAX);
            // The last result stays, whatever its length: its client has not had a chance to fetch it.
            let is_long = client.ended_bytes > limits.result_bytes_max && client.ended.len() > 1;
            if age < limits.keep && client.ended.len() <= limits.ended_max && !is_long {
                break;
            }
            let bytes = record.map_or(0, Record::kept_bytes);
            self.records.remove(number);
            client.ended_bytes -= bytes;
            client.ended.pop_front();
        }
    }

    /// Forgets what is too old.
    pub(crate) fn sweep(&mut self, now: Instant) {
        let names: Vec<String> = self.clients.keys().cloned().collect();
        for name in names {
            self.forget_ended(&name, now);
        }
    }

    /// Forgets a finished job.
    pub(crate) fn forget(&mut self, number: u64) {
        let Some(record) = self.records.remove(&number) else {
            return;
        };
        if let Some(client) = self.clients.get_mut(&record.client) {
            client.ended.retain(|one| *one != number);
            client.ended_bytes -= record.kept_bytes();
        }
    }
}

/// Returns the answer that asks a client to retry later.
fn too_many(why: String) -> Problem {
    (StatusCode::TOO_MANY_REQUESTS, why)
}

/// Parses a priority by its name in requests.
pub(crate) fn priority(name: &str) -> Option<Class> {
    Class::ALL.into_iter().find(|class| class.name() == name)
}

/// Returns the digest that identifies a job: its kind, its schedule, and its body.
pub(crate) fn digest_of(kind: Kind, body: &[u8], schedule: &str) -> Digest {
    let mut hasher = Sha256::new();
    hasher.update(kind.name());
    hasher.update([0]);
    hasher.update(schedule);
    hasher.update([0]);
    hasher.update(body);
    hasher.finalize().into()
}
