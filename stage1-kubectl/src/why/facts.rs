//! Facts: everything that the rules may know, as one value.
//!
//! *Beside a pod's journey.* Before: [`super::gather`] read objects from the API server. After: [`super::rules`] look.
//!
//! A rule that asked the server itself could neither be tested without one nor be trusted to see the same moment as its
//! neighbour. So all reading comes first, and what was read is this value: the objects by kind, the time *of the server*, what
//! could not be seen and why, or, when there was no answer at all, the [`Trouble`] with the connection.
//!
//! The subtle thing is the *focus*. `kubectl why deployment/web` needs the other pods of the nodes to add up what is in use,
//! but must say nothing about their troubles. [`Facts::pods`] and [`Facts::focused`] give what was asked about, and
//! [`Facts::all`] everything.
//!
//! # Invariants
//! 1. Facts are never changed by a rule.
//! 2. An event belongs to an object only if the uids agree, where the event has one: an old pod of the same name is another pod.
//!
//! # In Kubernetes
//! No counterpart; `kubectl describe` reads while it prints.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::finding::ObjectRef;
use super::trouble::Trouble;
use crate::object::Object;
use crate::selector::LabelSelector;

/// How many owners above a pod are followed; Deployment → ReplicaSet → Pod is two.
const MAX_OWNERS: usize = 6;

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unseen {
    /// `nodes`, `leases in kube-system`.
    pub what: String,
    /// The server's words.
    pub why: String,
}

/// An object that was asked about and isn't there.
#[derive(Debug, Clone, PartialEq)]
pub struct Missing {
    /// What was asked for.
    pub object: ObjectRef,
    /// Its manifest, when a file named it.
    pub manifest: Option<Object>,
    /// The namespaces that have an object of this kind and name.
    pub elsewhere: Vec<String>,
    /// Why there can't be one: the server doesn't serve the kind; else `None`.
    pub unknown_kind: Option<String>,
    /// The API versions that the server has for this kind.
    pub served_as: Vec<String>,
}

/// What the rules may know.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The server's time.
    pub now: Timestamp,
    /// What was asked about, in words.
    pub subject: String,
    /// Parts that could not be seen.
    pub unseen: Vec<Unseen>,
    /// What was asked about and isn't there.
    pub missing: Vec<Missing>,
    /// Why there is no answer at all.
    pub trouble: Option<Trouble>,
    /// The checks of `/readyz` that fail.
    pub unready: Vec<String>,
    /// Whether a whole namespace or cluster was asked about, not one object.
    pub wide: bool,
    pub(in crate::why) objects: BTreeMap<String, Vec<Object>>,
    pub(in crate::why) focus: Option<BTreeSet<ObjectRef>>,
    pub(in crate::why) by_uid: HashMap<String, (String, usize)>,
    pub(in crate::why) events: HashMap<ObjectRef, Vec<usize>>,
}

impl Facts {
    /// From what was read. Without a focus everything was asked about.
    #[must_use]
    pub fn new(now: Timestamp, objects: Vec<Object>, focus: Option<BTreeSet<ObjectRef>>) -> Self {
        let mut facts = Facts { now, wide: focus.is_none(), focus, ..Facts::default() };
        let mut known = BTreeSet::new();
        for object in objects {
            if known.insert(ObjectRef::of(&object)) {
                facts.objects.entry(object.kind().to_owned()).or_default().push(object);
            }
        }
        for (kind, objects) in &facts.objects {
            for (at, object) in objects.iter().enumerate() {
                facts.by_uid.insert(object.uid().to_owned(), (kind.clone(), at));
            }
        }
        let about: Vec<ObjectRef> = facts.all("Event").iter().map(involved).collect();
        for (at, object) in about.into_iter().enumerate() {
            facts.events.entry(object).or_default().push(at);
        }
        facts
    }

    /// Every object of a kind.
    #[must_use]
    pub fn all(&self, kind: &str) -> &[Object] {
        self.objects.get(kind).map_or(&[], Vec::as_slice)
    }

    /// The objects of a kind that were asked about.
    pub fn focused<'a>(&'a self, kind: &str) -> impl Iterator<Item = &'a Object> {
        self.all(kind).iter().filter(|object| self.in_focus(object))
    }

    /// Whether this object was asked about.
    #[must_use]
    pub fn in_focus(&self, object: &Object) -> bool {
        self.focus.as_ref().is_none_or(|focus| focus.contains(&ObjectRef::of(object)))
    }

    /// The pods that were asked about and aren't on their way out.
    pub fn pods(&self) -> impl Iterator<Item = &Object> {
        self.focused("Pod").filter(|pod| pod.deletion_timestamp().is_none())
    }

    /// One object.
    #[must_use]
    pub fn find(&self, kind: &str, namespace: &str, name: &str) -> Option<&Object> {
        let fits =
            |object: &&Object| object.name() == name && object.namespace().unwrap_or_default() == namespace;
        self.all(kind).iter().find(fits)
    }

    /// The node of this name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Object> {
        self.find("Node", "", name)
    }

    /// The events about an object, oldest first.
    #[must_use]
    pub fn events(&self, object: &Object) -> Vec<&Object> {
        let all = self.all("Event");
        let of_name = self.events.get(&ObjectRef::of(object)).into_iter().flatten().map(|at| &all[*at]);
        let mut events: Vec<&Object> = of_name
            .filter(|event| {
                let uid = event.get_str("/involvedObject/uid").unwrap_or_default();
                uid.is_empty() || object.uid().is_empty() || uid == object.uid()
            })
            .collect();
        events.sort_by_key(|event| last_seen(event));
        events
    }

    /// The newest event about an object that has this reason and holds this text.
    #[must_use]
    pub fn event(&self, object: &Object, reason: &str, text: &str) -> Option<&Object> {
        let fits = |event: &&Object| {
            event.get_str("/reason") == Some(reason)
                && event.get_str("/message").is_some_and(|message| message.contains(text))
        };
        self.events(object).into_iter().rfind(fits)
    }

    /// What controls an object.
    #[must_use]
    pub fn owner(&self, object: &Object) -> Option<&Object> {
        let owner = object.owner_references().into_iter().find(|owner| owner.controller == Some(true))?;
        let (kind, at) = self.by_uid.get(&owner.uid)?;
        Some(&self.all(kind)[*at])
    }

    /// What stands above an object, nearest first.
    #[must_use]
    pub fn owners<'a>(&'a self, object: &'a Object) -> Vec<&'a Object> {
        std::iter::successors(self.owner(object), |owner| self.owner(owner)).take(MAX_OWNERS).collect()
    }

    /// What an object controls, of one kind.
    pub fn children<'a>(&'a self, owner: &'a Object, kind: &str) -> impl Iterator<Item = &'a Object> {
        self.all(kind).iter().filter(|child| {
            !owner.uid().is_empty()
                && child
                    .owner_references()
                    .iter()
                    .any(|one| one.uid == owner.uid() && one.controller == Some(true))
        })
    }

    /// The object whose template gave a pod this field, and the field's place there: the topmost that says the same.
    #[must_use]
    pub fn blame<'a>(&'a self, pod: &'a Object, pointer: &str) -> (&'a Object, String) {
        let value = pod.get(pointer);
        let above = self.owners(pod).into_iter().rev().find_map(|owner| {
            let at = format!("{}{pointer}", template_at(owner)?);
            let says_the_same = match value {
                Some(value) => owner.get(&at) == Some(value),
                // What isn't set in the pod isn't set in the template either.
                None => owner.get(template_at(owner)?).is_some() && owner.get(&at).is_none(),
            };
            says_the_same.then_some((owner, at))
        });
        above.unwrap_or((pod, pointer.to_owned()))
    }

    /// The Services whose selector fits these labels.
    pub fn services_of<'a>(&'a self, pod: &'a Object) -> impl Iterator<Item = &'a Object> {
        let labels = pod.labels();
        let in_namespace =
            self.all("Service").iter().filter(|service| service.namespace() == pod.namespace());
        in_namespace.filter(move |service| selects(service, &labels))
    }

    /// How long ago something was.
    #[must_use]
    pub fn since(&self, time: Option<Timestamp>) -> SignedDuration {
        time.map_or(SignedDuration::ZERO, |time| self.now.duration_since(time))
    }

    /// How old an object is.
    #[must_use]
    pub fn age(&self, object: &Object) -> SignedDuration {
        self.since(object.creation_timestamp())
    }

    /// Whether something of this name could not be seen.
    #[must_use]
    pub fn is_unseen(&self, what: &str) -> bool {
        self.unseen.iter().any(|unseen| unseen.what.starts_with(what))
    }
}

/// Where the pod template of an object stands.
#[must_use]
pub fn template_at(owner: &Object) -> Option<&'static str> {
    match owner.kind() {
        "CronJob" => Some("/spec/jobTemplate/spec/template"),
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" | "ReplicationController" => {
            Some("/spec/template")
        }
        _ => None,
    }
}

/// Whether a Service's selector fits; an empty one fits nothing.
#[must_use]
pub fn selects(service: &Object, labels: &BTreeMap<String, String>) -> bool {
    let selector = service.string_map("/spec/selector");
    !selector.is_empty() && LabelSelector::from_map(&selector).matches(labels)
}

/// A condition of an object's status, and its place.
#[must_use]
pub fn condition<'a>(object: &'a Object, kind: &str) -> Option<(&'a Value, String)> {
    let conditions = object.get("/status/conditions")?.as_array()?;
    let at = conditions.iter().position(|condition| condition["type"] == kind)?;
    Some((&conditions[at], format!("/status/conditions/{at}")))
}

/// Whether a condition has this status.
#[must_use]
pub fn has_condition(object: &Object, kind: &str, status: &str) -> bool {
    condition(object, kind).is_some_and(|(condition, _)| condition["status"] == status)
}

/// A time at a JSON pointer of a value.
#[must_use]
pub fn time_at(value: &Value, pointer: &str) -> Option<Timestamp> {
    value.pointer(pointer)?.as_str()?.parse().ok()
}

/// When an event was seen last.
#[must_use]
pub fn last_seen(event: &Object) -> Option<Timestamp> {
    let fields = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    fields.iter().find_map(|field| event.get_str(field)?.parse().ok())
}

fn involved(event: &Object) -> ObjectRef {
    let text = |pointer: &str| event.get_str(pointer).unwrap_or_default();
    let namespace = match text("/involvedObject/kind") {
        // Events about nodes carry the node's name in the namespace of `default`, and none in the reference.
        "Node" => "",
        _ => text("/involvedObject/namespace"),
    };
    ObjectRef::new(text("/involvedObject/kind"), namespace, text("/involvedObject/name"))
}

#[cfg(test)]
mod tests;
