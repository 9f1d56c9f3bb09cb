//! The service behind the HTTP paths: accepts jobs, runs them on a worker, and records their ends.

use crate::book::{Asked, Book, Limits, Problem, digest_of, priority};
use crate::job::{Env, Job};
use crate::registry::make_circuits;
use crate::tokens::{Tokens, check_name};
use alphorn_dashboard::{CLIENTS_MAX, Clients};
use alphorn_exec::Backend;
use alphorn_scheme::{Class, Group, SessionId};
use alphorn_types::{Slot, Time};
use alphorn_worker::{
    Refused, Request, Status, SubmitError, Worker, WorkerConfig, serve_child, steady_time,
};
use alphorn_xmss::Set;
use axum::http::StatusCode;
use serde::Deserialize;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Interval at which the progress of jobs is recorded.
const TICK: Duration = Duration::from_millis(250);
/// Maximum number of bodies decoded concurrently.
const DECODERS: usize = 2;
/// Seconds per slot of the worker, which uses slot numbers to age out what it learned about costs.
const SLOT_SECONDS: u64 = 4;
/// Default soft deadline of a job, by which it should have ended.
const SOFT_MS: u64 = 60_000;
/// Default and maximum hard deadline, after which a job's result is useless.
const HARD_MS: u64 = 600_000;
/// Longest time that an answer waits for the end of a job; connections have half a minute.
pub(crate) const WAIT_MS_MAX: u64 = 20_000;

/// How a job is to be scheduled: the query of its request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Schedule {
    priority: Option<String>,
    soft_ms: Option<u64>,
    hard_ms: Option<u64>,
    session: Option<String>,
    name: Option<String>,
    #[serde(default)]
    pub(crate) cut: bool,
    #[serde(default)]
    pub(crate) wait_ms: u64,
    #[serde(default)]
    pub(crate) kept: usize,
}

/// A validated schedule.
struct Bounds {
    class: Class,
    soft: Duration,
    hard: Duration,
}

impl Schedule {
    fn bounds(&self) -> Result<Bounds, String> {
        let named = self.priority.as_deref().unwrap_or(Class::Current.name());
        let class = priority(named).ok_or_else(|| {
            let names = Class::ALL.map(Class::name).join(", ");
            format!("priority is {named:?}, must be one of {names}")
        })?;
        let hard = self.hard_ms.unwrap_or(HARD_MS);
        if !(1..=HARD_MS).contains(&hard) {
            return Err(format!("hard_ms is {hard}, must be 1 to {HARD_MS}"));
        }
        let soft = self.soft_ms.unwrap_or(SOFT_MS.min(hard));
        if !(1..=hard).contains(&soft) {
            return Err(format!(
                "soft_ms is {soft}, must be 1 to {hard}, as hard_ms is"
            ));
        }
        if self.wait_ms > WAIT_MS_MAX {
            let wait = self.wait_ms;
            return Err(format!("wait_ms is {wait}, must be at most {WAIT_MS_MAX}"));
        }
        for (what, name) in [("session", &self.session), ("name", &self.name)] {
            if let Some(name) = name {
                check_name(what, name)?;
            }
        }
        Ok(Bounds {
            class,
            soft: Duration::from_millis(soft),
            hard: Duration::from_millis(hard),
        })
    }

    /// Builds a request: the client, the job, and its digest.
    pub(crate) fn asked(&self, client: &str, job: &Job, body: &[u8]) -> Asked {
        Asked {
            client: client.to_owned(),
            name: self.name.clone(),
            session: self.session.clone(),
            digest: digest_of(job.kind(), body, &format!("{} {}", self.cut, self.kept)),
            bytes: body.len(),
            kind: job.kind(),
            inputs: job.inputs(),
        }
    }
}

/// A service, with its lanes and the state of its clients.
pub struct Service {
    worker: Worker<Job>,
    /// The worker's clock, in which its deadlines are given.
    time: Box<dyn Fn() -> Time + Send + Sync>,
    book: Mutex<Book>,
    pub(crate) tokens: Tokens,
    pub(crate) sets: Vec<Set>,
    pub(crate) backend: Backend,
    pub(crate) limits: Limits,
    pub(crate) instance: u64,
    pub(crate) commit: &'static str,
    pub(crate) decoders: Arc<Semaphore>,
    /// The connection slots of event readers.
    pub(crate) readers: Clients,
    pub(crate) begin: Instant,
}

/// The components of a service.
pub struct Parts {
    /// Its lanes.
    pub lanes: WorkerConfig,
    /// Its clients.
    pub tokens: Tokens,
    /// The parameter sets that it serves.
    pub sets: Vec<Set>,
    /// The instruction set of its kernels.
    pub backend: Backend,
    /// The bounds of each client.
    pub limits: Limits,
    /// A random number by which clients notice that it was started anew.
    pub instance: u64,
    /// The commit of the program, which `/worker/v1/about` states.
    pub commit: &'static str,
}

/// Serves jobs as the process of a prove lane, until its worker ends it. Circuits are built in the meantime: its first
/// job may need none, and one that does waits for them.
pub fn serve_lane(backend: Backend, sets: Vec<Set>) -> ExitCode {
    serve_child::<Job>(|_| {
        std::thread::spawn(move || make_circuits(&sets));
        Ok(Env::new(backend))
    })
}

impl Service {
    /// Starts the lanes, and a thread that records ends and progress.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(mut parts: Parts) -> std::io::Result<Arc<Service>> {
        let limits = parts.limits;
        let plan = &mut parts.lanes.plan;
        // Each client has its share of the queue, so no client's job evicts another's.
        let jobs = limits.clients_max * limits.jobs_max;
        plan.jobs_queued_max = u32::try_from(jobs).unwrap_or(u32::MAX);
        plan.queue_bytes_max = (limits.clients_max * limits.body_bytes_max) as u64;
        let (wake, woken) = sync_channel(1);
        let wake = move || {
            // One pending wake-up is enough.
            let _ = wake.try_send(());
        };
        // Not the wall clock, which may be adjusted while jobs wait.
        let time = steady_time();
        let env = Env::new(parts.backend);
        let worker = Worker::start(env, parts.lanes, time.clone(), wake)?;
        let service = Arc::new(Service {
            worker,
            time: Box::new(time),
            book: Mutex::new(Book::new(limits, parts.instance)),
            tokens: parts.tokens,
            sets: parts.sets,
            backend: parts.backend,
            limits,
            instance: parts.instance,
            commit: parts.commit,
            decoders: Arc::new(Semaphore::new(DECODERS)),
            readers: Clients::new(),
            begin: Instant::now(),
        });
        let noting = service.clone();
        let thread = std::thread::Builder::new().name("alphorn-ends".into());
        thread.spawn(move || noting.note(&woken))?;
        Ok(service)
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn worker(&self) -> &Worker<Job> {
        &self.worker
    }

    /// Returns the number of event streams that a client may have open: its share of the slots.
    pub(crate) fn readers_max(&self) -> usize {
        (CLIENTS_MAX / self.limits.clients_max).max(1)
    }

    /// Records the ends of jobs as they come, and the progress of running ones.
    fn note(&self, woken: &Receiver<()>) {
        loop {
            if let Err(RecvTimeoutError::Disconnected) = woken.recv_timeout(TICK) {
                return;
            }
            while let Some(finished) = self.worker.try_recv() {
                self.book().end(finished, Instant::now());
            }
            let live = self.book().live();
            let running = match live {
                0 => Vec::new(),
                _ => self.worker.running(),
            };
            let mut book = self.book();
            book.progress(&running, Instant::now());
            book.sweep(Instant::now());
        }
    }

    /// Accepts a job; returns its number, and whether it is new.
    pub(crate) fn submit(
        &self,
        asked: Asked,
        schedule: &Schedule,
        job: Job,
    ) -> Result<(u64, bool), Problem> {
        let unfit = |why| (StatusCode::BAD_REQUEST, why);
        let bounds = schedule.bounds().map_err(unfit)?;
        let now = Instant::now();
        // Held until the job is recorded, so that its end does not come first.
        let mut book = self.book();
        if let Some(number) = book.named(&asked)? {
            return Ok((number, false));
        }
        if book.closing {
            return Err(ending());
        }
        let (number, client) = book.admit(&asked, now)?;
        let slot = Slot(now.saturating_duration_since(self.begin).as_secs() / SLOT_SECONDS);
        let session = SessionId {
            slot,
            seq: number as u32,
        };
        let at = |after: Duration| {
            let after_ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
            (self.time)().saturating_add_ns(after_ns)
        };
        let request = Request {
            client,
            session,
            group: Group {
                message: job.about().map_or([0; 32], |about| about.message),
                ..Group::of_slot(slot)
            },
            replaces: None,
            class: bounds.class,
            soft: at(bounds.soft),
            hard: at(bounds.hard),
            votes: u32::try_from(job.inputs()).unwrap_or(u32::MAX),
            bytes: asked.bytes as u64,
            work: job,
        };
        let taken = self.worker.submit(request).map_err(refused)?;
        Ok((book.insert(asked, taken, session, now), true))
    }

    /// Waits until a job has ended, for at most this long; false if it has not.
    pub(crate) async fn wait(&self, number: u64, wait_ms: u64) -> bool {
        let over = self
            .book()
            .get(number)
            .map(|record| record.over.subscribe());
        let Some(mut over) = over else {
            return true;
        };
        // This looks at the present value first, so an end before this line is not missed.
        let ended = over.wait_for(|over| *over);
        let ended = tokio::time::timeout(Duration::from_millis(wait_ms), ended).await;
        ended.is_ok()
    }

    /// The number of jobs that are waiting or running.
    pub fn live(&self) -> usize {
        self.book().live()
    }

    /// The state of its lanes.
    pub fn status(&self) -> Status {
        self.worker.status()
    }

    /// Stops accepting jobs, waits at most `grace` for existing ones, and ends the rest.
    pub async fn close(&self, grace: Duration) {
        self.book().closing = true;
        let until = Instant::now() + grace;
        while self.book().live() > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.worker.shutdown(Duration::from_secs(1));
        // A client that waits for an end is notified.
        let until = Instant::now() + 2 * TICK;
        while self.book().live() > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(TICK).await;
    }
}

/// Returns the answer to a client that connects while the service is shutting down.
fn ending() -> Problem {
    (
        StatusCode::SERVICE_UNAVAILABLE,
        "the worker ends".to_owned(),
    )
}

/// Explains why the worker does not accept a job.
fn refused(error: SubmitError) -> Problem {
    let code = match &error {
        SubmitError::Refused(Refused::Memory { .. } | Refused::Expired)
        | SubmitError::Pointless => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (code, error.to_string())
}
