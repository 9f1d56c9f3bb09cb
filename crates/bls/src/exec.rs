//! On which threads bulk work runs: a borrowed pool, or the calling thread.

use alphorn_scheme::Pulse;
use rayon::prelude::*;

/// Where bulk work runs. The global pool of rayon is never used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exec<'a> {
    pool: Option<&'a rayon::ThreadPool>,
    pulse: Option<&'a Pulse>,
}

impl<'a> Exec<'a> {
    /// On the calling thread.
    pub fn serial() -> Exec<'static> {
        Exec::default()
    }

    /// On a pool; none = the calling thread.
    pub fn new(pool: Option<&'a rayon::ThreadPool>) -> Exec<'a> {
        Exec { pool, pulse: None }
    }

    /// The same under a task that can be asked to end.
    pub(crate) fn with_pulse(self, pulse: &'a Pulse) -> Exec<'a> {
        Exec {
            pulse: Some(pulse),
            ..self
        }
    }

    /// Gives a sign of life; true if the task is asked to end, after which results do not matter.
    pub(crate) fn stopped(&self) -> bool {
        self.pulse.is_some_and(Pulse::beat_and_stopped)
    }

    /// The pool; none = the calling thread.
    pub fn pool(&self) -> Option<&'a rayon::ThreadPool> {
        self.pool
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.pool.map_or(1, rayon::ThreadPool::current_num_threads)
    }

    /// `f(0), .., f(n - 1)` in order.
    pub(crate) fn map<T: Send>(&self, n: usize, f: impl Fn(usize) -> T + Send + Sync) -> Vec<T> {
        match self.pool {
            Some(pool) if n > 1 => pool.install(|| (0..n).into_par_iter().map(f).collect()),
            _ => (0..n).map(f).collect(),
        }
    }

    /// Both results.
    pub(crate) fn join<A: Send, B: Send>(
        &self,
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        match self.pool {
            Some(pool) => pool.join(a, b),
            None => (a(), b()),
        }
    }

    /// `longest` under a task that can be asked to end, for work whose pieces may else be of any length.
    pub(crate) fn most(&self, longest: usize) -> usize {
        self.pulse.map_or(usize::MAX, |_| longest)
    }

    /// Ranges that cover 0 .. n: at least `least` long but the last, at most `most` long, and
    /// otherwise one for each thread.
    pub(crate) fn pieces(
        &self,
        n: usize,
        least: usize,
        most: usize,
    ) -> Vec<core::ops::Range<usize>> {
        let size = n.div_ceil(self.threads()).max(least).min(most).max(1);
        (0..n)
            .step_by(size)
            .map(|from| from..(from + size).min(n))
            .collect()
    }

    /// At most `threads` ranges that cover 0 .. n, none shorter than `least` but the last.
    pub(crate) fn chunks(&self, n: usize, least: usize) -> Vec<core::ops::Range<usize>> {
        self.pieces(n, least, usize::MAX)
    }
}
