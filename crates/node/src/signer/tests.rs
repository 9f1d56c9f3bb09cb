//! What the signer signs, refuses and keeps, while its disk fails or another process has its keys.

use super::*;
use crate::safety::Opening;
use alphorn_proto::wire::{Checkpoint, Vote};
use alphorn_scheme::{Class, Group, JobId, Outcome, Role, SessionId, SignItem, SignJob};
use alphorn_types::Time;
use redb::backends::InMemoryBackend;

/// Lanes that keep the jobs they are given.
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
fn store<B: redb::StorageBackend>(backend: impl Fn() -> B + Send + Sync + 'static) -> SafetyStore {
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
    /// Syncs that have started, and those that have succeeded.
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

/// Waits until a condition holds, at most twenty seconds.
fn soon(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Votes of the one validator that the network shows.
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

/// An older copy of the folder catches up: thousands of blocks have votes of its keys, and the disk is busy.
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

const STRANGER: Doppelganger = Doppelganger {
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

/// The next start knows about the stop.
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
    // There is room again: the same process continues, and nothing is signed twice.
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
