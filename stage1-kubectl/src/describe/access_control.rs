//! The pages of ServiceAccount, roles and their bindings.
//!
//! # In Kubernetes
//! `describeServiceAccount`, `RoleDescriber`, `RoleBindingDescriber` in `kubectl/pkg/describe/describe.go`; equal rules are
//! joined as `CompactRules` in `kubectl/pkg/util/rbac` does for rules of one resource, and sorted as Go prints them.

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
    for rule in compact(list(role, "/rules")) {
        doc.line(1, &rule.cells().join("\t"));
    }
}

/// A rule about one resource or path. Rules about the same thing are one line with all their verbs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    group: String,
    resource: String,
    name: Option<String>,
    url: Option<String>,
    verbs: Vec<String>,
}

impl Line {
    /// Resource, path, name, verbs.
    pub fn cells(&self) -> [String; 4] {
        let one = |text: &Option<String>| format!("[{}]", text.as_deref().unwrap_or_default());
        [
            qualified(&self.resource, &self.group),
            one(&self.url),
            one(&self.name),
            format!("[{}]", self.verbs.join(" ")),
        ]
    }

    /// The rule as Go prints it: what lists of rules are sorted by.
    fn go(&self) -> String {
        let list = |text: Option<&str>| format!("[{}]", text.unwrap_or_default());
        let of_resource = |text| list(Some(text).filter(|_| self.url.is_none()));
        format!(
            "Verbs:[{}],APIGroups:{},Resources:{},ResourceNames:{},NonResourceURLs:{},",
            self.verbs.join(" "),
            of_resource(self.group.as_str()),
            of_resource(self.resource.as_str()),
            list(self.name.as_deref()),
            list(self.url.as_deref())
        )
    }
}

/// Rules taken apart and put together again, in kubectl's order.
pub fn compact(rules: &[Value]) -> Vec<Line> {
    let words = |rule: &Value, pointer: &str| -> Vec<String> {
        list(rule, pointer).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut lines: Vec<Line> = Vec::new();
    for rule in rules {
        let names: Vec<Option<String>> = match words(rule, "/resourceNames") {
            none if none.is_empty() => vec![None],
            names => names.into_iter().map(Some).collect(),
        };
        for (group, resource) in words(rule, "/apiGroups")
            .iter()
            .flat_map(|group| words(rule, "/resources").into_iter().map(move |r| (group, r)))
        {
            for (name, verb) in
                names.iter().flat_map(|name| words(rule, "/verbs").into_iter().map(move |verb| (name, verb)))
            {
                let same = |line: &&mut Line| {
                    line.url.is_none()
                        && line.group == *group
                        && line.resource == resource
                        && line.name == *name
                };
                match lines.iter_mut().find(same) {
                    Some(line) if line.verbs.contains(&verb) => {}
                    Some(line) => line.verbs.push(verb),
                    None => lines.push(Line {
                        group: group.clone(),
                        resource: resource.clone(),
                        name: name.clone(),
                        url: None,
                        verbs: vec![verb],
                    }),
                }
            }
        }
        for url in words(rule, "/nonResourceURLs") {
            lines.extend(words(rule, "/verbs").into_iter().map(|verb| Line {
                group: String::new(),
                resource: String::new(),
                name: None,
                url: Some(url.clone()),
                verbs: vec![verb],
            }));
        }
    }
    lines.sort_by_key(Line::go);
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
