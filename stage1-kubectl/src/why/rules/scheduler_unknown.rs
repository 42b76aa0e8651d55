//! scheduler-unknown: no scheduler has the name that the pod asks for
//!
//! `spec.schedulerName` is a letter without an address: each scheduler takes the pods with its own name, and
//! nobody tells that a name is nobody's.
//!
//! # In Kubernetes
//! `pkg/scheduler/eventhandlers.go` (`responsibleForPod`).

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::acting::{GRACE_SECONDS, has_bound, scheduler_of, unlooked};
use crate::why::heartbeat::{Heartbeat, heartbeat};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// no scheduler has the name that the pod asks for
pub const RULE: Rule = Rule {
    id: "scheduler-unknown",
    stage: Stage::Scheduler,
    mechanism: Mechanism::UnknownScheduler,
    lab: "4-B",
    symptom: "this pod Pending, no events; others schedule",
    first_command: "kubectl get pod NAME -o jsonpath='{.spec.schedulerName}'",
    ruled_out_by: "pods with `default-scheduler` wait too: scheduler-down (4-A)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let waiting =
        unlooked(facts, GRACE_SECONDS).into_iter().filter(|pod| scheduler_of(pod) != "default-scheduler");
    waiting
        .filter_map(|pod| {
            let name = scheduler_of(pod);
            let lives = heartbeat(facts, "kube-system", name) == Heartbeat::Fresh;
            if lives || has_bound(facts, name) {
                return None;
            }
            Some(
                Finding::in_pod(facts, pod, "/spec/schedulerName")
                    .proof(pod, "/status/conditions")
                    .message(format!("no scheduler is called {name}: nobody looks at {}", ObjectRef::of(pod)))
                    .not(Stage::Scheduler, "the scheduler that there is does its work, but for another name")
                    .next(format!(
                        "kubectl get {} -o jsonpath='{{.spec.schedulerName}}'",
                        ObjectRef::of(pod).arguments()
                    )),
            )
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .set("Pod/web-b", "/spec/schedulerName", json!("gpu-sched"))
        .set("Deployment/web", "/spec/template/spec/schedulerName", json!("gpu-sched"))
        .unbound("web-b", None)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{World, find, only};

    #[test]
    fn the_template_is_blamed() {
        let finding = only(&RULE, fault());
        assert_eq!(
            (finding.object.kind.as_str(), finding.field.as_str()),
            ("Deployment", "/spec/template/spec/schedulerName")
        );
        assert_eq!(finding.evidence[0].value, "gpu-sched");
    }

    #[test]
    fn silent_when_the_scheduler_is_gone_and_when_another_scheduler_lives() {
        assert!(find(&RULE, super::super::scheduler_down::fault()).is_empty());
        let other = World::healthy().set("Pod/web-a", "/spec/schedulerName", json!("gpu-sched")).set(
            "Pod/web-b",
            "/spec/schedulerName",
            json!("gpu-sched"),
        );
        assert!(find(&RULE, other.unbound("web-b", None)).is_empty());
    }
}
