//! What lanes and keeper ask of the standard library and the system: locks, threads, clocks,
//! priorities. They name it here alone, so that a model checker can compile the same files over its
//! own (`model.rs`).

pub(crate) use crate::os::{nice_thread, thread_cpu_ns};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread::{Builder, JoinHandle};
pub(crate) use std::time::Instant;

use std::time::SystemTime;

/// Wall time in nanoseconds from the Unix epoch; zero before it.
pub(crate) fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let since_ns = since.map_or(0, |since| since.as_nanos());
    u64::try_from(since_ns).unwrap_or(u64::MAX)
}
