//! Fit error: why no node was good enough, in the words users know.
//!
//! *Step 12 of a pod's journey through this stage.* Before: [`crate::schedule_pod`] found no node.
//! After: [`crate::failure`] puts the text into the pod's condition and an event.
//!
//! `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {k: v}.` The numbers are
//! nodes by reason. A node with two reasons counts in both, so they may add up to more than there are.
//! Reasons are sorted as text (that is why `10 …` comes before `2 …`). Whoever parses them expects that.
//!
//! # Invariants
//! 1. Every refused node is counted under at least one reason.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/types.go` (`FitError`, `Diagnosis`, `NodeToStatus`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::framework::{Code, Status};
use crate::node_to_status::NodeToStatus;

// ANCHOR: fit-error
/// No node fits: who refused which node, and why.
#[derive(Clone, Debug, Default)]
pub struct FitError {
    /// All nodes of the cluster, looked at or not.
    pub num_all_nodes: usize,
    /// The nodes that were looked at and refused.
    pub statuses: NodeToStatus,
    /// What holds for all nodes that aren't in `statuses`.
    pub absent: Status,
    /// Why no node was even looked at.
    pub pre_filter_message: String,
    /// What preemption had to say.
    pub post_filter_message: String,
    /// Something failed rather than refused: that alone is the text.
    pub internal: Option<String>,
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(failure) = &self.internal {
            return f.write_str(failure);
        }
        if self.num_all_nodes == 0 {
            return f.write_str("no nodes available to schedule pods");
        }
        write!(f, "0/{} nodes are available:", self.num_all_nodes)?;
        if self.pre_filter_message.is_empty() {
            let mut lines: Vec<String> =
                self.histogram().iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            lines.sort();
            if !lines.is_empty() {
                write!(f, " {}.", lines.join(", "))?;
            }
        } else {
            write!(f, " {}.", self.pre_filter_message)?;
        }
        if !self.post_filter_message.is_empty() {
            write!(f, " {}", self.post_filter_message)?;
        }
        Ok(())
    }
}
// ANCHOR_END: fit-error

impl std::error::Error for FitError {}

impl FitError {
    /// Number of nodes by reason.
    pub fn histogram(&self) -> BTreeMap<&str, usize> {
        let mut reasons = self.statuses.histogram();
        let absent = self.num_all_nodes.saturating_sub(self.statuses.len());
        if absent > 0 {
            for reason in &self.absent.reasons {
                *reasons.entry(reason.as_ref()).or_default() += absent;
            }
        }
        reasons
    }

    /// The plugins whose refusals must be lifted before another try makes sense.
    pub fn rejectors(&self) -> BTreeSet<&'static str> {
        if self.internal.is_some() {
            return BTreeSet::new();
        }
        if self.num_all_nodes == 0 {
            // No plugin was asked. A name that is no plugin's makes every event count.
            return BTreeSet::from(["NoNodes"]);
        }
        let kinds = self.statuses.kinds();
        let plugins = kinds.iter().map(|(status, _)| status.plugin);
        plugins.chain([self.absent.plugin]).filter(|plugin| !plugin.is_empty()).collect()
    }

    /// True if a plugin failed rather than refused: the pod is tried again without waiting for an event.
    pub fn is_internal(&self) -> bool {
        let kinds = self.statuses.kinds();
        self.internal.is_some()
            || self.absent.code == Code::Error
            || kinds.iter().any(|(status, _)| status.code == Code::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_sorted_as_text_and_absent_nodes_are_counted() {
        let refused = |node: &str, status: Status| (std::sync::Arc::from(node), status);
        let error = FitError {
            num_all_nodes: 12,
            statuses: vec![
                refused("a", Status::unschedulable("Insufficient cpu")),
                refused("b", Status::unschedulable("Insufficient cpu")),
            ]
            .into_iter()
            .collect(),
            absent: Status::unresolvable("node(s) were elsewhere"),
            post_filter_message: "preemption: no".to_owned(),
            ..FitError::default()
        };
        assert_eq!(
            error.to_string(),
            "0/12 nodes are available: 10 node(s) were elsewhere, 2 Insufficient cpu. preemption: no"
        );
    }

    #[test]
    fn an_empty_cluster_has_its_own_text() {
        assert_eq!(FitError::default().to_string(), "no nodes available to schedule pods");
    }
}
