//! The root kinds: every built-in kind whose schema the API server knows.
//!
//! Adding a kind is one line in the list below. The types are those of `k8s-openapi`, whose `JsonSchema` implementations carry the
//! definitions of the OpenAPI document that Kubernetes publishes.
//!
//! # In Kubernetes
//! `pkg/api/legacyscheme` registers the Go types. Left out: alpha and beta versions, which a default server doesn't serve.

use k8s_openapi::api;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration;
use k8s_openapi::schemars::SchemaGenerator;
use k8s_openapi::schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::list_types;

/// A root: group, version, kind, definition name.
pub struct Root {
    /// API group, empty for core.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// `io.k8s.api.core.v1.Pod`.
    pub definition: String,
}

macro_rules! roots {
    ($($ty:path),* $(,)?) => {
        fn register(generator: &mut SchemaGenerator) {
            $( generator.subschema_for::<$ty>(); )*
            generator.subschema_for::<meta::DeleteOptions>();
        }

        /// Every root kind.
        pub fn all() -> Vec<Root> {
            vec![$( Root {
                group: <$ty as k8s_openapi::Resource>::GROUP,
                version: <$ty as k8s_openapi::Resource>::VERSION,
                kind: <$ty as k8s_openapi::Resource>::KIND,
                definition: <$ty as k8s_openapi::schemars::JsonSchema>::schema_name().into_owned(),
            } ),*]
        }
    };
}

roots![
    api::core::v1::Namespace,
    api::core::v1::Pod,
    api::core::v1::PodTemplate,
    api::core::v1::Node,
    api::core::v1::Service,
    api::core::v1::Endpoints,
    api::core::v1::Event,
    api::core::v1::ConfigMap,
    api::core::v1::Secret,
    api::core::v1::ServiceAccount,
    api::core::v1::ReplicationController,
    api::core::v1::PersistentVolume,
    api::core::v1::PersistentVolumeClaim,
    api::core::v1::LimitRange,
    api::core::v1::ResourceQuota,
    api::core::v1::Binding,
    api::core::v1::ComponentStatus,
    api::apps::v1::Deployment,
    api::apps::v1::ReplicaSet,
    api::apps::v1::StatefulSet,
    api::apps::v1::DaemonSet,
    api::apps::v1::ControllerRevision,
    api::batch::v1::Job,
    api::batch::v1::CronJob,
    api::autoscaling::v1::HorizontalPodAutoscaler,
    api::autoscaling::v1::Scale,
    api::autoscaling::v2::HorizontalPodAutoscaler,
    api::policy::v1::PodDisruptionBudget,
    api::policy::v1::Eviction,
    api::networking::v1::Ingress,
    api::networking::v1::IngressClass,
    api::networking::v1::NetworkPolicy,
    api::networking::v1::IPAddress,
    api::networking::v1::ServiceCIDR,
    api::discovery::v1::EndpointSlice,
    api::events::v1::Event,
    api::coordination::v1::Lease,
    api::rbac::v1::Role,
    api::rbac::v1::RoleBinding,
    api::rbac::v1::ClusterRole,
    api::rbac::v1::ClusterRoleBinding,
    api::scheduling::v1::PriorityClass,
    api::node::v1::RuntimeClass,
    api::storage::v1::StorageClass,
    api::storage::v1::CSIDriver,
    api::storage::v1::CSINode,
    api::storage::v1::CSIStorageCapacity,
    api::storage::v1::VolumeAttachment,
    api::certificates::v1::CertificateSigningRequest,
    api::flowcontrol::v1::FlowSchema,
    api::flowcontrol::v1::PriorityLevelConfiguration,
    api::admissionregistration::v1::ValidatingWebhookConfiguration,
    api::admissionregistration::v1::MutatingWebhookConfiguration,
    api::admissionregistration::v1::ValidatingAdmissionPolicy,
    api::admissionregistration::v1::ValidatingAdmissionPolicyBinding,
    api::authentication::v1::TokenReview,
    api::authentication::v1::TokenRequest,
    api::authentication::v1::SelfSubjectReview,
    api::authorization::v1::SubjectAccessReview,
    api::authorization::v1::SelfSubjectAccessReview,
    api::authorization::v1::LocalSubjectAccessReview,
    api::authorization::v1::SelfSubjectRulesReview,
    apiextensions::CustomResourceDefinition,
    apiregistration::APIService,
    meta::Status,
];

/// The definitions of all roots and of everything that they reach.
pub fn definitions() -> Map<String, Value> {
    let mut generator = SchemaSettings::openapi3().into_generator();
    register(&mut generator);
    let mut definitions = generator.take_definitions(true);
    list_types::annotate(&mut definitions);
    definitions
}
