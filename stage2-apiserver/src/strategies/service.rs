//! Services: what was allocated stays, unless the type changes.
//!
//! `kubectl apply` of a manifest without `clusterIP` must not lose the address: on update the allocated values are carried over.
//!
//! # In Kubernetes
//! `pkg/registry/core/service/{strategy,storage/storage}.go` (`patchAllocatedValues`, `dropTypeDependentFields`).

use serde_json::Value;

use super::Context;
use crate::allocator::service::drop_type_dependent_fields;
use crate::validation::fields::{child, child_mut, has, int, items_mut, list, set, text, texts};

/// `clusterIP` and the first of `clusterIPs` are the same thing.
fn normalize_cluster_ips(spec: &mut Value, before: &Value) {
    let (ip, ips) = (text(spec, "clusterIP").to_owned(), texts(spec, "clusterIPs").len());
    if before.is_null() {
        if !ip.is_empty() && ips == 0 {
            set(spec, "clusterIPs", vec![ip]);
        } else if ip.is_empty() && ips > 0 {
            let first = texts(spec, "clusterIPs")[0].to_owned();
            set(spec, "clusterIP", first);
        }
        return;
    }
    // An old client that knows only `clusterIP` changes it and sends the list back as it was.
    let same_list = child(spec, "clusterIPs") == child(before, "clusterIPs");
    if ip != text(before, "clusterIP") && same_list {
        set(spec, "clusterIPs", if ip.is_empty() { Vec::new() } else { vec![ip] });
    } else if ip == text(before, "clusterIP") && !same_list && ips > 0 {
        let first = texts(spec, "clusterIPs")[0].to_owned();
        set(spec, "clusterIP", first);
    }
}

/// A new Service.
pub fn create(service: &mut Value, _: &Context) {
    normalize_cluster_ips(child_mut(service, "spec"), &Value::Null);
}

/// A changed Service.
pub fn update(new: &mut Value, old: &Value, _: &Context) {
    let before = child(old, "spec");
    let spec = child_mut(new, "spec");
    patch_allocated_values(spec, before);
    normalize_cluster_ips(spec, before);
    drop_type_dependent_fields(spec, before);
}

fn patch_allocated_values(spec: &mut Value, before: &Value) {
    let (kind, was) = (text(spec, "type").to_owned(), text(before, "type").to_owned());
    if kind != "ExternalName"
        && was != "ExternalName"
        && text(spec, "clusterIP").is_empty()
        && list(spec, "clusterIPs").is_empty()
    {
        for name in ["clusterIP", "clusterIPs"] {
            if has(before, name) {
                set(spec, name, child(before, name).clone());
            }
        }
    }
    for name in ["ipFamilies", "ipFamilyPolicy"] {
        if kind != "ExternalName" && !has(spec, name) && has(before, name) {
            set(spec, name, child(before, name).clone());
        }
    }
    let ports = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    if ports(&kind) && ports(&was) {
        let known: Vec<(String, i64, i64)> = list(before, "ports")
            .iter()
            .map(|port| (text(port, "protocol").to_owned(), int(port, "port"), int(port, "nodePort")))
            .collect();
        let mut used: Vec<i64> = list(spec, "ports").iter().map(|port| int(port, "nodePort")).collect();
        for port in items_mut(spec, "ports").filter(|port| int(port, "nodePort") == 0) {
            let same = known.iter().find(|(protocol, number, node_port)| {
                protocol == text(port, "protocol")
                    && *number == int(port, "port")
                    && !used.contains(node_port)
            });
            if let Some((_, _, node_port)) = same.filter(|(_, _, node_port)| *node_port != 0) {
                used.push(*node_port);
                set(port, "nodePort", *node_port);
            }
        }
    }
    if kind == "LoadBalancer"
        && was == "LoadBalancer"
        && int(spec, "healthCheckNodePort") == 0
        && int(before, "healthCheckNodePort") != 0
    {
        set(spec, "healthCheckNodePort", int(before, "healthCheckNodePort"));
    }
}
