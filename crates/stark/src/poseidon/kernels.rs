//! The kernels of this crate, and how fast each permutes.

use std::time::{Duration, Instant};

use alphorn_exec::{Backend, InstructionSet, Kernels};

use super::{Permutations, WIDTH_16};
use crate::field::Fp;

/// The kernels of this crate.
pub const KERNELS: Kernels = Kernels {
    of: "stark",
    sets: &[
        InstructionSet::Avx2,
        InstructionSet::Avx512Dq,
        InstructionSet::Avx512Ifma,
    ],
    work: "a permutation",
    measure,
};

/// The time of a permutation of width 16: the minimum over some runs of 128.
fn measure(backend: Backend) -> Duration {
    let mut states = [[Fp::ONE; WIDTH_16]; 128];
    let mut once = || {
        let start = Instant::now();
        backend.permute_16(&mut states);
        std::hint::black_box(&states);
        start.elapsed()
    };
    // The first run builds the tables.
    once();
    let least = (0..8).map(|_| once()).min();
    least.map_or(Duration::MAX, |time| time / 128)
}

/// The minimum time of 32 permutations of a transcript, which wait for each other.
pub(crate) fn measure_one(backend: Backend) -> Duration {
    let mut states = [[Fp::ONE; WIDTH_16]];
    let mut once = || {
        let start = Instant::now();
        (0..32).for_each(|_| backend.compress_own(&mut states));
        std::hint::black_box(&states);
        start.elapsed()
    };
    // The first run builds the tables.
    once();
    (0..8).map(|_| once()).min().unwrap_or(Duration::MAX)
}
