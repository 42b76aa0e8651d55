//! Defaults of pods, and of the pod templates in workloads.
//!
//! The choices that people meet first: `restartPolicy: Always`, 30 seconds to stop, and `imagePullPolicy`, which is `Always` for `:latest`
//! (or no tag) and `IfNotPresent` for anything else. A template gets the same except what only a running pod needs: service links
//! and the requests that follow from limits are filled when the pod itself is created.
//!
//! # In Kubernetes
//! `pkg/apis/core/v1/defaults.go`. Left out: pod-level resources, in-place resize policies (alpha in 1.32, set by neither here).

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};
use stage1_kubectl::quantity::Quantity;

use super::volumes;
use crate::validation::fields::{child_mut, default_to, flag, has, int, items_mut, present_mut, set, text};

/// `terminationGracePeriodSeconds`: shorter, and servers are cut off in the middle of a request.
pub const DEFAULT_TERMINATION_GRACE_PERIOD_SECONDS: i64 = 30;
/// `schedulerName`.
pub const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";
/// `terminationMessagePath`.
pub const TERMINATION_MESSAGE_PATH_DEFAULT: &str = "/dev/termination-log";

/// Annotations of releases before 1.8, when init containers had no field: nobody reads them, and they aren't kept.
const OLD_INIT_CONTAINERS: [&str; 4] = [
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];

fn drop_old_annotations(owner: &mut Value) {
    let Some(metadata) = owner.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    let before = annotations.len();
    annotations.retain(|name, _| !OLD_INIT_CONTAINERS.contains(&name.as_str()));
    if annotations.is_empty() && before > 0 {
        metadata.remove("annotations");
    }
}

/// A template in a workload.
pub fn template(template: &mut Value) {
    drop_old_annotations(template);
    pod_spec(child_mut(template, "spec"));
}

/// A Pod: its spec, service links, and requests from limits.
pub fn pod(pod: &mut Value) {
    drop_old_annotations(pod);
    let spec = child_mut(pod, "spec");
    for name in ["initContainers", "containers"] {
        items_mut(spec, name).for_each(requests_from_limits);
    }
    default_to(spec, "enableServiceLinks", true);
    pod_spec(spec);
    // In a template this would change the workload that the author wrote; the pod made from it gets it.
    if flag(spec, "hostNetwork") {
        for name in ["initContainers", "containers"] {
            items_mut(spec, name).for_each(host_network_ports);
        }
    }
}

/// `requests` follow `limits` for what is limited and not requested.
fn requests_from_limits(container: &mut Value) {
    let Some(resources) = present_mut(container, "resources") else { return };
    let limits = resources.get("limits").and_then(Value::as_object).cloned().unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    let requests = child_mut(resources, "requests");
    for (name, quantity) in limits {
        default_to(requests, &name, quantity);
    }
}

/// A template's or a pod's spec.
pub fn pod_spec(spec: &mut Value) {
    default_to(spec, "dnsPolicy", "ClusterFirst");
    default_to(spec, "restartPolicy", "Always");
    default_to(spec, "securityContext", json!({}));
    default_to(spec, "terminationGracePeriodSeconds", DEFAULT_TERMINATION_GRACE_PERIOD_SECONDS);
    default_to(spec, "schedulerName", DEFAULT_SCHEDULER_NAME);
    service_account(spec);
    items_mut(spec, "volumes").for_each(volumes::volume);
    for name in ["initContainers", "containers", "ephemeralContainers"] {
        for item in items_mut(spec, name) {
            container(item);
        }
    }
    if let Some(overhead) = present_mut(spec, "overhead") {
        resource_list(overhead);
    }
}

/// `serviceAccount` is the old name of `serviceAccountName`; both are written.
fn service_account(spec: &mut Value) {
    let name = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount").to_owned(),
        name => name.to_owned(),
    };
    if !name.is_empty() {
        set(spec, "serviceAccountName", name.clone());
        set(spec, "serviceAccount", name);
    }
}

fn host_network_ports(container: &mut Value) {
    for port in items_mut(container, "ports") {
        if int(port, "hostPort") == 0 {
            let number = int(port, "containerPort");
            set(port, "hostPort", number);
        }
    }
}

fn container(container: &mut Value) {
    if !has(container, "imagePullPolicy") {
        let policy = default_pull_policy(text(container, "image"));
        set(container, "imagePullPolicy", policy);
    }
    default_to(container, "terminationMessagePath", TERMINATION_MESSAGE_PATH_DEFAULT);
    default_to(container, "terminationMessagePolicy", "File");
    items_mut(container, "ports").for_each(|port| default_to(port, "protocol", "TCP"));
    for variable in items_mut(container, "env") {
        if let Some(field) = present_mut(variable, "valueFrom").and_then(|from| present_mut(from, "fieldRef"))
        {
            default_to(field, "apiVersion", "v1");
        }
        if let Some(field) =
            present_mut(variable, "valueFrom").and_then(|from| present_mut(from, "resourceFieldRef"))
        {
            default_to(field, "divisor", "0");
        }
    }
    if let Some(resources) = present_mut(container, "resources") {
        for name in ["limits", "requests"] {
            if let Some(list) = present_mut(resources, name) {
                resource_list(list);
            }
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(value) = present_mut(container, name) {
            probe(value);
        }
    }
    if let Some(lifecycle) = present_mut(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(handler) = present_mut(lifecycle, name) {
                http_get(handler);
            }
        }
    }
}

fn probe(probe: &mut Value) {
    default_to(probe, "timeoutSeconds", 1);
    default_to(probe, "periodSeconds", 10);
    default_to(probe, "successThreshold", 1);
    default_to(probe, "failureThreshold", 3);
    http_get(probe);
    if let Some(grpc) = present_mut(probe, "grpc") {
        default_to(grpc, "service", "");
    }
}

fn http_get(handler: &mut Value) {
    if let Some(get) = present_mut(handler, "httpGet") {
        default_to(get, "path", "/");
        default_to(get, "scheme", "HTTP");
    }
}

/// Quantities finer than a thousandth are rounded up.
pub fn resource_list(list: &mut Value) {
    for quantity in list.as_object_mut().into_iter().flat_map(Map::values_mut) {
        let parsed = quantity.as_str().and_then(|text| Quantity::parse(text).ok());
        if let Some(parsed) = parsed {
            let rounded = Quantity::from_milli(parsed.milli_value(), parsed.format());
            if rounded > parsed {
                *quantity = Value::String(rounded.to_string());
            }
        }
    }
}

static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    let component = "[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*";
    let label = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
    let domain = format!(r"(?:{label}(?:\.{label})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?");
    let digest = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}";
    let pattern =
        format!(r"^(?:{domain}/)?{component}(?:/{component})*(?::(\w[\w.-]{{0,127}}))?(?:@({digest}))?$");
    Regex::new(&pattern).expect("the pattern is fixed")
});

/// `Always` for the tag `latest` or no tag at all, else `IfNotPresent`.
pub fn default_pull_policy(image: &str) -> &'static str {
    let latest = REFERENCE.captures(image).is_some_and(|found| match (found.get(1), found.get(2)) {
        (Some(tag), _) => tag.as_str() == "latest",
        (None, digest) => digest.is_none(),
    });
    if latest { "Always" } else { "IfNotPresent" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_or_no_tag_is_always_pulled() {
        for image in ["nginx", "nginx:latest", "registry:5000/a/b"] {
            assert_eq!(default_pull_policy(image), "Always", "{image}");
        }
        for image in ["nginx:1.25", "a.b/c:v1", "Nginx", ""] {
            assert_eq!(default_pull_policy(image), "IfNotPresent", "{image}");
        }
    }

    #[test]
    fn requests_follow_limits_in_a_pod_only() {
        let mut value =
            json!({"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}});
        pod(&mut value);
        assert_eq!(value["spec"]["containers"][0]["resources"]["requests"], json!({"cpu": "1"}));
    }
}
