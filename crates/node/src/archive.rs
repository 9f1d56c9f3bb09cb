//! The thread that stores blocks and messages and serves blocks, so that the loop never waits for the disk.

use crate::blocks::{Blocks, BlocksError, Checkpoint, Facts, Latest, RANGE_MAX, Stored};
use crate::engine::Kept;
use crate::safety::Witness;
use alphorn_proto::chain::Anchor;
use alphorn_proto::wire::Root;
use alphorn_types::Slot;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most blocks and messages in one commit.
const BATCH_MAX: usize = 4_096;

/// Queue length of the thread for this many local validators, whose votes of a slot all arrive at once.
pub(crate) fn queue_max(validators: usize) -> usize {
    BATCH_MAX + validators
}

/// Bytes of waiting requests, excluding their payloads.
pub(crate) fn queue_bytes(validators: usize) -> u64 {
    (queue_max(validators) * size_of::<Request>()) as u64
}

/// Most bytes that wait to become durable.
pub(crate) const QUEUE_BYTES_MAX: usize = 64 << 20;

/// Minimum time between two commits.
const COMMIT_EVERY: Duration = Duration::from_millis(100);
/// The same in multiples of the last commit's duration, so that a slow disk has time for the marks of keys.
const COMMIT_REST: u32 = 4;

/// Callback for a response: the blocks, or none if they cannot be read.
pub(crate) type Answer = Box<dyn FnOnce(Option<Vec<Stored>>) + Send>;

/// Blocks that a peer requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Blocks from a slot on.
    Range {
        /// The slot.
        from: Slot,
        /// How many, at most [`RANGE_MAX`].
        count: u16,
    },
    /// A single block.
    Block {
        /// Its slot.
        slot: Slot,
        /// Its root.
        root: Root,
    },
}

/// Callback that receives whether a message is durable.
pub(crate) type Told = Box<dyn FnOnce(bool) + Send>;

enum Request {
    Keep(Stored),
    Message(Kept, Option<Told>),
    Anchor(Box<Anchor>),
    Serve(Wanted, Answer),
    Stop,
}

/// Counters of the archive.
#[derive(Debug, Default)]
pub(crate) struct ArchiveCounters {
    /// Requests that found the queue full.
    pub(crate) dropped: AtomicU64,
    /// Failed commits. Their blocks are requested from peers again after a restart.
    pub(crate) failed: AtomicU64,
    /// Longest commit, in nanoseconds.
    pub(crate) commit_ns_max: AtomicU64,
    /// Votes and aggregates that are durable.
    pub(crate) messages: AtomicU64,
    /// Whether the last commit failed.
    pub(crate) broken: AtomicBool,
    /// Damaged files that were set aside and recreated.
    pub(crate) rebuilt: AtomicU64,
    /// Whether the thread has ended.
    pub(crate) ended: AtomicBool,
    /// The last checkpoint stored.
    pub(crate) latest: Latest,
    /// Bytes that wait to become durable.
    waiting: AtomicUsize,
}

impl ArchiveCounters {
    /// Reserves room for bytes, if there is any.
    fn admit(&self, bytes: usize) -> bool {
        let more = |waiting: usize| {
            let sum = waiting.checked_add(bytes)?;
            (sum <= QUEUE_BYTES_MAX).then_some(sum)
        };
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.waiting.fetch_update(set, fetch, more).is_ok()
    }

    fn release(&self, bytes: usize) {
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The loop's side of the archive.
pub(crate) struct Archive {
    requests: SyncSender<Request>,
    counters: Arc<ArchiveCounters>,
    thread: Option<JoinHandle<()>>,
}

impl Archive {
    /// Starts the thread with a queue of at most `queue_max` requests. `witness` returns the position of the marks,
    /// which is included in every commit.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn start(
        blocks: Blocks,
        queue_max: usize,
        witness: impl Fn() -> Option<Witness> + Send + 'static,
    ) -> std::io::Result<Self> {
        let (requests, inbox) = sync_channel(queue_max);
        let counters = Arc::new(ArchiveCounters::default());
        // One that cannot be read is recreated with the next.
        counters.latest.set(blocks.checkpoint().ok().flatten());
        let rebuilt = u64::from(blocks.damaged().is_some());
        counters.rebuilt.store(rebuilt, Ordering::Relaxed);
        let mut keeper = Keeper::new(blocks, counters.clone(), Box::new(witness));
        let thread = std::thread::Builder::new()
            .name("alphorn-blocks".into())
            .spawn(move || {
                // Also on a panic.
                let _end = Ended(keeper.counters.clone());
                keeper.run(&inbox);
            })?;
        Ok(Archive {
            requests,
            counters,
            thread: Some(thread),
        })
    }

    /// Stores a block, unless too much is waiting. Peers have it then.
    pub(crate) fn keep(&self, block: Stored) {
        let bytes = block.data.len();
        self.admit(bytes, Request::Keep(block));
    }

    /// Stores a vote or an aggregate, unless too much is waiting. It is not acknowledged then. `told` is called with
    /// whether it is durable, either on the archive's thread or immediately on this one.
    pub(crate) fn keep_message(&self, message: Kept, told: Option<Told>) {
        let bytes = message.data.len();
        if let Some(Request::Message(_, Some(told))) =
            self.admit(bytes, Request::Message(message, told))
        {
            told(false);
        }
    }

    /// Stores a state from which the next start begins, unless too much is waiting. A later one is stored then.
    pub(crate) fn keep_anchor(&self, anchor: Anchor) {
        self.send(Request::Anchor(Box::new(anchor)));
    }

    /// Reads blocks for a peer. `answer` is called on the archive's thread, or immediately on this one with none if the
    /// queue is full, so that the peer can ask another.
    pub(crate) fn serve(&self, wanted: Wanted, answer: Answer) {
        if let Some(Request::Serve(_, answer)) = self.send(Request::Serve(wanted, answer)) {
            answer(None);
        }
    }

    /// Sends a write request. Returns it if there is no room.
    fn admit(&self, bytes: usize, request: Request) -> Option<Request> {
        if !self.counters.admit(bytes) {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
            return Some(request);
        }
        let back = self.send(request);
        if back.is_some() {
            self.counters.release(bytes);
        }
        back
    }

    fn send(&self, request: Request) -> Option<Request> {
        match self.requests.try_send(request) {
            Ok(()) => None,
            Err(TrySendError::Full(request) | TrySendError::Disconnected(request)) => {
                self.counters.dropped.fetch_add(1, Ordering::Relaxed);
                Some(request)
            }
        }
    }

    /// The counters.
    pub(crate) fn counters(&self) -> &ArchiveCounters {
        &self.counters
    }

    /// Writes what is waiting and ends the thread.
    pub(crate) fn shutdown(&mut self) {
        let _ = self.requests.send(Request::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Records that the thread has ended, for whatever reason.
struct Ended(Arc<ArchiveCounters>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }
}

/// Data that is not durable yet. The queue bounds it.
#[derive(Default)]
struct Batch {
    blocks: Vec<Stored>,
    messages: Vec<Kept>,
    told: Vec<Told>,
    anchor: Option<Box<Anchor>>,
}

impl Batch {
    fn len(&self) -> usize {
        self.blocks.len() + self.messages.len() + usize::from(self.anchor.is_some())
    }

    fn bytes(&self) -> usize {
        let blocks = self.blocks.iter().map(|block| block.data.len());
        let messages = self.messages.iter().map(|message| message.data.len());
        blocks.chain(messages).sum()
    }
}

struct Keeper {
    blocks: Blocks,
    counters: Arc<ArchiveCounters>,
    witness: Box<dyn Fn() -> Option<Witness> + Send>,
    batch: Batch,
    /// Whether the file has everything stored last. False after a failed commit.
    has_all: bool,
    due: Option<Instant>,
    /// How long the next batch accumulates.
    rest: Duration,
}

impl Keeper {
    fn new(
        blocks: Blocks,
        counters: Arc<ArchiveCounters>,
        witness: Box<dyn Fn() -> Option<Witness> + Send>,
    ) -> Self {
        Keeper {
            blocks,
            counters,
            witness,
            batch: Batch::default(),
            has_all: true,
            due: None,
            rest: COMMIT_EVERY,
        }
    }

    fn run(&mut self, inbox: &Receiver<Request>) {
        loop {
            let request = match self.due {
                None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                // Waiting requests do not postpone it, however many they are.
                Some(due) => match due.saturating_duration_since(Instant::now()) {
                    Duration::ZERO => Err(RecvTimeoutError::Timeout),
                    left => inbox.recv_timeout(left),
                },
            };
            match request {
                Ok(Request::Keep(block)) => {
                    self.batch.blocks.push(block);
                    self.gather();
                }
                Ok(Request::Message(message, told)) => {
                    self.batch.messages.push(message);
                    self.batch.told.extend(told);
                    self.gather();
                }
                Ok(Request::Anchor(anchor)) => {
                    self.batch.anchor = Some(anchor);
                    self.gather();
                }
                Ok(Request::Serve(wanted, answer)) => answer(self.read(&wanted)),
                Err(RecvTimeoutError::Timeout) => self.commit(),
                Ok(Request::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    self.commit();
                    return;
                }
            }
        }
    }

    /// Blocks for a peer, or none if they cannot be read. Damage found in the process is repaired at once, because the
    /// next use would recreate the file without its other contents.
    fn read(&mut self, wanted: &Wanted) -> Option<Vec<Stored>> {
        let read = self.find(wanted);
        // Once only: if a new file cannot be written, the next commit retries, not a peer's request.
        if self.has_all && read.as_ref().is_err_and(BlocksError::is_damage) {
            self.counters.rebuilt.fetch_add(1, Ordering::Relaxed);
            self.has_all = false;
            let written = self.write(&Batch::default(), false);
            self.has_all = written.is_ok();
            self.counters
                .broken
                .store(written.is_err(), Ordering::Relaxed);
        }
        read.ok()
    }

    /// Peers lack what was accepted most recently, so blocks that are not durable yet are included. No peer's request
    /// forces a write of what is waiting.
    fn find(&self, wanted: &Wanted) -> Result<Vec<Stored>, BlocksError> {
        match wanted {
            Wanted::Range { from, count } => {
                let count = usize::from(*count).min(RANGE_MAX);
                self.blocks.range(*from, count, &self.batch.blocks)
            }
            Wanted::Block { slot, root } => {
                let mut waiting = self.batch.blocks.iter();
                match waiting.find(|block| block.root == *root) {
                    Some(block) => Ok(vec![block.clone()]),
                    None => {
                        let block = self.blocks.block(*slot, root)?;
                        Ok(block.into_iter().collect())
                    }
                }
            }
        }
    }

    fn gather(&mut self) {
        self.due.get_or_insert_with(|| Instant::now() + self.rest);
        if self.batch.len() >= BATCH_MAX {
            self.commit();
        }
    }

    /// Writes a batch. A damaged file is recreated by the second attempt, and receives everything known.
    fn write(&self, batch: &Batch, is_fresh: bool) -> Result<(), BlocksError> {
        let latest = self.counters.latest.get();
        let put = |has_all: bool| {
            let facts = Facts {
                // After a failed commit the file may be a new one, which lacks it.
                checkpoint: latest.as_deref().filter(|_| is_fresh || !has_all),
                witness: (self.witness)(),
            };
            self.blocks.put_with(&batch.blocks, &batch.messages, facts)
        };
        match put(self.has_all) {
            Err(error) if error.is_damage() => {
                self.counters.rebuilt.fetch_add(1, Ordering::Relaxed);
                put(false)
            }
            written => written,
        }
    }

    fn commit(&mut self) {
        self.due = None;
        let batch = std::mem::take(&mut self.batch);
        if batch.len() == 0 {
            return;
        }
        let fresh = batch.anchor.as_deref().and_then(checkpoint);
        let is_fresh = fresh.is_some();
        if is_fresh {
            self.counters.latest.set(fresh);
        }
        let began = Instant::now();
        let written = self.write(&batch, is_fresh);
        let took = began.elapsed();
        let failed = written.is_err();
        self.has_all = !failed;
        self.counters.broken.store(failed, Ordering::Relaxed);
        self.rest = COMMIT_EVERY.max(took.saturating_mul(COMMIT_REST));
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.counters
            .commit_ns_max
            .fetch_max(nanos, Ordering::Relaxed);
        let (count, add) = match written.is_ok() {
            true => (&self.counters.messages, batch.messages.len() as u64),
            false => (&self.counters.failed, 1),
        };
        count.fetch_add(add, Ordering::Relaxed);
        self.counters.release(batch.bytes());
        for told in batch.told {
            told(written.is_ok());
        }
    }
}

/// A state as stored. None if it is too large.
fn checkpoint(anchor: &Anchor) -> Option<Checkpoint> {
    let bytes = anchor.encode()?;
    Some(Checkpoint::new(
        anchor.finalised().slot,
        anchor.base_slot(),
        bytes,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;
    use alphorn_proto::wire::Topic;
    use alphorn_scheme::Bytes;
    use alphorn_types::Cell;
    use redb::backends::InMemoryBackend;

    fn on(disk: &Disk) -> Archive {
        let blocks = Blocks::open_backend(disk.opener()).unwrap();
        Archive::start(blocks, BATCH_MAX, || None).unwrap()
    }

    /// Stores a vote of a slot. The receiver gets whether it is durable.
    fn keep_vote(archive: &Archive, slot: u64) -> Receiver<bool> {
        let (sender, durable) = sync_channel(1);
        let cell = Cell {
            committee: 0,
            subcommittee: 0,
        };
        let vote = Kept {
            slot: Slot(slot),
            topic: Topic::Vote { cell },
            data: Bytes::from([9; 40].as_slice()),
            own: true,
        };
        archive.keep_message(vote, Some(Box::new(move |is| sender.send(is).unwrap())));
        durable
    }

    #[test]
    fn what_comes_at_once_is_durable_in_one_commit() {
        let disk = Disk::default();
        let mut archive = on(&disk);
        let before = disk.syncs();
        assert!(keep_vote(&archive, 1).recv().unwrap());
        let of_one = disk.syncs() - before;
        assert!(of_one > 0, "acknowledged before it is durable");
        // The thread reads while they arrive, so that all of them wait for the same commit.
        let (hold, release) = sync_channel::<()>(0);
        let one = Wanted::Range {
            from: Slot(0),
            count: 1,
        };
        let blocked = move |_| {
            let _ = release.recv();
        };
        archive.serve(one, Box::new(blocked));
        let before = disk.syncs();
        let heard: Vec<_> = (2..1_002).map(|slot| keep_vote(&archive, slot)).collect();
        drop(hold);
        assert!(heard.iter().all(|heard| heard.recv().unwrap()));
        // A busy host may pause between two messages for longer than a commit waits.
        let of_all = disk.syncs() - before;
        assert!(of_all <= 20 * of_one, "{of_all} syncs of 1,000 votes");
        archive.shutdown();
    }

    /// Makes the thread read continuously: each response is followed by the next request.
    fn read_on(requests: &SyncSender<Request>, over: &Arc<AtomicBool>) {
        let (next, until) = (requests.clone(), over.clone());
        let answer = move |_| {
            if !until.load(Ordering::Relaxed) {
                read_on(&next, &until);
            }
        };
        let one = Wanted::Range {
            from: Slot(0),
            count: 1,
        };
        let _ = requests.try_send(Request::Serve(one, Box::new(answer)));
    }

    #[test]
    fn peers_that_ask_without_end_put_no_commit_off() {
        let disk = Disk::default();
        let mut archive = on(&disk);
        let over = Arc::new(AtomicBool::new(false));
        read_on(&archive.requests, &over);
        let durable = keep_vote(&archive, 1).recv_timeout(Duration::from_secs(1));
        over.store(true, Ordering::Relaxed);
        assert_eq!(durable, Ok(true));
        archive.shutdown();
    }

    #[test]
    fn a_full_disk_is_told_and_is_over_when_there_is_room() {
        let disk = Disk::default();
        let mut archive = on(&disk);
        let is_broken = |archive: &Archive| archive.counters().broken.load(Ordering::Relaxed);
        assert!(keep_vote(&archive, 1).recv().unwrap() && !is_broken(&archive));
        disk.fill(true);
        assert!(
            !keep_vote(&archive, 2).recv().unwrap(),
            "acknowledged and not kept"
        );
        assert!(is_broken(&archive));
        assert_eq!(archive.counters().failed.load(Ordering::Relaxed), 1);
        disk.fill(false);
        assert!(keep_vote(&archive, 3).recv().unwrap());
        assert!(!is_broken(&archive));
        archive.shutdown();
        assert!(!archive.counters().broken.load(Ordering::Relaxed));
        // A full disk is not damage: nothing was set aside.
        assert_eq!(archive.counters().rebuilt.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_thread_that_panics_has_ended_and_nothing_is_acknowledged_any_more() {
        let disk = Disk::default();
        let mut archive = on(&disk);
        let one = Wanted::Range {
            from: Slot(0),
            count: 1,
        };
        archive.serve(one, Box::new(|_| panic!("commanded")));
        let until = Instant::now() + Duration::from_secs(20);
        while !archive.counters().ended.load(Ordering::Relaxed) {
            assert!(Instant::now() < until, "the end is not told");
            std::thread::sleep(Duration::from_millis(1));
        }
        // A message that no thread is left to write is refused, or was lost with the thread, but never acknowledged.
        assert_ne!(keep_vote(&archive, 1).recv(), Ok(true));
        archive.shutdown();
    }

    #[test]
    fn what_was_kept_is_served_at_once_and_written_at_the_end() {
        let path = tempfile::tempdir().unwrap();
        let file = path.path().join("node.redb");
        let mut archive = Archive::start(Blocks::open(&file).unwrap(), BATCH_MAX, || None).unwrap();
        let block = |slot: u8| Stored {
            slot: Slot(u64::from(slot)),
            root: [slot; 32],
            data: Bytes::from([slot].as_slice()),
        };
        archive.keep(block(3));
        let (sender, answers) = sync_channel(1);
        let answer = move |blocks| sender.send(blocks).unwrap();
        let all = Wanted::Range {
            from: Slot(0),
            count: 9,
        };
        archive.serve(all, Box::new(answer.clone()));
        assert_eq!(answers.recv().unwrap(), Some(vec![block(3)]));
        archive.keep(block(4));
        for (slot, found) in [(3, vec![block(3)]), (4, vec![block(4)]), (5, vec![])] {
            let one = Wanted::Block {
                slot: Slot(slot),
                root: [slot as u8; 32],
            };
            archive.serve(one, Box::new(answer.clone()));
            assert_eq!(answers.recv().unwrap(), Some(found));
        }
        archive.shutdown();
        let left = Blocks::open(&file).unwrap();
        let left = left.range(Slot(0), 9, &[]).unwrap();
        assert_eq!(left, [block(3), block(4)]);
    }

    /// The next start begins at the checkpoint although nothing was written since the damage.
    #[test]
    fn damage_that_a_read_finds_costs_no_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.redb");
        let blocks = Blocks::open(&path).unwrap();
        let latest = Checkpoint::new(Slot(64), Slot(63), vec![7]);
        let counters = Arc::new(ArchiveCounters::default());
        counters.latest.set(Some(latest.clone()));
        let facts = Facts {
            checkpoint: Some(&latest),
            witness: None,
        };
        blocks.put_with(&[], &[], facts).unwrap();
        let mut keeper = Keeper::new(blocks, counters.clone(), Box::new(|| None));
        let damaged = |_: &redb::Database| -> Result<(), redb::Error> {
            Err(redb::Error::Corrupted("a page".into()))
        };
        assert!(keeper.blocks.read(damaged).unwrap_err().is_damage());
        let all = Wanted::Range {
            from: Slot(0),
            count: 9,
        };
        assert_eq!(keeper.read(&all), None);
        assert_eq!(counters.rebuilt.load(Ordering::Relaxed), 1);
        assert_eq!(keeper.read(&all), Some(Vec::new()));
        drop(keeper);
        let left = Blocks::open(&path).unwrap().checkpoint().unwrap().unwrap();
        assert_eq!(left.slot, Slot(64));
        assert!(folder.path().join("node.redb.damaged").exists());
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let blocks = Blocks::open_backend(InMemoryBackend::new).unwrap();
        let mut archive = Archive::start(blocks, queue_max(90), || None).unwrap();
        let (hold, release) = sync_channel::<()>(0);
        let blocked = move |_| {
            let _ = release.recv();
        };
        let one = Wanted::Range {
            from: Slot(0),
            count: 1,
        };
        archive.serve(one, Box::new(blocked));
        let refused = Arc::new(AtomicU64::new(0));
        for _ in 0..queue_max(90) + 10 {
            let refused = refused.clone();
            let answer = move |blocks: Option<Vec<Stored>>| {
                refused.fetch_add(blocks.is_none().into(), Ordering::Relaxed);
            };
            archive.serve(one, Box::new(answer));
        }
        let dropped = archive.counters().dropped.load(Ordering::Relaxed);
        assert!(
            (9..=11).contains(&dropped),
            "the votes of 90 validators have room"
        );
        assert_eq!(refused.load(Ordering::Relaxed), dropped, "each is told so");
        drop(hold);
        archive.shutdown();
    }
}
