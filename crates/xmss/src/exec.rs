//! Where a computation runs: the kernel, the threads, and who watches it.

use alphorn_scheme::Pulse;
use alphorn_stark::{Backend, Watch};
use rayon::prelude::*;

/// Kernel, thread pool and watch of a computation.
#[derive(Clone, Copy)]
pub struct Exec<'a> {
    backend: Backend,
    pool: Option<&'a rayon::ThreadPool>,
    watch: Option<&'a dyn Watch>,
}

/// A job's pulse as its watch.
pub(crate) struct Watched(pub(crate) Pulse);

impl Watch for Watched {
    fn stopped(&self) -> bool {
        self.0.beat_and_stopped()
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

    /// The same with a watch, which may ask it to end.
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

    /// The same for the proof system.
    pub(crate) fn stark(self) -> alphorn_stark::Exec<'a> {
        let stark = alphorn_stark::Exec::new(self.backend, self.pool);
        match self.watch {
            Some(watch) => stark.with_watch(watch),
            None => stark,
        }
    }

    /// Whether the computation is asked to end.
    pub(crate) fn stopped(self) -> bool {
        self.watch.is_some_and(Watch::stopped)
    }

    /// f(0), f(1), …, by all threads.
    pub(crate) fn map<T: Send>(self, count: usize, f: impl Fn(usize) -> T + Sync) -> Vec<T> {
        match self.pool {
            Some(pool) => pool.install(|| (0..count).into_par_iter().map(&f).collect()),
            None => (0..count).map(f).collect(),
        }
    }
}
