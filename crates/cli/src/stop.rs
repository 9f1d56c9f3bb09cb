//! When a process that serves is to end.

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
