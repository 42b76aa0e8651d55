//! The registry's entries of the core group: what a cluster is made of.
//!
//! # In Kubernetes
//! `pkg/registry/core/rest/storage_core.go`. Prefixes are those of a real cluster's etcd (`minions` for nodes).

use super::{
    ALL_VERBS, CONNECT_VERBS, CREATE, GET_PATCH_UPDATE, PROXY_VERBS, ResourceInfo as R, SCALE, STATUS,
    Subresource as S,
};

const READ: &[&str] = &["get", "list"];
const NO_COLLECTION_DELETE: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];

/// Core, `v1`.
pub(super) const RESOURCES: &[R] = &[
    R::namespaced("", "v1", "bindings", "binding", "Binding", "").verbs(CREATE).virtual_kind(),
    R::cluster("", "v1", "componentstatuses", "componentstatus", "ComponentStatus", "")
        .short(&["cs"])
        .verbs(READ)
        .virtual_kind(),
    R::namespaced("", "v1", "configmaps", "configmap", "ConfigMap", "/registry/configmaps").short(&["cm"]),
    R::namespaced("", "v1", "endpoints", "endpoints", "Endpoints", "/registry/services/endpoints")
        .short(&["ep"]),
    R::namespaced("", "v1", "events", "event", "Event", "/registry/events").short(&["ev"]),
    R::namespaced("", "v1", "limitranges", "limitrange", "LimitRange", "/registry/limitranges")
        .short(&["limits"]),
    R::cluster("", "v1", "namespaces", "namespace", "Namespace", "/registry/namespaces")
        .short(&["ns"])
        .verbs(NO_COLLECTION_DELETE)
        .sub(&[S::own("finalize", &["update"]), STATUS]),
    R::cluster("", "v1", "nodes", "node", "Node", "/registry/minions")
        .short(&["no"])
        .sub(&[S::kind("proxy", "NodeProxyOptions", PROXY_VERBS), STATUS]),
    R::namespaced(
        "",
        "v1",
        "persistentvolumeclaims",
        "persistentvolumeclaim",
        "PersistentVolumeClaim",
        "/registry/persistentvolumeclaims",
    )
    .short(&["pvc"])
    .sub(&[STATUS]),
    R::cluster(
        "",
        "v1",
        "persistentvolumes",
        "persistentvolume",
        "PersistentVolume",
        "/registry/persistentvolumes",
    )
    .short(&["pv"])
    .sub(&[STATUS]),
    R::namespaced("", "v1", "pods", "pod", "Pod", "/registry/pods").short(&["po"]).categories(&["all"]).sub(
        &[
            S::kind("attach", "PodAttachOptions", CONNECT_VERBS),
            S::kind("binding", "Binding", CREATE),
            S::own("ephemeralcontainers", GET_PATCH_UPDATE),
            S::foreign("eviction", "policy", "v1", "Eviction", CREATE),
            S::kind("exec", "PodExecOptions", CONNECT_VERBS),
            S::own("log", &["get"]),
            S::kind("portforward", "PodPortForwardOptions", CONNECT_VERBS),
            S::kind("proxy", "PodProxyOptions", PROXY_VERBS),
            S::own("resize", GET_PATCH_UPDATE),
            STATUS,
        ],
    ),
    R::namespaced("", "v1", "podtemplates", "podtemplate", "PodTemplate", "/registry/podtemplates"),
    R::namespaced(
        "",
        "v1",
        "replicationcontrollers",
        "replicationcontroller",
        "ReplicationController",
        "/registry/controllers",
    )
    .short(&["rc"])
    .categories(&["all"])
    .sub(&[SCALE, STATUS]),
    R::namespaced("", "v1", "resourcequotas", "resourcequota", "ResourceQuota", "/registry/resourcequotas")
        .short(&["quota"])
        .sub(&[STATUS]),
    R::namespaced("", "v1", "secrets", "secret", "Secret", "/registry/secrets"),
    R::namespaced(
        "",
        "v1",
        "serviceaccounts",
        "serviceaccount",
        "ServiceAccount",
        "/registry/serviceaccounts",
    )
    .short(&["sa"])
    .sub(&[S::foreign("token", "authentication.k8s.io", "v1", "TokenRequest", CREATE)]),
    R::namespaced("", "v1", "services", "service", "Service", "/registry/services/specs")
        .short(&["svc"])
        .categories(&["all"])
        .verbs(ALL_VERBS)
        .sub(&[S::kind("proxy", "ServiceProxyOptions", PROXY_VERBS), STATUS]),
];
