//! Exercise: an admission plugin that gives pods the team of their namespace.
//!
//! `TASK.md` beside this folder says what to do, `src/answer.rs` is yours to write, `tests/check.rs` says when it is right.
//!
//! # In Kubernetes
//! A plugin of `k8s.io/apiserver/pkg/admission`; outside of the server one would write a webhook.

/// Yours to write.
#[cfg(not(feature = "solution"))]
pub mod answer;
/// Ours, in the place of yours.
#[cfg(feature = "solution")]
#[path = "solution.rs"]
pub mod answer;
/// What `answer.rs` was before you began; `labs exercises reset` copies it.
pub mod starter;
