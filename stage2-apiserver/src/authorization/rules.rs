//! Policy rules: does one rule allow one request, and does one set of rules cover another?
//!
//! *Step 2 of a pod's journey.* Before: [`crate::authorization::rbac`] found the rules that apply to a user. After: yes or not.
//!
//! A rule is four lists that must all match (verbs, groups, resources, names), or two for paths. `*` is everything. `pods/log`
//! is a resource of its own that `pods` doesn't include; `*/scale` is the subresource of every resource; `pods/*` looks
//! as if it meant something and matches nothing.
//!
//! # In Kubernetes
//! `pkg/apis/rbac/v1/evaluation_helpers.go`; `component-helpers/auth/rbac/validation/{policy_comparator,policy_compact}.go`.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use stage1_kubectl::object::Object;
use stage1_kubectl::status::quote;

use super::Attributes;

// ANCHOR: policy-rule
/// One rule of a Role or ClusterRole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// What may be done.
    pub verbs: Vec<String>,
    /// To resources of these groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// To these resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// To those of these names; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// To these paths.
    #[serde(skip_serializing_if = "Vec::is_empty", rename = "nonResourceURLs")]
    pub non_resource_urls: Vec<String>,
}

impl PolicyRule {
    /// Whether the rule allows a request.
    pub fn allows(&self, asked: &Attributes) -> bool {
        if !matches_any(&self.verbs, &asked.verb) {
            return false;
        }
        if !asked.is_resource {
            return self.non_resource_urls.iter().any(|url| url_matches(url, &asked.path));
        }
        let names = &self.resource_names;
        matches_any(&self.api_groups, &asked.group)
            && self.resources.iter().any(|rule| resource_matches(rule, asked))
            && (names.is_empty() || names.contains(&asked.name))
    }
}
// ANCHOR_END: policy-rule

fn matches_any(list: &[String], value: &str) -> bool {
    list.iter().any(|entry| entry == "*" || entry == value)
}

fn resource_matches(rule: &str, asked: &Attributes) -> bool {
    let subresource = asked.subresource.as_str();
    match rule.split_once('/') {
        None => rule == "*" || (subresource.is_empty() && rule == asked.resource),
        Some((resource, sub)) => {
            !subresource.is_empty() && sub == subresource && (resource == "*" || resource == asked.resource)
        }
    }
}

fn url_matches(rule: &str, path: &str) -> bool {
    rule == path
        || rule.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix.trim_end_matches('*')))
}

/// The rules of a Role or ClusterRole; what can't be read counts as none.
pub fn rules_of(role: &Object) -> Vec<PolicyRule> {
    let rules = role.get("/rules").and_then(serde_json::Value::as_array);
    let read = |rule: &serde_json::Value| serde_json::from_value(rule.clone()).ok();
    rules.into_iter().flatten().filter_map(read).collect()
}

/// Single-right rules: one group, resource, name and verb each.
fn break_down(rule: &PolicyRule) -> Vec<PolicyRule> {
    let mut parts = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let part = PolicyRule {
                    verbs: vec![verb.clone()],
                    api_groups: vec![group.clone()],
                    resources: vec![resource.clone()],
                    ..PolicyRule::default()
                };
                if rule.resource_names.is_empty() {
                    parts.push(part);
                } else {
                    let named =
                        |name: &String| PolicyRule { resource_names: vec![name.clone()], ..part.clone() };
                    parts.extend(rule.resource_names.iter().map(named));
                }
            }
        }
    }
    for url in &rule.non_resource_urls {
        for verb in &rule.verbs {
            let (verbs, non_resource_urls) = (vec![verb.clone()], vec![url.clone()]);
            parts.push(PolicyRule { verbs, non_resource_urls, ..PolicyRule::default() });
        }
    }
    parts
}

/// Whether an owner's rule includes a single right.
fn covers(owner: &PolicyRule, part: &PolicyRule) -> bool {
    let all = |owner: &[String], part: &[String]| {
        owner.iter().any(|o| o == "*") || part.iter().all(|p| owner.contains(p))
    };
    let resource = |wanted: &String| {
        let sub = wanted.split_once('/').map(|(_, sub)| format!("*/{sub}"));
        owner.resources.iter().any(|o| o == "*" || o == wanted || Some(o) == sub.as_ref())
    };
    let url = |wanted: &String| owner.non_resource_urls.iter().any(|o| url_matches(o, wanted));
    let names = owner.resource_names.is_empty()
        || (!part.resource_names.is_empty() && all(&owner.resource_names, &part.resource_names));
    all(&owner.verbs, &part.verbs)
        && all(&owner.api_groups, &part.api_groups)
        && part.resources.iter().all(resource)
        && part.non_resource_urls.iter().all(url)
        && names
}

/// The rights in `wanted` that `owned` doesn't include, single ones joined by their verbs again.
pub fn missing(owned: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    let mut joined: Vec<PolicyRule> = Vec::new();
    let parts = wanted.iter().flat_map(break_down);
    for part in parts.filter(|part| !owned.iter().any(|owner| covers(owner, part))) {
        let same = |rule: &&mut PolicyRule| {
            !part.resources.is_empty()
                && (&rule.api_groups, &rule.resources, &rule.resource_names)
                    == (&part.api_groups, &part.resources, &part.resource_names)
        };
        match joined.iter_mut().find(same) {
            Some(rule) => rule.verbs.extend(part.verbs),
            None => joined.push(part),
        }
    }
    joined
}

/// The texts of rules, sorted, each once.
pub fn describe(rules: &[PolicyRule]) -> Vec<String> {
    rules.iter().map(ToString::to_string).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Go's `%q` of a list of strings.
pub fn quote_list(list: &[String]) -> String {
    format!("[{}]", list.iter().map(|s| quote(s)).collect::<Vec<_>>().join(" "))
}

impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let parts = parts.iter().filter(|(_, list)| !list.is_empty());
        let parts: Vec<String> = parts.map(|(name, list)| format!("{name}:{}", quote_list(list))).collect();
        write!(f, "{{{}}}", parts.join(", "))
    }
}
