//! Action: the closed set of things that a controller may do.
//!
//! *Step 7 of a pod's journey.* Before: [`crate::controller`] asked a controller to decide. After: [`crate::executor`] carries it out.
//!
//! A controller's decision is a list of these values and nothing else. That makes the decision a pure function,
//! which a test can run a million times against a world made of memory, and it leaves one place (the executor)
//! that writes to the API, with one set of rules: every change of an existing object names the object's UID, so
//! that a namesake born meanwhile is never touched; every status carries the resourceVersion it was computed from.
//!
//! Some events tell of a *result* ("Created pod: web-x7k2p", where only the server knows the name). They travel
//! with the action as an [`Announce`], and the executor fills in the name or the error.
//!
//! # Invariants
//! 1. Actions of one decision are carried out in order; the first that fails ends the list.
//! 2. No action touches an object whose UID differs from the one that was looked at.
//!
//! # In Kubernetes
//! There each controller calls the client itself (`pkg/controller/controller_utils.go` `RealPodControl` is the nearest thing).

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use serde::Serialize;
use serde_json::Value;

use crate::indexer::{Cached, NamespacedName};

/// Names one object for the API: where it is, and which of its namesakes it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `v1` or `apps/v1`.
    pub api_version: String,
    /// `Pod`.
    pub kind: String,
    /// The plural in the URL: `pods`.
    pub resource: String,
    /// Namespace and name; the name is empty for an object that the server will name.
    pub key: NamespacedName,
    /// The UID that the object must have.
    pub uid: Option<String>,
}

impl Target {
    /// The target that is exactly this object.
    pub fn of<K: k8s_openapi::Resource + Cached>(object: &K) -> Target {
        Target { uid: object.meta().uid.clone(), ..Target::named::<K>(object.key()) }
    }

    /// Whatever object of this kind has this name.
    pub fn named<K: k8s_openapi::Resource>(key: NamespacedName) -> Target {
        Target {
            api_version: K::API_VERSION.to_owned(),
            kind: K::KIND.to_owned(),
            resource: K::URL_PATH_SEGMENT.to_owned(),
            key,
            uid: None,
        }
    }

    /// URL path of the collection that the object is in.
    pub fn collection_path(&self) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        if self.key.namespace.is_empty() {
            format!("/{root}/{}/{}", self.api_version, self.resource)
        } else {
            format!("/{root}/{}/namespaces/{}/{}", self.api_version, self.key.namespace, self.resource)
        }
    }

    /// URL path of the object.
    pub fn path(&self) -> String {
        format!("{}/{}", self.collection_path(), self.key.name)
    }
}

/// Event type, reason and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventText {
    /// `Normal` or `Warning`.
    pub kind: &'static str,
    /// One word in CamelCase.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
}

impl EventText {
    /// Something expected happened.
    pub fn normal(reason: impl Into<String>, message: impl Into<String>) -> EventText {
        EventText { kind: "Normal", reason: reason.into(), message: message.into() }
    }
    /// Something that a person may have to look at happened.
    pub fn warning(reason: impl Into<String>, message: impl Into<String>) -> EventText {
        EventText { kind: "Warning", reason: reason.into(), message: message.into() }
    }
}

/// Events to record once the result of an action is known. `{name}` and `{error}` stand for the result.
#[derive(Clone, Debug, PartialEq)]
pub struct Announce {
    /// The object that the event is about.
    pub about: ObjectReference,
    /// Recorded when the action succeeded.
    pub success: Option<EventText>,
    /// Recorded when it failed.
    pub failure: Option<EventText>,
}

/// How a deletion treats what the object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The owned objects follow later.
    Background,
    /// The object waits until the owned objects are gone.
    Foreground,
    /// The owned objects stay and lose their owner.
    Orphan,
}

impl Propagation {
    /// The word of `DeleteOptions.propagationPolicy`.
    pub fn as_str(self) -> &'static str {
        match self {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
    }
}

// ANCHOR: action
/// One thing to do. The executor is the only one who does it.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Make an object. Consecutive creations run together, in batches of 1, 2, 4, ….
    Create {
        /// Where it is made; an empty name means `generateName`.
        target: Target,
        /// The whole object.
        object: Value,
        /// Why, for the journey.
        why: String,
        /// What to tell people of the result.
        announce: Option<Box<Announce>>,
    },
    /// Write the status that was computed from exactly this version of the object (a conflict is an error).
    UpdateStatus {
        /// The object.
        target: Target,
        /// The object with its new status and the old resourceVersion.
        object: Value,
    },
    /// Merge a change into an object.
    Patch {
        /// The object.
        target: Target,
        /// Empty, or the subresource: `status`.
        subresource: &'static str,
        /// JSON merge patch. The executor adds the UID as a precondition.
        patch: Value,
        /// Why, for the journey; empty: not worth a step.
        why: String,
        /// What to tell people of the result.
        announce: Option<Box<Announce>>,
    },
    /// Delete an object, if it still is the one that was looked at. Gone already is success.
    Delete {
        /// The object; its UID is a precondition.
        target: Target,
        /// What happens to what it owns; `None`: the kind's default.
        propagation: Option<Propagation>,
        /// Seconds for a pod to end; `None`: what its spec says.
        grace_period_seconds: Option<i64>,
        /// Why, for the journey.
        why: String,
        /// What to tell people of the result.
        announce: Option<Box<Announce>>,
    },
    /// Tell people something.
    Record {
        /// The object it is about.
        about: Box<ObjectReference>,
        /// The text.
        event: EventText,
    },
    /// Look at this key again after this time, whatever happens.
    RequeueAfter(Duration),
}
// ANCHOR_END: action

/// JSON of a typed object, `apiVersion` and `kind` included.
pub fn encode<T: Serialize>(object: &T) -> Value {
    serde_json::to_value(object).expect("API types have string keys only")
}

impl Action {
    /// Makes this object.
    pub fn create<K: k8s_openapi::Resource + Cached + Serialize>(
        object: &K,
        why: impl Into<String>,
    ) -> Action {
        let target = Target { uid: None, ..Target::of(object) };
        Action::Create { target, object: encode(object), why: why.into(), announce: None }
    }

    /// Writes the status of this object; it must carry the resourceVersion that was read.
    pub fn update_status<K: k8s_openapi::Resource + Cached + Serialize>(object: &K) -> Action {
        Action::UpdateStatus { target: Target::of(object), object: encode(object) }
    }

    /// Merges `patch` into this object.
    pub fn patch<K: k8s_openapi::Resource + Cached>(
        object: &K,
        patch: Value,
        why: impl Into<String>,
    ) -> Action {
        Action::Patch { target: Target::of(object), subresource: "", patch, why: why.into(), announce: None }
    }

    /// Merges `patch` into this object's status subresource.
    pub fn patch_status<K: k8s_openapi::Resource + Cached>(
        object: &K,
        patch: Value,
        why: impl Into<String>,
    ) -> Action {
        Action::Patch {
            target: Target::of(object),
            subresource: "status",
            patch,
            why: why.into(),
            announce: None,
        }
    }

    /// Deletes this object.
    pub fn delete<K: k8s_openapi::Resource + Cached>(object: &K, why: impl Into<String>) -> Action {
        Action::Delete {
            target: Target::of(object),
            propagation: None,
            grace_period_seconds: None,
            why: why.into(),
            announce: None,
        }
    }

    /// Records an event about this object.
    pub fn record<K: k8s_openapi::Resource + Cached>(object: &K, event: EventText) -> Action {
        Action::Record { about: Box::new(reference_to(object)), event }
    }

    /// The same action with words for its result.
    pub fn announcing(
        mut self,
        about: ObjectReference,
        success: Option<EventText>,
        failure: Option<EventText>,
    ) -> Action {
        let words = Some(Box::new(Announce { about, success, failure }));
        match &mut self {
            Action::Create { announce, .. }
            | Action::Patch { announce, .. }
            | Action::Delete { announce, .. } => *announce = words,
            Action::UpdateStatus { .. } | Action::Record { .. } | Action::RequeueAfter(_) => {}
        }
        self
    }

    /// The same deletion with a policy for what the object owns.
    pub fn with_propagation(mut self, policy: Propagation) -> Action {
        if let Action::Delete { propagation, .. } = &mut self {
            *propagation = Some(policy);
        }
        self
    }

    /// The same deletion with a grace period.
    pub fn with_grace(mut self, seconds: i64) -> Action {
        if let Action::Delete { grace_period_seconds, .. } = &mut self {
            *grace_period_seconds = Some(seconds);
        }
        self
    }
}

/// A reference to an object, as Events carry it.
pub fn reference_to<K: k8s_openapi::Resource + Cached>(object: &K) -> ObjectReference {
    let meta = object.meta();
    ObjectReference {
        api_version: Some(K::API_VERSION.to_owned()),
        kind: Some(K::KIND.to_owned()),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path: None,
    }
}
