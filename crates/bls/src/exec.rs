//! On which threads bulk work runs: a borrowed pool, or the calling thread.

use rayon::prelude::*;

/// Where bulk work runs. The global pool of rayon is never used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exec<'a>(Option<&'a rayon::ThreadPool>);

impl<'a> Exec<'a> {
    /// On the calling thread.
    pub fn serial() -> Exec<'static> {
        Exec(None)
    }

    /// On a pool; none = the calling thread.
    pub fn new(pool: Option<&'a rayon::ThreadPool>) -> Exec<'a> {
        Exec(pool)
    }

    /// The pool; none = the calling thread.
    pub fn pool(&self) -> Option<&'a rayon::ThreadPool> {
        self.0
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.0.map_or(1, rayon::ThreadPool::current_num_threads)
    }

    /// `f(0), .., f(n - 1)` in order.
    pub(crate) fn map<T: Send>(&self, n: usize, f: impl Fn(usize) -> T + Send + Sync) -> Vec<T> {
        match self.0 {
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
        match self.0 {
            Some(pool) => pool.join(a, b),
            None => (a(), b()),
        }
    }

    /// At most `threads` ranges that cover 0 .. n, none shorter than `least` but the last.
    pub(crate) fn chunks(&self, n: usize, least: usize) -> Vec<core::ops::Range<usize>> {
        let size = n.div_ceil(self.threads()).max(least).max(1);
        (0..n)
            .step_by(size)
            .map(|from| from..(from + size).min(n))
            .collect()
    }
}
