//! Usage: what pods request, and what the nodes have left.
//!
//! *Step 4 of a pod's journey.* Before: a scheduler said `Insufficient cpu`. After: the numbers behind the word.
//!
//! The scheduler adds up requests; what is really used doesn't count. A pod's request is the sum of its containers and
//! sidecars, or of what runs while an init container does, whichever is larger, plus its overhead.
//!
//! # Invariants
//! 1. The sums are the scheduler's: a pod that has ended holds nothing.
//!
//! # In Kubernetes
//! `component-helpers/resource/helpers.go` (`PodRequests`). Left out: pod-level resources, in-place resize.

use serde_json::Value;

use super::container::{Container, containers};
use super::facts::Facts;
use crate::object::{Object, escape};
use crate::quantity::{Format, Quantity};

/// What one node has of a resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Room {
    /// The node's name.
    pub node: String,
    /// What pods may have of it.
    pub allocatable: Quantity,
    /// What the pods there request.
    pub used: Quantity,
    /// What is left.
    pub free: Quantity,
}

/// What every node has of a resource.
#[must_use]
pub fn rooms(facts: &Facts, resource: &str) -> Vec<Room> {
    let nodes = facts.all("Node").iter();
    nodes
        .filter_map(|node| {
            let allocatable = quantity(node.get(&format!("/status/allocatable/{}", escape(resource))))?;
            let held = facts.all("Pod").iter().filter(|pod| {
                let over = matches!(pod.get_str("/status/phase"), Some("Failed" | "Succeeded"));
                pod.get_str("/spec/nodeName") == Some(node.name()) && !over
            });
            let used: Quantity = held.map(|pod| request(pod, resource)).sum();
            Some(Room { node: node.name().into(), allocatable, used, free: allocatable - used })
        })
        .collect()
}

/// What a pod requests of a resource.
#[must_use]
pub fn request(pod: &Object, resource: &str) -> Quantity {
    if resource == "pods" {
        return Quantity::from_value(1, Format::DecimalSI);
    }
    let all = containers(pod);
    let of = |one: &Container<'_>| {
        quantity(one.spec(&format!("/resources/requests/{}", escape(resource)))).unwrap_or(Quantity::zero())
    };
    let together: Quantity = all.iter().filter(|one| !one.is_init).map(of).sum();
    let mut sidecars = Quantity::zero();
    let mut while_init = Quantity::zero();
    for one in all.iter().filter(|one| one.is_init || one.is_sidecar) {
        if one.is_sidecar {
            sidecars = sidecars + of(one);
        }
        let now = if one.is_sidecar { sidecars } else { sidecars + of(one) };
        while_init = if now > while_init { now } else { while_init };
    }
    let overhead =
        quantity(pod.get(&format!("/spec/overhead/{}", escape(resource)))).unwrap_or(Quantity::zero());
    (if while_init > together { while_init } else { together }) + overhead
}

/// The place of the largest request in a pod, and the container's name.
#[must_use]
pub fn largest_request(pod: &Object, resource: &str) -> (String, Option<String>) {
    let tail = format!("/resources/requests/{}", escape(resource));
    let all = containers(pod);
    let asked = all.iter().filter_map(|one| Some((quantity(one.spec(&tail))?, one)));
    match asked.max_by(|(a, _), (b, _)| a.cmp(b)) {
        Some((_, one)) => (format!("{}{tail}", one.spec_at), Some(one.name.to_owned())),
        None => ("/spec".into(), None),
    }
}

fn quantity(value: Option<&Value>) -> Option<Quantity> {
    match value? {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => {
            number.as_i64().map(|number| Quantity::from_value(number, Format::DecimalSI))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::why::worlds::{World, object};

    #[test]
    fn an_init_container_counts_when_it_asks_for_more_than_all_others() {
        let pod = object(json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": {
            "initContainers": [{"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
                               {"name": "i", "resources": {"requests": {"cpu": "1"}}}],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "200m"}}}]}}));
        assert_eq!(request(&pod, "cpu").to_string(), "1100m");
        assert_eq!(request(&pod, "pods").to_string(), "1");
        assert_eq!(largest_request(&pod, "cpu").1.as_deref(), Some("i"));
    }

    #[test]
    fn a_node_has_left_what_its_pods_do_not_request() {
        let rooms = rooms(&World::healthy().facts(), "cpu");
        assert_eq!(
            (rooms[0].used.to_string().as_str(), rooms[0].free.to_string().as_str()),
            ("100m", "1900m")
        );
    }
}
