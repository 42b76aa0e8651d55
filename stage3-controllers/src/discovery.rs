//! Discovery: which kinds this API server has, for controllers that treat all kinds alike.
//!
//! *Beside a pod's journey.* The garbage collector and the namespace controller must know every kind that can be deleted, those of custom resources
//! included. They ask the server, once at the start and again whenever a CustomResourceDefinition changes.
//!
//! # In Kubernetes
//! `client-go/discovery` (`ServerPreferredResources`), `restmapper`. Left out: aggregated discovery documents.

use std::collections::HashMap;

use bytes::Bytes;
use serde::Deserialize;
use stage1_kubectl::client::{Client, ClientError};
use tracing::warn;

/// A kind that can be listed, watched and deleted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Deletable {
    /// `v1` or `apps/v1`.
    pub api_version: String,
    /// `Deployment`.
    pub kind: String,
    /// `deployments`.
    pub resource: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether all objects of a namespace can be deleted by one request.
    pub delete_collection: bool,
}

impl Deletable {
    /// URL path of its collection, in a namespace or (empty) of the whole cluster.
    pub fn collection_path(&self, namespace: &str) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        if self.namespaced && !namespace.is_empty() {
            format!("/{root}/{}/namespaces/{namespace}/{}", self.api_version, self.resource)
        } else {
            format!("/{root}/{}/{}", self.api_version, self.resource)
        }
    }

    /// `deployments.apps`, or `pods.` as the namespace controller prints it.
    pub fn group_resource(&self) -> String {
        let group = self.api_version.split_once('/').map_or("", |(group, _)| group);
        format!("{}.{group}", self.resource)
    }
}

/// All deletable kinds, and those groups that could not be read.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    /// The kinds.
    pub all: Vec<Deletable>,
    /// Group versions that did not answer.
    pub failed: Vec<String>,
    by_kind: HashMap<(String, String), usize>,
}

impl Kinds {
    /// The kind with this group and kind name; another version of the group will do.
    pub fn find(&self, api_version: &str, kind: &str) -> Option<&Deletable> {
        let group = |api_version: &str| api_version.split_once('/').map_or("", |(group, _)| group).to_owned();
        self.by_kind.get(&(group(api_version), kind.to_owned())).map(|index| &self.all[*index])
    }

    fn add(&mut self, kind: Deletable) {
        let group = kind.api_version.split_once('/').map_or("", |(group, _)| group).to_owned();
        let key = (group, kind.kind.clone());
        if !self.by_kind.contains_key(&key) {
            self.by_kind.insert(key, self.all.len());
            self.all.push(kind);
        }
    }
}

#[derive(Deserialize)]
struct GroupList {
    #[serde(default)]
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    preferred_version: Option<Version>,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize, Clone)]
#[serde(rename_all = "camelCase")]
struct Version {
    group_version: String,
}

#[derive(Deserialize)]
struct ResourceList {
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

/// Asks the server for all kinds that can be deleted. A group that fails (its server is down) is named, not fatal.
///
/// # Errors
/// When the core group or the list of groups cannot be read.
pub async fn deletable_kinds(client: &Client) -> Result<Kinds, ClientError> {
    let mut kinds = Kinds::default();
    add_resources(&mut kinds, "v1", client.request(get("/api/v1")).await?);
    let groups: GroupList = client.request(get("/apis")).await?;
    for group in groups.groups {
        // The preferred version first: a kind that several versions have is watched in that one.
        let versions = group.preferred_version.clone().into_iter().chain(group.versions);
        let mut seen = Vec::new();
        for version in versions {
            if seen.contains(&version.group_version) {
                continue;
            }
            match client.request::<ResourceList>(get(&format!("/apis/{}", version.group_version))).await {
                Ok(list) => add_resources(&mut kinds, &version.group_version, list),
                Err(error) => {
                    warn!(group_version = %version.group_version, %error, "Unable to retrieve the API's resources");
                    kinds.failed.push(version.group_version.clone());
                }
            }
            seen.push(version.group_version);
        }
    }
    Ok(kinds)
}

fn add_resources(kinds: &mut Kinds, api_version: &str, list: ResourceList) {
    for resource in list.resources {
        let has = |verb: &str| resource.verbs.iter().any(|have| have == verb);
        if resource.name.contains('/') || !has("list") || !has("watch") || !has("delete") {
            continue;
        }
        kinds.add(Deletable {
            api_version: api_version.to_owned(),
            kind: resource.kind.clone(),
            delete_collection: has("deletecollection"),
            namespaced: resource.namespaced,
            resource: resource.name.clone(),
        });
    }
}

fn get(path: &str) -> http::Request<Bytes> {
    http::Request::get(path)
        .header("accept", "application/json")
        .body(Bytes::new())
        .expect("a path made of names is a valid URI")
}
