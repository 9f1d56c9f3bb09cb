//! When a process that serves is to end, and what of an unfinished command goes with it.

use crate::error::Result;
use std::sync::{Arc, Mutex, PoisonError};

/// The exit code of what was interrupted.
pub(crate) const INTERRUPTED: u8 = 130;

/// Waits for Ctrl-C, SIGTERM or, if that was asked for, the end of standard input.
pub(crate) async fn asked(on_stdin_eof: bool) {
    tokio::select! {
        () = signalled() => {}
        () = stdin_ended(), if on_stdin_eof => {}
    }
}

async fn stdin_ended() {
    let (gone, ended) = tokio::sync::oneshot::channel::<()>();
    // Reading blocks, so it has a thread; the process ends without waiting for it.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(gone);
    });
    let _ = ended.await;
}

async fn signalled() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! { _ = interrupt => {}, _ = terminate.recv() => {} }
            return;
        }
    }
    let _ = interrupt.await;
}

/// From now on Ctrl-C and SIGTERM empty what is held, as temporary files, and end the process: at once, but
/// for who has the lock.
///
/// # Errors
/// If the system gives no thread.
pub(crate) fn empty_when_signalled<T: Default + Send + 'static>(
    held: &Arc<Mutex<T>>,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let held = Arc::downgrade(held);
    let end = async move {
        signalled().await;
        let held = held.upgrade();
        // The lock is kept until the end, so that nothing comes after.
        let mut held = held
            .as_ref()
            .map(|held| held.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(held) = &mut held {
            **held = T::default();
        }
        std::process::exit(INTERRUPTED.into());
    };
    let thread = std::thread::Builder::new().name("signals".into());
    thread.spawn(move || runtime.block_on(end))?;
    Ok(())
}
