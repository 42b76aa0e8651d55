//! Controller revisions: old templates of DaemonSets and StatefulSets, kept so that one can go back.
//!
//! A Deployment keeps its history in ReplicaSets; DaemonSets and StatefulSets have no object between them and their pods, so
//! they store each template as a ControllerRevision, named by its hash. Pods carry the hash as a label: that tells which revision they are of.
//!
//! # Invariants
//! 1. Equal templates are one revision; going back gives it the highest number again.
//!
//! # In Kubernetes
//! `pkg/controller/history/controller_history.go`. Left out: hash collisions of revisions.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Value, json};

use crate::action::{Action, encode};
use crate::indexer::Cached;
use crate::owner::controller_reference;
use crate::pod_template::compute_hash;

/// Label of pods and revisions that carries the hash.
pub const HASH: &str = "controller-revision-hash";

/// What a revision stores: the template, as a patch of the workload's spec.
fn data_of(template: &PodTemplateSpec) -> Value {
    let mut template = encode(template);
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}

/// The revision of the present template among those that exist, or the one to create; and the action that makes it the newest.
pub fn current<O: k8s_openapi::Resource + Cached>(
    owner: &O,
    template: &PodTemplateSpec,
    collision_count: Option<i32>,
    revisions: &[Arc<ControllerRevision>],
) -> (ControllerRevision, Option<Action>) {
    let data = data_of(template);
    let newest = revisions.iter().map(|revision| revision.revision).max().unwrap_or(0);
    let equal =
        revisions.iter().filter(|revision| revision.data.as_ref().is_some_and(|stored| stored.0 == data));
    if let Some(found) = equal.max_by_key(|revision| revision.revision) {
        let mut found = found.as_ref().clone();
        if found.revision == newest {
            return (found, None);
        }
        let patch =
            json!({"revision": newest + 1, "metadata": {"resourceVersion": found.metadata.resource_version}});
        let action = Action::patch(&found, patch, format!("{} went back to it", owner.object_name()));
        found.revision = newest + 1;
        return (found, Some(action));
    }
    let hash = compute_hash(template, Some(collision_count.unwrap_or(0)));
    let mut labels = template.metadata.as_ref().and_then(|meta| meta.labels.clone()).unwrap_or_default();
    labels.insert(HASH.to_owned(), hash.clone());
    let revision = ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", owner.object_name())),
            namespace: owner.meta().namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![controller_reference(owner)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data)),
        revision: newest + 1,
    };
    let action = Action::create(&revision, format!("{} has a new template", owner.object_name()));
    (revision, Some(action))
}

/// Hash by which pods name a revision.
pub fn hash_of(revision: &ControllerRevision) -> &str {
    revision.label(HASH).unwrap_or_default()
}

/// Deletes what the history limit no longer covers: oldest first, never one that is in use.
pub fn clean_up(revisions: &[Arc<ControllerRevision>], in_use: &[&str], limit: i32) -> Vec<Action> {
    let mut unused: Vec<&Arc<ControllerRevision>> =
        revisions.iter().filter(|revision| !in_use.contains(&hash_of(revision))).collect();
    unused.sort_by_key(|revision| revision.revision);
    let surplus = unused.len().saturating_sub(limit.max(0) as usize);
    unused[..surplus]
        .iter()
        .map(|revision| Action::delete(revision.as_ref(), "the history is limited"))
        .collect()
}
