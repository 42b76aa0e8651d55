//! The table of strategies: one entry a kind, only what differs from the generic rules.
//!
//! # In Kubernetes
//! `pkg/registry/*/*/strategy.go`, about seventy files.

use super::Generation::{Absent, Spec, SpecAndAnnotations};
use super::{Rules, batch, core, pod, service, warnings};
use crate::validation::names;

const RBAC: &str = "rbac.authorization.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

// ANCHOR: strategy-table
/// Every kind that has rules of its own.
pub static TABLE: &[Rules] = &[
    Rules {
        name_rule: names::label_name,
        create: core::namespace_create,
        update: core::namespace_update,
        ..Rules::cluster("", "Namespace")
    },
    Rules {
        generation: Spec,
        create: pod::create,
        update: pod::update,
        status_update: pod::status_update,
        warnings: warnings::pod,
        graceful: pod::graceful,
        ..Rules::new("", "Pod")
    },
    Rules { generation: Spec, ..Rules::new("", "PodTemplate") },
    // The kubelet registers its node with a status, but changes it only through `/status`.
    Rules { generation: Absent, create_on_update: false, ..Rules::cluster("", "Node") },
    Rules {
        name_rule: names::dns1035_name,
        create: service::create,
        update: service::update,
        create_on_update: true,
        ..Rules::new("", "Service")
    },
    Rules { create_on_update: true, ..Rules::new("", "Endpoints") },
    Rules { create_on_update: true, ..Rules::new("", "Event") },
    Rules { create_on_update: true, ..Rules::new("events.k8s.io", "Event") },
    Rules::new("", "ConfigMap"),
    Rules::new("", "Secret"),
    Rules::new("", "ServiceAccount"),
    Rules { generation: Spec, orphans: true, ..Rules::new("", "ReplicationController") },
    Rules { create: core::persistent_volume_create, ..Rules::cluster("", "PersistentVolume") },
    Rules { create: core::persistent_volume_claim_create, ..Rules::new("", "PersistentVolumeClaim") },
    Rules { create_on_update: true, ..Rules::new("", "LimitRange") },
    Rules::new("", "ResourceQuota"),
    Rules {
        generation: SpecAndAnnotations,
        warnings: warnings::template,
        ..Rules::new("apps", "Deployment")
    },
    Rules { generation: Spec, warnings: warnings::template, ..Rules::new("apps", "ReplicaSet") },
    Rules {
        name_rule: names::label_name,
        generation: Spec,
        warnings: warnings::template,
        ..Rules::new("apps", "StatefulSet")
    },
    Rules {
        generation: Spec,
        create: core::daemon_set_create,
        update: core::daemon_set_update,
        warnings: warnings::template,
        ..Rules::new("apps", "DaemonSet")
    },
    Rules::new("apps", "ControllerRevision"),
    Rules {
        generation: Spec,
        orphans: true,
        create: batch::create,
        warnings: warnings::template,
        ..Rules::new("batch", "Job")
    },
    Rules { generation: Spec, ..Rules::new("batch", "CronJob") },
    Rules {
        create: core::horizontal_pod_autoscaler_create,
        ..Rules::new("autoscaling", "HorizontalPodAutoscaler")
    },
    Rules { generation: Spec, ..Rules::new("policy", "PodDisruptionBudget") },
    Rules { generation: Spec, ..Rules::new(NETWORKING, "Ingress") },
    Rules { generation: Spec, ..Rules::cluster(NETWORKING, "IngressClass") },
    Rules { generation: Spec, create_on_update: true, ..Rules::new(NETWORKING, "NetworkPolicy") },
    Rules { generation: Spec, ..Rules::new("discovery.k8s.io", "EndpointSlice") },
    Rules { create_on_update: true, ..Rules::new("coordination.k8s.io", "Lease") },
    Rules { name_rule: names::path_segment_name, create_on_update: true, ..Rules::new(RBAC, "Role") },
    Rules { name_rule: names::path_segment_name, create_on_update: true, ..Rules::new(RBAC, "RoleBinding") },
    Rules {
        name_rule: names::path_segment_name,
        create_on_update: true,
        ..Rules::cluster(RBAC, "ClusterRole")
    },
    Rules {
        name_rule: names::path_segment_name,
        create_on_update: true,
        ..Rules::cluster(RBAC, "ClusterRoleBinding")
    },
    Rules { generation: Spec, ..Rules::cluster("scheduling.k8s.io", "PriorityClass") },
    Rules { create_on_update: true, ..Rules::cluster("node.k8s.io", "RuntimeClass") },
    Rules::cluster(STORAGE, "StorageClass"),
    Rules::cluster(STORAGE, "CSIDriver"),
    Rules::cluster(STORAGE, "CSINode"),
    Rules::cluster(STORAGE, "VolumeAttachment"),
    Rules {
        create: core::certificate_signing_request_create,
        update: core::certificate_signing_request_update,
        ..Rules::cluster("certificates.k8s.io", "CertificateSigningRequest")
    },
    Rules { generation: Spec, ..Rules::cluster("flowcontrol.apiserver.k8s.io", "FlowSchema") },
    Rules {
        generation: Spec,
        ..Rules::cluster("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration")
    },
    Rules { generation: Spec, ..Rules::cluster(ADMISSION, "ValidatingWebhookConfiguration") },
    Rules { generation: Spec, ..Rules::cluster(ADMISSION, "MutatingWebhookConfiguration") },
    Rules { generation: Spec, ..Rules::cluster(ADMISSION, "ValidatingAdmissionPolicy") },
    Rules { generation: Spec, ..Rules::cluster(ADMISSION, "ValidatingAdmissionPolicyBinding") },
    Rules {
        generation: Spec,
        create: core::custom_resource_definition_create,
        ..Rules::cluster("apiextensions.k8s.io", "CustomResourceDefinition")
    },
    Rules::cluster("apiregistration.k8s.io", "APIService"),
];
// ANCHOR_END: strategy-table
