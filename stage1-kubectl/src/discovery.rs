//! Discovery: which resources a server has.
//!
//! *Step 1 of a pod's journey.* Before: a word like `deploy`. After: [`crate::rest_mapper`] can look it up.
//!
//! Two requests fetch everything (`/api` and `/apis`, in the aggregated form). A server that doesn't know that form is
//! asked for its groups, and then for each group and version.
//!
//! # Invariants
//! 1. Groups keep the server's order, versions the order of preference: the first match is the one to use.
//!
//! # In Kubernetes
//! `client-go/discovery/{discovery_client,aggregated_discovery}.go`.

use bytes::Bytes;
use http::{Request, header};
use serde::Deserialize;
use serde_json::Value;

use crate::client::{Client, ClientError};
use crate::resource::{ApiResource, GroupVersionResource};

/// The documents on disk.
pub mod cache;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// One version of a group, with its resources.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupVersion {
    /// The group, empty for core.
    pub group: String,
    /// The version.
    pub version: String,
    /// Its resources, subresources aside.
    pub resources: Vec<ApiResource>,
}

/// Everything that a server has, in order of preference.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Discovery {
    /// The versions of the groups.
    pub versions: Vec<GroupVersion>,
}

impl Discovery {
    /// All resources, preferred versions first within each group.
    pub fn resources(&self) -> impl Iterator<Item = &ApiResource> {
        self.versions.iter().flat_map(|version| &version.resources)
    }

    /// Asks a server.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn fetch(client: &Client) -> Result<Self, ClientError> {
        Ok(Discovery::fetch_documents(client).await?.0)
    }

    /// As [`Discovery::fetch`], with the documents of servers that know the aggregated form.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn fetch_documents(client: &Client) -> Result<(Self, Vec<Value>), ClientError> {
        let (mut versions, mut documents) = (Vec::new(), Vec::new());
        for root in ["/api", "/apis"] {
            let request = Request::get(root).header(header::ACCEPT, AGGREGATED).body(Bytes::new());
            let request = request.expect("a constant request");
            let document: Value = client.request(request).await?;
            match document["kind"].as_str() {
                Some("APIGroupDiscoveryList") => {
                    versions.extend(parse_aggregated(&document));
                    documents.push(document);
                }
                _ => versions.extend(fetch_one_by_one(client, root, &document).await?),
            }
        }
        Ok((Discovery { versions }, documents))
    }

    /// From documents that were kept.
    pub fn from_documents(documents: &[Value]) -> Self {
        Discovery { versions: documents.iter().flat_map(parse_aggregated).collect() }
    }
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(String::from).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

/// Reads an `APIGroupDiscoveryList`.
pub fn parse_aggregated(document: &Value) -> Vec<GroupVersion> {
    let mut versions = Vec::new();
    for group in document["items"].as_array().into_iter().flatten() {
        let name = text(&group["metadata"]["name"]);
        for version in group["versions"].as_array().into_iter().flatten() {
            let label = text(&version["version"]);
            let resources = version["resources"].as_array().into_iter().flatten();
            let resources = resources.filter(|r| !r["responseKind"]["kind"].is_null()).map(|r| ApiResource {
                gvr: GroupVersionResource::new(&name, &label, &text(&r["resource"])),
                kind: text(&r["responseKind"]["kind"]),
                namespaced: r["scope"] == "Namespaced",
                singular: text(&r["singularResource"]),
                short_names: strings(&r["shortNames"]),
                verbs: strings(&r["verbs"]),
                categories: strings(&r["categories"]),
            });
            versions.push(GroupVersion {
                group: name.clone(),
                version: label.clone(),
                resources: resources.collect(),
            });
        }
    }
    versions
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LegacyResource {
    name: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    kind: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
}

/// Reads an `APIResourceList`.
fn parse_legacy(group: &str, version: &str, document: &Value) -> GroupVersion {
    let resources = document["resources"].as_array().into_iter().flatten();
    let resources =
        resources.filter_map(|r| LegacyResource::deserialize(r).ok()).filter(|r| !r.name.contains('/'));
    let resources = resources.map(|r| ApiResource {
        gvr: GroupVersionResource::new(group, version, &r.name),
        singular: if r.singular_name.is_empty() { r.kind.to_lowercase() } else { r.singular_name },
        kind: r.kind,
        namespaced: r.namespaced,
        short_names: r.short_names,
        verbs: r.verbs,
        categories: r.categories,
    });
    GroupVersion { group: group.to_string(), version: version.to_string(), resources: resources.collect() }
}

async fn fetch_one_by_one(
    client: &Client,
    root: &str,
    document: &Value,
) -> Result<Vec<GroupVersion>, ClientError> {
    let mut names: Vec<(String, String)> = Vec::new();
    for version in strings(&document["versions"]) {
        names.push((String::new(), version));
    }
    for group in document["groups"].as_array().into_iter().flatten() {
        let preferred = text(&group["preferredVersion"]["version"]);
        let mut versions: Vec<String> =
            group["versions"].as_array().into_iter().flatten().map(|v| text(&v["version"])).collect();
        versions.sort_by_key(|version| *version != preferred);
        names.extend(versions.into_iter().map(|version| (text(&group["name"]), version)));
    }
    let mut found = Vec::new();
    for (group, version) in names {
        let path = match group.as_str() {
            "" => format!("{root}/{version}"),
            group => format!("{root}/{group}/{version}"),
        };
        // A group whose server is down doesn't hide the others.
        if let Ok(list) =
            client.request::<Value>(crate::request::request(http::Method::GET, &path, None)).await
        {
            found.push(parse_legacy(&group, &version, &list));
        }
    }
    Ok(found)
}
