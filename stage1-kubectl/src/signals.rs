//! Signals: SIGINT and SIGTERM as a future.
//!
//! *All steps of a pod's journey.* Every server waits for this one and then stops in order; a second signal ends the process at once.
//!
//! # In Kubernetes
//! `apiserver/pkg/server/signal.go`: the second signal calls `os.Exit(1)`.

use tokio::signal::unix::{SignalKind, signal};

/// Resolves on the first SIGINT or SIGTERM. A second one exits with code 1.
pub async fn shutdown() {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Without signal handlers the default action ends the process; there is nothing to wait for.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        std::process::exit(1);
    });
}
