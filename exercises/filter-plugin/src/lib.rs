//! Exercise: a scheduler plugin that keeps pods off nodes that retire soon.
//!
//! `TASK.md` beside this folder says what to do, `src/answer.rs` is yours to write, `tests/check.rs` says when it is right.
//!
//! # In Kubernetes
//! A plugin of the scheduling framework, as one writes it out of tree (`sigs.k8s.io/scheduler-plugins`).

/// Yours to write.
#[cfg(not(feature = "solution"))]
pub mod answer;
/// Ours, in the place of yours.
#[cfg(feature = "solution")]
#[path = "solution.rs"]
pub mod answer;
/// What `answer.rs` was before you began; `labs exercises reset` copies it.
pub mod starter;
