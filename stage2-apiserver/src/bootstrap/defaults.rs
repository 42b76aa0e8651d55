//! Namespaces, priority classes and the few objects beside RBAC that a cluster starts with.
//!
//! # In Kubernetes
//! `pkg/controlplane/controller/systemnamespaces`, `pkg/apis/scheduling/v1/helpers.go`,
//! `pkg/controlplane/controller/clusterauthenticationtrust`.

use serde_json::{Value, json};
use stage1_kubectl::object::Object;

use crate::pki::FRONT_PROXY_CLIENT;

/// The namespaces that always exist.
pub const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// An object from a literal.
pub(super) fn object(value: Value) -> Object {
    Object::from_value(value).expect("a literal map")
}

/// The four namespaces.
pub fn namespaces() -> Vec<Object> {
    let namespace = |name: &str| {
        object(json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }))
    };
    NAMESPACES.into_iter().map(namespace).collect()
}

/// Priority classes, the CA for extensions, and the ServiceAccount that makes stage 2 usable alone.
pub fn cluster_objects(client_ca_pem: &str, front_proxy_ca_pem: &str, today: &str) -> Vec<Object> {
    let priority_class = |name: &str, value: i64, description: &str| {
        object(json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name, "generation": 1},
            "value": value,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        }))
    };
    vec![
        priority_class(
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        priority_class(
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        object(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
            "data": {
                "client-ca-file": client_ca_pem,
                "requestheader-allowed-names": json!([FRONT_PROXY_CLIENT]).to_string(),
                "requestheader-client-ca-file": front_proxy_ca_pem,
                "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
                "requestheader-group-headers": "[\"X-Remote-Group\"]",
                "requestheader-uid-headers": "[\"X-Remote-Uid\"]",
                "requestheader-username-headers": "[\"X-Remote-User\"]",
            },
        })),
        // Since when it is known which tokens of the old kind are used.
        object(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kube-apiserver-legacy-service-account-token-tracking", "namespace": "kube-system"},
            "data": {"since": today},
        })),
        object(json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": "default"},
        })),
    ]
}
