//! The journey page over its real server: who is let in, what is shown, steps as they happen; and in a browser, as a learner uses it.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

mod browser;
mod http;
mod learner;
mod serving;
