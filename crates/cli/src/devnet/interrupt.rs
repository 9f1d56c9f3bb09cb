//! Ctrl-C and SIGTERM: a devnet ends its nodes, and reports the outcome of the duties so far.

use crate::error::Result;
use crate::report::note;
use crate::stop::{INTERRUPTED, at_signals};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a sleep checks whether it is over.
const LOOK: Duration = Duration::from_millis(20);

/// Whether an end was requested.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for signals from now on. The second one ends this process at once; its nodes notice that.
    ///
    /// # Errors
    /// If signal handlers cannot be installed.
    pub(super) fn listen() -> Result<Self> {
        let interrupt = Interrupt::default();
        let flag = interrupt.0.clone();
        at_signals(move || {
            if flag.swap(true, Ordering::Relaxed) {
                note("alphorn: interrupted again: files stay where they are");
                std::process::exit(INTERRUPTED.into());
            }
            note("alphorn: interrupted: the nodes end now");
        })?;
        Ok(interrupt)
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sleeps this long, or until an end is requested.
    pub(super) fn rest(&self, time: Duration) {
        let until = Instant::now() + time;
        while !self.is_set() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(LOOK));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_ends_with_an_interruption() {
        let interrupt = Interrupt::default();
        let began = Instant::now();
        interrupt.rest(Duration::from_millis(30));
        assert!(began.elapsed() >= Duration::from_millis(30));
        interrupt.0.store(true, Ordering::Relaxed);
        interrupt.rest(Duration::from_secs(3_600));
        assert!(began.elapsed() < Duration::from_secs(3_600));
    }
}
