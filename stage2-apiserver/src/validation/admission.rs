//! Webhook configurations and admission policies.
//!
//! They are objects like others, kept and listed; that a wrong one is refused now saves whoever writes it a search later.
//!
//! # In Kubernetes
//! `pkg/apis/admissionregistration/validation/validation.go`. Left out: the estimate of what an expression may cost.

pub mod expressions;

use serde_json::Value;

use super::fields::{child, has, list, opt_int, text, texts};
use super::values::{one_of_if_set, required};
use super::{Errors, FieldError, field, go_syntax, index, invalid_each, names, selector};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// Versions of AdmissionReview.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// ValidatingWebhookConfiguration and MutatingWebhookConfiguration.
pub fn webhook_configuration(value: &Value) -> Errors {
    let mut errors = Errors::new();
    let mut seen: Vec<&str> = Vec::new();
    for (at, hook) in list(value, "webhooks").iter().enumerate() {
        let path = index("webhooks", at);
        webhook(&mut errors, hook, &path);
        review_versions(&mut errors, hook, &path);
        let name = text(hook, "name");
        if !name.is_empty() && seen.contains(&name) {
            errors.push(FieldError::duplicate(field(&path, "name"), name));
        }
        seen.push(name);
    }
    errors
}

fn webhook(errors: &mut Errors, hook: &Value, path: &str) {
    fully_qualified_name(errors, text(hook, "name"), &field(path, "name"));
    for (at, rule) in list(hook, "rules").iter().enumerate() {
        rule_with_operations(errors, rule, &index(&field(path, "rules"), at));
    }
    one_of_if_set(errors, hook, "failurePolicy", path, &["Fail", "Ignore"]);
    one_of_if_set(errors, hook, "matchPolicy", path, &["Equivalent", "Exact"]);
    match has(hook, "sideEffects") {
        true => one_of_if_set(errors, hook, "sideEffects", path, &["None", "NoneOnDryRun"]),
        false => errors
            .push(FieldError::required(field(path, "sideEffects"), "must specify one of None, NoneOnDryRun")),
    }
    if let Some(seconds) = opt_int(hook, "timeoutSeconds").filter(|s| !(1..=30).contains(s)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(field(path, "timeoutSeconds"), seconds, why));
    }
    for chosen in ["namespaceSelector", "objectSelector"] {
        errors.extend(selector::label_selector(child(hook, chosen), &field(path, chosen)));
    }
    client_config(errors, child(hook, "clientConfig"), &field(path, "clientConfig"));
    one_of_if_set(errors, hook, "reinvocationPolicy", path, &["IfNeeded", "Never"]);
    expressions::match_conditions(errors, hook, path, false);
}

/// A name of three parts, as every webhook has.
fn fully_qualified_name(errors: &mut Errors, name: &str, path: &str) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let messages = names::dns1123_subdomain(name);
    if !messages.is_empty() {
        return invalid_each(errors, path, name, messages);
    }
    if name.split('.').count() < 3 {
        errors.push(FieldError::invalid(
            path,
            name,
            "should be a domain with at least three segments separated by dots",
        ));
    }
}

/// Where a webhook is: a URL or a Service.
pub(super) fn client_config(errors: &mut Errors, config: &Value, path: &str) {
    let service = child(config, "service");
    if has(config, "url") == has(config, "service") {
        errors.push(FieldError::required(path, "exactly one of url or service is required"));
    } else if has(config, "url") {
        webhook_url(errors, text(config, "url"), &field(path, "url"));
    } else {
        let path = field(path, "service");
        for (name, why) in
            [("name", "service name is required"), ("namespace", "service namespace is required")]
        {
            if text(service, name).is_empty() {
                errors.push(FieldError::required(field(&path, name), why));
            }
        }
        if let Some(port) = opt_int(service, "port") {
            for why in names::port_number(port) {
                errors.push(FieldError::invalid(
                    field(&path, "port"),
                    port,
                    format!("port is not valid: {why}"),
                ));
            }
        }
    }
}

fn webhook_url(errors: &mut Errors, url: &str, path: &str) {
    const FORM: &str = "; desired format: https://host[/path]";
    let mut wrong =
        |value: &str, why: &str| errors.push(FieldError::invalid(path, value, format!("{why}{FORM}")));
    let Ok(parsed) = url.parse::<http::Uri>() else {
        return wrong(url, "url must be a valid URL");
    };
    let scheme = parsed.scheme_str().unwrap_or("");
    if scheme != "https" {
        wrong(scheme, "'https' is the only allowed URL scheme");
    }
    let authority = parsed.authority().map_or("", |a| a.as_str());
    if parsed.host().unwrap_or("").is_empty() {
        wrong("", "host must be specified");
    }
    if let Some((user, _)) = authority.rsplit_once('@') {
        wrong(user, "user information is not permitted in the URL");
    }
    if let Some(query) = parsed.query() {
        wrong(query, "query parameters are not permitted in the URL");
    }
}

fn review_versions(errors: &mut Errors, hook: &Value, path: &str) {
    let path = field(path, "admissionReviewVersions");
    let versions = texts(hook, "admissionReviewVersions");
    if versions.is_empty() {
        errors.push(FieldError::required(path, "must specify one of v1, v1beta1"));
        return;
    }
    for (at, version) in versions.iter().enumerate() {
        if versions[..at].contains(version) {
            errors.push(FieldError::invalid(index(&path, at), *version, "duplicate version"));
        }
        invalid_each(errors, &index(&path, at), version, names::dns1035_label(version));
    }
    if !versions.iter().any(|v| REVIEW_VERSIONS.contains(v)) {
        let shown = go_syntax::raw(go_syntax::strings("[]string", &versions));
        errors.push(FieldError::invalid(path, shown, "must include at least one of v1, v1beta1"));
    }
}

/// A list that must not be empty, and where the star stands alone.
fn with_wildcard(errors: &mut Errors, rule: &Value, name: &str, path: &str, type_name: &str, what: &str) {
    let (path, values) = (field(path, name), texts(rule, name));
    if values.is_empty() {
        errors.push(FieldError::required(&path, ""));
    }
    if values.len() > 1 && values.contains(&"*") {
        let shown = go_syntax::raw(go_syntax::strings(type_name, &values));
        let why = format!("if '*' is present, must not specify other {what}");
        errors.push(FieldError::invalid(&path, shown, why));
    }
}

fn rule_with_operations(errors: &mut Errors, rule: &Value, path: &str) {
    let operations = "[]admissionregistration.OperationType";
    with_wildcard(errors, rule, "operations", path, operations, "operations");
    for (at, operation) in texts(rule, "operations").iter().enumerate() {
        if !OPERATIONS.contains(operation) {
            let path = index(&field(path, "operations"), at);
            errors.push(FieldError::not_supported(path, *operation, &OPERATIONS));
        }
    }
    with_wildcard(errors, rule, "apiGroups", path, "[]string", "API groups");
    with_wildcard(errors, rule, "apiVersions", path, "[]string", "API versions");
    for (at, version) in texts(rule, "apiVersions").iter().enumerate() {
        if version.is_empty() {
            errors.push(FieldError::required(index(&field(path, "apiVersions"), at), ""));
        }
    }
    resources(errors, &texts(rule, "resources"), &field(path, "resources"));
    one_of_if_set(errors, rule, "scope", path, &["*", "Cluster", "Namespaced"]);
}

fn resources(errors: &mut Errors, resources: &[&str], path: &str) {
    if resources.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let (mut any_sub_of, mut sub_of_any): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for (at, whole) in resources.iter().enumerate() {
        if whole.is_empty() {
            errors.push(FieldError::required(index(path, at), ""));
            continue;
        }
        let Some((resource, sub)) = whole.split_once('/') else { continue };
        for (covered, by) in [
            (any_sub_of.contains(&resource), format!("{resource}/*")),
            (sub_of_any.contains(&sub), format!("*/{sub}")),
        ] {
            if covered {
                let why = format!("if '{by}' is present, must not specify {whole}");
                errors.push(FieldError::invalid(index(path, at), *whole, why));
            }
        }
        any_sub_of.extend((sub == "*").then_some(resource));
        sub_of_any.extend((resource == "*").then_some(sub));
    }
    let shown = || go_syntax::raw(go_syntax::strings("[]string", resources));
    if resources.len() > 1 && resources.contains(&"*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path, shown(), why));
    }
    if resources.contains(&"*") && resources.iter().any(|r| *r != "*" && !r.is_empty() && !r.contains('/')) {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, shown(), why));
    }
}

/// ValidatingAdmissionPolicy.
pub fn validating_admission_policy(value: &Value) -> Errors {
    let spec = child(value, "spec");
    let mut errors = Errors::new();
    one_of_if_set(&mut errors, spec, "failurePolicy", "spec", &["Fail", "Ignore"]);
    if has(spec, "paramKind") {
        let (path, kind) = ("spec.paramKind", child(spec, "paramKind"));
        for name in ["apiVersion", "kind"] {
            required(&mut errors, kind, name, path);
        }
    }
    match has(spec, "matchConstraints") {
        true => match_resources(&mut errors, child(spec, "matchConstraints"), "spec.matchConstraints"),
        false => errors.push(FieldError::required("spec.matchConstraints", "")),
    }
    expressions::of_policy(&mut errors, spec);
    errors
}

fn match_resources(errors: &mut Errors, constraints: &Value, path: &str) {
    if list(constraints, "resourceRules").is_empty() {
        errors.push(FieldError::required(field(path, "resourceRules"), ""));
    }
    for chosen in ["namespaceSelector", "objectSelector"] {
        errors.extend(selector::label_selector(child(constraints, chosen), &field(path, chosen)));
    }
    for name in ["resourceRules", "excludeResourceRules"] {
        for (at, rule) in list(constraints, name).iter().enumerate() {
            rule_with_operations(errors, rule, &index(&field(path, name), at));
        }
    }
    one_of_if_set(errors, constraints, "matchPolicy", path, &["Equivalent", "Exact"]);
}

/// ValidatingAdmissionPolicyBinding.
pub fn validating_admission_policy_binding(value: &Value) -> Errors {
    let spec = child(value, "spec");
    let mut errors = Errors::new();
    if text(spec, "policyName").is_empty() {
        errors.push(FieldError::required("spec.policyName", ""));
    } else {
        let name = text(spec, "policyName");
        invalid_each(&mut errors, "spec.policyName", name, names::dns1123_subdomain(name));
    }
    if has(spec, "matchResources") {
        let (path, chosen) = ("spec.matchResources", child(spec, "matchResources"));
        one_of_if_set(&mut errors, chosen, "matchPolicy", path, &["Equivalent", "Exact"]);
    }
    let actions = texts(spec, "validationActions");
    let path = "spec.validationActions";
    for (at, action) in actions.iter().enumerate() {
        if !["Audit", "Deny", "Warn"].contains(action) {
            errors.push(FieldError::not_supported(index(path, at), *action, &["Audit", "Deny", "Warn"]));
        }
        if actions[..at].contains(action) {
            errors.push(FieldError::duplicate(index(path, at), *action));
        }
    }
    if actions.contains(&"Deny") && actions.contains(&"Warn") {
        let shown = go_syntax::raw(go_syntax::strings("[]admissionregistration.ValidationAction", &actions));
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(FieldError::invalid(path, shown, why));
    }
    if actions.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    errors
}
