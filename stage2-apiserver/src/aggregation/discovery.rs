//! Discovery of other servers' groups, in the same documents as ours.
//!
//! Which groups and versions there are, the APIServices say; what is in them, the servers said when they were last asked. A server that is
//! away keeps its place, marked as stale: clients should know that there is something which they don't see.
//!
//! # In Kubernetes
//! `kube-aggregator/pkg/apiserver/{handler_apis,handler_discovery}.go`. Left out: the order of groups by their priority among ours: others
//! come after all of ours.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use stage1_kubectl::object::Object;

use super::{Aggregator, GROUP, is_remote};
use crate::admission::ObjectReader;
use crate::registry::Catalog;

/// One version of a group that another server answers.
#[derive(Debug, Clone)]
pub struct RemoteVersion {
    group: String,
    version: String,
    /// Higher groups come first, then higher versions.
    priorities: (i64, i64),
    available: bool,
    resources: Option<Arc<Value>>,
}

impl Aggregator {
    /// All versions of all groups that others answer, in the order of discovery.
    pub fn versions(&self, reader: &dyn ObjectReader, catalog: &Catalog) -> Vec<RemoteVersion> {
        let known = self.known.lock();
        let services = reader.list(GROUP, "apiservices", "");
        let ours = catalog.groups();
        let mut found: Vec<RemoteVersion> = services
            .iter()
            .filter(|service| {
                is_remote(service) && !ours.contains(&service.get_str("/spec/group").unwrap_or(""))
            })
            .map(|service| RemoteVersion {
                group: service.get_str("/spec/group").unwrap_or("").to_owned(),
                version: service.get_str("/spec/version").unwrap_or("").to_owned(),
                priorities: (
                    service.get_i64("/spec/groupPriorityMinimum").unwrap_or(0),
                    service.get_i64("/spec/versionPriority").unwrap_or(0),
                ),
                available: is_available(service),
                resources: known.get(service.name()).cloned(),
            })
            .collect();
        found.sort_by(|a, b| {
            let key = |one: &RemoteVersion| {
                (-one.priorities.0, one.group.clone(), -one.priorities.1, one.version.clone())
            };
            key(a).cmp(&key(b))
        });
        found
    }
}

/// What the condition says.
fn is_available(service: &Object) -> bool {
    let conditions = service.get("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|one| one["type"] == "Available" && one["status"] == "True")
}

/// Names of the groups, each once.
pub fn groups(versions: &[RemoteVersion]) -> Vec<&str> {
    let mut names: Vec<&str> = versions.iter().map(|one| one.group.as_str()).collect();
    names.dedup();
    names
}

/// `/apis/GROUP` and its versions, as paths.
pub fn paths(versions: &[RemoteVersion]) -> Vec<String> {
    let of_groups = groups(versions).into_iter().map(|group| format!("/apis/{group}"));
    of_groups.chain(versions.iter().map(|one| format!("/apis/{}/{}", one.group, one.version))).collect()
}

/// A group's entry in `/apis`; `None` for a group that nobody else answers.
pub fn group(versions: &[RemoteVersion], group: &str) -> Option<Map<String, Value>> {
    let entry = |one: &RemoteVersion| json!({ "groupVersion": format!("{group}/{}", one.version), "version": one.version });
    let entries: Vec<Value> = versions.iter().filter(|one| one.group == group).map(entry).collect();
    let first = entries.first()?.clone();
    let mut body = Map::new();
    body.insert("name".into(), json!(group));
    body.insert("preferredVersion".into(), first);
    body.insert("versions".into(), json!(entries));
    Some(body)
}

/// `/apis/GROUP` as a document.
pub fn group_document(versions: &[RemoteVersion], name: &str) -> Option<Value> {
    let mut body = group(versions, name)?;
    body.insert("kind".into(), json!("APIGroup"));
    body.insert("apiVersion".into(), json!("v1"));
    Some(Value::Object(body))
}

/// A group's item in the aggregated document.
pub fn aggregated_group(versions: &[RemoteVersion], group: &str) -> Value {
    let shown: Vec<Value> = versions
        .iter()
        .filter(|one| one.group == group)
        .map(|one| {
            let listed = one.resources.as_ref().and_then(|list| list["resources"].as_array());
            let is_current = one.available && listed.is_some();
            json!({
                "version": one.version,
                "resources": aggregated_resources(listed.map_or(&[], Vec::as_slice)),
                "freshness": if is_current { "Current" } else { "Stale" },
            })
        })
        .collect();
    json!({ "metadata": { "name": group, "creationTimestamp": null }, "versions": shown })
}

/// The entries of a resource list in the newer form: subresources within their resource.
fn aggregated_resources(list: &[Value]) -> Vec<Value> {
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or("").to_owned();
    let kind = |entry: &Value| json!({ "group": text(entry, "group"), "version": text(entry, "version"), "kind": text(entry, "kind") });
    let mut resources: Vec<Value> = Vec::new();
    for entry in list.iter().filter(|entry| !text(entry, "name").contains('/')) {
        let name = text(entry, "name");
        let mut shown = json!({
            "resource": name,
            "responseKind": kind(entry),
            "scope": if entry["namespaced"] == true { "Namespaced" } else { "Cluster" },
            "singularResource": text(entry, "singularName"),
            "verbs": entry["verbs"],
        });
        for extra in ["shortNames", "categories"].into_iter().filter(|extra| entry[extra].is_array()) {
            shown[extra] = entry[extra].clone();
        }
        let of_it = |part: &Value| {
            text(part, "name").split_once('/').filter(|(of, _)| *of == name).map(|(_, sub)| sub.to_owned())
        };
        let parts: Vec<Value> = list
            .iter()
            .filter_map(|part| Some(json!({ "subresource": of_it(part)?, "responseKind": kind(part), "verbs": part["verbs"] })))
            .collect();
        if !parts.is_empty() {
            shown["subresources"] = json!(parts);
        }
        resources.push(shown);
    }
    resources
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_list_becomes_the_newer_form() {
        let list = json!({ "resources": [
            { "name": "nodes", "singularName": "", "namespaced": false, "kind": "NodeMetrics", "verbs": ["get", "list"] },
            { "name": "nodes/proxy", "singularName": "", "namespaced": false, "kind": "NodeProxy", "verbs": ["get"] },
        ]});
        let one = |available| RemoteVersion {
            group: "metrics.k8s.io".into(),
            version: "v1beta1".into(),
            priorities: (100, 100),
            available,
            resources: Some(Arc::new(list.clone())),
        };
        let shown = aggregated_group(&[one(true)], "metrics.k8s.io");
        let kind = |kind: &str| json!({ "group": "", "version": "", "kind": kind });
        let resource = json!({
            "resource": "nodes", "responseKind": kind("NodeMetrics"), "scope": "Cluster", "singularResource": "", "verbs": ["get", "list"],
            "subresources": [{ "subresource": "proxy", "responseKind": kind("NodeProxy"), "verbs": ["get"] }],
        });
        assert_eq!(
            shown["versions"],
            json!([{ "version": "v1beta1", "resources": [resource], "freshness": "Current" }])
        );
        assert_eq!(aggregated_group(&[one(false)], "metrics.k8s.io")["versions"][0]["freshness"], "Stale");
        assert_eq!(paths(&[one(true)]), ["/apis/metrics.k8s.io", "/apis/metrics.k8s.io/v1beta1"]);
    }
}
