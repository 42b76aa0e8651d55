//! Existing pods: what a namespace's new level would have refused.
//!
//! A level that is raised changes nothing about the pods that run; they will be refused when they are made again, maybe at night. So whoever
//! raises it is warned now, which makes `kubectl label --dry-run=server` a question: what would happen?
//!
//! # In Kubernetes
//! `EvaluatePodsInNamespace` in `pod-security-admission/admission/admission.go`. Left out: pods of different controllers first when there are
//! too many.

use std::sync::Arc;

use stage1_kubectl::object::Object;

use super::{controls, level_of};
use crate::validation::fields::child;

/// Pods that are looked at.
const MAX_PODS: usize = 3000;

/// What to warn of when a namespace changes from `old` to `new`.
pub fn warnings(new: &Object, old: &Object, pods: &[Arc<Object>]) -> Vec<String> {
    let rank =
        |level: &str| ["privileged", "baseline", "restricted"].iter().position(|known| *known == level);
    let (level, before) = (level_of(new, "enforce"), level_of(old, "enforce"));
    if rank(&level) <= rank(&before) {
        return Vec::new();
    }
    // What is wrong, with which pod first, and with how many.
    let mut found: Vec<(String, &str, usize)> = Vec::new();
    for pod in pods.iter().take(MAX_PODS) {
        let violations = controls::violations(&level, child(pod.as_value(), "spec"));
        if violations.is_empty() {
            continue;
        }
        let reasons: Vec<&str> = violations.iter().map(|why| why.split(" (").next().unwrap_or(why)).collect();
        let reasons = reasons.join(", ");
        match found.iter_mut().find(|(known, ..)| *known == reasons) {
            Some((_, _, count)) => *count += 1,
            None => found.push((reasons, pod.name(), 1)),
        }
    }
    let mut lines: Vec<String> =
        found.into_iter().map(|(reasons, name, count)| line(name, count, &reasons)).collect();
    lines.sort();
    let mut warnings = Vec::new();
    if pods.len() > MAX_PODS {
        let (checked, all) = (MAX_PODS, pods.len());
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {all} existing pods"
        ));
    }
    if !lines.is_empty() {
        let name = new.name();
        warnings.push(format!(
            "existing pods in namespace {name:?} violate the new PodSecurity enforce level \"{level}:latest\""
        ));
    }
    [warnings, lines].concat()
}

fn line(name: &str, count: usize, reasons: &str) -> String {
    match count {
        1 => format!("{name}: {reasons}"),
        2 => format!("{name} (and 1 other pod): {reasons}"),
        _ => format!("{name} (and {} other pods): {reasons}", count - 1),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_that_a_higher_level_would_refuse_are_named_by_what_is_wrong() {
        let namespace = |level: &str| {
            let labels = json!({ "pod-security.kubernetes.io/enforce": level });
            Object::from_value(json!({ "metadata": { "name": "n", "labels": labels } })).expect("a map")
        };
        let pod = |name: &str, spec: serde_json::Value| {
            Arc::new(
                Object::from_value(json!({ "metadata": { "name": name }, "spec": spec })).expect("a map"),
            )
        };
        let host = json!({ "hostNetwork": true, "containers": [{ "name": "c" }] });
        let pods =
            [pod("b", host.clone()), pod("c", host), pod("a", json!({ "containers": [{ "name": "c" }] }))];
        let said = warnings(&namespace("baseline"), &namespace("privileged"), &pods);
        assert_eq!(
            said,
            [
                "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
                "b (and 1 other pod): host namespaces",
            ]
        );
        assert!(warnings(&namespace("baseline"), &namespace("restricted"), &pods).is_empty());
        assert_eq!(warnings(&namespace("restricted"), &namespace("baseline"), &pods).len(), 3);
    }
}
