//! Candidates: which of several nodes suffers least.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/preemption/preemption.go` (`pickOneNodeForPreemption`).

use std::sync::Arc;

use crate::pod_info::PodInfo;

/// A node where the pod would fit without these victims.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The node.
    pub node: Arc<str>,
    /// Who must go, the most important first.
    pub victims: Vec<Arc<PodInfo>>,
    /// How many of them a disruption budget protects.
    pub violations: usize,
}

/// The candidate that does the least harm; the first of equals.
pub fn pick_one_node(candidates: Vec<Candidate>) -> Option<Candidate> {
    let harm = |candidate: &Candidate| {
        let highest = candidate.victims.first().map_or(i32::MIN, |victim| victim.priority);
        // Shifted to be positive, so that more victims are always more harm.
        let sum: i64 =
            candidate.victims.iter().map(|v| i64::from(v.priority) + i64::from(i32::MAX) + 1).sum();
        // Of the most important victims the one that has run longest: the later it began, the better.
        let started = candidate
            .victims
            .iter()
            .filter(|victim| victim.priority == highest)
            .map(|victim| victim.start_time().unwrap_or(jiff::Timestamp::MAX))
            .min();
        (candidate.violations, highest, sum, candidate.victims.len(), std::cmp::Reverse(started))
    };
    candidates.into_iter().min_by_key(harm)
}
