//! Field references: facts about the pod itself, for its own containers (the downward API).
//!
//! *Step 5 of a pod's journey.* Before: a `fieldRef` or `resourceFieldRef` of a variable or a volume item. After: its text.
//!
//! # Invariants
//! 1. A limit that is not set reads as what the node could give.
//! 2. Amounts are rounded up to whole divisors.
//!
//! # In Kubernetes
//! `pkg/fieldpath/fieldpath.go`, `pkg/api/v1/resource/helpers.go`. Left out: huge pages.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::EnvError;
use crate::pod::PodExt;
use crate::quantity::{milli_value, value};

/// The text of one field of the pod.
///
/// # Errors
/// The field cannot be referred to.
pub fn pod_field(pod: &Pod, path: &str, pod_ips: &[String], host_ips: &[String]) -> Result<String, EnvError> {
    let spec = pod.spec_ref();
    if let Some((map, key)) = subscript(path) {
        let map = match map {
            "metadata.labels" => pod.metadata.labels.as_ref(),
            "metadata.annotations" => pod.metadata.annotations.as_ref(),
            _ => return Err(EnvError::Field(format!("fieldPath \"{path}\" does not support subscript"))),
        };
        return Ok(map.and_then(|m| m.get(key)).cloned().unwrap_or_default());
    }
    Ok(match path {
        "metadata.name" => pod.pod_name().to_owned(),
        "metadata.namespace" => pod.pod_namespace().to_owned(),
        "metadata.uid" => pod.metadata.uid.clone().unwrap_or_default(),
        "metadata.labels" => format_map(pod.metadata.labels.as_ref()),
        "metadata.annotations" => format_map(pod.metadata.annotations.as_ref()),
        "spec.nodeName" => spec.node_name.clone().unwrap_or_default(),
        "spec.serviceAccountName" => spec.service_account_name.clone().unwrap_or_default(),
        "status.hostIP" => host_ips.first().cloned().unwrap_or_default(),
        "status.hostIPs" => host_ips.join(","),
        "status.podIP" => pod_ips.first().cloned().unwrap_or_default(),
        "status.podIPs" => pod_ips.join(","),
        _ => return Err(EnvError::Field(format!("unsupported fieldPath: {path}"))),
    })
}

/// `metadata.labels['key']` → (`metadata.labels`, `key`).
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, rest) = path.strip_suffix("']")?.split_once("['")?;
    Some((map, rest))
}

/// A map as lines `key="value"`, sorted, the values quoted as Go does.
fn format_map(map: Option<&BTreeMap<String, String>>) -> String {
    let line = |(k, v): (&String, &String)| format!("{k}={}", go_quote(v));
    map.into_iter().flatten().map(line).collect::<Vec<_>>().join("\n")
}

/// Go's `%q`.
pub fn go_quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The text of one resource of a container of the pod.
///
/// # Errors
/// The container or the resource does not exist.
pub fn container_resource(
    pod: &Pod,
    container: &Container,
    selector: &ResourceFieldSelector,
    allocatable: &BTreeMap<String, Quantity>,
) -> Result<String, EnvError> {
    let named = selector.container_name.as_deref().filter(|n| !n.is_empty());
    let container = match named {
        Some(name) => pod
            .all_containers()
            .find(|c| c.name == name)
            .ok_or_else(|| EnvError::Field(format!("container {name} not found")))?,
        None => container,
    };
    let unsupported = || EnvError::Field(format!("unsupported container resource : {}", selector.resource));
    let (half, name) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    let r = container.resources.as_ref();
    let amount = match half {
        "limits" => {
            r.and_then(|r| r.limits.as_ref()).and_then(|l| l.get(name)).or_else(|| allocatable.get(name))
        }
        "requests" => r.and_then(|r| r.requests.as_ref()).and_then(|l| l.get(name)),
        _ => return Err(unsupported()),
    };
    // An absent divisor arrives as "0" from the API server.
    let divisor = selector.divisor.as_ref().filter(|d| milli_value(d) > 0);
    let one = Quantity("1".to_owned());
    let divisor = divisor.unwrap_or(&one);
    let measure: fn(&Quantity) -> i64 = if name == "cpu" { milli_value } else { value };
    let (amount, divisor) = (amount.map_or(0, measure), measure(divisor).max(1));
    Ok((amount.div_euclid(divisor) + i64::from(amount.rem_euclid(divisor) != 0)).to_string())
}
