//! Defaults: what the client left out.
//!
//! *Step 2 of a pod's journey through the API server.* Before: [`crate::schema`] decoded the object. After: [`crate::admission`] may
//! change it.
//!
//! A manifest of five lines becomes an object of fifty, because every choice that the author didn't make is written down before the object
//! is stored. Later versions of Kubernetes may choose differently, and objects that exist must not change with them.
//!
//! Defaults run when a request is decoded and once more when the stored form is read: a Job gets the labels of its template only
//! the second time, after its strategy has put them there.
//!
//! # Invariants
//! 1. Defaulting twice is defaulting once.
//! 2. A value that the client wrote is never changed, quantities aside (they are rounded up to a thousandth).
//!
//! # In Kubernetes
//! `pkg/apis/*/v1/defaults.go` and the generated code that walks the structs. Left out: alpha fields.

pub mod batch;
pub mod discovery;
pub mod extensions;
pub mod pod;
pub mod policy;
pub mod service;
pub mod storage;
pub mod volumes;
pub mod workloads;

use serde_json::Value;
use stage1_kubectl::object::Object;
use stage1_kubectl::resource::GroupVersionKind;

/// Sets the defaults of one kind.
pub type Defaults = fn(&mut Value);

// ANCHOR: defaults-table
/// Kinds that have defaults. A kind that isn't here has none.
pub const TABLE: &[(&str, &str, Defaults)] = &[
    ("", "Namespace", policy::namespace),
    ("", "Pod", pod::pod),
    ("", "PodTemplate", workloads::pod_template),
    ("", "Node", policy::node),
    ("", "Service", service::service),
    ("", "Endpoints", discovery::endpoints),
    ("", "Secret", policy::secret),
    ("", "ReplicationController", workloads::replication_controller),
    ("", "PersistentVolume", storage::persistent_volume),
    ("", "PersistentVolumeClaim", storage::persistent_volume_claim),
    ("", "LimitRange", policy::limit_range),
    ("", "ResourceQuota", policy::resource_quota),
    ("apps", "Deployment", workloads::deployment),
    ("apps", "ReplicaSet", workloads::replica_set),
    ("apps", "StatefulSet", workloads::stateful_set),
    ("apps", "DaemonSet", workloads::daemon_set),
    ("batch", "Job", batch::job),
    ("batch", "CronJob", batch::cron_job),
    ("autoscaling", "HorizontalPodAutoscaler", policy::horizontal_pod_autoscaler),
    ("networking.k8s.io", "NetworkPolicy", discovery::network_policy),
    ("networking.k8s.io", "IngressClass", discovery::ingress_class),
    ("discovery.k8s.io", "EndpointSlice", discovery::endpoint_slice),
    ("rbac.authorization.k8s.io", "RoleBinding", policy::role_binding),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", policy::role_binding),
    ("scheduling.k8s.io", "PriorityClass", policy::priority_class),
    ("storage.k8s.io", "StorageClass", storage::storage_class),
    ("storage.k8s.io", "CSIDriver", storage::csi_driver),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema", extensions::flow_schema),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", extensions::priority_level_configuration),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", extensions::validating_webhooks),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", extensions::mutating_webhooks),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", extensions::validating_admission_policy),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        extensions::validating_admission_policy_binding,
    ),
    ("apiregistration.k8s.io", "APIService", extensions::api_service),
    ("apiextensions.k8s.io", "CustomResourceDefinition", extensions::custom_resource_definition),
    ("authentication.k8s.io", "TokenRequest", extensions::token_request),
];
// ANCHOR_END: defaults-table

/// Fills in the defaults of a decoded object.
pub fn apply(object: &mut Object, gvk: &GroupVersionKind) {
    let found = TABLE.iter().find(|(group, kind, _)| *group == gvk.group && *kind == gvk.kind);
    if let Some((_, _, defaults)) = found {
        let mut value = std::mem::take(object).into_value();
        defaults(&mut value);
        *object = Object::from_value(value).expect("defaults keep a map a map");
    }
}
