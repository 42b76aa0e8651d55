//! Discovery: what this server serves, as documents that clients build their REST mappers from.
//!
//! *Step 2 of a pod's journey.* Before: a client that has never seen this server. After: it knows that
//! `kubectl get deploy` means `GET /apis/apps/v1/deployments`.
//!
//! Everything is rendered from a [`Catalog`], the registry with the custom kinds of the moment; no document is written by hand. There are two generations: the old
//! one is a document per group and one per group version (kubectl up to 1.25, `kubectl get --raw`), the new one
//! is a single *aggregated* document for `/api` and one for `/apis`, asked for by an Accept header.
//!
//! The subtle thing is `storageVersionHash`: it tells the storage migrator in which version objects are stored, and two
//! resources with the same hash share their storage. It is a digest of a name, so it is computed here.
//!
//! # Invariants
//! 1. A verb is listed if and only if the server routes it.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/discovery/`, `…/discovery/aggregated/`. Groups of other servers are added by
//! [`crate::aggregation::discovery`].

use base64::Engine;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::negotiation::parse_accept;
use crate::registry::{Catalog, ResourceInfo, Subresource};

/// Which generation of documents a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// One document a group version.
    Legacy,
    /// The aggregated document; the version of `apidiscovery.k8s.io`.
    Aggregated(&'static str),
}

/// Reads the Accept header of `/api` and `/apis`.
pub fn generation(accept: Option<&str>) -> Generation {
    for wish in parse_accept(accept.unwrap_or("")) {
        match (wish.parameter("as"), wish.parameter("g"), wish.parameter("v")) {
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => return Generation::Aggregated("v2"),
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => {
                return Generation::Aggregated("v2beta1");
            }
            ("", _, _) if wish.media_type != "application/vnd.kubernetes.protobuf" => {
                return Generation::Legacy;
            }
            _ => {}
        }
    }
    Generation::Legacy
}

/// `/api`: the versions of the core group.
pub fn api_versions(server_address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": server_address }],
    })
}

/// `/apis`: all other groups.
pub fn api_group_list(catalog: &Catalog) -> Value {
    let groups: Vec<Value> =
        catalog.groups().iter().map(|group| Value::Object(group_body(catalog, group))).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// `/apis/GROUP`; `None` for a group that isn't served.
pub fn api_group(catalog: &Catalog, group: &str) -> Option<Value> {
    catalog.groups().contains(&group).then(|| {
        let mut body = group_body(catalog, group);
        body.insert("kind".into(), json!("APIGroup"));
        body.insert("apiVersion".into(), json!("v1"));
        Value::Object(body)
    })
}

fn group_body(catalog: &Catalog, group: &str) -> Map<String, Value> {
    let entry = |version: &&str| json!({ "groupVersion": format!("{group}/{version}"), "version": version });
    let versions: Vec<Value> = catalog.versions(group).iter().map(entry).collect();
    let mut body = Map::new();
    body.insert("name".into(), json!(group));
    body.insert("preferredVersion".into(), versions[0].clone());
    body.insert("versions".into(), json!(versions));
    body
}

// ANCHOR: api-resource-list
/// `/api/v1` or `/apis/GROUP/VERSION`; `None` for a group version that isn't served.
pub fn api_resource_list(catalog: &Catalog, group: &str, version: &str) -> Option<Value> {
    let mut resources: Vec<Value> = Vec::new();
    for info in catalog.all().filter(|i| i.group == group && i.version == version) {
        resources.push(resource_entry(info));
        resources.extend(info.subresources.iter().map(|sub| subresource_entry(info, sub)));
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    (!resources.is_empty()).then(|| {
        let mut list =
            json!({ "kind": "APIResourceList", "groupVersion": group_version, "resources": resources });
        // The core group's document is so old that it has no apiVersion.
        if !group.is_empty() {
            list["apiVersion"] = json!("v1");
        }
        list
    })
}
// ANCHOR_END: api-resource-list

fn resource_entry(info: &ResourceInfo) -> Value {
    let mut entry = json!({
        "name": info.resource,
        "singularName": info.singular,
        "namespaced": info.namespaced,
        "kind": info.kind,
        "verbs": info.verbs,
    });
    if !info.short_names.is_empty() {
        entry["shortNames"] = json!(info.short_names);
    }
    if !info.categories.is_empty() {
        entry["categories"] = json!(info.categories);
    }
    if let Some(storage) = info.storage {
        entry["storageVersionHash"] = json!(storage_version_hash(storage.group, storage.version, info.kind));
    }
    entry
}

fn subresource_entry(info: &ResourceInfo, sub: &Subresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", info.resource, sub.name),
        "singularName": "",
        "namespaced": info.namespaced,
        "kind": sub.kind.unwrap_or(info.kind),
        "verbs": sub.verbs,
    });
    if let Some((group, version)) = sub.group_version {
        entry["group"] = json!(group);
        entry["version"] = json!(version);
    }
    entry
}

/// Eight bytes of a digest of the stored group, version and kind.
pub fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    // Custom kinds say that they are stored as v1beta1, as Kubernetes' own server does.
    let version = if kind == "CustomResourceDefinition" { "v1beta1" } else { version };
    let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
    base64::engine::general_purpose::STANDARD.encode(&digest[..8])
}

// ANCHOR: aggregated-discovery
/// The aggregated document of `/api` (`core`) or `/apis`.
pub fn aggregated(catalog: &Catalog, core: bool, discovery_version: &str) -> Value {
    let groups = if core { vec![""] } else { catalog.groups() };
    let items: Vec<Value> = groups.iter().map(|group| aggregated_group(catalog, group)).collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{discovery_version}"),
        "metadata": {},
        "items": items,
    })
}
// ANCHOR_END: aggregated-discovery

fn aggregated_group(catalog: &Catalog, group: &str) -> Value {
    let mut metadata = json!({ "creationTimestamp": null });
    if !group.is_empty() {
        metadata["name"] = json!(group);
    }
    let versions: Vec<Value> = catalog
        .versions(group)
        .iter()
        .map(|version| {
            let resources: Vec<Value> = catalog
                .all()
                .filter(|i| i.group == group && i.version == *version)
                .map(aggregated_resource)
                .collect();
            json!({ "version": version, "resources": resources, "freshness": "Current" })
        })
        .collect();
    json!({ "metadata": metadata, "versions": versions })
}

fn aggregated_resource(info: &ResourceInfo) -> Value {
    let mut entry = json!({
        "resource": info.resource,
        "responseKind": response_kind(info, info.group, info.version, info.kind),
        "scope": if info.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": info.singular,
        "verbs": info.verbs,
    });
    if !info.short_names.is_empty() {
        entry["shortNames"] = json!(info.short_names);
    }
    if !info.categories.is_empty() {
        entry["categories"] = json!(info.categories);
    }
    let subresources: Vec<Value> = info
        .subresources
        .iter()
        .map(|sub| {
            let (group, version) = sub.group_version.unwrap_or((info.group, info.version));
            json!({
                "subresource": sub.name,
                "responseKind": response_kind(info, group, version, sub.kind.unwrap_or(info.kind)),
                "verbs": sub.verbs,
            })
        })
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = json!(subresources);
    }
    entry
}

/// Group and version stay empty where they are the document's own.
fn response_kind(info: &ResourceInfo, group: &str, version: &str, kind: &str) -> Value {
    match (group, version) == (info.group, info.version) {
        true => json!({ "group": "", "version": "", "kind": kind }),
        false => json!({ "group": group, "version": version, "kind": kind }),
    }
}

#[cfg(test)]
mod tests;
