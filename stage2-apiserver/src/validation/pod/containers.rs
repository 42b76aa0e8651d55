//! Containers: names, images, ports; and which fields an init container may have.
//!
//! # In Kubernetes
//! `validateContainers`, `validateInitContainers`, `validateContainerCommon`. Ephemeral containers: [`super::ephemeral`].

use std::collections::BTreeSet;

use serde_json::Value;

use super::volumes::Volumes;
use super::{env, mounts, probes, resources, security};
use crate::validation::fields::{has, int, list, opt_int, text};
use crate::validation::values::{one_of, required, required_form};
use crate::validation::{Errors, FieldError, field, index, invalid_each, names};

/// Regular containers: at least one.
pub fn containers(spec: &Value, path: &str, volumes: &Volumes) -> Errors {
    let path = field(path, "containers");
    let mut errors = Errors::new();
    let containers = list(spec, "containers");
    if containers.is_empty() {
        errors.push(FieldError::required(path, ""));
        return errors;
    }
    let mut seen = BTreeSet::new();
    for (at, container) in containers.iter().enumerate() {
        let path = index(&path, at);
        common(&mut errors, container, &path, volumes);
        let name = text(container, "name");
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(field(&path, "name"), name));
        }
        errors.extend(probes::lifecycle_and_probes(
            container,
            &path,
            opt_int(spec, "terminationGracePeriodSeconds"),
        ));
        if has(container, "restartPolicy") {
            errors.push(FieldError::forbidden(
                field(&path, "restartPolicy"),
                "may not be set for non-init containers",
            ));
        }
    }
    host_port_conflicts(&mut errors, containers, &path);
    errors
}

/// Init containers; those with `restartPolicy: Always` are sidecars and may have probes.
pub fn init_containers(spec: &Value, path: &str, volumes: &Volumes) -> Errors {
    let path = field(path, "initContainers");
    let mut errors = Errors::new();
    let mut seen: BTreeSet<&str> =
        list(spec, "containers").iter().map(|container| text(container, "name")).collect();
    for (at, container) in list(spec, "initContainers").iter().enumerate() {
        let idx = index(&path, at);
        common(&mut errors, container, &idx, volumes);
        let policy = text(container, "restartPolicy");
        if has(container, "restartPolicy") && policy != "Always" {
            errors.push(FieldError::not_supported(field(&idx, "restartPolicy"), policy, &["Always"]));
        }
        let name = text(container, "name");
        if !name.is_empty() && !seen.insert(name) {
            errors.push(FieldError::duplicate(field(&idx, "name"), name));
        }
        host_port_conflicts(&mut errors, std::slice::from_ref(container), &path);
        if policy == "Always" {
            errors.extend(probes::lifecycle_and_probes(
                container,
                &idx,
                opt_int(spec, "terminationGracePeriodSeconds"),
            ));
            continue;
        }
        for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if has(container, name) {
                let detail = "may not be set for init containers without restartPolicy=Always";
                errors.push(FieldError::forbidden(field(&idx, name), detail));
            }
        }
    }
    errors
}

/// What holds for containers of all three lists.
pub(super) fn common(errors: &mut Errors, container: &Value, path: &str, volumes: &Volumes) {
    required_form(errors, container, "name", path, names::dns1123_label);
    required(errors, container, "image", path);
    one_of(errors, container, "terminationMessagePolicy", path, &["File", "FallbackToLogsOnError"]);
    ports(errors, list(container, "ports"), &field(path, "ports"));
    errors.extend(env::env(list(container, "env"), &field(path, "env")));
    errors.extend(env::env_from(list(container, "envFrom"), &field(path, "envFrom")));
    errors.extend(mounts::volume_mounts(container, &field(path, "volumeMounts"), volumes));
    errors.extend(mounts::volume_devices(container, &field(path, "volumeDevices"), volumes));
    one_of(errors, container, "imagePullPolicy", path, &["Always", "IfNotPresent", "Never"]);
    errors.extend(resources::requirements(
        crate::validation::fields::child(container, "resources"),
        &field(path, "resources"),
    ));
    errors.extend(security::container_security_context(container, &field(path, "securityContext")));
}

fn ports(errors: &mut Errors, ports: &[Value], path: &str) {
    let mut seen = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let path = index(path, at);
        let name = text(port, "name");
        if !name.is_empty() {
            let messages = names::port_name(name);
            if messages.is_empty() && !seen.insert(name) {
                errors.push(FieldError::duplicate(field(&path, "name"), name));
            }
            invalid_each(errors, &field(&path, "name"), name, messages);
        }
        for (name, required) in [("containerPort", true), ("hostPort", false)] {
            let number = int(port, name);
            match (number, required) {
                (0, true) => errors.push(FieldError::required(field(&path, name), "")),
                (0, false) => {}
                _ => {
                    let messages = names::port_number(number);
                    errors.extend(
                        messages.into_iter().map(|m| FieldError::invalid(field(&path, name), number, m)),
                    );
                }
            }
        }
        one_of(errors, port, "protocol", &path, &["SCTP", "TCP", "UDP"]);
    }
}

/// Two containers can't have the same port of the host.
fn host_port_conflicts(errors: &mut Errors, containers: &[Value], path: &str) {
    let mut taken = BTreeSet::new();
    for (at, container) in containers.iter().enumerate() {
        for (number, port) in list(container, "ports").iter().enumerate() {
            let host_port = int(port, "hostPort");
            if host_port == 0 {
                continue;
            }
            let shown = format!("{}/{}/{host_port}", text(port, "hostIP"), text(port, "protocol"));
            if !taken.insert(shown.clone()) {
                let path = field(&index(&field(&index(path, at), "ports"), number), "hostPort");
                errors.push(FieldError::duplicate(path, shown));
            }
        }
    }
}
