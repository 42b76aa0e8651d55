//! Pods: the longest list of rules in Kubernetes.
//!
//! The spec's parts are checked in the order in which Kubernetes checks them, because that is the order of the answer: volumes,
//! containers, init containers, policies, security, scheduling. A pod template in a workload is checked by the same functions under a longer
//! path; what only a real pod must fulfil is in [`pod`] itself.
//!
//! # In Kubernetes
//! `pkg/apis/core/validation/validation.go` (`ValidatePodCreate`, `ValidatePodSpec`). Left out: Windows host process containers, resource
//! claims, pod-level resources.

pub mod affinity;
pub mod containers;
pub mod env;
pub mod ephemeral;
pub mod mounts;
pub mod probes;
pub mod resources;
pub mod scheduling;
pub mod security;
pub mod update;
pub mod volumes;

use serde_json::Value;

use super::fields::{child, flag, has, int, list, opt_int, text, texts};
use super::values::one_of;
use super::{Errors, FieldError, field, go_syntax, index, invalid_each, metadata, names, net};

pub use ephemeral::pod_ephemeral_containers_update;
pub use update::{pod_status_update, pod_update};

/// A pod that is to be created; metadata is checked by the caller.
pub fn pod(pod: &Value) -> Errors {
    let spec = child(pod, "spec");
    let mut errors = metadata_and_spec(pod);
    if !list(spec, "ephemeralContainers").is_empty() {
        let detail = "ephemeral containers cannot be set on create";
        errors.push(FieldError::forbidden("spec.ephemeralContainers", detail));
    }
    if !text(spec, "nodeName").is_empty() && !list(spec, "schedulingGates").is_empty() {
        errors.push(FieldError::forbidden(
            "spec.nodeName",
            "cannot be set until all schedulingGates have been cleared",
        ));
    }
    errors
}

/// What a kubelet writes on the pods that it has from files.
const MIRROR_POD: &str = "kubernetes.io/config.mirror";

/// What holds for a pod at any time.
fn metadata_and_spec(pod: &Value) -> Errors {
    let spec = child(pod, "spec");
    let mut errors = Errors::new();
    let mirrored = text(child(child(pod, "metadata"), "annotations"), MIRROR_POD);
    if !mirrored.is_empty() && text(spec, "nodeName").is_empty() {
        let why = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(FieldError::invalid(format!("metadata.annotations[{MIRROR_POD}]"), mirrored, why));
    }
    errors.extend(pod_spec(spec, "spec", Some(child(pod, "metadata"))));
    if text(spec, "serviceAccountName").is_empty() {
        for (at, volume) in list(spec, "volumes").iter().enumerate() {
            for (part, source) in list(child(volume, "projected"), "sources").iter().enumerate() {
                if has(source, "serviceAccountToken") {
                    let path = format!("spec.volumes[{at}].projected.sources[{part}].serviceAccountToken");
                    errors.push(FieldError::forbidden(
                        path,
                        "must not be specified when serviceAccountName is not set",
                    ));
                }
            }
        }
    }
    for name in ["containers", "initContainers"] {
        for (at, container) in list(spec, name).iter().enumerate() {
            let image = text(container, "image");
            if image.trim().len() != image.len() {
                let path = field(&index(&field("spec", name), at), "image");
                errors.push(FieldError::invalid(path, image, "must not have leading or trailing whitespace"));
            }
        }
    }
    errors
}

/// A template in a workload.
pub fn pod_template_spec(template: &Value, path: &str) -> Errors {
    let meta = child(template, "metadata");
    let mut errors = metadata::labels(child(meta, "labels"), &field(path, "labels"));
    errors.extend(metadata::annotations(child(meta, "annotations"), &field(path, "annotations")));
    errors.extend(pod_spec(child(template, "spec"), &field(path, "spec"), None));
    if !list(child(template, "spec"), "ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(field(&field(path, "spec"), "ephemeralContainers"), detail));
    }
    errors
}

/// A pod spec. `meta` is given for real pods.
pub fn pod_spec(spec: &Value, path: &str, meta: Option<&Value>) -> Errors {
    let (mut errors, volumes) = volumes::volumes(spec, &field(path, "volumes"), meta);
    errors.extend(containers::containers(spec, path, &volumes));
    errors.extend(containers::init_containers(spec, path, &volumes));
    errors.extend(ephemeral::ephemeral_containers(spec, path, &volumes));
    errors.extend(host_network(spec, path, meta.is_some()));
    one_of(&mut errors, spec, "restartPolicy", path, &["Always", "OnFailure", "Never"]);
    one_of(
        &mut errors,
        spec,
        "dnsPolicy",
        path,
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    errors.extend(metadata::labels(child(spec, "nodeSelector"), &field(path, "nodeSelector")));
    errors.extend(security::pod_security_context(spec, &field(path, "securityContext")));
    errors.extend(image_pull_secrets(spec, &field(path, "imagePullSecrets")));
    errors.extend(affinity::affinity(child(spec, "affinity"), &field(path, "affinity")));
    errors.extend(dns_config(spec, &field(path, "dnsConfig")));
    errors.extend(scheduling::gates(spec, path));
    errors.extend(scheduling::topology_spread(spec, &field(path, "topologySpreadConstraints")));
    errors.extend(names_in_spec(spec, path));
    errors.extend(scheduling::tolerations(list(spec, "tolerations"), &field(path, "tolerations")));
    errors.extend(host_aliases(spec, &field(path, "hostAliases")));
    for name in ["priorityClassName", "runtimeClassName"] {
        let value = text(spec, name);
        if !value.is_empty() {
            invalid_each(&mut errors, &field(path, name), value, names::dns1123_subdomain(value));
        }
    }
    super::values::one_of_if_set(
        &mut errors,
        spec,
        "preemptionPolicy",
        path,
        &["Never", "PreemptLowerPriority"],
    );
    errors.extend(security::os(spec, path));
    errors
}

fn names_in_spec(spec: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    for name in ["serviceAccountName", "nodeName"] {
        let value = text(spec, name);
        if !value.is_empty() {
            invalid_each(&mut errors, &field(path, name), value, names::dns1123_subdomain(value));
        }
    }
    if let Some(seconds) = opt_int(spec, "activeDeadlineSeconds")
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let detail = names::inclusive_range(1, i64::from(i32::MAX));
        errors.push(FieldError::invalid(field(path, "activeDeadlineSeconds"), seconds, detail));
    }
    for name in ["hostname", "subdomain"] {
        let value = text(spec, name);
        if !value.is_empty() {
            invalid_each(&mut errors, &field(path, name), value, names::dns1123_label(value));
        }
    }
    errors
}

/// With the host's network, a container's port is the host's.
fn host_network(spec: &Value, path: &str, is_pod: bool) -> Errors {
    let mut errors = Errors::new();
    if !flag(spec, "hostNetwork") {
        return errors;
    }
    for name in ["containers", "initContainers"] {
        for (at, container) in list(spec, name).iter().enumerate() {
            for (number, port) in list(container, "ports").iter().enumerate() {
                let (host, own) = (int(port, "hostPort"), int(port, "containerPort"));
                // A template may leave it out: the pod gets it by default.
                if (is_pod || host != 0) && host != own {
                    let path =
                        field(&index(&field(&index(&field(path, name), at), "ports"), number), "hostPort");
                    errors.push(FieldError::invalid(
                        path,
                        host,
                        "must match `containerPort` when `hostNetwork` is true",
                    ));
                }
            }
        }
    }
    errors
}

fn image_pull_secrets(spec: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    for (at, secret) in list(spec, "imagePullSecrets").iter().enumerate() {
        let others = secret.as_object().is_some_and(|fields| fields.keys().any(|key| key != "name"));
        if others {
            let shown =
                go_syntax::raw(format!("core.LocalObjectReference{{Name:{:?}}}", text(secret, "name")));
            errors.push(FieldError::invalid(index(path, at), shown, "only name may be set"));
        }
    }
    errors
}

/// Most nameservers that resolv.conf takes.
const MAX_DNS_NAMESERVERS: usize = 3;
/// Most search domains.
const MAX_DNS_SEARCH_PATHS: usize = 32;

fn dns_config(spec: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    let config = child(spec, "dnsConfig");
    let servers = texts(config, "nameservers");
    if text(spec, "dnsPolicy") == "None" {
        if config.is_null() {
            errors.push(FieldError::required(path, "must provide `dnsConfig` when `dnsPolicy` is None"));
            return errors;
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.push(FieldError::required(field(path, "nameservers"), detail));
            return errors;
        }
    }
    if servers.len() > MAX_DNS_NAMESERVERS {
        let shown = go_syntax::raw(go_syntax::strings("[]string", &servers));
        let detail = format!("must not have more than {MAX_DNS_NAMESERVERS} nameservers");
        errors.push(FieldError::invalid(field(path, "nameservers"), shown, detail));
    }
    for (at, server) in servers.iter().enumerate() {
        net::ip(&mut errors, server, &index(&field(path, "nameservers"), at));
    }
    let searches = texts(config, "searches");
    if searches.len() > MAX_DNS_SEARCH_PATHS {
        let shown = go_syntax::raw(go_syntax::strings("[]string", &searches));
        let detail = format!("must not have more than {MAX_DNS_SEARCH_PATHS} search paths");
        errors.push(FieldError::invalid(field(path, "searches"), shown, detail));
    }
    for (at, search) in searches.iter().enumerate() {
        let name = search.strip_suffix('.').unwrap_or(search);
        if !name.is_empty() || search.is_empty() {
            invalid_each(
                &mut errors,
                &index(&field(path, "searches"), at),
                search,
                names::dns1123_subdomain(name),
            );
        }
    }
    for (at, option) in list(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.push(FieldError::required(index(&field(path, "options"), at), "must not be empty"));
        }
    }
    errors
}

fn host_aliases(spec: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    for (at, alias) in list(spec, "hostAliases").iter().enumerate() {
        let path = index(path, at);
        net::ip(&mut errors, text(alias, "ip"), &field(&path, "ip"));
        for hostname in texts(alias, "hostnames") {
            invalid_each(
                &mut errors,
                &field(&path, "hostnames"),
                hostname,
                names::dns1123_subdomain(hostname),
            );
        }
    }
    errors
}
