//! The lanes of a node over the worker.

use super::{Ended, Lanes};
use crate::engine::Spawn;
use alphorn_proto::{Class, Job, JobId, Product, Work};
use alphorn_scheme::{self as scheme, Env, Outcome, Scheme, SessionId};
use alphorn_worker::{Request, Session, Worker, WorkerConfig};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Sessions whose opening is remembered; the worker bounds how many are open.
const SESSIONS_MAX: usize = 256;
/// How long running jobs may take to stop.
const GRACE: Duration = Duration::from_millis(800);

/// A job that the worker has.
#[derive(Clone, Copy)]
struct Known {
    job: JobId,
    op: &'static str,
}

#[derive(Default)]
struct Book {
    known: BTreeMap<alphorn_worker::JobId, Known>,
    /// Sessions that were opened, in the order of their opening.
    opened: BTreeSet<SessionId>,
    order: VecDeque<SessionId>,
}

/// The lanes of a node over the worker, for one scheme.
pub struct Pool<S: Scheme> {
    worker: Worker<Job<S>>,
    /// The environment that the next key table is put into.
    env: Mutex<Env<S>>,
    book: Mutex<Book>,
}

impl<S: Scheme> Pool<S> {
    /// Starts the lanes. `wake` is called after a job ended.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(
        env: Env<S>,
        config: WorkerConfig,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        // The worker verifies what it delivers.
        let env = env.with_self_verify(false);
        Ok(Pool {
            worker: Worker::start(env.clone(), config, wake)?,
            env: Mutex::new(env),
            book: Mutex::default(),
        })
    }

    /// What was learned of costs, for the next start.
    pub fn costs(&self) -> alphorn_worker::CostModel {
        self.worker.costs()
    }

    /// How the worker is.
    pub fn status(&self) -> alphorn_worker::Status {
        self.worker.status()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the session of a job if this is its first.
    fn open(&self, book: &mut Book, spawn: &Spawn) -> Result<(), String> {
        if book.opened.contains(&spawn.session) {
            return Ok(());
        }
        let session = Session {
            id: spawn.session,
            open: spawn.soft,
            soft: spawn.soft,
            hard: spawn.hard,
        };
        // A session that finds no room still has jobs with bounds of their own.
        let _ = self.worker.open(session);
        if book.order.len() >= SESSIONS_MAX
            && let Some(oldest) = book.order.pop_front()
        {
            book.opened.remove(&oldest);
        }
        book.order.push_back(spawn.session);
        book.opened.insert(spawn.session);
        Ok(())
    }

    /// Puts a key table into the environment of all jobs to come.
    fn take_keys(&self, epoch: alphorn_types::Epoch, keys: std::sync::Arc<S::Keys>) {
        let mut env = self.env.lock().unwrap_or_else(PoisonError::into_inner);
        env.insert_keys(epoch, keys);
        self.worker.replace_env(env.clone(), None);
    }
}

fn class(class: Class) -> alphorn_worker::Class {
    match class {
        Class::Duty => alphorn_worker::Class::Duty,
        Class::Verdict => alphorn_worker::Class::Verdict,
        Class::Current => alphorn_worker::Class::Current,
        Class::Backfill => alphorn_worker::Class::Backfill,
        Class::Maintenance => alphorn_worker::Class::Maintenance,
    }
}

/// Votes that a job may add to what is held, and the bytes of its inputs.
fn weight(work: &Work) -> (u32, u64) {
    let Work::Scheme(work) = work else {
        return (0, 0);
    };
    match work {
        scheme::Work::Aggregate(job) => {
            let bytes = job
                .votes
                .iter()
                .map(|(_, signature)| signature.len() as u64)
                .sum();
            (job.votes.len() as u32, bytes)
        }
        scheme::Work::Combine(job) => {
            let parts = job.parts.iter().map(|part| &part.evidence);
            let bytes = parts
                .clone()
                .map(|evidence| evidence.bytes.len() as u64)
                .sum();
            let votes: usize = parts.map(|evidence| evidence.support.signer_count()).sum();
            (u32::try_from(votes).unwrap_or(u32::MAX), bytes)
        }
        _ => (0, 0),
    }
}

impl<S: Scheme> Lanes for Pool<S> {
    fn submit(&self, spawn: Spawn) -> Result<(), String> {
        let mut book = self.book();
        self.open(&mut book, &spawn)?;
        let (votes, bytes) = weight(&spawn.work);
        let known = Known {
            job: spawn.job,
            op: spawn.work.name(),
        };
        let request = Request {
            session: spawn.session,
            group: spawn.group,
            // The protocol asks once for what it wants; each of its jobs is answered.
            replaces: None,
            class: class(spawn.class),
            soft: spawn.soft,
            hard: spawn.hard,
            votes,
            bytes,
            work: Job::from(spawn.work),
        };
        // Its end cannot be read before it is in the book.
        let job = self
            .worker
            .submit(request)
            .map_err(|error| error.to_string())?;
        book.known.insert(job, known);
        Ok(())
    }

    fn cancel(&self, session: SessionId) {
        self.worker.cancel(session);
    }

    fn poll(&self) -> Option<Ended> {
        let (finished, known) = {
            let mut book = self.book();
            let finished = self.worker.try_recv()?;
            let known = book.known.remove(&finished.job)?;
            (finished, known)
        };
        let outcome = match finished.outcome {
            Outcome::Done(output) => {
                if let (Some(keys), Product::Scheme(scheme::Product::Prepared(epoch))) =
                    (output.keys, &output.product)
                {
                    self.take_keys(*epoch, keys);
                }
                Outcome::Done(output.product)
            }
            Outcome::Invalid(bad) => Outcome::Invalid(bad),
            Outcome::Refused(why) => Outcome::Refused(why),
            Outcome::Superseded => Outcome::Superseded,
            Outcome::Cancelled => Outcome::Cancelled,
            Outcome::Crashed => Outcome::Crashed,
            Outcome::SelfVerifyFailed => Outcome::SelfVerifyFailed,
        };
        Some(Ended {
            job: known.job,
            outcome,
            op: known.op,
            queued_ns: finished.timing.queued_ns,
            ran_ns: finished.timing.ran_ns,
            late: finished.late,
        })
    }

    fn busy_ns(&self) -> Vec<u64> {
        let counts = self.worker.status().counts;
        vec![counts.fast_busy_ns, counts.prove_busy_ns]
    }

    fn shutdown(&self) {
        self.worker.shutdown(GRACE);
    }
}
