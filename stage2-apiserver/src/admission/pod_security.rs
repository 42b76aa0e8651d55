//! PodSecurity: how much of the host a namespace's pods may touch.
//!
//! A namespace says by labels which level it enforces, warns about and audits: `privileged` (anything), `baseline` (no known way to the host)
//! or `restricted` (hardened). A pod that violates the enforced level is refused with every control that it violates; workloads are
//! only warned about, since their pods will be judged.
//!
//! # In Kubernetes
//! `k8s.io/pod-security-admission`. Left out: exemptions, versions older than `latest`, audit annotations.

mod controls;
mod existing;

use serde_json::Value;
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use super::{AdmissionPlugin, Attributes, ObjectReader, Operation};
use crate::validation::fields::{at, child};

/// Workloads with a pod template, and where it is.
const TEMPLATES: &[(&str, &str, &str)] = &[
    ("apps", "deployments", "/spec/template/spec"),
    ("apps", "replicasets", "/spec/template/spec"),
    ("apps", "statefulsets", "/spec/template/spec"),
    ("apps", "daemonsets", "/spec/template/spec"),
    ("batch", "jobs", "/spec/template/spec"),
    ("batch", "cronjobs", "/spec/jobTemplate/spec/template/spec"),
    ("", "replicationcontrollers", "/spec/template/spec"),
    ("", "podtemplates", "/template/spec"),
];

/// The plugin.
pub struct PodSecurity;

impl AdmissionPlugin for PodSecurity {
    fn name(&self) -> &'static str {
        "PodSecurity"
    }

    fn validate(
        &self,
        attributes: &Attributes,
        object: Option<&Object>,
        old: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Result<(), Status> {
        let Some(pod) = object.filter(|_| attributes.is_pod() && is_significant(attributes, object, old))
        else {
            return Ok(());
        };
        let level = level(attributes, "enforce", reader);
        let violations = controls::violations(&level, child(pod.as_value(), "spec"));
        if violations.is_empty() {
            return Ok(());
        }
        Err(attributes
            .forbidden(format!("violates PodSecurity \"{level}:latest\": {}", violations.join(", "))))
    }

    fn warnings(
        &self,
        attributes: &Attributes,
        object: &Object,
        old: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Vec<String> {
        if let (true, Operation::Update, Some(old)) =
            (attributes.is("", "namespaces"), attributes.operation, old)
        {
            return existing::warnings(object, old, &reader.list("", "pods", object.name()));
        }
        if !is_significant(attributes, Some(object), old) {
            return Vec::new();
        }
        let template = TEMPLATES.iter().find(|(group, resource, _)| attributes.is(group, resource));
        let spec = match template {
            Some((_, _, pointer)) => at(object.as_value(), pointer),
            None if attributes.is_pod() => child(object.as_value(), "spec"),
            None => return Vec::new(),
        };
        let level = level(attributes, "warn", reader);
        let violations = controls::violations(&level, spec);
        if violations.is_empty() {
            return Vec::new();
        }
        vec![format!("would violate PodSecurity \"{level}:latest\": {}", violations.join(", "))]
    }
}

/// Creates, and updates that change what is judged.
fn is_significant(attributes: &Attributes, new: Option<&Object>, old: Option<&Object>) -> bool {
    let spec = |object: &Object| child(object.as_value(), "spec").clone();
    match (attributes.operation, new, old) {
        (Operation::Create, _, _) => true,
        (Operation::Update, Some(new), Some(old)) => spec(new) != spec(old),
        _ => false,
    }
}

/// The level of a mode in the request's namespace.
fn level(attributes: &Attributes, mode: &str, reader: &dyn ObjectReader) -> String {
    let namespace = reader.get("", "namespaces", "", &attributes.namespace);
    namespace.map_or_else(|| "privileged".to_owned(), |namespace| level_of(&namespace, mode))
}

/// The level that a namespace has for a mode.
fn level_of(namespace: &Object, mode: &str) -> String {
    match namespace.label(&format!("pod-security.kubernetes.io/{mode}")) {
        Some(level @ ("baseline" | "restricted")) => level.to_owned(),
        // A label that nobody understands fails closed.
        Some(level) if level != "privileged" => "restricted".to_owned(),
        _ => "privileged".to_owned(),
    }
}

/// A field of every container's security context, by container.
fn contexts(spec: &Value) -> Vec<(&str, &Value)> {
    use crate::validation::fields::{list, text};
    let kinds = ["initContainers", "containers", "ephemeralContainers"];
    let containers = kinds.iter().flat_map(|kind| list(spec, kind));
    containers.map(|container| (text(container, "name"), child(container, "securityContext"))).collect()
}
