//! What lanes and keeper use from the standard library and the system: locks, threads, clocks,
//! priorities. They refer to these only through this module, so that a model checker can compile
//! the same files with its own (`model.rs`).

pub(crate) use crate::os::{nice_thread, thread_cpu_ns};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread::{Builder, JoinHandle};
pub(crate) use std::time::Instant;
