//! Where a computation runs: the kernel and the threads.

use rayon::prelude::*;

use crate::kernel::Backend;

/// Kernel and thread pool of a computation; neither changes what it computes.
#[derive(Clone, Copy, Debug)]
pub struct Exec<'a> {
    backend: Backend,
    pool: Option<&'a rayon::ThreadPool>,
}

impl<'a> Exec<'a> {
    /// On the calling thread if there is no pool.
    pub fn new(backend: Backend, pool: Option<&'a rayon::ThreadPool>) -> Exec<'a> {
        Exec { backend, pool }
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

    /// f(0), f(1), …, by all threads, in order.
    pub fn map<T: Send>(self, count: usize, f: impl Fn(usize) -> T + Sync) -> Vec<T> {
        match self.pool {
            Some(pool) if count > 1 => {
                pool.install(|| (0..count).into_par_iter().map(&f).collect())
            }
            _ => (0..count).map(f).collect(),
        }
    }

    /// f(i, part i) for the parts of `size` elements of a slice, by all threads.
    pub(crate) fn fill<T: Send>(
        self,
        out: &mut [T],
        size: usize,
        f: impl Fn(usize, &mut [T]) + Sync,
    ) {
        match self.pool {
            Some(pool) if out.len() > size => pool.install(|| {
                let parts = out.par_chunks_mut(size).enumerate();
                parts.for_each(|(i, part)| f(i, part));
            }),
            _ => {
                let parts = out.chunks_mut(size).enumerate();
                parts.for_each(|(i, part)| f(i, part));
            }
        }
    }
}
