//! Describing an object: everything a person asks about one object, on one page.
//!
//! *Step 1 of a pod's journey, seen from its end.* Before: [`crate::client`] fetched the object. After: a person reads.
//!
//! `describe` is more than printing: a Deployment's page names its ReplicaSets, a Service's its endpoints, a node's the pods
//! on it, and nearly every page ends with the object's events. Fetching those is I/O, so the work is split as everywhere:
//! [`plan`] says which lists a page needs, the command fetches them, [`render`] writes the page from values alone.
//!
//! A page is text with tabs; columns are as wide as their widest cell *in a run of lines that have this column*, which is
//! what Go's tabwriter does and why the same label stands in different columns on different pages.
//!
//! # Invariants
//! 1. The same object, answers and time give the same page.
//! 2. A page never fails: what is missing in an object prints as kubectl prints it (`<none>`, `<unset>`, empty).
//! 3. A secret's values are never on a page, only their sizes.
//!
//! # In Kubernetes
//! `staging/src/k8s.io/kubectl/pkg/describe/describe.go`. Left out: the pages of VolumeAttachment, CSINode, ClusterTrustBundle
//! and IPAddress, which are described as any object is (field by field).

mod access;
/// Roles and bindings.
pub mod access_control;
mod autoscaler;
mod batch;
mod configuration;
mod container;
pub mod doc;
mod event;
mod generic;
mod network;
mod node;
mod pod;
/// A workload's template.
pub mod pod_template;
mod service;
mod signing_request;
mod storage;
mod volume;
mod workload;

use jiff::Timestamp;

use crate::object::Object;
use crate::resource::GroupVersionResource;
use doc::Doc;

/// A list that a page needs beside its object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// What to list.
    pub gvr: GroupVersionResource,
    /// Where; `None` for all namespaces and for cluster-scoped resources.
    pub namespace: Option<String>,
    /// A label selector, empty for all.
    pub label_selector: String,
    /// A field selector, empty for all.
    pub field_selector: String,
}

impl Query {
    fn new(group: &str, version: &str, resource: &str, namespace: Option<&str>) -> Self {
        Self {
            gvr: GroupVersionResource {
                group: group.to_owned(),
                version: version.to_owned(),
                resource: resource.to_owned(),
            },
            namespace: namespace.map(str::to_owned),
            label_selector: String::new(),
            field_selector: String::new(),
        }
    }

    fn labels(mut self, selector: String) -> Self {
        self.label_selector = selector;
        self
    }

    fn fields(mut self, selector: String) -> Self {
        self.field_selector = selector;
        self
    }
}

/// The lists that were fetched, by resource name. A list that could not be read is missing, and its part of the page too.
#[derive(Debug, Default)]
pub struct Answers(std::collections::BTreeMap<String, Vec<Object>>);

impl Answers {
    /// Adds the items of one query's list.
    pub fn add(&mut self, query: &Query, items: Vec<Object>) {
        self.0.entry(query.gvr.resource.clone()).or_default().extend(items);
    }

    fn of(&self, resource: &str) -> &[Object] {
        self.0.get(resource).map_or(&[], Vec::as_slice)
    }
}

/// What a page needs beside its object. Events come last, unless `show_events` is off.
#[must_use]
pub fn plan(object: &Object, show_events: bool) -> Vec<Query> {
    let mut queries = match object.kind() {
        "Deployment" => workload::deployment_queries(object),
        "ReplicaSet" | "DaemonSet" | "StatefulSet" | "ReplicationController" => workload::pod_queries(object),
        "Service" => service::queries(object),
        "Ingress" => network::ingress_queries(object),
        "Node" => node::queries(object),
        "PersistentVolumeClaim" => storage::claim_queries(object),
        "Namespace" => configuration::namespace_queries(object),
        "ServiceAccount" => access_control::service_account_queries(object),
        _ => Vec::new(),
    };
    if show_events && has_events(object.kind()) {
        queries.push(event::query(object));
    }
    queries
}

/// Kinds whose page shows no events.
fn has_events(kind: &str) -> bool {
    !matches!(
        kind,
        "Secret"
            | "NetworkPolicy"
            | "LimitRange"
            | "ResourceQuota"
            | "Role"
            | "ClusterRole"
            | "RoleBinding"
            | "ClusterRoleBinding"
            | "Namespace"
    )
}

/// The page of one object.
#[must_use]
pub fn render(object: &Object, answers: &Answers, show_events: bool, now: Timestamp) -> String {
    let mut doc = Doc::new(now);
    let value = object.as_value();
    match (group(object), object.kind()) {
        ("", "Pod") => pod::write(&mut doc, value),
        ("", "Node") => node::write(&mut doc, object, answers),
        ("", "Service") => service::write(&mut doc, value, answers),
        ("", "Endpoints") => service::write_endpoints(&mut doc, value),
        ("discovery.k8s.io", "EndpointSlice") => service::write_endpoint_slice(&mut doc, value),
        ("apps", "Deployment") => workload::write_deployment(&mut doc, object, answers),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => {
            workload::write_replica_set(&mut doc, object, answers)
        }
        ("apps", "DaemonSet") => workload::write_daemon_set(&mut doc, object, answers),
        ("apps", "StatefulSet") => workload::write_stateful_set(&mut doc, object, answers),
        ("batch", "Job") => batch::write_job(&mut doc, value),
        ("batch", "CronJob") => batch::write_cron_job(&mut doc, value),
        ("", "ConfigMap") => configuration::write_config_map(&mut doc, value),
        ("", "Secret") => configuration::write_secret(&mut doc, value),
        ("", "Namespace") => configuration::write_namespace(&mut doc, value, answers),
        ("", "ResourceQuota") => configuration::write_resource_quota(&mut doc, value),
        ("", "LimitRange") => configuration::write_limit_range(&mut doc, value),
        ("scheduling.k8s.io", "PriorityClass") => configuration::write_priority_class(&mut doc, value),
        ("", "ServiceAccount") => access_control::write_service_account(&mut doc, value, answers),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => access_control::write_role(&mut doc, value),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            access_control::write_role_binding(&mut doc, value);
        }
        ("", "PersistentVolume") => storage::write_volume(&mut doc, value),
        ("", "PersistentVolumeClaim") => storage::write_claim(&mut doc, object, answers),
        ("storage.k8s.io", "StorageClass") => storage::write_class(&mut doc, value),
        ("networking.k8s.io", "Ingress") => network::write_ingress(&mut doc, value, answers),
        ("networking.k8s.io", "IngressClass") => network::write_ingress_class(&mut doc, value),
        ("networking.k8s.io", "NetworkPolicy") => network::write_network_policy(&mut doc, value),
        ("policy", "PodDisruptionBudget") => batch::write_disruption_budget(&mut doc, value),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler::write(&mut doc, value),
        ("certificates.k8s.io", "CertificateSigningRequest") => signing_request::write(&mut doc, value),
        _ => generic::write(&mut doc, value),
    }
    if show_events && has_events(object.kind()) {
        event::write(&mut doc, answers.of("events"));
    }
    doc.finish()
}

fn group(object: &Object) -> &str {
    object.api_version().rsplit_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests;
