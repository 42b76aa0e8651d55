//! What to do with one object, once its owners were looked up.
//!
//! Owners come in three sorts: *solid* ones exist, *dangling* ones do not, *waiting* ones are being deleted in the foreground and wait for this object.
//! One solid owner keeps the object alive: only the references to the others are removed. Without a solid owner the object goes.
//!
//! # Invariants
//! 1. An object without owner references is never deleted.
//! 2. An object with a solid owner is never deleted.
//!
//! # In Kubernetes
//! `pkg/controller/garbagecollector/garbagecollector.go` (`attemptToDeleteItem`, `orphanDependents`).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use super::graph::{FOREGROUND, ORPHAN};
use crate::action::{Propagation, encode};

/// What a look at the server told of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// It exists.
    Solid,
    /// It does not exist.
    Dangling,
    /// It is being deleted and waits for its dependents.
    Waiting,
}

/// What to do with an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Nothing.
    Keep,
    /// Merge this patch: some owner references go.
    Patch(Value),
    /// Delete it in this way.
    Delete(Propagation),
}

// ANCHOR: garbage-collector-decide
/// Decides on an object, given its newest version, the state of each owner, and whether it has dependents.
pub fn decide(
    latest: &ObjectMeta,
    owners: &[(OwnerReference, OwnerState)],
    has_dependents: bool,
) -> Decision {
    let count = |state: OwnerState| owners.iter().filter(|(_, found)| *found == state).count();
    if owners.is_empty() {
        return Decision::Keep;
    }
    if count(OwnerState::Solid) > 0 {
        if count(OwnerState::Solid) == owners.len() {
            return Decision::Keep;
        }
        let solid: Vec<&OwnerReference> =
            owners.iter().filter(|(_, state)| *state == OwnerState::Solid).map(|(owner, _)| owner).collect();
        return Decision::Patch(owners_patch(latest, &solid));
    }
    if count(OwnerState::Waiting) > 0 && has_dependents {
        return Decision::Delete(Propagation::Foreground);
    }
    // What somebody asked for earlier stays as asked.
    let has = |finalizer: &str| latest.finalizers.iter().flatten().any(|have| have == finalizer);
    Decision::Delete(match (has(ORPHAN), has(FOREGROUND)) {
        (true, _) => Propagation::Orphan,
        (false, true) => Propagation::Foreground,
        (false, false) => Propagation::Background,
    })
}
// ANCHOR_END: garbage-collector-decide

fn owners_patch(latest: &ObjectMeta, owners: &[&OwnerReference]) -> Value {
    json!({"metadata": {"ownerReferences": encode(&owners), "resourceVersion": latest.resource_version}})
}

/// The patch that sets a dependent free from its owner; `None`: it does not name it.
pub fn orphan_patch(dependent: &ObjectMeta, owner_uid: &str) -> Option<Value> {
    let owners = dependent.owner_references.as_ref()?;
    let rest: Vec<&OwnerReference> = owners.iter().filter(|owner| owner.uid != owner_uid).collect();
    (rest.len() < owners.len()).then(|| owners_patch(dependent, &rest))
}

/// The patch that removes a finalizer; `None`: it is not there.
pub fn finalizer_patch(meta: &ObjectMeta, finalizer: &str) -> Option<Value> {
    let finalizers = meta.finalizers.as_ref()?;
    let rest: Vec<&String> = finalizers.iter().filter(|have| *have != finalizer).collect();
    (rest.len() < finalizers.len())
        .then(|| json!({"metadata": {"finalizers": rest, "resourceVersion": meta.resource_version}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(states: &[OwnerState]) -> Vec<(OwnerReference, OwnerState)> {
        let reference = |index: usize| OwnerReference { uid: index.to_string(), ..Default::default() };
        states.iter().enumerate().map(|(index, state)| (reference(index), *state)).collect()
    }

    #[test]
    fn one_solid_owner_keeps_an_object() {
        use OwnerState::{Dangling, Solid, Waiting};
        let latest = ObjectMeta::default();
        assert_eq!(decide(&latest, &[], false), Decision::Keep);
        assert_eq!(decide(&latest, &owners(&[Solid, Solid]), false), Decision::Keep);
        let Decision::Patch(patch) = decide(&latest, &owners(&[Dangling, Solid, Waiting]), true) else {
            panic!("expected a patch")
        };
        assert_eq!(patch["metadata"]["ownerReferences"][0]["uid"], "1");
        assert_eq!(decide(&latest, &owners(&[Dangling]), true), Decision::Delete(Propagation::Background));
        assert_eq!(decide(&latest, &owners(&[Waiting]), false), Decision::Delete(Propagation::Background));
        assert_eq!(decide(&latest, &owners(&[Waiting]), true), Decision::Delete(Propagation::Foreground));
    }

    #[test]
    fn an_earlier_wish_to_orphan_is_kept() {
        let latest = ObjectMeta { finalizers: Some(vec![ORPHAN.into()]), ..Default::default() };
        assert_eq!(
            decide(&latest, &owners(&[OwnerState::Dangling]), false),
            Decision::Delete(Propagation::Orphan)
        );
    }
}
