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
    harm: Harm,
}

/// How much harm a candidate does; less is better.
type Harm = (usize, i32, i64, usize, std::cmp::Reverse<Option<jiff::Timestamp>>);

impl Candidate {
    /// A candidate, with its harm added up once: it may be compared many times.
    pub fn new(node: Arc<str>, victims: Vec<Arc<PodInfo>>, violations: usize) -> Self {
        let highest = victims.first().map_or(i32::MIN, |victim| victim.priority);
        // Shifted to be positive, so that more victims are always more harm.
        let sum: i64 = victims.iter().map(|v| i64::from(v.priority) + i64::from(i32::MAX) + 1).sum();
        // Of the most important victims the one that has run longest: the later it began, the better.
        let started = victims
            .iter()
            .filter(|victim| victim.priority == highest)
            .map(|victim| victim.start_time().unwrap_or(jiff::Timestamp::MAX))
            .min();
        let harm = (violations, highest, sum, victims.len(), std::cmp::Reverse(started));
        Candidate { node, victims, violations, harm }
    }
}

/// The candidate that does the least harm; the first of equals.
pub fn pick_one_node<'c>(candidates: impl Iterator<Item = &'c Candidate>) -> Option<&'c Candidate> {
    candidates.min_by_key(|candidate| candidate.harm)
}
