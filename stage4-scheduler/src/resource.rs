//! Resources: what a pod asks for and what a node has, in plain integers.
//!
//! *Step 2 of a pod's journey through this stage.* Before: quantities are text (`"1500m"`, `"8Gi"`).
//! After: [`crate::pod_info`] and [`crate::node_info`] add and compare numbers.
//!
//! Quantities are parsed once, when an object arrives, never while nodes are compared: with 5,000 nodes
//! a parse per comparison would be most of the scheduler's time.
//!
//! The subtle thing is how a pod's containers add up. Containers run together: sum. Init containers run
//! one after another before them: maximum. A sidecar (an init container with `restartPolicy: Always`)
//! starts in its turn and stays: it counts in the sum, and also for every init container that comes
//! after it. Overhead of the runtime class comes on top. Requests of the pod as a whole, where they are
//! given, replace the sum of its containers. A container that is being resized in place counts as the largest of what
//! it asks for, what it was given and what it has: only then nobody promises the difference to somebody else.
//!
//! # Invariants
//! 1. A pod's requests never shrink when a container is added.
//!
//! # In Kubernetes
//! `component-helpers/resource/helpers.go` (`PodRequests`), `pkg/scheduler/framework/types.go`
//! (`Resource`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use stage1_kubectl::quantity::Quantity;

/// CPU that a container without a request counts as when nodes are scored: 0.1 core. With 0, pods
/// without requests would pile up on one node.
pub const DEFAULT_MILLI_CPU_REQUEST: i64 = 100;
/// Memory that a container without a request counts as when nodes are scored: 200 MiB.
pub const DEFAULT_MEMORY_REQUEST: i64 = 200 * 1024 * 1024;

/// Amounts by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// CPU in thousandths of a core.
    pub cpu_millis: i64,
    /// Memory in bytes.
    pub memory_bytes: i64,
    /// Disk space of the node in bytes.
    pub ephemeral_storage_bytes: i64,
    /// Number of pods (a node's limit; 0 in a pod's requests).
    pub allowed_pods: i64,
    /// Everything else: huge pages, `example.com/gpu`.
    pub scalar: BTreeMap<String, i64>,
}

impl Resource {
    /// Reads a resource list. A quantity that can't be parsed counts as 0: the API server lets none in.
    pub fn from_list(list: &BTreeMap<String, ApiQuantity>) -> Self {
        let mut resource = Resource::default();
        for (name, quantity) in list {
            *resource.slot(name) += amount(name, quantity);
        }
        resource
    }

    /// The amount of one resource by its name.
    pub fn get(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.cpu_millis,
            "memory" => self.memory_bytes,
            "ephemeral-storage" => self.ephemeral_storage_bytes,
            "pods" => self.allowed_pods,
            other => self.scalar.get(other).copied().unwrap_or(0),
        }
    }

    fn slot(&mut self, name: &str) -> &mut i64 {
        match name {
            "cpu" => &mut self.cpu_millis,
            "memory" => &mut self.memory_bytes,
            "ephemeral-storage" => &mut self.ephemeral_storage_bytes,
            "pods" => &mut self.allowed_pods,
            other => self.scalar.entry(other.to_owned()).or_default(),
        }
    }

    /// Adds `sign` times the other amounts (`sign` is 1 or -1).
    pub fn add(&mut self, other: &Resource, sign: i64) {
        self.cpu_millis += sign * other.cpu_millis;
        self.memory_bytes += sign * other.memory_bytes;
        self.ephemeral_storage_bytes += sign * other.ephemeral_storage_bytes;
        for (name, value) in &other.scalar {
            let slot = self.scalar.entry(name.clone()).or_default();
            *slot += sign * value;
            // Keep the map equal to one built from scratch.
            if *slot == 0 {
                self.scalar.remove(name);
            }
        }
    }

    /// Takes the larger amount of each resource.
    pub fn max(&mut self, other: &Resource) {
        self.cpu_millis = self.cpu_millis.max(other.cpu_millis);
        self.memory_bytes = self.memory_bytes.max(other.memory_bytes);
        self.ephemeral_storage_bytes = self.ephemeral_storage_bytes.max(other.ephemeral_storage_bytes);
        for (name, value) in &other.scalar {
            let slot = self.scalar.entry(name.clone()).or_default();
            *slot = (*slot).max(*value);
        }
    }

    /// True if nothing is asked for.
    pub fn is_zero(&self) -> bool {
        self.cpu_millis == 0
            && self.memory_bytes == 0
            && self.ephemeral_storage_bytes == 0
            && self.scalar.values().all(|value| *value == 0)
    }
}

/// CPU is counted in thousandths, everything else in units.
fn amount(name: &str, quantity: &ApiQuantity) -> i64 {
    let Ok(parsed) = Quantity::parse(&quantity.0) else { return 0 };
    if name == "cpu" { parsed.milli_value() } else { parsed.value() }
}

/// Bytes of a quantity, 0 if it can't be parsed.
pub fn bytes(quantity: &ApiQuantity) -> i64 {
    amount("", quantity)
}

/// Which requests a container without any counts as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Zero,
    Default,
}

fn container_requests(container: &Container, missing: Missing) -> Resource {
    let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let mut resource = requests.map(Resource::from_list).unwrap_or_default();
    if missing == Missing::Default {
        let has = |name: &str| requests.is_some_and(|list| list.contains_key(name));
        if !has("cpu") {
            resource.cpu_millis = DEFAULT_MILLI_CPU_REQUEST;
        }
        if !has("memory") {
            resource.memory_bytes = DEFAULT_MEMORY_REQUEST;
        }
    }
    resource
}

/// What the node's kubelet has given a container; a resize that can't be done on the node doesn't count.
fn with_status(mut wanted: Resource, status: Option<&PodStatus>, name: &str, init: bool) -> Resource {
    let Some(status) = status else { return wanted };
    let list = if init { &status.init_container_statuses } else { &status.container_statuses };
    let Some(container) = list.iter().flatten().find(|container| container.name == name) else {
        return wanted;
    };
    let Some(resources) = &container.resources else { return wanted };
    let infeasible = status.conditions.iter().flatten().any(|condition| {
        condition.type_ == "PodResizePending" && condition.reason.as_deref() == Some("Infeasible")
    });
    if infeasible {
        wanted = Resource::default();
    }
    for given in [&resources.requests, &container.allocated_resources].into_iter().flatten() {
        wanted.max(&Resource::from_list(given));
    }
    wanted
}

fn requests(spec: &PodSpec, status: Option<&PodStatus>, missing: Missing) -> Resource {
    let mut total = Resource::default();
    for container in &spec.containers {
        total.add(&with_status(container_requests(container, missing), status, &container.name, false), 1);
    }
    let mut sidecars = Resource::default();
    let mut init = Resource::default();
    for container in spec.init_containers.iter().flatten() {
        let mut wanted = container_requests(container, missing);
        if container.restart_policy.as_deref() == Some("Always") {
            wanted = with_status(wanted, status, &container.name, true);
            total.add(&wanted, 1);
            sidecars.add(&wanted, 1);
            init.max(&sidecars);
        } else {
            let mut at_that_moment = sidecars.clone();
            at_that_moment.add(&wanted, 1);
            init.max(&at_that_moment);
        }
    }
    total.max(&init);
    let pod_level = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    for (name, quantity) in pod_level.into_iter().flatten() {
        *total.slot(name) = amount(name, quantity);
    }
    if let Some(overhead) = &spec.overhead {
        total.add(&Resource::from_list(overhead), 1);
    }
    total
}

/// What the pod asks for.
pub fn pod_requests(spec: &PodSpec, status: Option<&PodStatus>) -> Resource {
    requests(spec, status, Missing::Zero)
}

/// What the pod counts as when nodes are scored: containers without a request count with the defaults.
pub fn pod_non_zero_requests(spec: &PodSpec, status: Option<&PodStatus>) -> Resource {
    requests(spec, status, Missing::Default)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(value: serde_json::Value) -> PodSpec {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_sidecar_counts_in_the_sum_and_under_later_init_containers() {
        let container =
            |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = container("proxy", "200m");
        sidecar["restartPolicy"] = json!("Always");
        let pod = spec(json!({
            "initContainers": [container("early", "900m"), sidecar, container("late", "1")],
            "containers": [container("main", "500m")],
            "overhead": {"cpu": "50m"}
        }));
        // early alone 900, late with the sidecar 1200, running 700: the maximum, plus overhead.
        assert_eq!(pod_requests(&pod, None).cpu_millis, 1250);
    }

    #[test]
    fn a_container_without_requests_counts_only_for_scoring() {
        let pod = spec(
            json!({"containers": [{"name": "a"}, {"name": "b", "resources": {"requests": {"cpu": "0"}}}]}),
        );
        assert!(pod_requests(&pod, None).is_zero());
        assert_eq!(pod_non_zero_requests(&pod, None).cpu_millis, 100);
        assert_eq!(pod_non_zero_requests(&pod, None).memory_bytes, 2 * DEFAULT_MEMORY_REQUEST);
    }

    #[test]
    fn a_container_that_is_being_resized_counts_as_the_largest_of_its_sizes() {
        let pod = spec(json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}));
        let status = |condition: &str| -> PodStatus {
            serde_json::from_value(json!({
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": condition}],
                "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                    "resources": {"requests": {"cpu": "500m"}}, "allocatedResources": {"cpu": "700m"}}]
            }))
            .unwrap()
        };
        assert_eq!(pod_requests(&pod, Some(&status("Deferred"))).cpu_millis, 1000);
        assert_eq!(pod_requests(&pod, Some(&status("Infeasible"))).cpu_millis, 700);
    }

    #[test]
    fn requests_of_the_pod_replace_those_of_its_containers() {
        let pod = spec(json!({
            "resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "10m"},
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Mi"}}}]
        }));
        let requests = pod_requests(&pod, None);
        assert_eq!((requests.cpu_millis, requests.memory_bytes), (2010, 1 << 20));
    }
}
