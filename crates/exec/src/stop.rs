//! What a long computation polls, and what it notifies of its steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use thiserror::Error;

/// The result is no longer needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("stopped before the end")]
pub struct Stopped;

/// An observer of a computation.
pub trait Watch: Sync {
    /// Returns whether the result is no longer needed; once true, always true. Called at least every 10 ms,
    /// from any thread.
    fn stopped(&self) -> bool {
        false
    }

    /// The step `name` starts; it ends when the next one starts. Called by one thread at a time.
    fn step(&self, name: &'static str) {
        let _ = name;
    }
}

/// Asks a running computation to stop. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Sets the flag; cannot be undone.
    pub fn stop(&self) {
        // Nothing is handed over with the flag: a computation that sees it late only works a little longer.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether the flag is set.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Watch for Stop {
    fn stopped(&self) -> bool {
        self.is_stopped()
    }
}

/// A stop flag with a heartbeat: a supervisor sees that the thread polling it is alive.
#[derive(Clone, Debug)]
pub struct Pulse {
    stop: Stop,
    beats: Arc<AtomicU64>,
}

impl Pulse {
    /// Counts heartbeats in the given counter.
    #[must_use]
    pub fn new(stop: Stop, beats: Arc<AtomicU64>) -> Pulse {
        Pulse { stop, beats }
    }
}

/// Each poll is a heartbeat.
impl Watch for Pulse {
    fn stopped(&self) -> bool {
        // A supervisor only looks whether the count moves.
        self.beats.fetch_add(1, Ordering::Relaxed);
        self.stop.is_stopped()
    }
}
