//! Refusals: why may a controller not make its pods?
//!
//! *Step 2 of a pod's journey, asked for by stage ③.* Before: a ReplicaSet, Job, DaemonSet or StatefulSet tried to create a pod. After:
//! the API server's gates said no, and the controller wrote it down as an event `FailedCreate`.
//!
//! The symptom is "no pods", as with a dead controller manager; the difference is this event. Its message is the API server's
//! refusal word for word, so the gate can be read from it: quota, limit range, pod security, a webhook, a missing account.
//!
//! # Invariants
//! 1. An old event of an owner that has all its pods says nothing.
//!
//! # In Kubernetes
//! Texts of `plugin/pkg/admission/{resourcequota,limitranger,serviceaccount}`, `pod-security-admission`,
//! `apiserver/pkg/admission/plugin/webhook/errors`.

use super::facts::{Facts, template_at};
use super::{Finding, ObjectRef};
use crate::journey::Stage;
use crate::object::Object;

/// Which gate said no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    /// A ResourceQuota, by name.
    Quota(String),
    /// A LimitRange.
    LimitRange,
    /// The pod security level of the namespace.
    PodSecurity,
    /// A webhook that doesn't answer, by name.
    WebhookUnreachable(String),
    /// A webhook that says no, by name.
    WebhookDenied(String),
    /// A service account that isn't there, by name.
    ServiceAccount(String),
    /// Anything else.
    Other,
}

/// An owner that may not make its pods.
#[derive(Debug, Clone)]
pub struct Refusal<'a> {
    /// The ReplicaSet, Job, …
    pub owner: &'a Object,
    /// The event.
    pub event: &'a Object,
    /// The API server's words.
    pub message: &'a str,
    /// Which gate.
    pub gate: Gate,
}

impl Refusal<'_> {
    /// The owner's namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.owner.namespace().unwrap_or_default()
    }

    /// The API server's words without the controller's before them.
    #[must_use]
    pub fn words(&self) -> &str {
        self.message.trim_start_matches("Error creating: ")
    }

    /// A finding at a field of the topmost owner's pod template, with the event as proof that stage ③ tried.
    #[must_use]
    pub fn finding(&self, facts: &Facts, field: &str) -> Finding {
        let owner = ObjectRef::of(self.owner);
        let (top, template) = top_template(facts, self.owner);
        Finding::at(top, &format!("{template}{field}"))
            .event(Some(self.event))
            .affecting([owner.clone(), ObjectRef::of(top)])
            .not(Stage::Controllers, format!("{owner} exists and tried: its event is the proof"))
    }
}

/// Reads the gate from the API server's words.
#[must_use]
pub fn gate(message: &str) -> Gate {
    let between = |before: &str, after: char| {
        let rest = message.split_once(before)?.1;
        Some(rest.split(after).next().unwrap_or(rest).to_owned())
    };
    if let Some(name) = between("exceeded quota: ", ',').or_else(|| between("failed quota: ", ':')) {
        return Gate::Quota(name);
    }
    if let Some(name) = between("failed calling webhook \"", '"') {
        return Gate::WebhookUnreachable(name);
    }
    if let Some(name) = between("admission webhook \"", '"') {
        return Gate::WebhookDenied(name);
    }
    if let Some(name) = between("serviceaccount \"", '"').filter(|_| message.contains("not found")) {
        return Gate::ServiceAccount(name);
    }
    let limits = [
        "maximum cpu",
        "maximum memory",
        "minimum cpu",
        "minimum memory",
        "limit to request ratio",
        "usage per ",
    ];
    match message {
        text if text.contains("violates PodSecurity") => Gate::PodSecurity,
        text if limits.iter().any(|limit| text.contains(limit)) => Gate::LimitRange,
        _ => Gate::Other,
    }
}

/// Every owner that lacks pods because the API server refuses them.
#[must_use]
pub fn refusals(facts: &Facts) -> Vec<Refusal<'_>> {
    let kinds = ["ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"];
    let owners =
        kinds.into_iter().flat_map(|kind| facts.focused(kind)).filter(|owner| lacks_pods(facts, owner));
    owners
        .filter_map(|owner| {
            let events = facts.events(owner);
            let event = events.into_iter().rfind(|event| event.get_str("/reason") == Some("FailedCreate"))?;
            let message = event.get_str("/message")?;
            Some(Refusal { owner, event, message, gate: gate(message) })
        })
        .collect()
}

/// The topmost owner that has a pod template, and the template's place.
#[must_use]
pub fn top_template<'a>(facts: &'a Facts, owner: &'a Object) -> (&'a Object, &'static str) {
    let above = facts.owners(owner).into_iter().rev().find_map(|one| Some((one, template_at(one)?)));
    above.or_else(|| Some((owner, template_at(owner)?))).unwrap_or((owner, "/spec/template"))
}

/// Whether an owner has fewer pods than it wants.
#[must_use]
pub fn lacks_pods(facts: &Facts, owner: &Object) -> bool {
    let has = facts.children(owner, "Pod").filter(|pod| pod.deletion_timestamp().is_none()).count() as i64;
    match owner.kind() {
        "DaemonSet" => {
            let wanted = owner.get_i64("/status/desiredNumberScheduled").unwrap_or(1);
            has < wanted
        }
        "Job" => {
            let done = owner.get("/status/completionTime").is_some();
            !done && has == 0 && owner.get("/spec/suspend") != Some(&true.into())
        }
        _ => has < owner.get_i64("/spec/replicas").unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gate_is_known_by_its_words() {
        let cases = [
            (
                "pods \"w-\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0",
                Gate::Quota("q".into()),
            ),
            (
                "pods \"w\" is forbidden: failed quota: q: must specify limits.cpu for: c",
                Gate::Quota("q".into()),
            ),
            (
                "pods \"w\" is forbidden: maximum memory usage per Container is 64Mi, but limit is 128Mi",
                Gate::LimitRange,
            ),
            (
                "pods \"w\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation",
                Gate::PodSecurity,
            ),
            (
                "Internal error occurred: failed calling webhook \"v.x.io\": failed to call webhook: Post \"https://x\": EOF",
                Gate::WebhookUnreachable("v.x.io".into()),
            ),
            ("admission webhook \"v.x.io\" denied the request: no", Gate::WebhookDenied("v.x.io".into())),
            (
                "pods \"w\" is forbidden: error looking up service account d/a: serviceaccount \"a\" not found",
                Gate::ServiceAccount("a".into()),
            ),
            ("Pod \"w\" is invalid: spec: Required value", Gate::Other),
        ];
        for (message, expected) in cases {
            assert_eq!(gate(message), expected, "{message}");
        }
    }
}
