//! Quality of service: which pods are evicted last.
//!
//! Guaranteed: every container has limits for CPU and memory, and requests equal to them. BestEffort: nobody asks for anything. Burstable:
//! everything between. The class is written into the status at creation and never changes.
//!
//! # In Kubernetes
//! `pkg/apis/core/v1/helper/qos/qos.go`. Left out: pod-level resources.

use std::collections::BTreeMap;

use serde_json::Value;
use stage1_kubectl::quantity::Quantity;

use crate::validation::fields::{child, entries, list};

/// The class of a pod spec.
pub fn compute_pod_qos(spec: &Value) -> &'static str {
    let (mut requests, mut limits) = (BTreeMap::new(), BTreeMap::new());
    let mut guaranteed = true;
    for container in list(spec, "containers").iter().chain(list(spec, "initContainers")) {
        let resources = child(container, "resources");
        sum(&mut requests, resources, "requests");
        let limited = sum(&mut limits, resources, "limits");
        guaranteed &= limited == 2;
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if guaranteed && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Adds positive CPU and memory; the answer is how many of the two there were.
fn sum<'a>(total: &mut BTreeMap<&'a str, Quantity>, resources: &'a Value, name: &str) -> usize {
    let mut found = 0;
    for (resource, quantity) in entries(resources, name) {
        let quantity = Quantity::parse(quantity.as_str().unwrap_or_default()).unwrap_or_default();
        if matches!(resource.as_str(), "cpu" | "memory") && quantity.sign() > 0 {
            let slot = total.entry(resource.as_str()).or_insert_with(Quantity::zero);
            *slot = *slot + quantity;
            found += 1;
        }
    }
    found
}
