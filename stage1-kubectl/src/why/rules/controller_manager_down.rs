//! controller-manager-down: the controller manager is gone
//!
//! A Deployment is accepted and nothing follows: no ReplicaSet, no event, no observedGeneration. The Lease that
//! the controller manager renews every two seconds is old.
//!
//! # In Kubernetes
//! `cmd/kube-controller-manager`, Lease `kube-system/kube-controller-manager`.

use crate::journey::Stage;
use crate::object::Object;
use crate::why::acting::{GRACE_SECONDS, OBSERVED_KINDS, unobserved};
use crate::why::heartbeat::{Heartbeat, heartbeat};
use crate::why::refusal::lacks_pods;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};
use crate::why::{ObjectRef, Severity};

/// the controller manager is gone
pub const RULE: Rule = Rule {
    id: "controller-manager-down",
    stage: Stage::Controllers,
    mechanism: Mechanism::ComponentNotRunning,
    lab: "3-A",
    symptom: "Deployment accepted, no ReplicaSet, no events",
    first_command: "kubectl -n kube-system get lease kube-controller-manager -o jsonpath='{.spec.renewTime}'",
    ruled_out_by: "an event FailedCreate: quota-exceeded (2-E) and its kind; a fresh Lease: loop-disabled, watch-not-resumed (2-F)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let heartbeat = heartbeat(facts, "kube-system", "kube-controller-manager");
    let grace = if heartbeat.is_stale() { 0 } else { GRACE_SECONDS };
    let waiting = unobserved(facts, grace);
    // Without a Lease only undone work is a sign, and only if nobody has done such work before.
    let idle = !waiting.is_empty()
        && !OBSERVED_KINDS.into_iter().flat_map(|kind| facts.all(kind)).any(is_observed_once);
    let (gone, severity) = match &heartbeat {
        Heartbeat::Fresh => (false, Severity::Error),
        Heartbeat::Stale(_) if facts.wide || !waiting.is_empty() => (true, Severity::Error),
        Heartbeat::Stale(_) => (true, Severity::Warning),
        Heartbeat::Absent | Heartbeat::Unseen => (idle, Severity::Error),
    };
    if !gone || facts.trouble.is_some() {
        return Vec::new();
    }
    let component = ObjectRef::component("kube-controller-manager");
    let waits = match waiting.first() {
        None => String::new(),
        Some(first) => format!("; {} and {} more wait for it", ObjectRef::of(first), waiting.len() - 1)
            .replace(" and 0 more wait", " waits"),
    };
    let mut finding = Finding::about(component.clone())
        .severity(severity)
        .message(format!("the controller manager doesn't run: {}{waits}", heartbeat.words()))
        .next("kubectl -n kube-system get lease kube-controller-manager -o yaml");
    finding = match facts.find("Lease", "kube-system", "kube-controller-manager") {
        Some(lease) => finding.proof(lease, "/spec/renewTime").proof(lease, "/spec/holderIdentity"),
        None => finding.seen(
            ObjectRef::new("Lease", "kube-system", "kube-controller-manager"),
            "answer",
            "not found",
        ),
    };
    if let Some(first) = waiting.first() {
        finding = finding.proof(first, "/status/observedGeneration");
    }
    let lacking = ["ReplicaSet", "StatefulSet"]
        .into_iter()
        .flat_map(|kind| facts.focused(kind))
        .filter(|one| lacks_pods(facts, one));
    let affected: Vec<ObjectRef> = waiting.into_iter().chain(lacking).map(ObjectRef::of).collect();
    vec![finding.affecting(affected).not(
        Stage::ApiServer,
        "the API server answers and has stored the object; no event speaks of a refusal",
    )]
}

fn is_observed_once(object: &Object) -> bool {
    object.get_i64("/status/observedGeneration").is_some_and(|seen| seen > 0)
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .set("Lease/kube-controller-manager", "/spec/renewTime", json!(crate::why::worlds::ago(180)))
        .set("Deployment/web", "/status", json!({}))
        .without(&["ReplicaSet/web-5d4", "Pod/web-a", "Pod/web-b"])
        .set("EndpointSlice/web-slice", "/endpoints", json!([]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{World, find, only};

    #[test]
    fn the_old_lease_and_the_object_that_waits_are_shown() {
        let finding = only(&RULE, fault());
        assert!(
            finding.message.contains("180s ago") || finding.message.contains("3m ago"),
            "{}",
            finding.message
        );
        assert!(finding.affects.iter().any(|one| one.kind == "Deployment"));
    }

    #[test]
    fn without_a_lease_undone_work_is_the_sign() {
        assert_eq!(find(&RULE, fault().without(&["Lease/kube-controller-manager"])).len(), 1);
        assert!(find(&RULE, World::healthy().without(&["Lease/kube-controller-manager"])).is_empty());
    }

    #[test]
    fn a_healthy_workload_gets_a_warning_only() {
        let world = World::healthy().set(
            "Lease/kube-controller-manager",
            "/spec/renewTime",
            json!("2026-01-01T11:00:00Z"),
        );
        let finding = only(&RULE, world.focus(&["Deployment/web"]));
        assert_eq!(finding.severity, crate::why::Severity::Warning);
    }

    #[test]
    fn silent_when_a_quota_refuses() {
        assert!(find(&RULE, super::super::quota_exceeded::fault()).is_empty());
    }
}
