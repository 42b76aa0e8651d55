//! Affinity: which nodes and which neighbours.
//!
//! # In Kubernetes
//! `validateAffinity`, `validatePodAffinityTerm`.

use serde_json::Value;

use crate::validation::fields::{child, has, int, list, text, texts};
use crate::validation::{Errors, FieldError, field, index, invalid_each, names, selector};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// `affinity`; nothing if it is absent.
pub fn affinity(affinity: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    let nodes = child(affinity, "nodeAffinity");
    let node_path = field(path, "nodeAffinity");
    if has(nodes, REQUIRED) {
        errors.extend(selector::node_selector(child(nodes, REQUIRED), &field(&node_path, REQUIRED)));
    }
    for (at, term) in list(nodes, PREFERRED).iter().enumerate() {
        let path = index(&field(&node_path, PREFERRED), at);
        weight(&mut errors, term, &path);
        errors.extend(selector::node_selector_term(child(term, "preference"), &field(&path, "preference")));
    }
    for name in ["podAffinity", "podAntiAffinity"] {
        let (pods, path) = (child(affinity, name), field(path, name));
        for (at, term) in list(pods, REQUIRED).iter().enumerate() {
            pod_term(&mut errors, term, &index(&field(&path, REQUIRED), at));
        }
        for (at, weighted) in list(pods, PREFERRED).iter().enumerate() {
            let path = index(&field(&path, PREFERRED), at);
            weight(&mut errors, weighted, &path);
            pod_term(&mut errors, child(weighted, "podAffinityTerm"), &field(&path, "podAffinityTerm"));
        }
    }
    errors
}

fn weight(errors: &mut Errors, term: &Value, path: &str) {
    let weight = int(term, "weight");
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid(field(path, "weight"), weight, "must be in the range 1-100"));
    }
}

fn pod_term(errors: &mut Errors, term: &Value, path: &str) {
    for name in ["labelSelector", "namespaceSelector"] {
        errors.extend(selector::label_selector(child(term, name), &field(path, name)));
    }
    for namespace in texts(term, "namespaces") {
        invalid_each(errors, &field(path, "namespace"), namespace, names::dns1123_label(namespace));
    }
    for name in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = texts(term, name);
        if !keys.is_empty() && !has(term, "labelSelector") {
            errors.push(FieldError::forbidden(
                field(path, name),
                "must not be specified when labelSelector is not set",
            ));
        }
        for (at, key) in keys.into_iter().enumerate() {
            invalid_each(errors, &index(&field(path, name), at), key, names::qualified_name(key));
        }
    }
    let key = text(term, "topologyKey");
    if key.is_empty() {
        errors.push(FieldError::required(field(path, "topologyKey"), "can not be empty"));
    }
    invalid_each(errors, &field(path, "topologyKey"), key, names::qualified_name(key));
}
