//! Probes and lifecycle hooks.
//!
//! # In Kubernetes
//! `validateProbe`, `validateHandler`, `validateLifecycle`.

use serde_json::Value;

use crate::validation::fields::{child, has, int, list, opt_int, text};
use crate::validation::values::{all_non_negative, one_of_if_set, port_number_or_name};
use crate::validation::{Errors, FieldError, field, invalid_each, names};

/// Hooks and probes of a container that may have them.
pub fn lifecycle_and_probes(container: &Value, path: &str, grace_period_seconds: Option<i64>) -> Errors {
    let mut errors = Errors::new();
    let lifecycle = child(container, "lifecycle");
    for name in ["postStart", "preStop"] {
        if has(lifecycle, name) {
            let path = field(&field(path, "lifecycle"), name);
            handler(&mut errors, child(lifecycle, name), &path, grace_period_seconds);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if has(container, name) {
            probe(&mut errors, child(container, name), &field(path, name), name);
        }
    }
    errors
}

fn probe(errors: &mut Errors, probe: &Value, path: &str, which: &str) {
    handler(errors, probe, path, None);
    let numbers =
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];
    all_non_negative(errors, probe, &numbers, path);
    let grace = opt_int(probe, "terminationGracePeriodSeconds");
    if let Some(seconds) = grace.filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid(
            field(path, "terminationGracePeriodSeconds"),
            seconds,
            "must be greater than 0",
        ));
    }
    if which == "readinessProbe" {
        if let Some(seconds) = grace {
            let detail = "must not be set for readinessProbes";
            errors.push(FieldError::invalid(field(path, "terminationGracePeriodSeconds"), seconds, detail));
        }
    } else if int(probe, "successThreshold") != 1 {
        errors.push(FieldError::invalid(
            field(path, "successThreshold"),
            int(probe, "successThreshold"),
            "must be 1",
        ));
    }
}

/// The one thing that a probe or hook does.
fn handler(errors: &mut Errors, handler: &Value, path: &str, grace_period_seconds: Option<i64>) {
    let mut given = 0;
    for name in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        if !has(handler, name) {
            continue;
        }
        given += 1;
        let (action, path) = (child(handler, name), field(path, name));
        if given > 1 {
            errors.push(FieldError::forbidden(path, "may not specify more than 1 handler type"));
            continue;
        }
        match name {
            "exec" if list(action, "command").is_empty() => {
                errors.push(FieldError::required(field(&path, "command"), ""))
            }
            "httpGet" => http_get(errors, action, &path),
            "tcpSocket" => port_number_or_name(errors, child(action, "port"), &field(&path, "port")),
            "grpc" => {
                let port = int(action, "port");
                errors.extend(
                    names::port_number(port)
                        .into_iter()
                        .map(|m| FieldError::invalid(field(&path, "port"), port, m)),
                );
            }
            "sleep" => sleep(errors, action, &path, grace_period_seconds),
            _ => {}
        }
    }
    if given == 0 {
        errors.push(FieldError::required(path, "must specify a handler type"));
    }
}

fn http_get(errors: &mut Errors, action: &Value, path: &str) {
    if text(action, "path").is_empty() {
        errors.push(FieldError::required(field(path, "path"), ""));
    }
    port_number_or_name(errors, child(action, "port"), &field(path, "port"));
    one_of_if_set(errors, action, "scheme", path, &["HTTP", "HTTPS"]);
    for header in list(action, "httpHeaders") {
        let name = text(header, "name");
        invalid_each(errors, &field(path, "httpHeaders"), name, names::http_header_name(name));
    }
}

fn sleep(errors: &mut Errors, action: &Value, path: &str, grace_period_seconds: Option<i64>) {
    let seconds = int(action, "seconds");
    let Some(grace) = grace_period_seconds else { return };
    if seconds < 0 || seconds > grace {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.push(FieldError::invalid(path, seconds, detail));
    }
}
