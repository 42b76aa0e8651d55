//! watch-not-resumed: a component lives, but hears of no changes any more
//!
//! The Lease is renewed every two seconds, older objects are as they should be, and a new one isn't even looked
//! at. The watch has ended and was not taken up again: after a 410 Gone a client must list anew. A restart
//! "repairs" it.
//!
//! # In Kubernetes
//! `client-go/tools/cache/reflector.go` (`isExpiredError` → relist).

use crate::journey::Stage;
use crate::object::Object;
use crate::why::ObjectRef;
use crate::why::acting::{GRACE_SECONDS, has_bound, is_observed, scheduler_of, unlooked, unobserved};
use crate::why::heartbeat::{Heartbeat, heartbeat};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// a component lives, but hears of no changes any more
pub const RULE: Rule = Rule {
    id: "watch-not-resumed",
    stage: Stage::ApiServer,
    mechanism: Mechanism::WatchNotResumed,
    lab: "2-F",
    symptom: "new objects are ignored; everything looks healthy; a restart helps",
    first_command: "kubectl -n kube-system get lease -o wide; compare observedGeneration of old and new objects",
    ruled_out_by: "a stale Lease: controller-manager-down (3-A), scheduler-down (4-A); no object of the kind was ever seen: loop-disabled (3-B)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    let alive = |name: &str| heartbeat(facts, "kube-system", name) == Heartbeat::Fresh;
    if alive("kube-controller-manager") {
        for object in unobserved(facts, GRACE_SECONDS) {
            let others = facts.all(object.kind()).iter();
            let Some(older) = others.clone().find(|other| other.generation() > 0 && is_observed(other))
            else {
                continue;
            };
            found.push(
                deaf(facts, "kube-controller-manager", object, "/status/observedGeneration")
                    .proof(older, "/status/observedGeneration"),
            );
        }
    }
    if alive("kube-scheduler") && has_bound(facts, "default-scheduler") {
        let unlooked =
            unlooked(facts, GRACE_SECONDS).into_iter().filter(|pod| scheduler_of(pod) == "default-scheduler");
        found.extend(unlooked.map(|pod| deaf(facts, "kube-scheduler", pod, "/status/conditions")));
    }
    found
}

fn deaf(facts: &Facts, component: &str, object: &Object, field: &str) -> Finding {
    let about = ObjectRef::of(object);
    let mut finding =
        Finding::about(ObjectRef::component(component)).affecting([about.clone()]).proof(object, field);
    if let Some(lease) = facts.find("Lease", "kube-system", component) {
        finding = finding.proof(lease, "/spec/renewTime");
    }
    finding
        .message(format!("{component} lives, but hasn't looked at {about}: its watch brings nothing"))
        .not(
            if component == "kube-scheduler" { Stage::Scheduler } else { Stage::Controllers },
            "its Lease is fresh, and it has handled others",
        )
        .next(format!("kubectl -n kube-system get lease {component} -o yaml"))
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy().app("new", &[]).set("Deployment/new", "/status", json!({})).without(&[
        "ReplicaSet/new-5d4",
        "Service/new",
        "EndpointSlice/new-slice",
    ])
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{World, find, only};

    #[test]
    fn an_old_object_was_seen_and_a_new_one_is_not() {
        let finding = only(&RULE, fault());
        assert_eq!(finding.object.name, "kube-controller-manager");
        assert!(finding.ruled_out.iter().any(|one| one.because.contains("fresh")));
    }

    #[test]
    fn a_deaf_scheduler_is_found_too() {
        let finding = only(&RULE, World::healthy().unbound("web-b", None));
        assert_eq!(finding.object.name, "kube-scheduler");
    }

    #[test]
    fn silent_when_the_process_is_gone_and_when_no_object_was_ever_seen() {
        assert!(find(&RULE, super::super::controller_manager_down::fault()).is_empty());
        assert!(find(&RULE, super::super::scheduler_down::fault()).is_empty());
        assert!(find(&RULE, super::super::loop_disabled::fault()).is_empty());
    }
}
