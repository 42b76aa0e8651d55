//! `iptables-restore` and `iptables-save`, run: the only place where the iptables dialect meets the kernel.
//!
//! *Step 6 of a pod's journey.* Before: [`super::Iptables`] wrote the input. After: packets meet it.
//!
//! `--noflush` makes the input a change: only chains that it declares are emptied first. `-w 5` waits for
//! the lock that other programs may hold.
//!
//! # Invariants
//! 1. The shared chains of a sync are replaced in one commit per table.
//!
//! # In Kubernetes
//! `pkg/util/iptables/iptables.go`.
#![expect(clippy::disallowed_methods, reason = "shell: writes a sysctl")]

use super::Iptables;
use crate::nftables::run::{RunError, run_with_input};

async fn restore(input: &str) -> Result<(), RunError> {
    run_with_input("iptables-restore", &["-w", "5", "--noflush", "--counters"], input).await.map(drop)
}

/// Writes everything, over whatever is there.
///
/// # Errors
/// iptables refused it.
pub async fn full(rules: &Iptables) -> Result<(), RunError> {
    let mut saved = String::new();
    for table in ["filter", "nat"] {
        saved += &run_with_input("iptables-save", &["-t", table], "").await?;
    }
    restore(&rules.full(&saved)).await
}

/// Writes what an update changed.
///
/// # Errors
/// iptables refused it.
pub async fn partial(rules: &Iptables, changes: &super::Changes) -> Result<(), RunError> {
    restore(&rules.partial(changes)).await
}

/// Are our chains still there?
pub async fn is_present() -> bool {
    run_with_input("iptables", &["-w", "5", "-t", "nat", "-S", "KUBE-PROXY-CANARY"], "").await.is_ok()
}

/// Lets packets to 127.0.0.1 be routed, which NodePorts at localhost need.
///
/// # Errors
/// No rights.
pub fn route_localnet() -> std::io::Result<()> {
    std::fs::write("/proc/sys/net/ipv4/conf/all/route_localnet", "1")
}
