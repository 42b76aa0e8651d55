//! The pages of ServiceAccount, roles and their bindings.
//!
//! # In Kubernetes
//! `describeServiceAccount`, `RoleDescriber`, `RoleBindingDescriber` in `kubectl/pkg/describe/describe.go`; equal rules are
//! joined as `validation.CompactRules` does for rules of one resource.

use serde_json::Value;

use super::access::{list, text};
use super::doc::Doc;
use super::{Answers, Query};
use crate::object::Object;

/// The secrets of the account's namespace: named ones may be missing, tokens name their account.
pub fn service_account_queries(account: &Object) -> Vec<Query> {
    vec![Query::new("", "v1", "secrets", account.namespace())]
}

/// A ServiceAccount's page without its events.
pub fn write_service_account(doc: &mut Doc, account: &Value, answers: &Answers) {
    doc.head(account);
    doc.labels_and_annotations(account);
    let secrets = answers.of("secrets");
    let named = |pointer: &str| -> Vec<String> {
        list(account, pointer)
            .iter()
            .map(|reference| text(reference, "/name"))
            .map(|name| {
                let found = secrets.iter().any(|secret| secret.name() == name);
                if found { name.to_owned() } else { format!("{name} (not found)") }
            })
            .collect()
    };
    let tokens: Vec<String> = secrets
        .iter()
        .filter(|secret| secret.get_str("/type") == Some("kubernetes.io/service-account-token"))
        .filter(|secret| {
            secret.annotation("kubernetes.io/service-account.name") == Some(text(account, "/metadata/name"))
                && secret.annotation("kubernetes.io/service-account.uid")
                    == Some(text(account, "/metadata/uid"))
        })
        .map(|secret| secret.name().to_owned())
        .collect();
    doc.multiline(0, "Image pull secrets", &named("/imagePullSecrets"));
    doc.multiline(0, "Mountable secrets", &named("/secrets"));
    doc.multiline(0, "Tokens", &tokens);
}

/// A Role's or ClusterRole's page.
pub fn write_role(doc: &mut Doc, role: &Value) {
    doc.field(0, "Name", text(role, "/metadata/name"));
    doc.labels_and_annotations(role);
    doc.line(0, "PolicyRule:");
    doc.line(1, "Resources\tNon-Resource URLs\tResource Names\tVerbs");
    doc.line(1, "---------\t-----------------\t--------------\t-----");
    for (key, verbs) in compact(list(role, "/rules")) {
        doc.line(1, &format!("{}\t[{}]\t[{}]\t[{}]", key.resource, key.urls, key.names, verbs.join(" ")));
    }
}

/// What a rule is about; rules about the same thing are one line with all their verbs.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct RuleKey {
    resource: String,
    urls: String,
    names: String,
}

fn compact(rules: &[Value]) -> Vec<(RuleKey, Vec<String>)> {
    let words = |rule: &Value, pointer: &str| -> Vec<String> {
        list(rule, pointer).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut lines: Vec<(RuleKey, Vec<String>)> = Vec::new();
    for rule in rules {
        let (urls, names) =
            (words(rule, "/nonResourceURLs").join(" "), words(rule, "/resourceNames").join(" "));
        let mut resources: Vec<String> = Vec::new();
        for group in words(rule, "/apiGroups") {
            resources
                .extend(words(rule, "/resources").into_iter().map(|resource| qualified(&resource, &group)));
        }
        if resources.is_empty() {
            resources.push(String::new());
        }
        for resource in resources {
            let key = RuleKey { resource, urls: urls.clone(), names: names.clone() };
            match lines.iter_mut().find(|(present, _)| *present == key) {
                Some((_, verbs)) => verbs.extend(words(rule, "/verbs")),
                None => lines.push((key, words(rule, "/verbs"))),
            }
        }
    }
    lines.sort_by(|a, b| a.0.cmp(&b.0));
    lines
}

/// `deployments.apps/scale`: the group belongs to the resource, the subresource comes last.
fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() {
        return resource.to_owned();
    }
    match resource.split_once('/') {
        Some((resource, subresource)) => format!("{resource}.{group}/{subresource}"),
        None => format!("{resource}.{group}"),
    }
}

/// A RoleBinding's or ClusterRoleBinding's page.
pub fn write_role_binding(doc: &mut Doc, binding: &Value) {
    doc.field(0, "Name", text(binding, "/metadata/name"));
    doc.labels_and_annotations(binding);
    doc.line(0, "Role:");
    doc.field(1, "Kind", text(binding, "/roleRef/kind"));
    doc.field(1, "Name", text(binding, "/roleRef/name"));
    doc.line(0, "Subjects:");
    doc.line(1, "Kind\tName\tNamespace");
    doc.line(1, "----\t----\t---------");
    for subject in list(binding, "/subjects") {
        let cells = ["/kind", "/name", "/namespace"].map(|pointer| text(subject, pointer));
        doc.line(1, &cells.join("\t"));
    }
}
