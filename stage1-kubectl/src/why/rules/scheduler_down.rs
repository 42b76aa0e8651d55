//! scheduler-down: the scheduler is gone
//!
//! All new pods are Pending, without a condition PodScheduled and without an event: nobody has looked at them.
//! The scheduler's Lease is old, or there is none.
//!
//! # In Kubernetes
//! `cmd/kube-scheduler`, Lease `kube-system/kube-scheduler`.

use crate::journey::Stage;
use crate::why::acting::{GRACE_SECONDS, scheduler_of, unlooked};
use crate::why::heartbeat::{Heartbeat, heartbeat};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};
use crate::why::{ObjectRef, Severity};

/// the scheduler is gone
pub const RULE: Rule = Rule {
    id: "scheduler-down",
    stage: Stage::Scheduler,
    mechanism: Mechanism::ComponentNotRunning,
    lab: "4-A",
    symptom: "all new pods Pending, no events, no PodScheduled condition",
    first_command: "kubectl -n kube-system get lease kube-scheduler -o jsonpath='{.spec.renewTime}'",
    ruled_out_by: "only pods with another schedulerName wait: scheduler-unknown (4-B); an event FailedScheduling: the scheduler lives",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let heartbeat = heartbeat(facts, "kube-system", "kube-scheduler");
    let grace = if heartbeat.is_stale() { 0 } else { GRACE_SECONDS };
    let waiting: Vec<_> =
        unlooked(facts, grace).into_iter().filter(|pod| scheduler_of(pod) == "default-scheduler").collect();
    let (gone, severity) = match &heartbeat {
        Heartbeat::Fresh => (false, Severity::Error),
        Heartbeat::Stale(_) if facts.wide || !waiting.is_empty() => (true, Severity::Error),
        Heartbeat::Stale(_) => (true, Severity::Warning),
        Heartbeat::Absent | Heartbeat::Unseen => (!waiting.is_empty(), Severity::Error),
    };
    if !gone || facts.trouble.is_some() {
        return Vec::new();
    }
    let waits = match waiting.as_slice() {
        [] => String::new(),
        [one] => format!("; {} waits for it", ObjectRef::of(one)),
        many => format!("; {} pods wait for it", many.len()),
    };
    let mut finding = Finding::about(ObjectRef::component("kube-scheduler"))
        .severity(severity)
        .message(format!("the scheduler doesn't run: {}{waits}", heartbeat.words()))
        .next("kubectl -n kube-system get lease kube-scheduler -o yaml");
    finding = match facts.find("Lease", "kube-system", "kube-scheduler") {
        Some(lease) => finding.proof(lease, "/spec/renewTime").proof(lease, "/spec/holderIdentity"),
        None => finding.seen(ObjectRef::new("Lease", "kube-system", "kube-scheduler"), "answer", "not found"),
    };
    if let Some(pod) = waiting.first() {
        finding = finding.proof(pod, "/status/conditions").proof(pod, "/spec/schedulerName");
    }
    vec![finding.affecting(waiting.into_iter().map(ObjectRef::of))]
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .set("Lease/kube-scheduler", "/spec/renewTime", json!(crate::why::worlds::ago(60)))
        .unbound("web-a", None)
        .unbound("web-b", None)
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{World, find, only};

    #[test]
    fn the_old_lease_and_the_silence_are_the_evidence() {
        let finding = only(&RULE, fault());
        assert_eq!(finding.object.name, "kube-scheduler");
        assert!(finding.message.ends_with("2 pods wait for it"), "{}", finding.message);
    }

    #[test]
    fn without_a_lease_pods_that_nobody_looked_at_are_the_sign() {
        assert_eq!(find(&RULE, fault().without(&["Lease/kube-scheduler"])).len(), 1);
        assert!(find(&RULE, World::healthy().without(&["Lease/kube-scheduler"])).is_empty());
    }

    #[test]
    fn silent_about_a_pod_that_asks_for_another_scheduler() {
        assert!(find(&RULE, super::super::scheduler_unknown::fault()).is_empty());
    }
}
