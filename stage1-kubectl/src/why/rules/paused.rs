//! paused: somebody has stopped the workload on purpose
//!
//! A paused Deployment, a suspended Job or CronJob, or one that is scaled to zero behind a Service that people
//! ask. Nothing is broken, and nothing will happen.
//!
//! # In Kubernetes
//! `spec.paused`, `spec.suspend`, `spec.replicas: 0`.

use crate::journey::Stage;
use crate::object::Object;
use crate::why::facts::selects;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};
use crate::why::{ObjectRef, Severity};

/// somebody has stopped the workload on purpose
pub const RULE: Rule = Rule {
    id: "paused",
    stage: Stage::Controllers,
    mechanism: Mechanism::Paused,
    lab: "",
    symptom: "a change has no effect; no pods at all",
    first_command: "kubectl get deploy NAME -o jsonpath='{.spec.paused} {.spec.replicas}'",
    ruled_out_by: "a spec that asks for pods: the other rules of stage ③",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    for deployment in facts.focused("Deployment") {
        let behind = deployment.get_i64("/status/updatedReplicas").unwrap_or(0)
            < deployment.get_i64("/spec/replicas").unwrap_or(1);
        if deployment.get("/spec/paused") == Some(&true.into()) && behind {
            found.push(told(deployment, "/spec/paused", "is paused: its newest template isn't rolled out"));
        }
    }
    for job in facts.focused("Job").filter(|job| job.get("/spec/suspend") == Some(&true.into())) {
        found.push(told(job, "/spec/suspend", "is suspended: it makes no pods"));
    }
    for service in facts.focused("Service") {
        let asked =
            ["Deployment", "StatefulSet"].into_iter().flat_map(|kind| facts.all(kind)).find(|owner| {
                owner.namespace() == service.namespace()
                    && owner.get_i64("/spec/replicas") == Some(0)
                    && selects(service, &owner.string_map("/spec/template/metadata/labels"))
            });
        let empty = !facts
            .all("Pod")
            .iter()
            .any(|pod| pod.namespace() == service.namespace() && selects(service, &pod.labels()));
        if let Some(owner) = asked.filter(|_| empty) {
            found.push(
                told(owner, "/spec/replicas", "is scaled to zero, and a Service sends to it")
                    .affecting([ObjectRef::of(service)]),
            );
        }
    }
    found
}

fn told(object: &Object, field: &str, what: &str) -> Finding {
    Finding::at(object, field)
        .severity(Severity::Warning)
        .message(format!("{} {what}", ObjectRef::of(object)))
        .next(format!("kubectl get {} -o yaml", ObjectRef::of(object).arguments()))
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy().set("Deployment/web", "/spec/paused", json!(true)).set(
        "Deployment/web",
        "/status/updatedReplicas",
        json!(0),
    )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{World, find, only};

    #[test]
    fn a_pause_is_a_warning() {
        assert_eq!(only(&RULE, fault()).severity, crate::why::Severity::Warning);
    }

    #[test]
    fn zero_replicas_matter_when_a_service_sends_to_them() {
        let idle = World::healthy().app("idle", &[]);
        assert_eq!(only(&RULE, idle.clone()).object.name, "idle");
        assert!(find(&RULE, idle.without(&["Service/idle"])).is_empty());
    }
}
