//! Where a computation runs: the kernel, the threads, and who may ask it to end.

use alphorn_scheme::Pulse;
use alphorn_stark::Backend;
use rayon::prelude::*;

/// Kernel, thread pool and stop flag of a computation.
#[derive(Clone, Copy)]
pub struct Exec<'a> {
    backend: Backend,
    pool: Option<&'a rayon::ThreadPool>,
    pulse: Option<&'a Pulse>,
}

impl<'a> Exec<'a> {
    /// On the calling thread if there is no pool.
    pub fn new(backend: Backend, pool: Option<&'a rayon::ThreadPool>) -> Exec<'a> {
        Exec {
            backend,
            pool,
            pulse: None,
        }
    }

    /// The same, under a pulse that may ask it to end.
    #[must_use]
    pub fn with_pulse(self, pulse: &'a Pulse) -> Exec<'a> {
        Exec {
            pulse: Some(pulse),
            ..self
        }
    }

    /// The kernel.
    pub fn backend(self) -> Backend {
        self.backend
    }

    /// The same for the proof system, which does not look at the pulse.
    pub(crate) fn stark(self) -> alphorn_stark::Exec<'a> {
        alphorn_stark::Exec::new(self.backend, self.pool)
    }

    /// Whether the computation is asked to end; tells the supervisor that it lives.
    pub(crate) fn stopped(self) -> bool {
        self.pulse.is_some_and(|pulse| pulse.beat_and_stopped())
    }

    /// f(0), f(1), …, by all threads.
    pub(crate) fn map<T: Send>(self, count: usize, f: impl Fn(usize) -> T + Sync) -> Vec<T> {
        match self.pool {
            Some(pool) => pool.install(|| (0..count).into_par_iter().map(&f).collect()),
            None => (0..count).map(f).collect(),
        }
    }
}
