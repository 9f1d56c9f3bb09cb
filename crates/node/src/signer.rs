//! The signer: a thread that authorises signatures and may wait for the disk, so that the loop never does.
//!
//! A signing job passes through here on its way to the lanes. If the rights of its slot are durable, it continues with
//! them, once. Otherwise it ends refused and nothing is signed. A stop does not queue: the thread checks for one before
//! each request.

use crate::engine::Doppelganger;
use crate::lanes::{Ended, Lanes};
use crate::safety::{Cast, SafetyStore};
use crate::sign_log::SignLog;
use alphorn_proto::Spawn;
use alphorn_proto::horn::Shown;
use alphorn_scheme::{VoteGuard, Work};
use alphorn_types::{Slot, Validator};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Requests that wait for the signer.
pub(crate) const QUEUE_MAX: usize = 1_024;

/// Duration above which a commit is slow. Marks are reserved about this long before their slot begins.
const SLOW: Duration = Duration::from_millis(500);

/// Pause before a failed commit is retried, whatever arrives in the meantime.
const RETRY: Duration = Duration::from_millis(250);

enum Request {
    Reserve(Slot),
    Sign(Box<Spawn>),
    /// Check for a stop, for marks that are behind, and for pending retries.
    Look,
    Stop,
}

/// The validator for which another process signed, until the thread has seen it.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Option<Doppelganger>>>);

impl Heard {
    fn put(&self, doppelganger: Doppelganger) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(doppelganger);
    }

    fn take(&self) -> Option<Doppelganger> {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.take()
    }
}

/// Local keys whose marks are behind what the network shows, until the thread has raised them. A node that catches up
/// is shown thousands of votes, which reduce to one entry per key.
#[derive(Clone, Default)]
struct Behind(Arc<Mutex<BTreeMap<Validator, Cast>>>);

impl Behind {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Validator, Cast>> {
        // Each entry stays consistent even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds votes. Returns whether they are the first since the last `take`.
    fn put(&self, shown: &Shown) -> bool {
        let cast = Cast {
            slot: shown.vote.slot,
            guard: VoteGuard {
                source: shown.vote.source.slot,
                target: shown.vote.target.slot,
            },
        };
        let mut behind = self.lock();
        let were_none = behind.is_empty();
        for validator in &shown.validators {
            let entry = behind.entry(*validator).or_insert(cast);
            *entry = entry.max(cast);
        }
        were_none && !behind.is_empty()
    }

    /// Moves all of them into those taken before.
    fn take(&self, into: &mut BTreeMap<Validator, Cast>) {
        for (validator, cast) in std::mem::take(&mut *self.lock()) {
            let entry = into.entry(validator).or_insert(cast);
            *entry = entry.max(cast);
        }
    }
}

/// Counters of the signer.
#[derive(Debug, Default)]
pub(crate) struct SignerCounters {
    /// Jobs refused because their slot was used or not reserved.
    pub(crate) refused: AtomicU64,
    /// Failed commits.
    pub(crate) failed: AtomicU64,
    /// Longest commit since the start, in nanoseconds.
    pub(crate) commit_ns_max: AtomicU64,
    /// Slow commits.
    pub(crate) slow: AtomicU64,
    /// Whether the last commit failed, so that the node can perform no duty.
    pub(crate) broken: AtomicBool,
    /// Whether the thread has ended, so that nothing is signed any more.
    pub(crate) ended: AtomicBool,
}

/// The loop's side of the signer.
pub(crate) struct Signer {
    requests: SyncSender<Request>,
    heard: Heard,
    behind: Behind,
    refused: Mutex<Option<Receiver<Ended>>>,
    counters: Arc<SignerCounters>,
    thread: Option<JoinHandle<()>>,
}

impl Signer {
    /// Starts the thread. `wake` is called after a job was refused here, and `clock_ms` holds the milliseconds since
    /// 1970. With a `log`, each right is logged before its job runs.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn start(
        store: Arc<SafetyStore>,
        lanes: Arc<dyn Lanes>,
        log: Option<SignLog>,
        clock_ms: impl Fn() -> u64 + Send + 'static,
        wake: impl Fn() + Send + 'static,
    ) -> std::io::Result<Self> {
        let (requests, inbox) = sync_channel(QUEUE_MAX);
        let (ended, refused) = sync_channel(QUEUE_MAX);
        let counters = Arc::new(SignerCounters::default());
        let heard = Heard::default();
        let behind = Behind::default();
        let clerk = Clerk {
            store,
            lanes,
            heard: heard.clone(),
            counters: counters.clone(),
            log,
            clock_ms: Box::new(clock_ms),
            ended,
            wake: Box::new(wake),
            again_at: None,
            retry: None,
            unstopped: None,
            shown: behind.clone(),
            behind: BTreeMap::new(),
        };
        let thread = std::thread::Builder::new()
            .name("alphorn-signer".into())
            .spawn(move || {
                // Also on a panic: nothing can be signed without it.
                let _end = Closed(clerk.counters.clone());
                clerk.run(&inbox);
            })?;
        Ok(Signer {
            requests,
            heard,
            behind,
            refused: Mutex::new(Some(refused)),
            counters,
            thread: Some(thread),
        })
    }

    /// Requests the marks of a slot. If the signer's queue is full, the slot's duties are missed.
    pub(crate) fn reserve(&self, slot: Slot) {
        if self.requests.try_send(Request::Reserve(slot)).is_err() {
            self.counters.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Raises the marks of keys whose votes the network shows. This takes effect before anything submitted later,
    /// because a mark that is behind gives no protection.
    pub(crate) fn raise(&self, shown: &Shown) {
        // A busy thread checks before its next request and takes all entries, so one request is enough.
        if self.behind.put(shown) {
            let _ = self.requests.try_send(Request::Look);
        }
    }

    /// Signs nothing from now on, including jobs already waiting, nor after the next start, because another process has
    /// the key.
    pub(crate) fn stop_for(&self, doppelganger: Doppelganger) {
        self.heard.put(doppelganger);
        // A busy thread checks before its next request.
        let _ = self.requests.try_send(Request::Look);
    }

    /// Whether it can sign. False after its thread has ended.
    pub(crate) fn is_alive(&self) -> bool {
        !self.counters.ended.load(Ordering::Relaxed)
    }

    /// Submits a signing job.
    ///
    /// # Errors
    /// Returns the job if the signer is full or closed.
    pub(crate) fn sign(&self, spawn: Spawn) -> Result<(), Box<Spawn>> {
        match self.requests.try_send(Request::Sign(Box::new(spawn))) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(request) | TrySendError::Disconnected(request)) => match request
            {
                Request::Sign(spawn) => Err(spawn),
                _ => Ok(()),
            },
        }
    }

    /// The next job that was refused here.
    pub(crate) fn poll(&self) -> Option<Ended> {
        self.refused.lock().ok()?.as_ref()?.try_recv().ok()
    }

    /// The counters.
    pub(crate) fn counters(&self) -> &SignerCounters {
        &self.counters
    }

    /// Ends the thread once it has processed its queue.
    pub(crate) fn shutdown(&mut self) {
        // Refusals are no longer read, and the thread must not wait for that.
        if let Ok(mut refused) = self.refused.lock() {
            refused.take();
        }
        let _ = self.requests.send(Request::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Records that the thread has ended, for whatever reason.
struct Closed(Arc<SignerCounters>);

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }
}

struct Clerk {
    store: Arc<SafetyStore>,
    lanes: Arc<dyn Lanes>,
    counters: Arc<SignerCounters>,
    log: Option<SignLog>,
    clock_ms: Box<dyn Fn() -> u64 + Send>,
    ended: SyncSender<Ended>,
    wake: Box<dyn Fn() + Send>,
    heard: Heard,
    /// When failed operations are retried.
    again_at: Option<Instant>,
    /// The newest slot whose reservation failed.
    retry: Option<Slot>,
    /// A stop that is not durable yet. Without it the next start would sign again.
    unstopped: Option<Doppelganger>,
    /// Source of keys whose marks are behind.
    shown: Behind,
    /// Keys whose marks could not be raised.
    behind: BTreeMap<Validator, Cast>,
}

impl Clerk {
    fn run(mut self, inbox: &Receiver<Request>) {
        loop {
            let request = match self.again_at {
                None => inbox.recv().ok(),
                Some(at) => {
                    match inbox.recv_timeout(at.saturating_duration_since(Instant::now())) {
                        Ok(request) => Some(request),
                        Err(RecvTimeoutError::Timeout) => Some(Request::Look),
                        Err(RecvTimeoutError::Disconnected) => None,
                    }
                }
            };
            // A stop, writes that failed and marks that are behind come before every request, whatever it is: they must
            // take effect before anything more is signed.
            if let Some(doppelganger) = self.heard.take() {
                self.stop(doppelganger);
            }
            if self.again_at.is_some_and(|at| at <= Instant::now()) {
                self.try_again();
            }
            if self.again_at.is_none() {
                self.raise();
            }
            match request {
                Some(Request::Look) => {}
                Some(Request::Reserve(slot)) => self.reserve(slot),
                Some(Request::Sign(spawn)) => self.sign(*spawn),
                Some(Request::Stop) | None => {
                    self.raise();
                    // The last chance to persist it.
                    if let Some(doppelganger) = self.unstopped {
                        self.stop(doppelganger);
                    }
                    return;
                }
            }
        }
    }

    fn try_again(&mut self) {
        self.again_at = None;
        if let Some(doppelganger) = self.unstopped {
            self.stop(doppelganger);
        }
        if let Some(slot) = self.retry {
            self.reserve(slot);
        }
    }

    /// A stop that cannot be written now is written later. Even so, this process signs nothing.
    fn stop(&mut self, doppelganger: Doppelganger) {
        let stopped = self.store.stop(doppelganger.validator, doppelganger.slot);
        self.unstopped = stopped.is_err().then_some(doppelganger);
        self.note(stopped.is_ok());
    }

    fn reserve(&mut self, slot: Slot) {
        // Marks of the later slot are past the earlier one, whose duties are missed.
        let slot = self.retry.take().map_or(slot, |failed| failed.max(slot));
        let began = Instant::now();
        let reserved = self.store.reserve_slot(slot, (self.clock_ms)());
        let took = began.elapsed();
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.counters
            .commit_ns_max
            .fetch_max(nanos, Ordering::Relaxed);
        let slow = u64::from(took > SLOW);
        self.counters.slow.fetch_add(slow, Ordering::Relaxed);
        self.note(reserved.is_ok());
        if reserved.is_err() {
            self.retry = Some(slot);
        }
    }

    /// Raises all marks that are behind, in one commit. Those that cannot be raised now are raised later. Until then
    /// nothing is signed.
    fn raise(&mut self) {
        self.shown.take(&mut self.behind);
        if self.behind.is_empty() {
            return;
        }
        let raised = self.store.raise(&self.behind, (self.clock_ms)());
        if raised.is_ok() {
            self.behind.clear();
        }
        self.note(raised.is_ok());
    }

    /// Records whether a commit succeeded.
    fn note(&mut self, is_durable: bool) {
        let is_broken = !is_durable || self.unstopped.is_some() || !self.behind.is_empty();
        self.counters.broken.store(is_broken, Ordering::Relaxed);
        let failed = u64::from(!is_durable);
        self.counters.failed.fetch_add(failed, Ordering::Relaxed);
        if !is_durable {
            self.again_at.get_or_insert(Instant::now() + RETRY);
        }
    }

    fn sign(&mut self, spawn: Spawn) {
        self.raise();
        let refused = match &spawn.work {
            Work::Sign(_) if !self.behind.is_empty() => {
                Some("the marks are behind what the network shows".to_owned())
            }
            Work::Sign(job) => {
                let granted = self.store.grant(job.slot, &job.items, (self.clock_ms)());
                let admitted = granted.and_then(|grant| job.admit(&grant));
                match (admitted, &mut self.log) {
                    (Err((item, why)), _) => Some(format!("item {item}: {why}")),
                    (Ok(()), Some(log)) => {
                        let added = log.add(job);
                        added
                            .err()
                            .map(|error| format!("the list of rights: {error}"))
                    }
                    (Ok(()), None) => None,
                }
            }
            _ => None,
        };
        let (job, op, group) = (spawn.job, spawn.work.name(), spawn.group);
        let refused = match refused {
            Some(why) => {
                self.counters.refused.fetch_add(1, Ordering::Relaxed);
                Some(why)
            }
            None => self.lanes.submit(spawn).err(),
        };
        if let Some(why) = refused {
            // The loop always drains the channel, but it may be gone already.
            let _ = self.ended.send(Ended::refused(job, op, group, why));
            (self.wake)();
        }
    }
}

#[cfg(test)]
mod tests;
