//! Writes that are deferred while readers hold the lock, so that the loop waits for none of them.
//!
//! Readers copy out of rings of lines under a lock, some for a millisecond. The loop takes the lock if it is free.
//! While a reader holds it, writes wait here until the next write or the next look.

use std::collections::VecDeque;
use std::sync::{Mutex, TryLockError};

/// Maximum number of waiting writes. Beyond it the newest are dropped and counted.
const WAITING_MAX: usize = 16_384;
/// Writes performed at a time when catching up, so that this does not make a long turn either.
const AT_A_TIME: usize = 256;

/// Writes that wait until no reader holds the lock, oldest first.
#[derive(Clone, Debug)]
pub(super) struct Waiting<T> {
    writes: VecDeque<T>,
    /// Writes for which there was no room.
    pub(super) lost: u64,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self {
            writes: VecDeque::new(),
            lost: 0,
        }
    }
}

impl<T> Waiting<T> {
    /// Performs the waiting writes and then this one, or queues it as well.
    pub(super) fn put<L>(&mut self, shared: &Mutex<L>, item: T, write: impl FnMut(&mut L, T)) {
        // Queued even if the lock is free: whatever already waits must be written before it.
        match self.writes.len() < WAITING_MAX {
            true => self.writes.push_back(item),
            false => self.lost += 1,
        }
        self.catch_up(shared, write);
    }

    /// Performs the waiting writes, if no reader holds the lock.
    pub(super) fn catch_up<L>(&mut self, shared: &Mutex<L>, mut write: impl FnMut(&mut L, T)) {
        if self.writes.is_empty() {
            return;
        }
        let mut lines = match shared.try_lock() {
            Ok(lines) => lines,
            // Data that a panicked reader has read is intact.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let count = self.writes.len().min(AT_A_TIME);
        self.writes
            .drain(..count)
            .for_each(|item| write(&mut lines, item));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    /// A reader that holds the lock for a second, as many readers together would.
    #[test]
    fn a_reader_that_has_the_lock_keeps_nobody_waiting() {
        let shared = Arc::new(Mutex::new(Vec::new()));
        let (held, is_held) = mpsc::channel();
        let reader = std::thread::spawn({
            let shared = shared.clone();
            move || {
                let lines = shared.lock().unwrap();
                held.send(()).unwrap();
                std::thread::sleep(Duration::from_secs(1));
                drop(lines);
            }
        });
        is_held.recv().unwrap();
        let mut waiting = Waiting::default();
        let began = Instant::now();
        for item in 0..1_000 {
            waiting.put(&shared, item, Vec::push);
        }
        assert!(
            began.elapsed() < Duration::from_millis(500),
            "{:?}",
            began.elapsed()
        );
        reader.join().unwrap();
        for _ in 0..4 {
            waiting.catch_up(&shared, Vec::push);
        }
        let expected: Vec<i32> = (0..1_000).collect();
        assert_eq!(*shared.lock().unwrap(), expected, "all of it, in order");
    }

    #[test]
    fn what_waits_for_readers_is_bounded() {
        let shared = Mutex::new(0_u64);
        let held = shared.lock().unwrap();
        let mut waiting = Waiting::default();
        for _ in 0..WAITING_MAX + 10 {
            waiting.put(&shared, 1, |sum: &mut u64, one| *sum += one);
        }
        assert_eq!((waiting.writes.len(), waiting.lost), (WAITING_MAX, 10));
        drop(held);
        waiting.put(&shared, 1, |sum: &mut u64, one| *sum += one);
        assert_eq!(*shared.lock().unwrap(), AT_A_TIME as u64);
    }
}
