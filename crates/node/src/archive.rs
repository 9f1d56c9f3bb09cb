//! The thread that keeps blocks and messages and serves blocks, so that the loop never waits for the
//! disk.

use crate::blocks::{Blocks, RANGE_MAX, Stored};
use crate::engine::Kept;
use alphorn_types::Slot;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Requests that wait for the thread, and most blocks and messages of one commit.
pub const QUEUE_MAX: usize = 4_096;

/// Most bytes that wait to be durable.
pub const QUEUE_BYTES_MAX: usize = 64 << 20;

/// Least time between two commits.
const COMMIT_EVERY: Duration = Duration::from_millis(100);
/// The same in multiples of the last commit, so that a slow disk has time for the marks of keys.
const COMMIT_REST: u32 = 4;

/// Where an answer goes: the blocks, or none if they cannot be read.
pub type Answer = Box<dyn FnOnce(Option<Vec<Stored>>) + Send>;

/// Who is told whether a message is durable.
pub type Told = Box<dyn FnOnce(bool) + Send>;

enum Request {
    Keep(Stored),
    Message(Kept, Option<Told>),
    Serve {
        from: Slot,
        count: u16,
        answer: Answer,
    },
    Stop,
}

/// What the archive counts.
#[derive(Debug, Default)]
pub struct ArchiveCounters {
    /// Requests that found the queue full.
    pub dropped: AtomicU64,
    /// Commits that failed; their blocks are asked of peers again after a restart.
    pub failed: AtomicU64,
    /// Longest commit, in nanoseconds.
    pub commit_ns_max: AtomicU64,
    /// Votes and aggregates that are durable.
    pub messages: AtomicU64,
    /// Bytes that wait to be durable.
    waiting: AtomicUsize,
}

impl ArchiveCounters {
    /// Takes room for bytes, if there is any.
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

/// The loop's side.
pub struct Archive {
    requests: SyncSender<Request>,
    counters: Arc<ArchiveCounters>,
    thread: Option<JoinHandle<()>>,
}

impl Archive {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(blocks: Blocks) -> std::io::Result<Self> {
        let (requests, inbox) = sync_channel(QUEUE_MAX);
        let counters = Arc::new(ArchiveCounters::default());
        let mut keeper = Keeper {
            blocks,
            counters: counters.clone(),
            batch: Batch::default(),
            due: None,
            rest: COMMIT_EVERY,
        };
        let thread = std::thread::Builder::new()
            .name("alphorn-blocks".into())
            .spawn(move || keeper.run(&inbox))?;
        Ok(Archive {
            requests,
            counters,
            thread: Some(thread),
        })
    }

    /// Keeps a block, unless too much waits: then peers have it.
    pub fn keep(&self, block: Stored) {
        let bytes = block.data.len();
        self.admit(bytes, Request::Keep(block));
    }

    /// Keeps a vote or an aggregate, unless too much waits: then it is not acknowledged. `told`
    /// hears on the archive's thread, or at once on this one, whether it is durable.
    pub fn keep_message(&self, message: Kept, told: Option<Told>) {
        let bytes = message.data.len();
        if let Some(Request::Message(_, Some(told))) =
            self.admit(bytes, Request::Message(message, told))
        {
            told(false);
        }
    }

    /// Reads blocks for a peer; the answer is called on the archive's thread, or never if the
    /// queue is full: a peer that gets none asks another.
    pub fn serve(&self, from: Slot, count: u16, answer: Answer) {
        self.send(Request::Serve {
            from,
            count,
            answer,
        });
    }

    /// Sends what is to be written; gives back what finds no room.
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

    /// What was counted.
    pub fn counters(&self) -> &ArchiveCounters {
        &self.counters
    }

    /// Writes what waits and ends the thread.
    pub fn shutdown(&mut self) {
        let _ = self.requests.send(Request::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What is not durable yet; the queue bounds it.
#[derive(Default)]
struct Batch {
    blocks: Vec<Stored>,
    messages: Vec<Kept>,
    told: Vec<Told>,
}

impl Batch {
    fn len(&self) -> usize {
        self.blocks.len() + self.messages.len()
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
    batch: Batch,
    due: Option<Instant>,
    /// How long the next batch gathers.
    rest: Duration,
}

impl Keeper {
    fn run(&mut self, inbox: &Receiver<Request>) {
        loop {
            let request = match self.due {
                None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(due) => inbox.recv_timeout(due.saturating_duration_since(Instant::now())),
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
                Ok(Request::Serve {
                    from,
                    count,
                    answer,
                }) => {
                    // What was accepted a moment ago is what peers lack.
                    self.commit();
                    let count = usize::from(count).min(RANGE_MAX);
                    answer(self.blocks.range(from, count).ok());
                }
                Err(RecvTimeoutError::Timeout) => self.commit(),
                Ok(Request::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    self.commit();
                    return;
                }
            }
        }
    }

    fn gather(&mut self) {
        self.due.get_or_insert_with(|| Instant::now() + self.rest);
        if self.batch.len() >= QUEUE_MAX {
            self.commit();
        }
    }

    fn commit(&mut self) {
        self.due = None;
        let batch = std::mem::take(&mut self.batch);
        if batch.len() == 0 {
            return;
        }
        let began = Instant::now();
        let written = self.blocks.put(&batch.blocks, &batch.messages);
        let took = began.elapsed();
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

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_scheme::Bytes;
    use redb::backends::InMemoryBackend;

    #[test]
    fn what_was_kept_is_served_at_once_and_written_at_the_end() {
        let path = tempfile::tempdir().unwrap();
        let file = path.path().join("node.redb");
        let mut archive = Archive::start(Blocks::open(&file).unwrap()).unwrap();
        let block = |slot: u8| Stored {
            slot: Slot(u64::from(slot)),
            root: [slot; 32],
            data: Bytes::from([slot].as_slice()),
        };
        archive.keep(block(3));
        let (sender, answers) = sync_channel(1);
        let answer = move |blocks| sender.send(blocks).unwrap();
        archive.serve(Slot(0), 9, Box::new(answer));
        assert_eq!(answers.recv().unwrap(), Some(vec![block(3)]));
        archive.keep(block(4));
        archive.shutdown();
        let left = Blocks::open(&file).unwrap().range(Slot(0), 9).unwrap();
        assert_eq!(left, [block(3), block(4)]);
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let mut archive = Archive::start(Blocks::open_backend(InMemoryBackend::new).unwrap());
        let archive = archive.as_mut().unwrap();
        let (hold, release) = sync_channel::<()>(0);
        let blocked = move |_| {
            let _ = release.recv();
        };
        archive.serve(Slot(0), 1, Box::new(blocked));
        for _ in 0..QUEUE_MAX + 10 {
            archive.serve(Slot(0), 1, Box::new(|_| ()));
        }
        assert!(archive.counters().dropped.load(Ordering::Relaxed) >= 9);
        drop(hold);
        archive.shutdown();
    }
}
