//! Ingresses.
//!
//! # In Kubernetes
//! `pkg/apis/networking/validation/validation.go`. Left out: v1beta1.

use serde_json::Value;

use crate::validation::fields::{at, child, has, int, list, text, texts};
use crate::validation::values::required;
use crate::validation::{Errors, FieldError, field, index, invalid_each, names};

const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];
const BAD_SEQUENCES: &[&str] = &["//", "/./", "/../", "%2f", "%2F"];
const BAD_SUFFIXES: &[&str] = &["/..", "/."];

/// Ingress. A new one may not have the old annotation and the new field at once if they differ.
pub fn ingress(value: &Value) -> Errors {
    let mut errors = Errors::new();
    let class = text(child(value, "spec"), "ingressClassName");
    let annotation = at(value, "/metadata/annotations/kubernetes.io~1ingress.class").as_str();
    if has(child(value, "spec"), "ingressClassName")
        && let Some(old) = annotation.filter(|old| *old != class)
    {
        let detail = "must match `ingressClassName` when both are specified";
        errors.push(FieldError::invalid("annotations.kubernetes.io/ingress.class", old, detail));
    }
    errors.extend(ingress_spec(value));
    errors
}

/// A changed Ingress.
pub fn ingress_update(new: &Value, _: &Value) -> Errors {
    ingress_spec(new)
}

fn ingress_spec(value: &Value) -> Errors {
    let spec = child(value, "spec");
    let mut errors = Errors::new();
    if list(spec, "rules").is_empty() && !has(spec, "defaultBackend") {
        errors.push(FieldError::invalid(
            "spec",
            crate::validation::go_syntax::raw(spec.to_string()),
            "either `defaultBackend` or `rules` must be specified",
        ));
    }
    if has(spec, "defaultBackend") {
        backend(&mut errors, child(spec, "defaultBackend"), "spec.defaultBackend");
    }
    for (at, rule) in list(spec, "rules").iter().enumerate() {
        let path = index("spec.rules", at);
        host(&mut errors, text(rule, "host"), &field(&path, "host"));
        if has(rule, "http") {
            paths(&mut errors, child(rule, "http"), &field(&path, "http"));
        }
    }
    for (at, tls) in list(spec, "tls").iter().enumerate() {
        let path = index("spec.tls", at);
        for (number, host) in texts(tls, "hosts").into_iter().enumerate() {
            let rule = if host.contains('*') {
                names::wildcard_dns1123_subdomain(host)
            } else {
                names::dns1123_subdomain(host)
            };
            invalid_each(&mut errors, &index(&field(&path, "hosts"), number), host, rule);
        }
        let secret = text(tls, "secretName");
        if !secret.is_empty() {
            invalid_each(&mut errors, &field(&path, "secretName"), secret, names::dns1123_subdomain(secret));
        }
    }
    let class = text(spec, "ingressClassName");
    if has(spec, "ingressClassName") {
        invalid_each(&mut errors, "spec.ingressClassName", class, names::dns1123_subdomain(class));
    }
    errors
}

fn host(errors: &mut Errors, host: &str, path: &str) {
    if host.is_empty() {
        return;
    }
    if host.parse::<std::net::IpAddr>().is_ok() {
        errors.push(FieldError::invalid(path, host, "must be a DNS name, not an IP address"));
    }
    let rule = if host.contains('*') {
        names::wildcard_dns1123_subdomain(host)
    } else {
        names::dns1123_subdomain(host)
    };
    invalid_each(errors, path, host, rule);
}

fn paths(errors: &mut Errors, http: &Value, path: &str) {
    let path = field(path, "paths");
    if list(http, "paths").is_empty() {
        errors.push(FieldError::required(&path, ""));
    }
    for (at, one) in list(http, "paths").iter().enumerate() {
        let idx = index(&path, at);
        let (kind, target) = (text(one, "pathType"), text(one, "path"));
        let at = field(&idx, "path");
        match kind {
            "" => errors.push(FieldError::required(field(&idx, "pathType"), "pathType must be specified")),
            "Exact" | "Prefix" => {
                if !target.starts_with('/') {
                    errors.push(FieldError::invalid(&at, target, "must be an absolute path"));
                }
                if !target.is_empty() {
                    for bad in BAD_SEQUENCES.iter().filter(|bad| target.contains(**bad)) {
                        errors.push(FieldError::invalid(&at, target, format!("must not contain '{bad}'")));
                    }
                    for bad in BAD_SUFFIXES.iter().filter(|bad| target.ends_with(**bad)) {
                        errors.push(FieldError::invalid(&at, target, format!("cannot end with '{bad}'")));
                    }
                }
            }
            "ImplementationSpecific" => {
                if !target.is_empty() && !target.starts_with('/') {
                    errors.push(FieldError::invalid(&at, target, "must be an absolute path"));
                }
            }
            other => errors.push(FieldError::not_supported(field(&idx, "pathType"), other, PATH_TYPES)),
        }
        backend(errors, child(one, "backend"), &field(&idx, "backend"));
    }
}

fn backend(errors: &mut Errors, backend: &Value, path: &str) {
    let (service, resource) = (child(backend, "service"), child(backend, "resource"));
    match (service.is_null(), resource.is_null()) {
        (false, false) => {
            errors.push(FieldError::invalid(path, "", "cannot set both resource and service backends"));
        }
        (true, true) => errors.push(FieldError::required(path, "port name or number is required")),
        (true, false) => {
            required(errors, resource, "kind", &field(path, "resource"));
            required(errors, resource, "name", &field(path, "resource"));
        }
        (false, true) => {
            let name = text(service, "name");
            if name.is_empty() {
                errors.push(FieldError::required(field(path, "service.name"), ""));
            } else {
                invalid_each(errors, &field(path, "service.name"), name, names::dns1035_label(name));
            }
            let port = child(service, "port");
            let (port_name, number) = (text(port, "name"), int(port, "number"));
            match (port_name.is_empty(), number == 0) {
                (false, false) => {
                    errors.push(FieldError::invalid(path, "", "cannot set both port name & port number"))
                }
                (true, true) => errors.push(FieldError::required(path, "port name or number is required")),
                (false, true) => invalid_each(
                    errors,
                    &field(path, "service.port.name"),
                    port_name,
                    names::port_name(port_name),
                ),
                (true, false) => {
                    let at = field(path, "service.port.number");
                    errors.extend(
                        names::port_number(number).into_iter().map(|m| FieldError::invalid(&at, number, m)),
                    );
                }
            }
        }
    }
}
