//! Owner: which objects a controller owns, may adopt, or must let go.
//!
//! *Step 7 of a pod's journey.* Before: [`crate::controller`] looked at a ReplicaSet. After: it counts the pods that are truly its own.
//!
//! A ReplicaSet selects pods by label, but labels belong to everybody. The `ownerReference` with `controller: true`
//! is what makes a pod *its* pod: at most one reference of an object is the controller's. A pod that matches
//! and has no controller is adopted; one that is owned and no longer matches is released; one that another
//! controller owns is left alone, whatever its labels say.
//!
//! # Invariants
//! 1. An object with another controller is never claimed, changed or deleted.
//! 2. An owner that is being deleted adopts nothing, and an object being deleted is not adopted.
//!
//! # In Kubernetes
//! `pkg/controller/controller_ref_manager.go`. Left out: the live read of the owner before adoption (the UID and revision
//! preconditions of the patch stand for it).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use serde_json::json;

use crate::action::{Action, encode};
use crate::indexer::Cached;

/// The reference that names this object's controller.
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.as_ref()?.iter().find(|owner| owner.controller == Some(true))
}

/// Whether `owner` is the controller of the object.
pub fn is_controlled_by(meta: &ObjectMeta, owner_uid: &str) -> bool {
    controller_of(meta).is_some_and(|reference| reference.uid == owner_uid)
}

/// The reference that makes `owner` the controller of what carries it.
pub fn controller_reference<K: k8s_openapi::Resource + Cached>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::API_VERSION.to_owned(),
        kind: K::KIND.to_owned(),
        name: owner.object_name().to_owned(),
        uid: owner.uid().to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Index under which objects are found by the UID of their controller.
pub const CONTROLLER_INDEX: &str = "controller-uid";
/// Index under which objects without a controller are found by namespace.
pub const ORPHAN_INDEX: &str = "orphan";

/// Values of [`CONTROLLER_INDEX`].
pub fn controller_index<K: Cached>(object: &K) -> Vec<String> {
    controller_of(object.meta()).map(|owner| owner.uid.clone()).into_iter().collect()
}

/// Values of [`ORPHAN_INDEX`].
pub fn orphan_index<K: Cached>(object: &K) -> Vec<String> {
    if controller_of(object.meta()).is_some() {
        Vec::new()
    } else {
        vec![object.object_namespace().to_owned()]
    }
}

/// Whether a selector selects these labels. An empty selector selects everything, as `LabelSelectorAsSelector` says.
pub fn selects(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    let value_of = |key: &str| labels.and_then(|labels| labels.get(key));
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| value_of(key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|expression| {
            let values = expression.values.as_deref().unwrap_or_default();
            match (expression.operator.as_str(), value_of(&expression.key)) {
                ("In", value) => value.is_some_and(|value| values.contains(value)),
                ("NotIn", value) => value.is_none_or(|value| !values.contains(value)),
                ("Exists", value) => value.is_some(),
                ("DoesNotExist", value) => value.is_none(),
                _ => false,
            }
        })
}

/// Whether the selector says anything at all; workloads with an empty one select nothing.
pub fn is_empty_selector(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

/// What claiming found: the objects that are the owner's, and the patches that make it so.
#[derive(Debug, Clone)]
pub struct Claimed<K> {
    /// Owned already, or adopted by the patches.
    pub owned: Vec<Arc<K>>,
    /// Adoptions and releases.
    pub actions: Vec<Action>,
}

// ANCHOR: claim
/// Sorts candidates into owned, adopted, released and foreign.
pub fn claim<O, K>(owner: &O, selector: &LabelSelector, candidates: &[Arc<K>]) -> Claimed<K>
where
    O: k8s_openapi::Resource + Cached,
    K: k8s_openapi::Resource + Cached,
{
    let mut claimed = Claimed { owned: Vec::new(), actions: Vec::new() };
    for candidate in candidates {
        let meta = candidate.meta();
        let matches = selects(selector, meta.labels.as_ref());
        match controller_of(meta) {
            Some(reference) if reference.uid != owner.uid() => {}
            Some(_) if matches => claimed.owned.push(candidate.clone()),
            Some(_) if owner.is_being_deleted() => {}
            Some(_) => claimed.actions.push(release(owner, candidate.as_ref())),
            None if !matches || owner.is_being_deleted() || candidate.is_being_deleted() => {}
            None => {
                claimed.actions.push(adopt(owner, candidate.as_ref()));
                claimed.owned.push(candidate.clone());
            }
        }
    }
    claimed
}
// ANCHOR_END: claim

fn with_owners<K: k8s_openapi::Resource + Cached>(
    object: &K,
    owners: &[OwnerReference],
    why: String,
) -> Action {
    let patch = json!({"metadata": {"ownerReferences": encode(&owners), "resourceVersion": object.meta().resource_version}});
    Action::patch(object, patch, why)
}

/// Makes `owner` the controller of `object`.
pub fn adopt<O: k8s_openapi::Resource + Cached, K: k8s_openapi::Resource + Cached>(
    owner: &O,
    object: &K,
) -> Action {
    let mut owners = object.meta().owner_references.clone().unwrap_or_default();
    owners.push(controller_reference(owner));
    with_owners(
        object,
        &owners,
        format!("{} {} matches the selector and has no controller", K::KIND, object.object_name()),
    )
}

/// Takes `owner` out of the owners of `object`.
pub fn release<O: k8s_openapi::Resource + Cached, K: k8s_openapi::Resource + Cached>(
    owner: &O,
    object: &K,
) -> Action {
    let mut owners = object.meta().owner_references.clone().unwrap_or_default();
    owners.retain(|reference| reference.uid != owner.uid());
    with_owners(
        object,
        &owners,
        format!("{} {} no longer matches the selector", K::KIND, object.object_name()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use k8s_openapi::api::core::v1::Pod;

    fn labels(value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("app".to_owned(), value.to_owned())])
    }

    fn pod(name: &str, app: &str, owner: Option<&str>) -> Arc<Pod> {
        let owners = owner.map(|uid| {
            vec![OwnerReference {
                uid: uid.into(),
                controller: Some(true),
                name: "x".into(),
                ..Default::default()
            }]
        });
        let metadata = ObjectMeta {
            name: Some(name.into()),
            labels: Some(labels(app)),
            owner_references: owners,
            ..Default::default()
        };
        Arc::new(Pod { metadata, ..Default::default() })
    }

    #[test]
    fn claiming_adopts_releases_and_leaves_alone() {
        let metadata = ObjectMeta { uid: Some("me".into()), name: Some("web".into()), ..Default::default() };
        let owner = ReplicaSet { metadata, ..Default::default() };
        let selector = LabelSelector { match_labels: Some(labels("web")), ..Default::default() };
        let pods = [
            pod("own", "web", Some("me")),
            pod("stray", "other", Some("me")),
            pod("orphan", "web", None),
            pod("foreign", "web", Some("you")),
        ];
        let claimed = claim(&owner, &selector, &pods);
        let names: Vec<&str> = claimed.owned.iter().map(|pod| pod.object_name()).collect();
        assert_eq!(names, ["own", "orphan"]);
        let patched: Vec<&str> = claimed
            .actions
            .iter()
            .map(|action| match action {
                Action::Patch { target, .. } => target.key.name.as_str(),
                other => panic!("only patches are expected, not {other:?}"),
            })
            .collect();
        assert_eq!(patched, ["stray", "orphan"]);
    }

    #[test]
    fn selectors_follow_their_operators() {
        let expression = |operator: &str, values: &[&str]| LabelSelector {
            match_expressions: Some(vec![
                k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement {
                    key: "app".into(),
                    operator: operator.into(),
                    values: Some(values.iter().map(|v| v.to_string()).collect()),
                },
            ]),
            ..Default::default()
        };
        let web = labels("web");
        for (operator, values, with, without) in [
            ("In", &["web"][..], true, false),
            ("NotIn", &["web"], false, true),
            ("Exists", &[], true, false),
            ("DoesNotExist", &[], false, true),
        ] {
            assert_eq!(selects(&expression(operator, values), Some(&web)), with, "{operator}");
            assert_eq!(selects(&expression(operator, values), None), without, "{operator}");
        }
    }
}
