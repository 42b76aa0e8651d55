//! readiness-gate: somebody else must set a condition, and hasn't
//!
//! All containers are ready; `spec.readinessGates` asks for one more condition, which a load balancer's
//! controller or another operator sets.
//!
//! # In Kubernetes
//! `pkg/kubelet/status/generate.go`: reason ReadinessGatesNotReady.

use crate::journey::Stage;
use crate::why::facts::{condition, time_at};
use crate::why::{Explained, Facts, Finding, Mechanism, ObjectRef, Rule, Severity};

/// somebody else must set a condition, and hasn't
pub const RULE: Rule = Rule {
    id: "readiness-gate",
    stage: Stage::Kubelet,
    mechanism: Mechanism::ReadinessGate,
    lab: "",
    symptom: "containers ready, pod not Ready",
    first_command: "kubectl get pod NAME -o jsonpath='{.spec.readinessGates} {.status.conditions}'",
    ruled_out_by: "a container that isn't ready: readiness-fails (6-C)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .pods()
        .filter_map(|pod| {
            let (ready, at) = condition(pod, "Ready")?;
            if ready["reason"] != "ReadinessGatesNotReady" {
                return None;
            }
            let young = facts.since(time_at(ready, "/lastTransitionTime")).as_secs() < 10;
            Some(
                Finding::in_pod(facts, pod, "/spec/readinessGates")
                    .severity(if young { Severity::Info } else { Severity::Error })
                    .proof(pod, &format!("{at}/message"))
                    .message(format!(
                        "{} waits for a condition that somebody else sets: {}",
                        ObjectRef::of(pod),
                        ready["message"].as_str().unwrap_or_default()
                    ))
                    .next(format!("kubectl get {} -o yaml", ObjectRef::of(pod).arguments())),
            )
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy().not_ready("web-b").set("Pod/web-b", "/spec/readinessGates", json!([{"conditionType": "example.org/lb"}])).set(
        "Pod/web-b",
        "/status/conditions/1",
        json!({"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady", "lastTransitionTime": crate::why::worlds::ago(60),
               "message": "corresponding condition of pod readiness gate \"example.org/lb\" does not exist."}),
    )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_gate_is_named() {
        assert!(only(&RULE, fault()).message.contains("example.org/lb"));
        assert!(find(&RULE, super::super::readiness_fails::fault()).is_empty());
    }
}
