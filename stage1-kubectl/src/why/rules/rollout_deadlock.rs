//! rollout-deadlock: the update strategy can't be satisfied
//!
//! No old pod may go (`maxUnavailable: 0`), and a new one finds no place beside them: a host port, an anti-
//! affinity, or full nodes. The old pods work; nothing moves.
//!
//! # In Kubernetes
//! `pkg/controller/deployment/rolling.go`.

use crate::journey::Stage;
use crate::object::Object;
use crate::why::ObjectRef;
use crate::why::acting::unschedulable;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the update strategy can't be satisfied
pub const RULE: Rule = Rule {
    id: "rollout-deadlock",
    stage: Stage::Controllers,
    mechanism: Mechanism::RolloutDeadlock,
    lab: "3-E",
    symptom: "rollout status waits; old pods fine",
    first_command: "kubectl describe deploy NAME; then its newest pod",
    ruled_out_by: "maxUnavailable above 0, or no old pods: the new pod's own reason counts (4-C, ports-taken)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .focused("Deployment")
        .filter_map(|deployment| {
            let unavailable = deployment.get("/spec/strategy/rollingUpdate/maxUnavailable")?;
            let none = unavailable.as_i64() == Some(0) || matches!(unavailable.as_str(), Some("0" | "0%"));
            let sets: Vec<_> = facts.children(deployment, "ReplicaSet").collect();
            let newest = sets.iter().max_by_key(|set| (revision(set), set.creation_timestamp()))?;
            let old_ready = sets.iter().any(|set| {
                set.name() != newest.name() && set.get_i64("/status/readyReplicas").unwrap_or(0) > 0
            });
            let (pod, message, at) = facts.children(newest, "Pod").find_map(|pod| {
                let (message, at) = unschedulable(pod)?;
                Some((pod, message, at))
            })?;
            let by_old = ["free ports", "anti-affinity", "Insufficient", "Too many pods"]
                .iter()
                .any(|text| message.contains(text));
            if !none || !old_ready || !by_old {
                return None;
            }
            Some(
                Finding::at(deployment, "/spec/strategy/rollingUpdate/maxUnavailable")
                    .proof(pod, &at)
                    .affecting([ObjectRef::of(pod)])
                    .message(format!(
                        "{} may take no old pod away, and a new one finds no place beside them",
                        ObjectRef::of(deployment)
                    ))
                    .not(
                        Stage::Scheduler,
                        "the scheduler works: it has looked, and the old pods hold what the new one needs",
                    )
                    .next(format!("kubectl describe {}", ObjectRef::of(pod).arguments())),
            )
        })
        .collect()
}

fn revision(set: &Object) -> i64 {
    set.annotation("deployment.kubernetes.io/revision").and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .with(json!({"kind": "ReplicaSet", "metadata": {"name": "web-new", "namespace": "default", "uid": "new",
            "annotations": {"deployment.kubernetes.io/revision": "2"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "Deployment-web", "controller": true}]},
            "spec": {"replicas": 1}, "status": {"observedGeneration": 1}}))
        .set("Deployment/web", "/spec/strategy", json!({"rollingUpdate": {"maxUnavailable": 0}}))
        .set("Pod/web-b", "/metadata/ownerReferences/0/uid", json!("new"))
        .unbound("web-b", Some("0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_strategy_is_blamed_not_the_port() {
        assert_eq!(only(&RULE, fault()).field, "/spec/strategy/rollingUpdate/maxUnavailable");
    }

    #[test]
    fn silent_when_an_old_pod_may_go() {
        let world = fault().set("Deployment/web", "/spec/strategy/rollingUpdate/maxUnavailable", json!(1));
        assert!(find(&RULE, world).is_empty());
    }
}
