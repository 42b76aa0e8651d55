//! Which pods go first when there are too many.
//!
//! The pod that will be missed least goes first: one without a node before one that has a node, one that is not ready before
//! one that serves, one on a crowded node before one that stands alone, a young one before an old one.
//!
//! The subtle thing is age: pods of one deployment are all almost equally old, and always killing the youngest would
//! leave old pods on the same few nodes for ever. So ages are compared by their logarithm, and within one power of
//! two the UID decides, which is as good as chance.
//!
//! # Invariants
//! 1. The order is total: the same pods in another order give the same ranking.
//!
//! # In Kubernetes
//! `pkg/controller/controller_utils.go` (`ActivePodsWithRanks.Less`). There the UID decides already between ready times of one power of two.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;

use crate::indexer::Cached;
use crate::pod::PodExt;

/// Annotation by which users say which pods are cheap to delete.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

// ANCHOR: scale-down-rank
/// The pods in the order in which they should go.
pub fn rank(pods: &[Arc<Pod>], related_on_node: &BTreeMap<String, usize>, now: Timestamp) -> Vec<Arc<Pod>> {
    let crowd = |pod: &Pod| related_on_node.get(pod.node_name()).copied().unwrap_or(0);
    let mut ranked = pods.to_vec();
    ranked.sort_by_cached_key(|pod| {
        (
            !pod.node_name().is_empty(),
            phase_order(pod),
            pod.is_ready(),
            deletion_cost(pod),
            Reverse(crowd(pod)),
            age_bucket(pod.ready_since(), now),
            Reverse(restarts(pod)),
            age_bucket(pod.created().map(|time| time.0), now),
            pod.uid().to_owned(),
        )
    });
    ranked
}
// ANCHOR_END: scale-down-rank

fn phase_order(pod: &Pod) -> u8 {
    match pod.phase() {
        "Pending" => 0,
        "Unknown" => 1,
        "Running" => 2,
        _ => 0,
    }
}

fn deletion_cost(pod: &Pod) -> i32 {
    pod.annotation(POD_DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.into_iter().flatten().map(|status| status.restart_count).max().unwrap_or(0)
}

/// Logarithm of the age, so that pods of about the same age count as equally old; -1 for one from the future.
fn age_bucket(since: Option<Timestamp>, now: Timestamp) -> i32 {
    let Some(since) = since else { return i32::MAX };
    let age = now.duration_since(since).as_nanos();
    if age <= 0 { -1 } else { age.ilog2() as i32 }
}
