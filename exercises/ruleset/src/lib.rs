//! Exercise: a third dialect of Service rules.
//!
//! `TASK.md` beside this folder says what to do, `src/answer.rs` is yours to write, `tests/check.rs` says when it is right.
//!
//! # In Kubernetes
//! A proxy mode: `pkg/proxy/iptables`, `pkg/proxy/nftables` and `pkg/proxy/ipvs` are three.

/// Yours to write.
#[cfg(not(feature = "solution"))]
pub mod answer;
/// Ours, in the place of yours.
#[cfg(feature = "solution")]
#[path = "solution.rs"]
pub mod answer;
/// What `answer.rs` was before you began; `labs exercises reset` copies it.
pub mod starter;
