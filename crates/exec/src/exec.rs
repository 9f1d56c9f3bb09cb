//! Where a computation runs, and for how long: the kernel, the threads, and the watch.

use std::fmt;
use std::ops::Range;

use rayon::prelude::*;

use crate::{Backend, Stopped, Watch};

/// Kernel, threads and watch of a computation; none of them changes its result.
///
/// Threads belong to a pool lent by the caller, for instance a worker's lane, or are the calling thread alone.
/// The global pool of rayon is never used.
#[derive(Clone, Copy, Default)]
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
    /// Portable kernels on the calling thread, without a watch.
    #[must_use]
    pub fn serial() -> Exec<'static> {
        Exec::default()
    }

    /// Runs on the calling thread if there is no pool; no watch.
    #[must_use]
    pub fn new(backend: Backend, pool: Option<&'a rayon::ThreadPool>) -> Exec<'a> {
        Exec {
            backend,
            pool,
            watch: None,
        }
    }

    /// The same, with a watch.
    #[must_use]
    pub fn with_watch(self, watch: &'a dyn Watch) -> Exec<'a> {
        Exec {
            watch: Some(watch),
            ..self
        }
    }

    /// The same, on another kernel.
    #[must_use]
    pub fn on(self, backend: Backend) -> Exec<'a> {
        Exec { backend, ..self }
    }

    /// The same, on the calling thread alone.
    #[must_use]
    pub fn on_this_thread(self) -> Exec<'a> {
        Exec { pool: None, ..self }
    }

    /// The kernel.
    #[must_use]
    pub fn backend(self) -> Backend {
        self.backend
    }

    /// The number of threads.
    #[must_use]
    pub fn threads(self) -> usize {
        self.pool.map_or(1, rayon::ThreadPool::current_num_threads)
    }

    /// Returns whether the result is no longer needed and therefore does not matter. Work that checks between
    /// its tasks checks at least every 10 ms.
    #[must_use]
    pub fn stopped(self) -> bool {
        self.watch.is_some_and(Watch::stopped)
    }

    /// Checks that the result is still needed.
    ///
    /// # Errors
    /// [`Stopped`] if it is not.
    pub fn go_on(self) -> Result<(), Stopped> {
        match self.stopped() {
            true => Err(Stopped),
            false => Ok(()),
        }
    }

    /// Starts a step.
    ///
    /// # Errors
    /// [`Stopped`] if the result is no longer needed.
    pub fn step(self, name: &'static str) -> Result<(), Stopped> {
        if let Some(watch) = self.watch {
            watch.step(name);
        }
        self.go_on()
    }

    /// Runs `f` on a thread of the pool, so that tasks inside it need no hand-over between pools.
    pub fn enter<T: Send>(self, f: impl FnOnce() -> T + Send) -> T {
        match self.pool {
            Some(pool) => pool.install(f),
            None => f(),
        }
    }

    /// Runs both closures and returns both results.
    pub fn join<A: Send, B: Send>(
        self,
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        match self.pool {
            Some(pool) => pool.join(a, b),
            None => (a(), b()),
        }
    }

    /// Returns f(0), f(1), …, in order, computed by all threads.
    pub fn map<T: Send>(self, count: usize, f: impl Fn(usize) -> T + Sync) -> Vec<T> {
        match self.pool {
            Some(pool) if count > 1 => {
                pool.install(|| (0..count).into_par_iter().map(&f).collect())
            }
            _ => (0..count).map(f).collect(),
        }
    }

    /// The same, unless the result is no longer needed.
    ///
    /// # Errors
    /// [`Stopped`], checked before every task and at the end, because a task that checks for itself may have
    /// ended early.
    pub fn try_map<T: Send>(
        self,
        count: usize,
        f: impl Fn(usize) -> T + Sync,
    ) -> Result<Vec<T>, Stopped> {
        let task = |i| self.go_on().map(|()| f(i));
        let values: Vec<T> = match self.pool {
            Some(pool) if count > 1 => {
                pool.install(|| (0..count).into_par_iter().map(task).collect())
            }
            _ => (0..count).map(task).collect::<Result<_, _>>(),
        }?;
        self.go_on().map(|()| values)
    }

    /// Calls f(i, part i) for the parts of `size` elements of a slice, the last one possibly shorter, on all
    /// threads.
    ///
    /// # Errors
    /// As [`Exec::try_map`].
    ///
    /// # Panics
    /// If the size is zero.
    pub fn try_fill<T: Send>(
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
        }?;
        self.go_on()
    }

    /// Calls `f(i, space)` for i < `count`, in tasks that take the next i as they become free. Each task has
    /// its own space; there are at most as many tasks as threads and as spaces.
    pub fn share<S: Send>(self, count: usize, spaces: &mut [S], f: impl Fn(usize, &mut S) + Sync) {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let next = AtomicUsize::new(0);
        let work = |space: &mut S| {
            loop {
                // The counter alone decides who takes an index, so no other memory needs an order; the end of the
                // parallel call orders the rest.
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= count {
                    return;
                }
                f(i, space);
            }
        };
        let tasks = self.threads().min(count).min(spaces.len());
        match self.pool {
            Some(pool) => pool.install(|| spaces[..tasks].par_iter_mut().for_each(work)),
            None => spaces[..tasks].iter_mut().for_each(work),
        }
    }

    /// Ranges that cover 0 .. n: at least `least` long except for the last, at most `most` long, and otherwise
    /// one per thread.
    #[must_use]
    pub fn pieces(self, n: usize, least: usize, most: usize) -> Vec<Range<usize>> {
        let size = n.div_ceil(self.threads()).max(least).min(most).max(1);
        (0..n)
            .step_by(size)
            .map(|from| from..(from + size).min(n))
            .collect()
    }

    /// `longest` if there is a watch, for work whose pieces may otherwise have any length.
    #[must_use]
    pub fn most(self, longest: usize) -> usize {
        self.watch.map_or(usize::MAX, |_| longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Stops at the check with this number.
    struct StopAt(usize, AtomicUsize);

    impl StopAt {
        fn question(number: usize) -> StopAt {
            StopAt(number, AtomicUsize::new(0))
        }
    }

    impl Watch for StopAt {
        fn stopped(&self) -> bool {
            self.1.fetch_add(1, Ordering::Relaxed) >= self.0
        }
    }

    fn pools() -> [Option<rayon::ThreadPool>; 3] {
        [0, 1, 3].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            (threads > 0).then(|| pool.build().unwrap())
        })
    }

    #[test]
    fn values_come_in_order_whatever_the_threads() {
        let squares: Vec<usize> = (0..100).map(|i| i * i).collect();
        for pool in &pools() {
            let exec = Exec::new(Backend::Portable, pool.as_ref());
            assert_eq!(exec.map(100, |i| i * i), squares);
            assert_eq!(exec.try_map(100, |i| i * i), Ok(squares.clone()));
            let mut data = vec![0; 100];
            let filled = exec.try_fill(&mut data, 7, |index, chunk| {
                for (k, x) in chunk.iter_mut().enumerate() {
                    *x = (7 * index + k) * (7 * index + k);
                }
            });
            assert_eq!((filled, &data), (Ok(()), &squares));
            let mut sums = vec![0; 5];
            exec.share(100, &mut sums, |i, sum| *sum += i);
            assert_eq!(sums.iter().sum::<usize>(), 4950);
            assert_eq!(exec.join(|| 1, || 2), (1, 2));
            assert_eq!(exec.enter(|| 7), 7);
        }
    }

    #[test]
    fn pieces_cover_everything_within_their_bounds() {
        for pool in &pools() {
            let exec = Exec::new(Backend::Portable, pool.as_ref());
            for (n, least, most) in [(0, 1, 9), (1, 4, 9), (100, 4, 9), (100, 60, 80)] {
                let pieces = exec.pieces(n, least, most);
                assert!(pieces.iter().cloned().flatten().eq(0..n));
                let (_, whole) = pieces
                    .split_last()
                    .map_or((None, &[][..]), |(l, w)| (Some(l), w));
                assert!(
                    whole
                        .iter()
                        .all(|piece| (least..=most).contains(&piece.len()))
                );
            }
        }
    }

    #[test]
    fn a_stop_leaves_no_result() {
        // Five checks by the tasks, and one at the end.
        for question in 0..6 {
            let watch = StopAt::question(question);
            let exec = Exec::serial().with_watch(&watch);
            assert_eq!(exec.try_map(5, |i| i), Err(Stopped));
        }
        let watch = StopAt::question(6);
        let exec = Exec::serial().with_watch(&watch);
        assert_eq!(exec.try_map(5, |i| i), Ok(vec![0, 1, 2, 3, 4]));
        assert_eq!(exec.step("later"), Err(Stopped));
    }

    #[test]
    fn tasks_end_when_nobody_waits() {
        for pool in &pools() {
            let calls = AtomicUsize::new(0);
            let task = |i| {
                calls.fetch_add(1, Ordering::Relaxed);
                i
            };
            let watch = StopAt::question(3);
            let exec = Exec::new(Backend::Portable, pool.as_ref()).with_watch(&watch);
            assert_eq!(exec.try_map(1000, task), Err(Stopped));
            let mut out = [0; 1000];
            let filled = exec.try_fill(&mut out, 10, |i, part| part.fill(task(i)));
            assert_eq!(filled, Err(Stopped));
            assert!(calls.load(Ordering::Relaxed) < 10);
        }
    }
}
