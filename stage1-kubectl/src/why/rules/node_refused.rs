//! node-refused: the kubelet refuses a pod that the scheduler bound to it
//!
//! Phase Failed, reason `OutOfcpu` and its kind: between the scheduler's sum and the kubelet's, room was given
//! away twice. A scheduler that forgets the pods that it has just bound does this.
//!
//! # In Kubernetes
//! `pkg/kubelet/lifecycle/predicate.go`; the scheduler's cache assumes pods (`pkg/scheduler/backend/cache`).

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the kubelet refuses a pod that the scheduler bound to it
pub const RULE: Rule = Rule {
    id: "node-refused",
    stage: Stage::Scheduler,
    mechanism: Mechanism::DoubleBind,
    lab: "4-H",
    symptom: "pod Failed, OutOfcpu",
    first_command: "kubectl describe pod NAME; kubectl describe node NODE",
    ruled_out_by: "a template with nodeName: scheduler-bypassed (4-G)",
    explained: Explained::By(&["scheduler-bypassed"]),
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .pods()
        .filter_map(|pod| {
            let reason = pod.get_str("/status/reason")?;
            let known = reason.starts_with("OutOf")
                || ["NodeAffinity", "NodePorts", "UnexpectedAdmissionError"].contains(&reason);
            if pod.get_str("/status/phase") != Some("Failed") || !known {
                return None;
            }
            let mut finding = Finding::at(pod, "/status/reason").proof(pod, "/status/message");
            if let Some(node) = facts.node(pod.get_str("/spec/nodeName").unwrap_or_default()) {
                finding = finding.proof(node, "/status/allocatable");
            }
            Some(
                finding
                    .message(format!(
                        "the kubelet of {} refuses {}: {reason}",
                        pod.get_str("/spec/nodeName").unwrap_or("its node"),
                        ObjectRef::of(pod)
                    ))
                    .event(facts.event(pod, reason, ""))
                    .next(format!("kubectl describe {}", ObjectRef::of(pod).arguments())),
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
        .not_ready("web-b")
        .set("Pod/web-b", "/status", json!({"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: Node didn't have enough resource: cpu"}))
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_kubelets_words_are_kept() {
        assert_eq!(only(&RULE, fault()).evidence[0].value, "OutOfcpu");
        assert!(find(&RULE, super::super::insufficient_resource::fault()).is_empty());
    }
}
