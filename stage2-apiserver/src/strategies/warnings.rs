//! Warnings: what works but is probably a mistake.
//!
//! # In Kubernetes
//! `pkg/api/pod/warnings.go`, `pkg/api/service/warnings.go` and their kin. Left out: most deprecated volume sources.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::validation::fields::{at, child, int, list, text};

/// Of a pod.
pub fn pod(new: &Value, old: Option<&Value>) -> Vec<String> {
    // Only a new pod is warned about: nothing that is warned about can be changed later.
    if old.is_some() { Vec::new() } else { pod_spec(child(new, "spec"), "spec") }
}

/// Of a workload's template; only if it changed.
pub fn template(new: &Value, old: Option<&Value>) -> Vec<String> {
    let template = at(new, "/spec/template");
    if old.is_some_and(|old| at(old, "/spec/template") == template) {
        return Vec::new();
    }
    pod_spec(child(template, "spec"), "spec.template.spec")
}

fn pod_spec(spec: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for (at, volume) in list(spec, "volumes").iter().enumerate() {
        if volume.get("gitRepo").is_some() {
            warnings.push(format!(
                "{path}.volumes[{at}].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"
            ));
        }
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
        if !names.insert(name) {
            let refers = text(variable, "value").contains(&format!("$({name})"));
            if !refers {
                warnings.push(format!("{path}.env[{at}]: hides previous definition of {name:?}, which may be dropped when using apply"));
            }
        }
    }
    let ports = list(container, "ports");
    for (at, port) in ports.iter().enumerate() {
        let same = |other: &&Value| {
            int(other, "containerPort") == int(port, "containerPort")
                && text(other, "protocol") == text(port, "protocol")
        };
        if let Some(first) = ports[..at].iter().position(|other| same(&other)) {
            warnings
                .push(format!("{path}.ports[{at}]: duplicate port definition with {path}.ports[{first}]"));
        }
    }
}
