//! `/pods`: the pods of this node, with the statuses that the kubelet knows.
//!
//! *Beside the journey.* Before: somebody asks the node directly. After: a PodList.
//!
//! # Invariants
//! 1. Statuses are the kubelet's own, which may be newer than the API server's.
//!
//! # In Kubernetes
//! `getPods` in `pkg/kubelet/server/server.go`.

use std::sync::Arc;

use http::Response;
use serde_json::json as value;

use super::{Body, json};
use crate::kubelet::Kubelet;
use crate::pod::PodExt;

/// The list.
pub(super) fn list(kubelet: &Arc<Kubelet>) -> Response<Body> {
    let pods = kubelet.pods.list();
    let items: Vec<_> = pods
        .iter()
        .map(|p| {
            let mut pod = (**p).clone();
            pod.status = kubelet.status.get(pod.pod_uid()).or(pod.status);
            pod
        })
        .collect();
    json(&value!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}))
}
