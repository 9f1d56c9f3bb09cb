//! What the planner knows about the host: measured constants of a kernel.

use std::sync::OnceLock;
use std::time::Instant;

use super::segments::{Entry, Points, SegmentList, SumBuffers, SumKernel, append_sums};
use super::tree::{Item, Tree};
use crate::blst_ffi::curve::{Affine, G1Affine};
use crate::blst_ffi::curve_field::CurveField;
use crate::blst_ffi::field::Fp;
use crate::blst_ffi::points::g1;

/// Constants of the prediction time = additions · `add_ns` + items · `item_ns` + groups · `group_ns` + `job_ns`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// One addition of a point to a running sum.
    pub(crate) naive_add_ns: f64,
    /// Overhead of one running sum besides its additions: conversion back to affine form.
    pub(crate) naive_ns: f64,
    /// One addition of the kernel, inversions included.
    pub(crate) add_ns: f64,
    /// Extracting and sorting the pattern of one position.
    pub(crate) item_ns: f64,
    /// Overhead of a group of columns besides its items and additions.
    pub(crate) group_ns: f64,
    /// Overhead of a job besides its groups: mostly the inversions of its levels.
    pub(crate) job_ns: f64,
}

impl Default for Costs {
    /// Portable constants in the proportions of a 2-core Zen 5 at 4 GHz, so that the plan is the same
    /// everywhere.
    fn default() -> Self {
        Costs {
            naive_add_ns: 350.0,
            naive_ns: 3000.0,
            add_ns: 180.0,
            item_ns: 6.0,
            group_ns: 2000.0,
            job_ns: 20_000.0,
        }
    }
}

impl Costs {
    /// Predicted time of groups that run together, without `job_ns`.
    pub(crate) fn groups_ns(&self, additions: f64, items: f64, groups: usize) -> f64 {
        additions * self.add_ns + items * self.item_ns + groups as f64 * self.group_ns
    }

    /// Predicted time of a job.
    pub(crate) fn job_ns(&self, additions: f64, items: f64, groups: usize) -> f64 {
        self.groups_ns(additions, items, groups) + self.job_ns
    }
}

/// Points of the measurement.
const POINTS: usize = 1024;
/// Entries of the measured sum: enough that the inversions weigh as much as in a real one.
const ENTRIES: usize = 4096;
const SEGMENTS: usize = 64;
/// Patterns of the measured groups: all patterns of eight columns except 0.
const VALUES: usize = 255;
/// The minimum of this many runs counts.
const RUNS: usize = 3;

fn least_ns(mut run: impl FnMut()) -> f64 {
    let one = |_| {
        let start = Instant::now();
        run();
        start.elapsed().as_nanos() as f64
    };
    (0..RUNS).map(one).fold(f64::INFINITY, f64::min)
}

/// Measures one addition of a kernel with no other work around it, so that a processor that lowers its clock
/// for wide units runs at the clock that they allow.
pub(crate) fn measure_addition<K: SumKernel<Field = Fp>>(kernel: K) -> f64 {
    let mut table = Vec::new();
    kernel.encode(points(), &mut table);
    addition_ns(kernel, &table)
}

fn addition_ns<K: SumKernel<Field = Fp>>(kernel: K, table: &[K::Point]) -> f64 {
    let mut list = SegmentList::default();
    for i in 0..ENTRIES {
        // An odd stride visits all points, but not in the order of memory.
        list.entries.push(Entry::new(i * 387 % POINTS, false));
        if (i + 1) % (ENTRIES / SEGMENTS) == 0 {
            list.close();
        }
    }
    let mut buffers = SumBuffers::default();
    let mut sums = Vec::new();
    let sum_ns = least_ns(|| {
        sums.clear();
        let points = Points { table, sums: &[] };
        append_sums(kernel, points, &list, &mut buffers, &mut sums);
    });
    sum_ns / (ENTRIES - SEGMENTS) as f64
}

/// Measures a kernel; takes at most 20 ms.
pub(crate) fn measure<K: SumKernel<Field = Fp>>(kernel: K) -> Costs {
    let points = points();
    let mut table = Vec::new();
    kernel.encode(points, &mut table);
    let add_ns = addition_ns(kernel, &table);
    let naive = |count: usize| {
        least_ns(|| {
            core::hint::black_box(CurveField::sum_naive(&points[..count]));
        })
    };
    // The short one is all overhead, and the long one has 256 additions more.
    let (short_ns, long_ns) = (naive(1), naive(257));
    let mut tree = Tree::<K>::default();
    let mut extra_ns = |groups: usize, items: usize| {
        let run_ns = least_ns(|| {
            tree.clear();
            for _ in 0..groups {
                tree.push_group(8, |out| {
                    let entry = |i| Entry::new(i % POINTS, false);
                    let item = |i| Item {
                        value: 1 + (i % VALUES) as u16,
                        entry: entry(i),
                    };
                    out.extend((0..items).map(item));
                });
            }
            tree.run(kernel, &table);
        });
        // Additions are charged separately.
        run_ns - tree.additions as f64 * add_ns
    };
    let (one_ns, nine_ns, full_ns) = (
        extra_ns(1, VALUES),
        extra_ns(9, VALUES),
        extra_ns(1, ENTRIES),
    );
    // A difference of two measurements may come out negative.
    let group_ns = ((nine_ns - one_ns) / 8.0).max(0.0);
    Costs {
        naive_add_ns: ((long_ns - short_ns) / 256.0).max(1.0),
        naive_ns: short_ns,
        add_ns,
        item_ns: ((full_ns - one_ns) / (ENTRIES - VALUES) as f64).clamp(1.0, add_ns / 4.0),
        group_ns,
        job_ns: (one_ns - group_ns).max(0.0),
    }
}

/// P, 2P, 3P, … of the generator: computed once, by scalar arithmetic.
fn points() -> &'static [G1Affine] {
    static MADE: OnceLock<Vec<G1Affine>> = OnceLock::new();
    MADE.get_or_init(|| {
        let generator = g1::generator();
        let mut out: Vec<G1Affine> = vec![generator];
        while out.len() < POINTS {
            let last: &Affine<Fp> = &out[out.len() - 1];
            out.push(CurveField::sum_naive(&[*last, generator]));
        }
        out
    })
}
