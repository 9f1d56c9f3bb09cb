//! Where a proof is computed: on which threads, and until when.
//!
//! Work is cut into tasks whose number depends on the statement alone, and what tasks return is
//! joined in their order; so the bytes of a proof do not depend on the number of threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use thiserror::Error;

use crate::kernel::Backend;

/// Threads, a stop flag, and an ear for the steps of a proof.
pub trait Exec: Sync {
    /// Calls `task` with each of `0..count`, in any order and on any threads; returns when all are
    /// done.
    fn each(&self, count: usize, task: &(dyn Fn(usize) + Sync));

    /// Whether nobody waits for the result any more; asked before every task.
    fn stopped(&self) -> bool {
        false
    }

    /// The step `name` begins, and ends where the next one begins. Called by the thread that
    /// proves or verifies.
    fn step(&self, name: &'static str) {
        let _ = name;
    }
}

/// Kernels, and the threads that run them.
#[derive(Clone, Copy)]
pub(crate) struct Machine<'a> {
    pub(crate) backend: Backend,
    pub(crate) exec: &'a dyn Exec,
}

impl Machine<'_> {
    /// Begins a step, unless nobody waits for the result any more.
    pub(crate) fn step(self, name: &'static str) -> Result<(), Stopped> {
        self.exec.step(name);
        if self.exec.stopped() {
            return Err(Stopped);
        }
        Ok(())
    }
}

/// Nobody waits for the result any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("stopped before the end")]
pub struct Stopped;

/// The calling thread alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inline;

impl Exec for Inline {
    fn each(&self, count: usize, task: &(dyn Fn(usize) + Sync)) {
        (0..count).for_each(task);
    }
}

/// So many threads, started for each call of [`Exec::each`]: for programs without a pool.
#[derive(Clone, Copy, Debug)]
pub struct Threads(pub usize);

impl Exec for Threads {
    fn each(&self, count: usize, task: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return;
                }
                task(index);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.0.min(count) {
                scope.spawn(work);
            }
            work();
        });
    }
}

/// What `task` returns for each of `0..count`, in order.
///
/// # Errors
/// If the stop flag, which never goes down again, is up before all tasks are done.
pub fn map<T: Send>(
    exec: &dyn Exec,
    count: usize,
    task: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>, Stopped> {
    let slots: Vec<Mutex<Option<T>>> = (0..count).map(|_| Mutex::new(None)).collect();
    exec.each(count, &|index| {
        if !exec.stopped() {
            let value = task(index);
            if let Ok(mut slot) = slots[index].lock() {
                *slot = Some(value);
            }
        }
    });
    // A task may have ended early for the same reason.
    if exec.stopped() {
        return Err(Stopped);
    }
    let values = slots.into_iter();
    values
        .map(|slot| slot.into_inner().ok().flatten().ok_or(Stopped))
        .collect()
}

/// Calls `task` with the number and the contents of each chunk of `size` elements, the last of
/// them shorter.
///
/// # Errors
/// As [`map`].
///
/// # Panics
/// If the size is zero.
pub(crate) fn fill<T: Send>(
    exec: &dyn Exec,
    data: &mut [T],
    size: usize,
    task: impl Fn(usize, &mut [T]) + Sync,
) -> Result<(), Stopped> {
    let chunks: Vec<Mutex<&mut [T]>> = data.chunks_mut(size).map(Mutex::new).collect();
    map(exec, chunks.len(), |index| {
        if let Ok(mut chunk) = chunks[index].lock() {
            task(index, &mut chunk);
        }
    })
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stops at the question with this number.
    struct StopAt(usize, AtomicUsize);

    impl Exec for StopAt {
        fn each(&self, count: usize, task: &(dyn Fn(usize) + Sync)) {
            Inline.each(count, task);
        }

        fn stopped(&self) -> bool {
            self.1.fetch_add(1, Ordering::Relaxed) >= self.0
        }
    }

    #[test]
    fn values_come_in_order_whatever_the_threads() {
        let squares: Vec<usize> = (0..100).map(|i| i * i).collect();
        for threads in [0, 1, 3, 200] {
            assert_eq!(map(&Threads(threads), 100, |i| i * i), Ok(squares.clone()));
        }
        let mut data = vec![0; 100];
        let filled = fill(&Threads(3), &mut data, 7, |index, chunk| {
            for (k, x) in chunk.iter_mut().enumerate() {
                *x = (7 * index + k) * (7 * index + k);
            }
        });
        assert_eq!((filled, data), (Ok(()), squares));
    }

    #[test]
    fn a_stop_leaves_no_result() {
        // Five tasks ask, and the end.
        for question in 0..6 {
            let exec = StopAt(question, AtomicUsize::new(0));
            assert_eq!(map(&exec, 5, |i| i), Err(Stopped));
        }
        let exec = StopAt(6, AtomicUsize::new(0));
        assert_eq!(map(&exec, 5, |i| i), Ok(vec![0, 1, 2, 3, 4]));
    }
}
