//! The scheduler against the API server of stage 2: over HTTPS, with the rights of its own role.
//!
//! `bench` measures, `worlds` replays what a stock scheduler was recorded to do, `extenders` plays a webhook, `failures` breaks things in
//! the middle of a cycle, `processes` runs the binary, two at a time, and kills it.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

mod bench;
mod extenders;
mod failures;
mod harness;
mod points;
mod processes;
mod webhook;
mod worlds;
