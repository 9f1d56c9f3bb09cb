//! What a long computation polls, and whom it tells about its steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use thiserror::Error;

/// Nobody waits for the result any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("stopped before the end")]
pub struct Stopped;

/// Who watches a computation.
pub trait Watch: Sync {
    /// Whether nobody waits for the result any more; once true, always true. Asked at least every
    /// 10 ms, by any thread.
    fn stopped(&self) -> bool {
        false
    }

    /// The step `name` begins, and ends where the next one begins. Called by one thread at a time.
    fn step(&self, name: &'static str) {
        let _ = name;
    }
}

/// Asks a running computation to end. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks; cannot be taken back.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether someone asked.
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

/// A stop flag with a heart beat: a supervisor sees that whoever polls it is alive.
#[derive(Clone, Debug)]
pub struct Pulse {
    stop: Stop,
    beats: Arc<AtomicU64>,
}

impl Pulse {
    /// Beats into a counter.
    #[must_use]
    pub fn new(stop: Stop, beats: Arc<AtomicU64>) -> Pulse {
        Pulse { stop, beats }
    }
}

/// Each question is a beat.
impl Watch for Pulse {
    fn stopped(&self) -> bool {
        self.beats.fetch_add(1, Ordering::Relaxed);
        self.stop.is_stopped()
    }
}
