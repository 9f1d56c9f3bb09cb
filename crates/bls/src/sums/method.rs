//! Methods of summing, the options of a sum, and its result with a report of the work.

use super::costs::Costs;
use crate::blst_ffi::curve::G1Affine;

/// A method of summing columns; all give the same result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// One mixed addition per signer: the oracle.
    Naive,
    /// One batch-affine sum per column.
    Bulk,
    /// Like `Bulk`, over the signers or the non-signers, whichever are fewer.
    Subtract,
    /// Each position goes into the bucket of its pattern of bits (transposed four-Russians).
    Pattern,
    /// Like `Pattern`, on the differences from a vector with a known sum.
    Based,
    /// One sum per column over its differences from the nearest vector with a known sum.
    Delta,
    /// Like `Pattern`, on the differences from the first column, whose sum follows from the total. There are
    /// half as many patterns, because a key and its negative share one.
    Folded,
}

impl Method {
    /// All methods.
    pub const ALL: [Method; 7] = [
        Method::Naive,
        Method::Bulk,
        Method::Subtract,
        Method::Pattern,
        Method::Based,
        Method::Delta,
        Method::Folded,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Method::Naive => "naive",
            Method::Bulk => "bulk",
            Method::Subtract => "subtract",
            Method::Pattern => "pattern",
            Method::Based => "based",
            Method::Delta => "delta",
            Method::Folded => "folded",
        }
    }
}

/// Options of a sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct SumOptions {
    /// The method, or `None` to let the planner choose per committee.
    pub method: Option<Method>,
    /// The planner's cost estimates for the host; they affect the time, never the result.
    pub costs: Costs,
}

/// Columns per method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MethodCounts([u64; Method::ALL.len()]);

impl MethodCounts {
    /// Number of columns summed by `method`.
    pub fn get(&self, method: Method) -> u64 {
        self.0[method as usize]
    }

    pub(super) fn add(&mut self, method: Method, columns: u64) {
        self.0[method as usize] += columns;
    }
}

/// Work done. Times are summed over threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SumReport {
    /// Columns per method.
    pub methods: MethodCounts,
    /// Point additions.
    pub additions: u64,
    /// Time spent choosing methods.
    pub plan_ns: u64,
    /// Time spent extracting the patterns of positions.
    pub buckets_ns: u64,
    /// Time spent sorting and adding.
    pub sums_ns: u64,
}

impl SumReport {
    /// Adds the report of another part of the work.
    pub(crate) fn join(&mut self, other: &SumReport) {
        for (own, other) in self.methods.0.iter_mut().zip(other.methods.0) {
            *own += other;
        }
        self.plan_ns += other.plan_ns;
        self.additions += other.additions;
        self.buckets_ns += other.buckets_ns;
        self.sums_ns += other.sums_ns;
    }
}

/// The sums of keys, in order of jobs and their collections, and a report.
#[derive(Clone, Debug)]
pub struct Sums {
    /// One aggregate key per collection, possibly the identity.
    pub keys: Vec<G1Affine>,
    /// One sum per plane of each collection, lowest plane first, each possibly the identity.
    pub(crate) planes: Vec<G1Affine>,
    /// The work done.
    pub report: SumReport,
}
