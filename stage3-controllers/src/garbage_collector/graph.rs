//! The graph of owners and dependents.
//!
//! Each object is a node; an `ownerReference` is an edge from dependent to owner. The graph hears every change of every object, in the order of each kind's
//! watch but in no order between kinds: a pod may be seen before its ReplicaSet. Then the owner is a *virtual* node: somebody says that it exists; a
//! look at the server must tell.
//!
//! The graph decides nothing. It answers each change with the nodes that are worth a look: the dependents of an owner that is gone, an owner that waits for its dependents, an owner whose
//! dependents must be orphaned.
//!
//! # Invariants
//! 1. `b` is among the dependents of `a` exactly when the newest version of `b` that was seen names `a`'s UID as owner.
//! 2. A virtual node is looked at, and goes when it does not exist.
//! 3. When a node goes, every dependent of it is looked at.
//!
//! # In Kubernetes
//! `pkg/controller/garbagecollector/{graph,graph_builder}.go`. Left out: owners named with wrong coordinates (same UID, other kind or namespace) are not told apart.

use std::collections::{BTreeSet, HashMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// Finalizer of an object that waits for its dependents.
pub const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an object whose dependents must be set free.
pub const ORPHAN: &str = "orphan";

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `v1` or `apps/v1`.
    pub api_version: String,
    /// `ReplicaSet`.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// A node of the graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it is.
    pub identity: Identity,
    /// Its owners.
    pub owners: Vec<OwnerReference>,
    /// UIDs of those that name it as owner.
    pub dependents: BTreeSet<String>,
    /// Known from a reference only.
    pub is_virtual: bool,
    /// Somebody asked for its deletion.
    pub deleting: bool,
    /// It waits for its dependents to go first.
    pub deleting_dependents: bool,
    orphaning: bool,
}

/// A node that is worth a look.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Work {
    /// Should it be deleted, or can its own deletion go on?
    AttemptToDelete(String),
    /// Set its dependents free.
    AttemptToOrphan(String),
}

/// All nodes by UID.
#[derive(Default)]
pub struct Graph {
    nodes: HashMap<String, Node>,
}
impl Graph {
    /// Takes in an object that is new or changed.
    pub fn upsert(&mut self, api_version: &str, kind: &str, meta: &ObjectMeta) -> Vec<Work> {
        let uid = meta.uid.clone().unwrap_or_default();
        let owners = meta.owner_references.clone().unwrap_or_default();
        let has = |finalizer: &str| meta.finalizers.iter().flatten().any(|have| have == finalizer);
        let deleting = meta.deletion_timestamp.is_some();
        let mut work = Vec::new();

        let before = self.nodes.get(&uid).cloned();
        let old_owners = before.as_ref().map(|node| node.owners.clone()).unwrap_or_default();
        let node = Node {
            identity: Identity {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                namespace: meta.namespace.clone().unwrap_or_default(),
                name: meta.name.clone().unwrap_or_default(),
            },
            owners: owners.clone(),
            dependents: before.as_ref().map(|node| node.dependents.clone()).unwrap_or_default(),
            is_virtual: false,
            deleting,
            deleting_dependents: deleting && has(FOREGROUND),
            orphaning: deleting && has(ORPHAN),
        };
        let starts_orphaning = node.orphaning && !before.as_ref().is_some_and(|before| before.orphaning);
        let starts_waiting =
            node.deleting_dependents && !before.as_ref().is_some_and(|before| before.deleting_dependents);
        let dependents: Vec<String> = node.dependents.iter().cloned().collect();
        self.nodes.insert(uid.clone(), node);

        work.extend(self.link(&uid, &old_owners, &owners));
        if starts_orphaning {
            work.push(Work::AttemptToOrphan(uid.clone()));
        }
        if starts_waiting {
            work.extend(dependents.into_iter().map(Work::AttemptToDelete));
            work.push(Work::AttemptToDelete(uid.clone()));
        }
        // An object that names owners may name some that are gone since long.
        if before.is_none_or(|before| before.is_virtual) && !owners.is_empty() {
            work.push(Work::AttemptToDelete(uid));
        }
        work
    }

    /// Takes an object out: it is gone.
    pub fn remove(&mut self, uid: &str) -> Vec<Work> {
        let Some(node) = self.nodes.remove(uid) else { return Vec::new() };
        let mut work: Vec<Work> = node.dependents.iter().cloned().map(Work::AttemptToDelete).collect();
        for owner in &node.owners {
            if let Some(owner_node) = self.nodes.get_mut(&owner.uid) {
                owner_node.dependents.remove(uid);
                if owner_node.deleting_dependents {
                    work.push(Work::AttemptToDelete(owner.uid.clone()));
                }
            }
        }
        work
    }
}

impl Graph {
    /// Moves the edges of a dependent from its old owners to its new ones.
    fn link(&mut self, uid: &str, old: &[OwnerReference], new: &[OwnerReference]) -> Vec<Work> {
        let mut work = Vec::new();
        for gone in old.iter().filter(|owner| !new.iter().any(|other| other.uid == owner.uid)) {
            if let Some(node) = self.nodes.get_mut(&gone.uid) {
                node.dependents.remove(uid);
                if node.deleting_dependents {
                    work.push(Work::AttemptToDelete(gone.uid.clone()));
                }
            }
        }
        let namespace = self.nodes.get(uid).map(|node| node.identity.namespace.clone()).unwrap_or_default();
        for owner in new {
            let known = self.nodes.contains_key(&owner.uid);
            let node = self.nodes.entry(owner.uid.clone()).or_insert_with(|| virtual_node(owner, &namespace));
            node.dependents.insert(uid.to_owned());
            let blocked = |owners: &[OwnerReference]| {
                owners.iter().any(|other| other.uid == owner.uid && other.block_owner_deletion == Some(true))
            };
            if !known || (node.deleting_dependents && blocked(old) && !blocked(new)) {
                work.push(Work::AttemptToDelete(owner.uid.clone()));
            }
        }
        work
    }

    /// The node with this UID.
    pub fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Dependents that hold up the deletion of this node: those that say so and still exist.
    pub fn blocking_dependents(&self, uid: &str) -> Vec<String> {
        let Some(node) = self.nodes.get(uid) else { return Vec::new() };
        let blocks = |dependent: &&String| {
            self.nodes.get(*dependent).is_some_and(|node| {
                node.owners.iter().any(|owner| owner.uid == uid && owner.block_owner_deletion == Some(true))
            })
        };
        node.dependents.iter().filter(blocks).cloned().collect()
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

fn virtual_node(owner: &OwnerReference, namespace: &str) -> Node {
    Node {
        identity: Identity {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            namespace: namespace.to_owned(),
            name: owner.name.clone(),
        },
        owners: Vec::new(),
        dependents: BTreeSet::new(),
        is_virtual: true,
        deleting: false,
        deleting_dependents: false,
        orphaning: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    fn object(uid: &str, owner: Option<&str>, finalizer: Option<&str>) -> ObjectMeta {
        let reference = |uid: &str| OwnerReference {
            uid: uid.into(),
            name: uid.into(),
            block_owner_deletion: Some(true),
            ..Default::default()
        };
        ObjectMeta {
            uid: Some(uid.into()),
            name: Some(uid.into()),
            owner_references: owner.map(|owner| vec![reference(owner)]),
            finalizers: finalizer.map(|finalizer| vec![finalizer.to_owned()]),
            deletion_timestamp: finalizer.map(|_| Time(Timestamp::UNIX_EPOCH)),
            ..Default::default()
        }
    }

    fn delete(uid: &str) -> Work {
        Work::AttemptToDelete(uid.into())
    }

    #[test]
    fn a_dependent_seen_before_its_owner_makes_a_virtual_owner() {
        let mut graph = Graph::default();
        assert_eq!(
            graph.upsert("v1", "Pod", &object("pod", Some("set"), None)),
            [delete("set"), delete("pod")]
        );
        assert!(graph.get("set").unwrap().is_virtual);
        graph.upsert("apps/v1", "ReplicaSet", &object("set", None, None));
        let set = graph.get("set").unwrap();
        assert!(!set.is_virtual && set.dependents.contains("pod"));
    }

    #[test]
    fn when_an_owner_goes_its_dependents_are_looked_at() {
        let mut graph = Graph::default();
        graph.upsert("apps/v1", "ReplicaSet", &object("set", None, None));
        graph.upsert("v1", "Pod", &object("pod", Some("set"), None));
        assert_eq!(graph.remove("set"), [delete("pod")]);
    }

    #[test]
    fn foreground_deletion_looks_at_dependents_and_again_when_each_goes() {
        let mut graph = Graph::default();
        graph.upsert("apps/v1", "ReplicaSet", &object("set", None, None));
        graph.upsert("v1", "Pod", &object("pod", Some("set"), None));
        let work = graph.upsert("apps/v1", "ReplicaSet", &object("set", None, Some(FOREGROUND)));
        assert_eq!(work, [delete("pod"), delete("set")]);
        assert_eq!(graph.blocking_dependents("set"), ["pod"]);
        assert_eq!(graph.remove("pod"), [delete("set")]);
        assert!(graph.blocking_dependents("set").is_empty());
    }

    #[test]
    fn orphaning_starts_once() {
        let mut graph = Graph::default();
        graph.upsert("apps/v1", "ReplicaSet", &object("set", None, None));
        let orphaning = object("set", None, Some(ORPHAN));
        assert_eq!(graph.upsert("apps/v1", "ReplicaSet", &orphaning), [Work::AttemptToOrphan("set".into())]);
        assert_eq!(graph.upsert("apps/v1", "ReplicaSet", &orphaning), []);
    }
}
