//! Warnings: what works but is probably a mistake.
//!
//! # In Kubernetes
//! `pkg/api/pod/warnings.go`, `pkg/api/{service,persistentvolume,node}/warnings.go` and the strategies' own. Left out: most deprecated volume
//! sources, overlapping mount paths.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::validation::fields::{at, child, entries, has, int, list, text};
use crate::validation::names;

/// Labels of nodes that have a newer name, and since when.
const DEPRECATED_NODE_LABELS: &[(&str, &str, &str)] = &[
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
    ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
];
/// Annotation of AppArmor before it had a field.
pub const DEPRECATED_APP_ARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

fn name_is_no_label(value: &Value, used: &str) -> Option<String> {
    let messages = names::dns1123_label(text(child(value, "metadata"), "name"));
    let told = messages.join(" ");
    (!messages.is_empty()).then(|| {
        format!("metadata.name: this is used in {used}, which can result in surprising behavior; a DNS label is recommended: [{told}]")
    })
}

/// Of a pod. Only a new pod is warned about: nothing that is warned about can be changed later.
pub fn pod(new: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some() {
        return Vec::new();
    }
    let mut warnings: Vec<String> = name_is_no_label(new, "the Pod's hostname").into_iter().collect();
    for (name, _) in entries(child(new, "metadata"), "annotations")
        .filter(|(name, _)| name.starts_with(DEPRECATED_APP_ARMOR_PREFIX))
    {
        warnings.push(format!(
            "metadata.annotations[{name}]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
        ));
    }
    warnings.extend(pod_spec(child(new, "spec"), "spec"));
    warnings
}

/// Of a workload's template; only if it changed.
pub fn template(new: &Value, old: Option<&Value>) -> Vec<String> {
    let template = at(new, "/spec/template");
    if old.is_some_and(|old| at(old, "/spec/template") == template) {
        return Vec::new();
    }
    pod_spec(child(template, "spec"), "spec.template.spec")
}

/// Of a workload whose name becomes the names of pods.
pub fn named_template(new: &Value, old: Option<&Value>) -> Vec<String> {
    let name = if old.is_none() { name_is_no_label(new, "Pod names and hostnames") } else { None };
    name.into_iter().chain(template(new, old)).collect()
}

/// Of a PersistentVolume.
pub fn persistent_volume(new: &Value, _: Option<&Value>) -> Vec<String> {
    let old_source = has(child(new, "spec"), "storageos");
    if old_source {
        vec!["spec.storageOS: deprecated in v1.22, non-functional in v1.25+".to_owned()]
    } else {
        Vec::new()
    }
}

/// Of an EndpointSlice.
pub fn endpoint_slice(new: &Value, _: Option<&Value>) -> Vec<String> {
    let names = text(new, "addressType") == "FQDN";
    if names { vec!["spec.addressType: FQDN endpoints are deprecated".to_owned()] } else { Vec::new() }
}

fn pod_spec(spec: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for (label, since, instead) in
        DEPRECATED_NODE_LABELS.iter().filter(|(label, ..)| has(child(spec, "nodeSelector"), label))
    {
        warnings.push(format!(
            "{path}.nodeSelector[{label}]: deprecated since {since}; use \"{instead}\" instead"
        ));
    }
    for (at, _) in list(spec, "volumes").iter().enumerate().filter(|(_, volume)| has(volume, "gitRepo")) {
        warnings.push(format!(
            "{path}.volumes[{at}].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"
        ));
    }
    for name in ["initContainers", "containers"] {
        for (at, container) in list(spec, name).iter().enumerate() {
            container_warnings(container, &format!("{path}.{name}[{at}]"), &mut warnings);
        }
    }
    warnings
}

fn container_warnings(container: &Value, path: &str, warnings: &mut Vec<String>) {
    let mut names = BTreeSet::new();
    for (at, variable) in list(container, "env").iter().enumerate() {
        let name = text(variable, "name");
        let refers = text(variable, "value").contains(&format!("$({name})"));
        if !names.insert(name) && !refers {
            warnings.push(format!("{path}.env[{at}]: hides previous definition of {name:?}, which may be dropped when using apply"));
        }
    }
    let ports = list(container, "ports");
    for (at, port) in ports.iter().enumerate() {
        let same = |other: &Value| {
            int(other, "containerPort") == int(port, "containerPort")
                && text(other, "protocol") == text(port, "protocol")
        };
        if let Some(first) = ports[..at].iter().position(same) {
            warnings
                .push(format!("{path}.ports[{at}]: duplicate port definition with {path}.ports[{first}]"));
        }
    }
}
