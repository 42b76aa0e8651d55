//! Defaults of the workloads that keep pods running.
//!
//! A Deployment rolls with a quarter more and a quarter fewer pods than wished, keeps ten old ReplicaSets and reports failure after ten
//! minutes without progress.
//!
//! # In Kubernetes
//! `pkg/apis/apps/v1/defaults.go`, `pkg/apis/core/v1/defaults.go` (ReplicationController). Left out: `maxUnavailable` of StatefulSets
//! (alpha).

use serde_json::{Value, json};

use super::{pod, storage};
use crate::validation::fields::{
    at, child, child_mut, default_to, has, items_mut, present_mut, set, size, text,
};

/// `revisionHistoryLimit`: how many old revisions `kubectl rollout undo` can reach.
const DEFAULT_REVISION_HISTORY_LIMIT: i64 = 10;
/// `progressDeadlineSeconds`.
const DEFAULT_PROGRESS_DEADLINE_SECONDS: i64 = 600;

/// The spec of `spec.template`.
pub fn template_of(owner: &mut Value) {
    pod::template(child_mut(child_mut(owner, "spec"), "template"));
}

/// PodTemplate.
pub fn pod_template(value: &mut Value) {
    pod::template(child_mut(value, "template"));
}

/// Deployment.
pub fn deployment(value: &mut Value) {
    template_of(value);
    let spec = child_mut(value, "spec");
    default_to(spec, "replicas", 1);
    default_to(spec, "revisionHistoryLimit", DEFAULT_REVISION_HISTORY_LIMIT);
    default_to(spec, "progressDeadlineSeconds", DEFAULT_PROGRESS_DEADLINE_SECONDS);
    let strategy = child_mut(spec, "strategy");
    default_to(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = child_mut(strategy, "rollingUpdate");
        default_to(rolling, "maxUnavailable", "25%");
        default_to(rolling, "maxSurge", "25%");
    }
}

/// ReplicaSet.
pub fn replica_set(value: &mut Value) {
    template_of(value);
    default_to(child_mut(value, "spec"), "replicas", 1);
}

/// ReplicationController: labels and selector follow the template's labels.
pub fn replication_controller(value: &mut Value) {
    let labels = at(value, "/spec/template/metadata/labels").clone();
    if has(child(value, "spec"), "template") {
        template_of(value);
    }
    if labels.as_object().is_some_and(|labels| !labels.is_empty()) {
        if size(child(value, "spec"), "selector") == 0 {
            set(child_mut(value, "spec"), "selector", labels.clone());
        }
        if size(child(value, "metadata"), "labels") == 0 {
            set(child_mut(value, "metadata"), "labels", labels);
        }
    }
    default_to(child_mut(value, "spec"), "replicas", 1);
}

/// StatefulSet.
pub fn stateful_set(value: &mut Value) {
    template_of(value);
    let spec = child_mut(value, "spec");
    default_to(spec, "podManagementPolicy", "OrderedReady");
    default_to(spec, "replicas", 1);
    default_to(spec, "revisionHistoryLimit", DEFAULT_REVISION_HISTORY_LIMIT);
    let strategy = child_mut(spec, "updateStrategy");
    if text(strategy, "type").is_empty() {
        set(strategy, "type", "RollingUpdate");
        child_mut(strategy, "rollingUpdate");
    }
    if text(strategy, "type") == "RollingUpdate"
        && let Some(rolling) = present_mut(strategy, "rollingUpdate")
    {
        default_to(rolling, "partition", 0);
    }
    let retention = child_mut(spec, "persistentVolumeClaimRetentionPolicy");
    default_to(retention, "whenDeleted", "Retain");
    default_to(retention, "whenScaled", "Retain");
    for claim in items_mut(spec, "volumeClaimTemplates") {
        set(claim, "apiVersion", "v1");
        set(claim, "kind", "PersistentVolumeClaim");
        storage::persistent_volume_claim(claim);
    }
}

/// DaemonSet.
pub fn daemon_set(value: &mut Value) {
    template_of(value);
    let spec = child_mut(value, "spec");
    default_to(spec, "revisionHistoryLimit", DEFAULT_REVISION_HISTORY_LIMIT);
    let strategy = child_mut(spec, "updateStrategy");
    default_to(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        default_to(strategy, "rollingUpdate", json!({}));
        if let Some(rolling) = present_mut(strategy, "rollingUpdate") {
            default_to(rolling, "maxUnavailable", 1);
            default_to(rolling, "maxSurge", 0);
        }
    }
}
