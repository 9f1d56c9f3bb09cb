//! Where a computation runs, and until when: the kernel, the threads, and who watches.
//!
//! Work is cut into tasks whose number depends on the statement alone, and what tasks return is
//! joined in their order; so the bytes of a proof depend on neither kernel nor threads.

use std::fmt;

use rayon::prelude::*;
use thiserror::Error;

use crate::kernel::Backend;

/// A stop flag, and an ear for the steps of a proof.
pub trait Watch: Sync {
    /// Whether nobody waits for the result any more; asked before every task of a prover.
    fn stopped(&self) -> bool {
        false
    }

    /// The step `name` begins, and ends where the next one begins. Called by one thread at a time.
    fn step(&self, name: &'static str) {
        let _ = name;
    }
}

/// Nobody waits for the result any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("stopped before the end")]
pub struct Stopped;

/// Kernel, thread pool and watch of a computation; none of them changes what it computes.
#[derive(Clone, Copy)]
pub struct Exec<'a> {
    backend: Backend,
    pool: Option<&'a rayon::ThreadPool>,
    watch: Option<&'a dyn Watch>,
}

impl fmt::Debug for Exec<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exec")
            .field("backend", &self.backend)
            .field("threads", &self.threads())
            .field("watched", &self.watch.is_some())
            .finish()
    }
}

impl<'a> Exec<'a> {
    /// On the calling thread if there is no pool; nobody watches.
    pub fn new(backend: Backend, pool: Option<&'a rayon::ThreadPool>) -> Exec<'a> {
        Exec {
            backend,
            pool,
            watch: None,
        }
    }

    /// The same with a watch.
    #[must_use]
    pub fn with_watch(self, watch: &'a dyn Watch) -> Exec<'a> {
        Exec {
            watch: Some(watch),
            ..self
        }
    }

    /// The kernel.
    pub fn backend(self) -> Backend {
        self.backend
    }

    /// How many threads there are.
    pub(crate) fn threads(self) -> usize {
        self.pool.map_or(1, rayon::ThreadPool::current_num_threads)
    }

    /// The kernel for vectors of `len` elements: the portable one where they do not fill a vector.
    pub(crate) fn backend_for(self, len: usize) -> Backend {
        match len > 0 && len.is_multiple_of(self.backend.lanes()) {
            true => self.backend,
            false => Backend::portable(),
        }
    }

    /// Whether nobody waits for the result any more.
    pub fn stopped(self) -> bool {
        self.watch.is_some_and(Watch::stopped)
    }

    /// Demands that somebody wait for the result.
    ///
    /// # Errors
    /// [`Stopped`] if nobody does.
    pub fn go_on(self) -> Result<(), Stopped> {
        match self.stopped() {
            true => Err(Stopped),
            false => Ok(()),
        }
    }

    /// Begins a step.
    ///
    /// # Errors
    /// [`Stopped`] if nobody waits for the result.
    pub fn step(self, name: &'static str) -> Result<(), Stopped> {
        if let Some(watch) = self.watch {
            watch.step(name);
        }
        self.go_on()
    }

    /// Runs `f` on a thread of the pool: so the tasks inside it need no hand-over between pools.
    pub(crate) fn enter<T: Send>(self, f: impl FnOnce() -> T + Send) -> T {
        match self.pool {
            Some(pool) => pool.install(f),
            None => f(),
        }
    }

    /// f(0), f(1), …, by all threads, in order.
    pub fn map<T: Send>(self, count: usize, f: impl Fn(usize) -> T + Sync) -> Vec<T> {
        match self.pool {
            Some(pool) if count > 1 => {
                pool.install(|| (0..count).into_par_iter().map(&f).collect())
            }
            _ => (0..count).map(f).collect(),
        }
    }

    /// The same, unless nobody waits for the result any more.
    ///
    /// # Errors
    /// [`Stopped`], asked for before every task.
    pub(crate) fn try_map<T: Send>(
        self,
        count: usize,
        f: impl Fn(usize) -> T + Sync,
    ) -> Result<Vec<T>, Stopped> {
        let task = |i| self.go_on().map(|()| f(i));
        match self.pool {
            Some(pool) if count > 1 => {
                pool.install(|| (0..count).into_par_iter().map(task).collect())
            }
            _ => (0..count).map(task).collect(),
        }
    }

    /// f(i, part i) for the parts of `size` elements of a slice, by all threads.
    ///
    /// # Errors
    /// [`Stopped`], asked for before every task.
    pub(crate) fn try_fill<T: Send>(
        self,
        out: &mut [T],
        size: usize,
        f: impl Fn(usize, &mut [T]) + Sync,
    ) -> Result<(), Stopped> {
        let task = |(i, part): (usize, &mut [T])| self.go_on().map(|()| f(i, part));
        match self.pool {
            Some(pool) if out.len() > size => {
                pool.install(|| out.par_chunks_mut(size).enumerate().try_for_each(task))
            }
            _ => out.chunks_mut(size).enumerate().try_for_each(task),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Stops after so many questions.
    struct After(AtomicUsize);

    impl Watch for After {
        fn stopped(&self) -> bool {
            let left = self.0.load(Ordering::Relaxed);
            self.0.store(left.saturating_sub(1), Ordering::Relaxed);
            left == 0
        }
    }

    #[test]
    fn tasks_end_when_nobody_waits() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
        let pool = pool.unwrap();
        for pool in [None, Some(&pool)] {
            let calls = AtomicUsize::new(0);
            let task = |i| {
                calls.fetch_add(1, Ordering::Relaxed);
                i
            };
            let watch = After(AtomicUsize::new(3));
            let exec = Exec::new(Backend::portable(), pool).with_watch(&watch);
            assert_eq!(exec.try_map(1000, task), Err(Stopped));
            let mut out = [0; 1000];
            let filled = exec.try_fill(&mut out, 10, |i, part| part.fill(task(i)));
            assert_eq!(filled, Err(Stopped));
            assert!(calls.load(Ordering::Relaxed) < 10);
            assert_eq!(exec.step("later"), Err(Stopped));
            let unwatched = Exec::new(Backend::portable(), pool);
            assert_eq!(unwatched.try_map(3, |i| i), Ok(vec![0, 1, 2]));
            assert_eq!(unwatched.enter(|| 7), 7);
            assert_eq!(unwatched.go_on(), Ok(()));
        }
    }
}
