//! The order in which objects are written: what others need comes first.
//!
//! # In Kubernetes
//! `kustomize/api/internal/builtins/SortOrderTransformer.go`, order `legacy`.

use super::{Resource, text};

const FIRST: [&str; 22] = [
    "Namespace",
    "ResourceQuota",
    "StorageClass",
    "CustomResourceDefinition",
    "ServiceAccount",
    "PodSecurityPolicy",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "Endpoints",
    "Service",
    "LimitRange",
    "PriorityClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];
const LAST: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// Sorts by kind, then by group, version, namespace and name.
pub fn sort(resources: &mut [Resource]) {
    resources.sort_by_cached_key(|resource| {
        let gvk = resource.gvk();
        let rank = match FIRST.iter().position(|kind| *kind == gvk.kind) {
            Some(at) => at,
            None if LAST.contains(&gvk.kind.as_str()) => FIRST.len() + 1,
            None => FIRST.len(),
        };
        let namespace = text(&resource.object, "/metadata/namespace").to_string();
        (rank, gvk.group, gvk.version, gvk.kind, namespace, resource.name().to_string())
    });
}
