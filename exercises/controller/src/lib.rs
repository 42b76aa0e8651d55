//! Exercise: a controller that takes a pod out of service without stopping it.
//!
//! `TASK.md` beside this folder says what to do, `src/answer.rs` is yours to write, `tests/check.rs` says when it is right.
//!
//! # In Kubernetes
//! A controller as one writes it with controller-runtime.

/// Yours to write.
#[cfg(not(feature = "solution"))]
pub mod answer;
/// Ours, in the place of yours.
#[cfg(feature = "solution")]
#[path = "solution.rs"]
pub mod answer;
/// What `answer.rs` was before you began; `labs exercises reset` copies it.
pub mod starter;
