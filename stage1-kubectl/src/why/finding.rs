//! Findings: what a rule says, with the fields that prove it.
//!
//! *Beside a pod's journey.* Before: a rule in [`super::rules`] looked at the [`Facts`]. After: [`super::rank`] sorts causes
//! from consequences, and [`super::report`] writes them.
//!
//! A claim without evidence is a guess, so a finding carries the place of each value that led to it: object, JSON path,
//! value. The object it blames is the one that a person would change: not the pod, but the Deployment whose template says
//! the same ([`Facts::blame`]).
//!
//! # Invariants
//! 1. An evidence's value is the one that stands in the object at that path when the finding is made.
//!
//! # In Kubernetes
//! No counterpart; conditions have a reason and a message, but no place.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::facts::Facts;
use crate::journey::Stage;
use crate::object::Object;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// On its way, or as somebody wanted it.
    Info,
    /// Works, but not as it should, or not for long.
    Warning,
    /// Stuck or broken.
    Error,
}

/// Which object: kind, namespace (empty for cluster-scoped ones and files), name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectRef {
    /// `Pod`; for what isn't an object of the API `kubeconfig`, `component`, `file`.
    pub kind: String,
    /// Empty when it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectRef {
    /// From its parts.
    #[must_use]
    pub fn new(kind: &str, namespace: &str, name: &str) -> Self {
        ObjectRef { kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }

    /// A component of the control plane or a node, which is no object.
    #[must_use]
    pub fn component(name: &str) -> Self {
        ObjectRef::new("component", "", name)
    }

    /// Of an object.
    #[must_use]
    pub fn of(object: &Object) -> Self {
        ObjectRef::new(object.kind(), object.namespace().unwrap_or_default(), object.name())
    }

    /// `kubectl`'s arguments for it: `-n default pod/web-0`.
    #[must_use]
    pub fn arguments(&self) -> String {
        let name = format!("{}/{}", self.kind.to_lowercase(), self.name);
        match self.namespace.as_str() {
            "" => name,
            namespace => format!("-n {namespace} {name}"),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The object.
    pub object: ObjectRef,
    /// kubectl's JSONPath without braces: `.status.phase`; `event` for an event about the object.
    pub path: String,
    /// What stands there; null: nothing does.
    pub value: Value,
}

/// A stage that isn't it, and what proves that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuledOut {
    /// The stage.
    pub stage: Stage,
    /// The proof.
    pub because: String,
}

/// What one rule found at one place.
// ANCHOR: finding
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What is to be changed, or what is missing.
    pub object: ObjectRef,
    /// Where in the object, as a JSON pointer; empty: as a whole.
    pub field: String,
    /// One sentence for a person.
    pub message: String,
    /// What proves it.
    pub evidence: Vec<Evidence>,
    /// What proves that it isn't another stage, or the twin fault; the rest is added by [`super::rank`].
    pub ruled_out: Vec<RuledOut>,
    /// The next command, which changes nothing.
    pub next: String,
    /// Which objects suffer.
    pub affects: BTreeSet<ObjectRef>,
}
// ANCHOR_END: finding

impl Finding {
    /// About an object as a whole.
    #[must_use]
    pub fn about(object: ObjectRef) -> Self {
        let next = format!("kubectl describe {}", object.arguments());
        Finding {
            severity: Severity::Error,
            affects: BTreeSet::from([object.clone()]),
            object,
            field: String::new(),
            message: String::new(),
            evidence: Vec::new(),
            ruled_out: Vec::new(),
            next,
        }
    }

    /// About a field of an object, which is the first evidence.
    #[must_use]
    pub fn at(object: &Object, pointer: &str) -> Self {
        let mut finding = Finding::about(ObjectRef::of(object)).proof(object, pointer);
        finding.field = pointer.into();
        finding
    }

    /// About a field of a pod's spec: blames the template that the pod was made from.
    #[must_use]
    pub fn in_pod(facts: &Facts, pod: &Object, pointer: &str) -> Self {
        let (owner, field) = facts.blame(pod, pointer);
        let mut finding = Finding::at(owner, &field);
        finding.affects.insert(ObjectRef::of(pod));
        finding.next = format!("kubectl describe {}", ObjectRef::of(pod).arguments());
        finding
    }

    /// What a person reads.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// How bad it is.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// The next command.
    #[must_use]
    pub fn next(mut self, command: impl Into<String>) -> Self {
        self.next = command.into();
        self
    }

    /// A field that proves it; a field that isn't there proves something too.
    #[must_use]
    pub fn proof(mut self, object: &Object, pointer: &str) -> Self {
        let value = object.get(pointer).cloned().unwrap_or_default();
        self.evidence.push(Evidence { object: ObjectRef::of(object), path: json_path(pointer), value });
        self
    }

    /// An event that proves it.
    #[must_use]
    pub fn event(mut self, event: Option<&Object>) -> Self {
        if let Some(event) = event {
            let text = |pointer: &str| event.get_str(pointer).unwrap_or_default();
            let value = format!("{}: {}", text("/reason"), text("/message").trim());
            let object = ObjectRef::new(
                text("/involvedObject/kind"),
                text("/involvedObject/namespace"),
                text("/involvedObject/name"),
            );
            self.evidence.push(Evidence { object, path: "event".into(), value: value.into() });
        }
        self
    }

    /// Something outside of the API's objects that proves it.
    #[must_use]
    pub fn seen(mut self, object: ObjectRef, path: &str, value: impl Into<Value>) -> Self {
        self.evidence.push(Evidence { object, path: path.into(), value: value.into() });
        self
    }

    /// Why it isn't another stage, or the fault that looks the same.
    #[must_use]
    pub fn not(mut self, stage: Stage, because: impl Into<String>) -> Self {
        self.ruled_out.push(RuledOut { stage, because: because.into() });
        self
    }

    /// More objects that suffer.
    #[must_use]
    pub fn affecting(mut self, objects: impl IntoIterator<Item = ObjectRef>) -> Self {
        self.affects.extend(objects);
        self
    }
}

/// A JSON pointer in kubectl's words: `/spec/containers/0/image` is `.spec.containers[0].image`.
#[must_use]
pub fn json_path(pointer: &str) -> String {
    let mut path = String::new();
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        if !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_digit()) {
            path += &format!("[{token}]");
        } else {
            path += &format!(".{}", token.replace('.', "\\."));
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pointer_becomes_the_path_that_kubectl_takes() {
        assert_eq!(json_path("/spec/containers/0/image"), ".spec.containers[0].image");
        assert_eq!(
            json_path("/metadata/labels/app.kubernetes.io~1name"),
            ".metadata.labels.app\\.kubernetes\\.io/name"
        );
        assert_eq!(json_path(""), "");
    }

    #[test]
    fn evidence_shows_the_value_and_its_absence() {
        let object = Object::from_value(json!({"kind": "Pod", "metadata": {"name": "p"}, "a": 1})).unwrap();
        let finding = Finding::at(&object, "/a").proof(&object, "/b");
        assert_eq!(finding.evidence[0].value, json!(1));
        assert_eq!(finding.evidence[1].value, Value::Null);
        assert_eq!(finding.next, "kubectl describe pod/p");
    }
}
