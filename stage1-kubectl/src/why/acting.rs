//! Acting: which objects wait for a controller or the scheduler, and for how long?
//!
//! *Steps 3 and 4 of a pod's journey.* Before: an object was stored. After: somebody who watches should have done something.
//!
//! A controller writes into `status.observedGeneration` which version of the spec it has seen; a scheduler writes the condition
//! `PodScheduled`, whatever it decides. Where neither is there, nobody has even looked. That is another fault than looking and
//! not finding a way, and the silence itself is the evidence.
//!
//! # Invariants
//! 1. What was written less than [`GRACE_SECONDS`] ago waits for nobody yet.
//!
//! # In Kubernetes
//! `observedGeneration` in the API conventions; `pkg/scheduler/schedule_one.go` (`handleSchedulingFailure`).

use jiff::Timestamp;
use serde_json::Value;

use super::facts::{Facts, condition};
use crate::object::Object;

/// Controllers and schedulers act within a second; so much is left to a busy cluster.
pub const GRACE_SECONDS: i64 = 10;

/// The kinds whose controllers say what they have seen.
pub const OBSERVED_KINDS: [&str; 4] = ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"];

/// Whether a controller has seen the newest spec.
#[must_use]
pub fn is_observed(object: &Object) -> bool {
    object.get_i64("/status/observedGeneration").unwrap_or(0) >= object.generation()
}

/// The objects that no controller has looked at for `grace_seconds`.
#[must_use]
pub fn unobserved(facts: &Facts, grace_seconds: i64) -> Vec<&Object> {
    let objects = OBSERVED_KINDS.into_iter().flat_map(|kind| facts.focused(kind));
    objects
        .filter(|object| !is_observed(object) && object.deletion_timestamp().is_none())
        .filter(|object| facts.since(changed(object)).as_secs() >= grace_seconds)
        .collect()
}

/// When a spec was written last: the newest field manager that is no status writer, else the creation.
fn changed(object: &Object) -> Option<Timestamp> {
    let managers = object.get("/metadata/managedFields").and_then(Value::as_array);
    let written = managers.into_iter().flatten().filter(|entry| entry["subresource"] != "status");
    let newest = written.filter_map(|entry| entry["time"].as_str()?.parse().ok()).max();
    newest.max(object.creation_timestamp())
}

/// The pods that no scheduler has looked at for `grace_seconds`: no node, no condition, no event.
#[must_use]
pub fn unlooked(facts: &Facts, grace_seconds: i64) -> Vec<&Object> {
    facts
        .pods()
        .filter(|pod| is_unbound(pod) && condition(pod, "PodScheduled").is_none())
        .filter(|pod| facts.event(pod, "FailedScheduling", "").is_none())
        .filter(|pod| facts.age(pod).as_secs() >= grace_seconds)
        .collect()
}

/// Whether a pod has no node and may get one.
#[must_use]
pub fn is_unbound(pod: &Object) -> bool {
    let unbound = pod.get_str("/spec/nodeName").is_none_or(str::is_empty);
    let over = matches!(pod.get_str("/status/phase"), Some("Failed" | "Succeeded"));
    let gated =
        pod.get("/spec/schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty());
    unbound && !over && !gated
}

/// The scheduler that a pod asks for.
#[must_use]
pub fn scheduler_of(pod: &Object) -> &str {
    pod.get_str("/spec/schedulerName").filter(|name| !name.is_empty()).unwrap_or("default-scheduler")
}

/// Whether a scheduler of this name has ever bound a pod that is still there.
#[must_use]
pub fn has_bound(facts: &Facts, scheduler: &str) -> bool {
    let bound = |pod: &&Object| {
        scheduler_of(pod) == scheduler
            && condition(pod, "PodScheduled").is_some_and(|(one, _)| one["status"] == "True")
    };
    facts.all("Pod").iter().any(|pod| bound(&pod))
}

/// What the scheduler says about a pod that it can't place: the text and its place in the pod.
#[must_use]
pub fn unschedulable(pod: &Object) -> Option<(&str, String)> {
    let (condition, at) = condition(pod, "PodScheduled")?;
    let refused = condition["status"] == "False" && is_unbound(pod);
    refused.then(|| (condition["message"].as_str().unwrap_or_default(), format!("{at}/message")))
}
