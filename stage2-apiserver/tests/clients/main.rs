//! Clients that others wrote, unmodified: kubectl, helm, kopf, and the Python and JavaScript clients.
//!
//! What they ask for and take for granted is what users run into first. kubectl and helm are the programs `kubectl-…` and
//! `helm-…` in `STAGES_STOCK_KUBECTL_DIR` (`labs/setup.sh` fetches them); the packages of the scripts are installed into
//! `target/clients` in pinned versions. What can't be had is told as `skipped: …`; with `STAGES_REQUIRE_REAL=1` its absence
//! is a failure, but for npm, which is more than a test machine ought to need. What needs a node is in `labs/tests/pipeline`.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test: runs programs")]

#[path = "../support/raw.rs"]
mod raw;

mod helm;
mod kubectl;
mod scripts;
mod stock;
