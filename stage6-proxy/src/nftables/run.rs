//! `nft`, run: the only place where the nftables dialect meets the kernel.
//!
//! *Step 6 of a pod's journey.* Before: [`super::diff`] wrote a transaction. After: packets meet it.
//!
//! # Invariants
//! 1. A transaction is carried out as a whole or not at all; after a failure the next one is a full render.
//!
//! # In Kubernetes
//! `sigs.k8s.io/knftables`, which runs the same program.
#![expect(clippy::disallowed_methods, reason = "shell: runs nft")]

use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::TABLE;

/// A program that failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It can't be started.
    #[error("cannot run {program}")]
    Start {
        /// Which.
        program: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// It refused its input.
    #[error("{program} failed: {message}")]
    Refused {
        /// Which.
        program: &'static str,
        /// The beginning of what it printed.
        message: String,
    },
}

/// Runs a program with that input; answers its output.
///
/// # Errors
/// It can't be started or exits with an error.
pub async fn run_with_input(
    program: &'static str,
    arguments: &[&str],
    input: &str,
) -> Result<String, RunError> {
    let start = |source| RunError::Start { program, source };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(start)?;
    let mut stdin = child.stdin.take().expect("it was asked for");
    let feed = async move {
        // A program that refuses its input may not read it to the end; its message is the error that counts.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
    };
    let ((), output) = tokio::join!(feed, child.wait_with_output());
    let output = output.map_err(start)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    message.truncate(message.char_indices().nth(500).map_or(message.len(), |(at, _)| at));
    Err(RunError::Refused { program, message })
}

/// Carries a transaction out.
///
/// # Errors
/// nft refused it: nothing has changed.
pub async fn apply(transaction: &str) -> Result<(), RunError> {
    if transaction.is_empty() {
        return Ok(());
    }
    run_with_input("nft", &["-f", "-"], transaction).await.map(drop)
}

/// Is our table still there? Somebody may have flushed all rules.
pub async fn is_present() -> bool {
    run_with_input("nft", &["list", "chain", "ip", "kube-proxy", "services"], "").await.is_ok()
}

/// Removes all of our rules (`kube-proxy --cleanup`).
///
/// # Errors
/// nft refused it.
pub async fn remove() -> Result<(), RunError> {
    apply(&format!("add table {TABLE}\ndelete table {TABLE}\n")).await
}
