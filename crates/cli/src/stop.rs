//! When a serving process is to end, and cleanup after an unfinished command.

use crate::error::Result;
use anyhow::Context;
use std::sync::{Arc, Mutex, PoisonError};

/// The exit code after an interruption.
pub(crate) const INTERRUPTED: u8 = 130;

/// Waits for Ctrl-C, SIGTERM or, if requested, the end of standard input.
pub(crate) async fn asked(on_stdin_eof: bool) {
    tokio::select! {
        () = signalled() => {}
        () = stdin_ended(), if on_stdin_eof => {}
    }
}

async fn stdin_ended() {
    let (gone, ended) = tokio::sync::oneshot::channel::<()>();
    // Reading blocks, so it has its own thread; the process ends without waiting for it.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(gone);
    });
    let _ = ended.await;
}

async fn signalled() {
    match Signals::listen() {
        Ok(mut signals) => {
            signals.next().await;
        }
        // A signal then ends the process, as it does without a handler.
        Err(_) => std::future::pending().await,
    }
}

/// Ctrl-C and SIGTERM.
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

    /// Waits for the next one; false if none can arrive any more.
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

/// From now on, runs `act` on each Ctrl-C and SIGTERM, in a separate thread.
///
/// # Errors
/// If signal handlers or a thread cannot be set up.
pub(crate) fn at_signals(mut act: impl FnMut() + Send + 'static) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut signals = {
        let _guard = runtime.enter();
        Signals::listen().context("signals")?
    };
    let listen = async move {
        while signals.next().await {
            act();
        }
    };
    let thread = std::thread::Builder::new().name("signals".into());
    thread.spawn(move || runtime.block_on(listen))?;
    Ok(())
}

/// From now on, Ctrl-C and SIGTERM drop what is held, such as temporary files, and end the process: at
/// once,
/// or when the current holder of the lock releases it.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn empty_when_signalled<T: Default + Send + 'static>(
    held: &Arc<Mutex<T>>,
) -> Result<()> {
    let held = Arc::downgrade(held);
    at_signals(move || {
        let held = held.upgrade();
        // The lock is kept until the end, so that nothing is added afterwards.
        let mut held = held
            .as_ref()
            .map(|held| held.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(held) = &mut held {
            **held = T::default();
        }
        std::process::exit(INTERRUPTED.into());
    })
}
