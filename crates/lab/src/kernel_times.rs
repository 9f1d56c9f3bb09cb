//! The times of kernels on this host: measured, or remembered from an earlier run.

mod remembered;

use alphorn_exec::{Backend, Kernels};
use std::time::Duration;

use crate::machine::Busy;

/// Returns the times of all kernels on this many threads, by which `auto` chooses from now on:
/// remembered from an earlier run of this build on this processor, or measured. New measurements are
/// remembered, unless other programs used part of the processors meanwhile; then the next run measures
/// again.
pub(crate) fn times(kernels: &Kernels, threads: usize) -> Vec<(Backend, Duration)> {
    let folder = crate::keycache::folder().ok();
    let known = folder
        .as_deref()
        .and_then(|folder| remembered::load(folder, kernels, threads));
    let times = known.unwrap_or_else(|| {
        let before = Busy::now();
        let times = kernels.times(threads);
        let quiet = before.since().warning().is_none();
        if let Some(folder) = folder.filter(|_| quiet) {
            remembered::store(&folder, kernels, threads, &times);
        }
        times
    });
    kernels.choose(threads, Kernels::fastest(&times));
    times
}

/// Returns the fastest kernel on this many threads at once; repeated calls return the same one.
pub(crate) fn fastest(kernels: &Kernels, threads: usize) -> Backend {
    let chosen = kernels.chosen(threads);
    chosen.unwrap_or_else(|| Kernels::fastest(&times(kernels, threads)))
}
