//! The signer: a thread that admits signatures and may wait for the disk, so that the loop never does.
//!
//! A job that signs passes here on its way to the lanes. If the rights of its slot are durable it
//! goes on with them, once; if not, it ends refused and nothing is signed. A stop waits behind nothing:
//! the thread looks for one before each request.

use crate::engine::{Spawn, Stranger};
use crate::lanes::{Ended, Lanes};
use crate::safety::{Cast, SafetyStore};
use crate::sign_log::SignLog;
use alphorn_proto::horn::Shown;
use alphorn_scheme::{VoteGuard, Work};
use alphorn_types::{Slot, Validator};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Requests that wait at the signer.
pub(crate) const QUEUE_MAX: usize = 1_024;

/// A commit that takes longer is slow: marks are reserved about this long before their slot begins.
const SLOW: Duration = Duration::from_millis(500);

/// How long a commit that failed rests before it is tried again, whatever comes meanwhile.
const RETRY: Duration = Duration::from_millis(250);

enum Request {
    Reserve(Slot),
    Sign(Box<Spawn>),
    /// Look for a stop, for marks that are behind, and for what is to be tried again.
    Look,
    Stop,
}

/// For whom another process signed, until the thread has seen it.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Option<Stranger>>>);

impl Heard {
    fn put(&self, stranger: Stranger) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(stranger);
    }

    fn take(&self) -> Option<Stranger> {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.take()
    }
}

/// Local keys whose marks are behind what the network shows, until the thread has raised them. A node that
/// catches up is shown thousands of votes, which come to one entry for each key.
#[derive(Clone, Default)]
struct Behind(Arc<Mutex<BTreeMap<Validator, Cast>>>);

impl Behind {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Validator, Cast>> {
        // An entry that a panic left alone is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether these are the first since the last were taken.
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

    /// Moves all of them to those that were taken before.
    fn take(&self, into: &mut BTreeMap<Validator, Cast>) {
        for (validator, cast) in std::mem::take(&mut *self.lock()) {
            let entry = into.entry(validator).or_insert(cast);
            *entry = entry.max(cast);
        }
    }
}

/// What the signer counts.
#[derive(Debug, Default)]
pub(crate) struct SignerCounters {
    /// Jobs that were refused, because their slot was used or not reserved.
    pub(crate) refused: AtomicU64,
    /// Commits that failed.
    pub(crate) failed: AtomicU64,
    /// Longest commit since the start, in nanoseconds.
    pub(crate) commit_ns_max: AtomicU64,
    /// Slow commits.
    pub(crate) slow: AtomicU64,
    /// Whether the last commit failed: the node can do no duty.
    pub(crate) broken: AtomicBool,
    /// Whether the thread has ended: nothing is signed any more.
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
    /// Starts the thread. `wake` is called after a job was refused here, `clock_ms` gives the
    /// milliseconds since 1970. With a `log` each right is in it before its job runs.
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
                // Also if it panics: nobody signs without it.
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

    /// Asks for the marks of a slot. If the signer is full, the slot's duties are missed.
    pub(crate) fn reserve(&self, slot: Slot) {
        if self.requests.try_send(Request::Reserve(slot)).is_err() {
            self.counters.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Raises the marks of keys whose votes the network shows. It comes before whatever is handed in
    /// later: a mark that is behind is no guard.
    pub(crate) fn raise(&self, shown: &Shown) {
        // One that is busy looks before its next request, and takes all that are there: one request is enough.
        if self.behind.put(shown) {
            let _ = self.requests.try_send(Request::Look);
        }
    }

    /// Signs nothing from now on, not what waits already either, nor after the next start: another process
    /// has the key.
    pub(crate) fn stop_for(&self, stranger: Stranger) {
        self.heard.put(stranger);
        // One that is busy looks before its next request.
        let _ = self.requests.try_send(Request::Look);
    }

    /// Whether it can sign: not after its thread has ended.
    pub(crate) fn is_alive(&self) -> bool {
        !self.counters.ended.load(Ordering::Relaxed)
    }

    /// Hands in a job that signs.
    ///
    /// # Errors
    /// The job, if the signer is full or closed.
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

    /// What was counted.
    pub(crate) fn counters(&self) -> &SignerCounters {
        &self.counters
    }

    /// Ends the thread when it has done what waits.
    pub(crate) fn shutdown(&mut self) {
        // Nobody reads refusals any more, and the thread must not wait for that.
        if let Ok(mut refused) = self.refused.lock() {
            refused.take();
        }
        let _ = self.requests.send(Request::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Says that the thread has ended, however it did.
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
    /// When what failed is tried again.
    again_at: Option<Instant>,
    /// The newest slot whose reservation failed.
    retry: Option<Slot>,
    /// A stop that is not durable yet: without it the next start would sign again.
    unstopped: Option<Stranger>,
    /// Where keys come from whose marks are behind.
    shown: Behind,
    /// Those whose marks could not be raised.
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
            if let Some(stranger) = self.heard.take() {
                self.stop(stranger);
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
                    // The last chance to remember it.
                    if let Some(stranger) = self.unstopped {
                        self.stop(stranger);
                    }
                    return;
                }
            }
        }
    }

    fn try_again(&mut self) {
        self.again_at = None;
        if let Some(stranger) = self.unstopped {
            self.stop(stranger);
        }
        if let Some(slot) = self.retry {
            self.reserve(slot);
        }
    }

    /// A stop that cannot be written now is written later; in this process nothing is signed all the same.
    fn stop(&mut self, stranger: Stranger) {
        let stopped = self.store.stop(stranger.validator, stranger.slot);
        self.unstopped = stopped.is_err().then_some(stranger);
        self.note(stopped.is_ok());
    }

    fn reserve(&mut self, slot: Slot) {
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

    /// Raises all marks that are behind, in one commit. What cannot be raised now is raised later; until then
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

    /// Notes whether a commit succeeded.
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
            // The loop always drains; it may be gone already.
            let _ = self.ended.send(Ended::refused(job, op, group, why));
            (self.wake)();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::Opening;
    use alphorn_proto::wire::{Checkpoint, Vote};
    use alphorn_scheme::{Class, Group, JobId, Outcome, Role, SessionId, SignItem, SignJob};
    use alphorn_types::Time;
    use redb::backends::InMemoryBackend;

    /// Lanes that keep what they are given.
    #[derive(Default)]
    struct Kept(Mutex<Vec<JobId>>);

    impl Lanes for Kept {
        fn keep_time(&self, _: Time) {}

        fn submit(&self, spawn: Spawn) -> Result<(), String> {
            self.0.lock().unwrap().push(spawn.job);
            Ok(())
        }

        fn cancel(&self, _: SessionId) {}

        fn poll(&self) -> Option<Ended> {
            None
        }

        fn busy_ns(&self) -> Vec<u64> {
            Vec::new()
        }

        fn troubles(&self) -> crate::lanes::Troubles {
            crate::lanes::Troubles::default()
        }

        fn shutdown(&self) {}
    }

    fn sign(job: u64, slot: u64) -> Spawn {
        let slot = Slot(slot);
        let item = SignItem {
            validator: Validator(0),
            role: Role::Vote,
            message: [1; 32],
            guard: None,
        };
        Spawn {
            job: JobId(job),
            session: SessionId { slot, seq: 0 },
            group: Group::of_slot(slot),
            class: Class::Duty,
            soft: Time::MAX,
            hard: Time::MAX,
            work: Work::Sign(SignJob::new(slot, vec![item])),
        }
    }

    /// The marks of one validator before genesis.
    fn store<B: redb::StorageBackend>(
        backend: impl Fn() -> B + Send + Sync + 'static,
    ) -> SafetyStore {
        let keys = BTreeMap::from([(Validator(0), [3; 32])]);
        let opening = Opening {
            now_ms: 0,
            slot: Slot(0),
            before_genesis: true,
            resume: false,
        };
        SafetyStore::open_backend(backend, keys, opening).unwrap()
    }

    #[test]
    fn a_job_goes_on_with_its_rights_once_and_without_them_ends_refused() {
        let marks = store(InMemoryBackend::new);
        let lanes = Arc::new(Kept::default());
        let signer = Signer::start(Arc::new(marks), lanes.clone(), None, || 0, || ());
        let mut signer = signer.unwrap();
        signer.reserve(Slot(0));
        signer.sign(sign(1, 0)).unwrap();
        signer.sign(sign(2, 0)).unwrap();
        signer.sign(sign(3, 5)).unwrap();
        let refused = std::iter::from_fn(|| {
            let until = Instant::now() + Duration::from_secs(20);
            while Instant::now() < until {
                if let Some(ended) = signer.poll() {
                    return Some(ended);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            None
        });
        let refused: Vec<Ended> = refused.take(2).collect();
        let jobs: Vec<u64> = refused.iter().map(|ended| ended.job.0).collect();
        assert_eq!(jobs, [2, 3]);
        assert!(
            refused
                .iter()
                .all(|ended| matches!(ended.outcome, Outcome::Refused(_)))
        );
        assert_eq!(*lanes.0.lock().unwrap(), [JobId(1)]);
        assert_eq!(signer.counters().refused.load(Ordering::Relaxed), 2);
        signer.shutdown();
    }

    #[test]
    fn after_a_panic_of_its_thread_the_signer_has_ended_and_nothing_is_signed() {
        let marks = store(InMemoryBackend::new);
        let lanes = Arc::new(Kept::default());
        let is_fatal = Arc::new(AtomicBool::new(false));
        let fatal = is_fatal.clone();
        let clock_ms = move || {
            assert!(!fatal.load(Ordering::Relaxed), "commanded");
            0
        };
        let signer = Signer::start(Arc::new(marks), lanes.clone(), None, clock_ms, || ());
        let mut signer = signer.unwrap();
        signer.reserve(Slot(0));
        signer.sign(sign(1, 0)).unwrap();
        soon("it signs", || *lanes.0.lock().unwrap() == [JobId(1)]);
        is_fatal.store(true, Ordering::Relaxed);
        signer.reserve(Slot(1));
        soon("the end is told", || !signer.is_alive());
        assert!(signer.sign(sign(2, 1)).is_err());
        assert_eq!(*lanes.0.lock().unwrap(), [JobId(1)]);
        signer.shutdown();
    }

    /// A disk that takes long for each sync, waits while it is stalled, and fails while it is full.
    #[derive(Clone, Debug, Default)]
    struct Poor {
        memory: Arc<InMemoryBackend>,
        sync_ms: Arc<AtomicU64>,
        stalled: Arc<AtomicBool>,
        full: Arc<AtomicBool>,
        /// Syncs that have begun, and those that have succeeded.
        syncs: [Arc<AtomicU64>; 2],
    }

    impl redb::StorageBackend for Poor {
        fn len(&self) -> std::io::Result<u64> {
            self.memory.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
            self.memory.read(offset, out)
        }

        fn set_len(&self, len: u64) -> std::io::Result<()> {
            self.memory.set_len(len)
        }

        fn sync_data(&self) -> std::io::Result<()> {
            self.syncs[0].fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(self.sync_ms.load(Ordering::Relaxed)));
            while self.stalled.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            if self.full.load(Ordering::Relaxed) {
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            self.memory.sync_data()?;
            self.syncs[1].fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
            self.memory.write(offset, data)
        }
    }

    /// Waits until something holds, at most twenty seconds.
    fn soon(what: &str, holds: impl Fn() -> bool) {
        let until = Instant::now() + Duration::from_secs(20);
        while !holds() {
            assert!(Instant::now() < until, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Votes that the network shows of the one validator.
    fn shown(slot: u64) -> Shown {
        let checkpoint = |slot| Checkpoint {
            slot: Slot(slot),
            root: [0; 32],
        };
        let vote = Vote {
            slot: Slot(slot),
            head: [0; 32],
            source: checkpoint(slot - 2),
            target: checkpoint(slot - 1),
        };
        let validators = vec![Validator(0)];
        Shown { vote, validators }
    }

    /// An older copy of the folder catches up: thousands of blocks have votes of its keys, and the disk is
    /// busy.
    #[test]
    fn a_node_that_is_shown_thousands_of_its_votes_raises_its_marks_and_signs_on() {
        let disk = Poor::default();
        let kept = disk.clone();
        let marks = Arc::new(store(move || kept.clone()));
        let lanes = Arc::new(Kept::default());
        let signer = Signer::start(marks.clone(), lanes.clone(), None, || 0, || ());
        let mut signer = signer.unwrap();
        disk.stalled.store(true, Ordering::Relaxed);
        let begun = || disk.syncs[0].load(Ordering::Relaxed);
        let before = begun();
        signer.reserve(Slot(0));
        soon("the marks are written", || begun() > before);
        for slot in (2..10_000).rev() {
            signer.raise(&shown(slot));
        }
        assert!(signer.is_alive(), "it goes on");
        let before = begun();
        disk.stalled.store(false, Ordering::Relaxed);
        soon("the marks are raised", || marks.witness().next == 10_000);
        assert!(begun() - before < 20, "in one commit");
        signer.sign(sign(1, 0)).unwrap();
        soon("it is refused", || signer.poll().is_some());
        signer.reserve(Slot(10_000));
        signer.sign(sign(2, 10_000)).unwrap();
        soon("it signs on", || *lanes.0.lock().unwrap() == [JobId(2)]);
        signer.shutdown();
    }

    const STRANGER: Stranger = Stranger {
        validator: Validator(0),
        slot: Slot(7),
    };

    /// A signer over a disk, and what reached the lanes.
    fn over(disk: &Poor) -> (Signer, Arc<Kept>) {
        let disk = disk.clone();
        let marks = Arc::new(store(move || disk.clone()));
        let lanes = Arc::new(Kept::default());
        let signer = Signer::start(marks, lanes.clone(), None, || 0, || ());
        (signer.unwrap(), lanes)
    }

    /// The next start knows of the stop.
    fn check_stopped(disk: Poor) {
        let stopped = store(move || disk.clone()).stopped().unwrap();
        assert_eq!(stopped, Some((STRANGER.validator, STRANGER.slot)));
    }

    #[test]
    fn a_stop_overtakes_the_jobs_that_wait_for_a_disk_that_is_stalled() {
        let disk = Poor::default();
        let (mut signer, lanes) = over(&disk);
        disk.stalled.store(true, Ordering::Relaxed);
        let begun = || disk.syncs[0].load(Ordering::Relaxed);
        let before = begun();
        signer.reserve(Slot(0));
        soon("the marks are written", || begun() > before);
        let jobs = (1..).take_while(|job| signer.sign(sign(*job, 0)).is_ok());
        assert_eq!(jobs.count(), QUEUE_MAX);
        signer.stop_for(STRANGER);
        disk.stalled.store(false, Ordering::Relaxed);
        signer.shutdown();
        assert!(lanes.0.lock().unwrap().is_empty(), "it was signed");
        check_stopped(disk);
    }

    /// A disk that is full when another process is noticed, and has room later.
    #[test]
    fn a_stop_that_finds_a_full_disk_is_written_when_there_is_room() {
        for is_busy in [false, true] {
            let disk = Poor::default();
            let (mut signer, _) = over(&disk);
            disk.full.store(true, Ordering::Relaxed);
            signer.stop_for(STRANGER);
            let is_broken = |signer: &Signer| signer.counters().broken.load(Ordering::Relaxed);
            soon("the failure is told", || is_broken(&signer));
            let written = || disk.syncs[1].load(Ordering::Relaxed);
            let before = written();
            disk.full.store(false, Ordering::Relaxed);
            soon("it is written", || {
                if is_busy {
                    signer.reserve(Slot(9));
                }
                written() > before
            });
            soon("that is told", || !is_broken(&signer));
            signer.shutdown();
            check_stopped(disk);
        }
    }

    #[test]
    fn a_slow_disk_holds_nobody_up_and_with_a_full_one_nothing_is_signed_until_there_is_room() {
        let disk = Poor::default();
        let (sync_ms, full) = (&disk.sync_ms, &disk.full);
        let (mut signer, lanes) = over(&disk);
        sync_ms.store(1_000, Ordering::Relaxed);
        let began = Instant::now();
        signer.reserve(Slot(0));
        signer.sign(sign(1, 0)).unwrap();
        assert!(
            began.elapsed() < Duration::from_millis(900),
            "the loop waits"
        );
        assert!(
            lanes.0.lock().unwrap().is_empty(),
            "signed before it is durable"
        );
        soon("the slow commit ends", || {
            *lanes.0.lock().unwrap() == [JobId(1)]
        });
        assert!(began.elapsed() >= Duration::from_secs(1));
        assert_eq!(signer.counters().slow.load(Ordering::Relaxed), 1);
        sync_ms.store(0, Ordering::Relaxed);
        full.store(true, Ordering::Relaxed);
        signer.reserve(Slot(1));
        signer.sign(sign(2, 1)).unwrap();
        soon("nothing is signed", || signer.poll().is_some());
        assert!(signer.counters().broken.load(Ordering::Relaxed));
        assert_eq!(*lanes.0.lock().unwrap(), [JobId(1)]);
        // There is room again: the same process goes on, and nothing is signed twice.
        full.store(false, Ordering::Relaxed);
        soon("the store is opened again", || {
            !signer.counters().broken.load(Ordering::Relaxed)
        });
        signer.reserve(Slot(2));
        signer.sign(sign(3, 2)).unwrap();
        soon("it signs again", || {
            *lanes.0.lock().unwrap() == [JobId(1), JobId(3)]
        });
        signer.sign(sign(4, 2)).unwrap();
        soon("once", || signer.poll().is_some());
        assert_eq!(*lanes.0.lock().unwrap(), [JobId(1), JobId(3)]);
        signer.shutdown();
    }
}
