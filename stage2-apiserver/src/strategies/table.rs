//! The table of strategies: one entry a kind, only what differs from the generic rules.
//!
//! # In Kubernetes
//! `pkg/registry/*/*/strategy.go`, about seventy files.

use super::Generation::{Absent, Fixed, Spec, SpecAndAnnotations};
use super::{Rules, batch, core, pod, service, warnings};
use crate::store::DeletionPolicy;
use crate::validation::discovery::ingress as ingresses;
use crate::validation::{
    admission, apps, batch as jobs, custom_resource_definition, discovery, extension, flow_control, names,
    node as nodes, pod as pods, policy, quota, rbac, secret, service as services, storage,
};

const RBAC: &str = "rbac.authorization.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// Every kind that has rules of its own.
pub static TABLE: &[Rules] = &[
    Rules {
        name_rule: names::label_name,
        create: core::namespace_create,
        update: core::namespace_update,
        validate: nodes::namespace,
        validate_update: nodes::namespace_update,
        ..Rules::cluster("", "Namespace")
    },
    Rules {
        generation: Spec,
        create: pod::create,
        update: pod::update,
        status_update: pod::status_update,
        warnings: warnings::pod,
        deletion: DeletionPolicy { graceful: true, orphan_by_default: false },
        validate: pods::pod,
        validate_update: pods::pod_update,
        validate_status: pods::pod_status_update,
        ..Rules::new("", "Pod")
    },
    Rules { generation: Spec, ..Rules::new("", "PodTemplate") },
    // The kubelet registers its node with a status, but changes it only through `/status`.
    Rules {
        generation: Absent,
        resets_status_on_create: false,
        validate: nodes::node,
        validate_update: nodes::node_update,
        ..Rules::cluster("", "Node")
    },
    Rules {
        name_rule: names::dns1035_name,
        create: service::create,
        update: service::update,
        create_on_update: true,
        validate: services::service,
        validate_update: services::service_update,
        ..Rules::new("", "Service")
    },
    Rules {
        create_on_update: true,
        validate: discovery::endpoints,
        validate_update: |new, _| discovery::endpoints(new),
        ..Rules::new("", "Endpoints")
    },
    Rules { create_on_update: true, validate: policy::event, ..Rules::new("", "Event") },
    Rules { create_on_update: true, ..Rules::new("events.k8s.io", "Event") },
    Rules {
        validate: secret::config_map,
        validate_update: secret::config_map_update,
        ..Rules::new("", "ConfigMap")
    },
    Rules { validate: secret::secret, validate_update: secret::secret_update, ..Rules::new("", "Secret") },
    Rules::new("", "ServiceAccount"),
    Rules {
        generation: Spec,
        deletion: DeletionPolicy { graceful: false, orphan_by_default: true },
        validate: apps::replication_controller,
        validate_update: apps::replication_controller_update,
        ..Rules::new("", "ReplicationController")
    },
    Rules {
        create: core::persistent_volume_create,
        warnings: warnings::persistent_volume,
        validate: storage::persistent_volume,
        validate_update: storage::persistent_volume_update,
        ..Rules::cluster("", "PersistentVolume")
    },
    Rules {
        create: core::persistent_volume_claim_create,
        validate: storage::persistent_volume_claim,
        validate_update: storage::persistent_volume_claim_update,
        ..Rules::new("", "PersistentVolumeClaim")
    },
    Rules {
        create_on_update: true,
        validate: quota::limit_range,
        validate_update: quota::limit_range_update,
        ..Rules::new("", "LimitRange")
    },
    Rules {
        validate: quota::resource_quota,
        validate_update: quota::resource_quota_update,
        validate_status: quota::resource_quota_status,
        ..Rules::new("", "ResourceQuota")
    },
    Rules {
        generation: SpecAndAnnotations,
        warnings: warnings::named_template,
        validate: apps::deployment,
        validate_update: apps::deployment_update,
        ..Rules::new("apps", "Deployment")
    },
    Rules {
        generation: Spec,
        warnings: warnings::template,
        validate: apps::replica_set,
        validate_update: apps::replica_set_update,
        ..Rules::new("apps", "ReplicaSet")
    },
    Rules {
        name_rule: names::label_name,
        generation: Spec,
        warnings: warnings::template,
        validate: apps::stateful_set,
        validate_update: apps::stateful_set_update,
        ..Rules::new("apps", "StatefulSet")
    },
    Rules {
        generation: Spec,
        create: core::daemon_set_create,
        update: core::daemon_set_update,
        warnings: warnings::template,
        validate: apps::daemon_set,
        validate_update: apps::daemon_set_update,
        ..Rules::new("apps", "DaemonSet")
    },
    Rules {
        validate: apps::controller_revision,
        validate_update: apps::controller_revision_update,
        ..Rules::new("apps", "ControllerRevision")
    },
    Rules {
        generation: Spec,
        deletion: DeletionPolicy { graceful: false, orphan_by_default: true },
        create: batch::create,
        warnings: warnings::template,
        validate: jobs::job,
        validate_update: jobs::job_update,
        ..Rules::new("batch", "Job")
    },
    Rules {
        generation: Spec,
        validate: jobs::cron_job,
        validate_update: jobs::cron_job_update,
        ..Rules::new("batch", "CronJob")
    },
    Rules {
        create: core::horizontal_pod_autoscaler_create,
        validate: policy::horizontal_pod_autoscaler,
        validate_update: policy::horizontal_pod_autoscaler_update,
        ..Rules::new("autoscaling", "HorizontalPodAutoscaler")
    },
    Rules {
        generation: Spec,
        validate: policy::pod_disruption_budget,
        validate_update: policy::pod_disruption_budget_update,
        ..Rules::new("policy", "PodDisruptionBudget")
    },
    Rules {
        generation: Spec,
        validate: ingresses::ingress,
        validate_update: ingresses::ingress_update,
        ..Rules::new(NETWORKING, "Ingress")
    },
    Rules { generation: Spec, ..Rules::cluster(NETWORKING, "IngressClass") },
    Rules {
        generation: Spec,
        create_on_update: true,
        validate: discovery::network_policy,
        validate_update: |new, _| discovery::network_policy(new),
        ..Rules::new(NETWORKING, "NetworkPolicy")
    },
    Rules {
        generation: Spec,
        warnings: warnings::endpoint_slice,
        validate: discovery::endpoint_slice,
        validate_update: discovery::endpoint_slice_update,
        ..Rules::new("discovery.k8s.io", "EndpointSlice")
    },
    Rules {
        create_on_update: true,
        validate: policy::lease,
        validate_update: policy::lease_update,
        ..Rules::new("coordination.k8s.io", "Lease")
    },
    Rules {
        name_rule: names::path_segment_name,
        create_on_update: true,
        validate: rbac::role,
        validate_update: rbac::role_update,
        ..Rules::new(RBAC, "Role")
    },
    Rules {
        name_rule: names::path_segment_name,
        create_on_update: true,
        validate: rbac::role_binding,
        validate_update: rbac::role_binding_update,
        ..Rules::new(RBAC, "RoleBinding")
    },
    Rules {
        name_rule: names::path_segment_name,
        create_on_update: true,
        validate: rbac::cluster_role,
        validate_update: rbac::cluster_role_update,
        ..Rules::cluster(RBAC, "ClusterRole")
    },
    Rules {
        name_rule: names::path_segment_name,
        create_on_update: true,
        validate: rbac::cluster_role_binding,
        validate_update: rbac::cluster_role_binding_update,
        ..Rules::cluster(RBAC, "ClusterRoleBinding")
    },
    Rules {
        generation: Fixed,
        validate: policy::priority_class,
        validate_update: policy::priority_class_update,
        ..Rules::cluster("scheduling.k8s.io", "PriorityClass")
    },
    Rules {
        create_on_update: true,
        validate: policy::runtime_class,
        validate_update: policy::runtime_class_update,
        ..Rules::cluster("node.k8s.io", "RuntimeClass")
    },
    Rules {
        validate: storage::storage_class,
        validate_update: storage::storage_class_update,
        ..Rules::cluster(STORAGE, "StorageClass")
    },
    Rules::cluster(STORAGE, "CSIDriver"),
    Rules::cluster(STORAGE, "CSINode"),
    Rules::cluster(STORAGE, "VolumeAttachment"),
    Rules {
        create: core::certificate_signing_request_create,
        update: core::certificate_signing_request_update,
        validate: extension::certificate_signing_request,
        ..Rules::cluster("certificates.k8s.io", "CertificateSigningRequest")
    },
    Rules {
        generation: Spec,
        validate: extension::flow_schema,
        validate_update: |new, _| extension::flow_schema(new),
        ..Rules::cluster("flowcontrol.apiserver.k8s.io", "FlowSchema")
    },
    Rules {
        generation: Spec,
        validate: flow_control::priority_level_configuration,
        validate_update: |new, _| flow_control::priority_level_configuration(new),
        ..Rules::cluster("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration")
    },
    Rules {
        generation: Spec,
        validate: admission::webhook_configuration,
        validate_update: |new, _| admission::webhook_configuration(new),
        ..Rules::cluster(ADMISSION, "ValidatingWebhookConfiguration")
    },
    Rules {
        generation: Spec,
        validate: admission::webhook_configuration,
        validate_update: |new, _| admission::webhook_configuration(new),
        ..Rules::cluster(ADMISSION, "MutatingWebhookConfiguration")
    },
    Rules {
        generation: Spec,
        validate: admission::validating_admission_policy,
        validate_update: |new, _| admission::validating_admission_policy(new),
        ..Rules::cluster(ADMISSION, "ValidatingAdmissionPolicy")
    },
    Rules {
        generation: Spec,
        validate: admission::validating_admission_policy_binding,
        validate_update: |new, _| admission::validating_admission_policy_binding(new),
        ..Rules::cluster(ADMISSION, "ValidatingAdmissionPolicyBinding")
    },
    Rules {
        generation: Spec,
        create: core::custom_resource_definition_create,
        update: core::custom_resource_definition_update,
        validate: custom_resource_definition::definition,
        validate_update: custom_resource_definition::definition_update,
        ..Rules::cluster("apiextensions.k8s.io", "CustomResourceDefinition")
    },
    Rules {
        validate: extension::api_service,
        validate_update: |new, _| extension::api_service(new),
        name_rule: names::path_segment_name,
        ..Rules::cluster("apiregistration.k8s.io", "APIService")
    },
];
