//! Ctrl-C and SIGTERM: a devnet ends its nodes, and tells what became of the duties so far.

use crate::error::Result;
use crate::report::note;
use crate::stop::INTERRUPTED;
use anyhow::Context;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a rest looks whether it is over.
const LOOK: Duration = Duration::from_millis(20);

/// Whether somebody asked for the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for signals from now on. The second one ends this process at once; its nodes notice that.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn listen() -> Result<Self> {
        let interrupt = Interrupt::default();
        let flag = interrupt.0.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut signals = {
            let _guard = runtime.enter();
            Signals::listen().context("signals")?
        };
        let listen = async move {
            while signals.next().await {
                if flag.swap(true, Ordering::Relaxed) {
                    note("alphorn: interrupted again: files stay where they are");
                    std::process::exit(INTERRUPTED.into());
                }
                note("alphorn: interrupted: the nodes end now");
            }
        };
        let thread = std::thread::Builder::new().name("signals".into());
        thread.spawn(move || runtime.block_on(listen))?;
        Ok(interrupt)
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sleeps so long, or until somebody asks for the end.
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

#[cfg(unix)]
struct Signals([tokio::signal::unix::Signal; 2]);

#[cfg(unix)]
impl Signals {
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
        let [interrupt, terminate] = kinds.map(signal);
        Ok(Signals([interrupt?, terminate?]))
    }

    /// Waits for the next one; false if none can come any more.
    async fn next(&mut self) -> bool {
        let [interrupt, terminate] = &mut self.0;
        tokio::select! {
            one = interrupt.recv() => one.is_some(),
            one = terminate.recv() => one.is_some(),
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Signals)
    }

    async fn next(&mut self) -> bool {
        tokio::signal::ctrl_c().await.is_ok()
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
