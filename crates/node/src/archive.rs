//! The thread that keeps blocks and serves them, so that the loop never waits for the disk.

use crate::blocks::{Blocks, RANGE_MAX, Stored};
use alphorn_types::Slot;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Requests that wait for the thread.
pub const QUEUE_MAX: usize = 1_024;

/// Least time between two commits; four times the last commit if that is longer.
const COMMIT_EVERY: Duration = Duration::from_millis(100);

/// Where an answer goes: the blocks, or none if they cannot be read.
pub type Answer = Box<dyn FnOnce(Option<Vec<Stored>>) + Send>;

enum Request {
    Keep(Stored),
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
            batch: Vec::new(),
            due: None,
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

    /// Keeps a block.
    pub fn keep(&self, block: Stored) {
        self.send(Request::Keep(block));
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

    fn send(&self, request: Request) {
        if self.requests.try_send(request).is_err() {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
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

struct Keeper {
    blocks: Blocks,
    counters: Arc<ArchiveCounters>,
    /// Blocks that are not durable yet; the queue bounds them.
    batch: Vec<Stored>,
    due: Option<Instant>,
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
                    self.batch.push(block);
                    self.due
                        .get_or_insert_with(|| Instant::now() + COMMIT_EVERY);
                    if self.batch.len() >= QUEUE_MAX {
                        self.commit();
                    }
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

    fn commit(&mut self) {
        self.due = None;
        if self.batch.is_empty() {
            return;
        }
        let began = Instant::now();
        let written = self.blocks.put(&self.batch);
        let took = began.elapsed();
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.counters
            .commit_ns_max
            .fetch_max(nanos, Ordering::Relaxed);
        if written.is_err() {
            self.counters.failed.fetch_add(1, Ordering::Relaxed);
        }
        self.batch.clear();
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
