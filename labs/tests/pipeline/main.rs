//! The whole pipeline on its real parts, driven as a user drives it: by our kubectl and by stock ones.
//!
//! Each test starts a pipeline of its own in a fresh state directory, prints what it saw and stops it; they run one after
//! the other, since two cores are what a test machine has. Without the real parts a test prints `skipped: …`; with
//! `STAGES_REQUIRE_REAL=1` their absence is a failure.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

mod book;
#[allow(dead_code, reason = "each test program uses its part of it")]
mod cluster;
mod failures;
mod kubectl;
mod labs;
mod modes;
mod nodes;
mod processes;
mod pull;
mod registry;
mod restart;
mod services;
mod users;
