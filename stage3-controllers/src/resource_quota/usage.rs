//! Usage: what one object counts for, under every name that a quota may have for it.
//!
//! A pod counts as `pods`, and with what its containers ask for: `cpu` is the older name of `requests.cpu`. Containers run side by side and add
//! up; an init container runs alone, so the largest one counts where it is more than the sum; a sidecar (an init container
//! that stays) counts with both.
//!
//! # Invariants
//! 1. A pod at its end uses nothing but its place in the store (`count/pods`).
//!
//! # In Kubernetes
//! `pkg/quota/v1/evaluator/core/{pods,services,persistent_volume_claims}.go`, `component-helpers/resource/helpers.go`. Left out: pod-level resources.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, PersistentVolumeClaim, Pod, PodSpec, ResourceRequirements, Service,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Wire;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use stage1_kubectl::quantity::{Format, Quantity};

use crate::indexer::Cached;
use crate::pod::PodExt;

/// Amounts by resource.
pub type Amounts = BTreeMap<String, Quantity>;

const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const COUNTED: [&str; 9] = [
    "pods",
    "count/pods",
    "services",
    "count/services",
    "services.nodeports",
    "services.loadbalancers",
    "persistentvolumeclaims",
    "count/persistentvolumeclaims",
    "requests.storage",
];
const CLASS_SUFFIX: &str = ".storageclass.storage.k8s.io/";

/// Whether this module knows how to count what has this name.
pub fn is_counted(name: &str) -> bool {
    let limit = name.strip_prefix("limits.").is_some_and(|name| STANDARD.contains(&name));
    COUNTED.contains(&name)
        || STANDARD.contains(&name)
        || limit
        || name.starts_with("hugepages-")
        || name.starts_with("requests.")
        || name.contains(CLASS_SUFFIX)
}

/// The API's amounts, read; what is no amount is left out.
pub fn amounts(wire: Option<&BTreeMap<String, Wire>>) -> Amounts {
    let entries = wire.into_iter().flatten();
    entries.filter_map(|(name, amount)| Some((name.clone(), Quantity::try_from(amount).ok()?))).collect()
}

/// Adds `more` to `sum`, name by name.
pub fn add(sum: &mut Amounts, more: Amounts) {
    for (name, amount) in more {
        let slot = sum.entry(name).or_insert_with(Quantity::zero);
        *slot = *slot + amount;
    }
}

fn number(number: usize) -> Quantity {
    Quantity::from_value(i64::try_from(number).unwrap_or(i64::MAX), Format::DecimalSI)
}

/// What a pod uses.
pub fn of_pod(pod: &Pod, now: Timestamp) -> Amounts {
    let mut used = Amounts::from([("count/pods".to_owned(), number(1))]);
    if pod.is_terminal() || is_overdue(pod, now) {
        return used;
    }
    used.insert("pods".to_owned(), number(1));
    let Some(spec) = &pod.spec else { return used };
    for (name, amount) in total(spec, |resources| resources.requests.as_ref(), true) {
        if STANDARD.contains(&name.as_str()) || name.starts_with("hugepages-") {
            used.insert(name.clone(), amount);
        }
        used.insert(format!("requests.{name}"), amount);
    }
    for (name, amount) in total(spec, |resources| resources.limits.as_ref(), false) {
        if STANDARD.contains(&name.as_str()) {
            used.insert(format!("limits.{name}"), amount);
        }
    }
    used
}

/// Its node had twice the time to end it and did not: it must not block its namespace for ever.
fn is_overdue(pod: &Pod, now: Timestamp) -> bool {
    let meta = pod.meta();
    let (Some(at), Some(grace)) = (&meta.deletion_timestamp, meta.deletion_grace_period_seconds) else {
        return false;
    };
    now > at.0 + SignedDuration::from_secs(grace)
}

/// Containers together, or the largest init container where that is more; plus the overhead of the runtime.
fn total(
    spec: &PodSpec,
    pick: impl Fn(&ResourceRequirements) -> Option<&BTreeMap<String, Wire>>,
    overhead_alone: bool,
) -> Amounts {
    let of = |container: &Container| amounts(container.resources.as_ref().and_then(&pick));
    let mut sum = Amounts::new();
    spec.containers.iter().for_each(|container| add(&mut sum, of(container)));
    let (mut sidecars, mut largest) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        // While one starts, the sidecars before it run already.
        let mut running = of(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sum, running.clone());
            add(&mut sidecars, running);
            running = sidecars.clone();
        } else {
            add(&mut running, sidecars.clone());
        }
        raise(&mut largest, running);
    }
    raise(&mut sum, largest);
    for (name, amount) in amounts(spec.overhead.as_ref()) {
        if overhead_alone || sum.contains_key(&name) {
            add(&mut sum, Amounts::from([(name, amount)]));
        }
    }
    sum
}

fn raise(sum: &mut Amounts, other: Amounts) {
    for (name, amount) in other {
        let slot = sum.entry(name).or_insert(amount);
        *slot = (*slot).max(amount);
    }
}

/// What a Service uses.
pub fn of_service(service: &Service) -> Amounts {
    let mut used = Amounts::from(["services", "count/services"].map(|name| (name.to_owned(), number(1))));
    let Some(spec) = &service.spec else { return used };
    let ports = spec.ports.as_deref().unwrap_or_default();
    let with_node_port = match spec.type_.as_deref() {
        Some("NodePort") => ports.len(),
        Some("LoadBalancer") => {
            used.insert("services.loadbalancers".to_owned(), number(1));
            if spec.allocate_load_balancer_node_ports == Some(false) {
                ports.iter().filter(|port| port.node_port.is_some_and(|port| port != 0)).count()
            } else {
                ports.len()
            }
        }
        _ => 0,
    };
    used.insert("services.nodeports".to_owned(), number(with_node_port));
    used
}

/// What a claim uses, in all and of its class.
pub fn of_claim(claim: &PersistentVolumeClaim) -> Amounts {
    let names = ["persistentvolumeclaims", "count/persistentvolumeclaims"];
    let mut used = Amounts::from(names.map(|name| (name.to_owned(), number(1))));
    let Some(spec) = &claim.spec else { return used };
    let class =
        claim.annotation("volume.beta.kubernetes.io/storage-class").or(spec.storage_class_name.as_deref());
    let class = class.filter(|class| !class.is_empty());
    if let Some(class) = class {
        used.insert(format!("{class}{CLASS_SUFFIX}persistentvolumeclaims"), number(1));
    }
    let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    if let Some(size) = amounts(requests).get("storage") {
        used.insert("requests.storage".to_owned(), *size);
        if let Some(class) = class {
            used.insert(format!("{class}{CLASS_SUFFIX}requests.storage"), *size);
        }
    }
    used
}
