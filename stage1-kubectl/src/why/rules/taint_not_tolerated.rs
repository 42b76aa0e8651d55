//! taint-not-tolerated: nodes are tainted, and the pod doesn't tolerate it
//!
//! A taint keeps pods away that don't tolerate it. Which side is wrong only people know: the taint may be
//! stray, or the toleration forgotten.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/tainttoleration`: `node(s) had untolerated taint(s)` (1.33: `{key:
//! value}`).

use serde_json::Value;

use crate::journey::Stage;
use crate::object::Object;
use crate::why::ObjectRef;
use crate::why::acting::unschedulable;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// nodes are tainted, and the pod doesn't tolerate it
pub const RULE: Rule = Rule {
    id: "taint-not-tolerated",
    stage: Stage::Scheduler,
    mechanism: Mechanism::TaintNotTolerated,
    lab: "4-D",
    symptom: "Pending, untolerated taint",
    first_command: "kubectl get nodes -o custom-columns=N:.metadata.name,T:.spec.taints",
    ruled_out_by: "a taint `node.kubernetes.io/not-ready` or `unreachable`: kubelet-down (5-A); a cordon: node-cordoned",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .pods()
        .flat_map(|pod| {
            let Some((message, at)) =
                unschedulable(pod).filter(|(message, _)| message.contains("untolerated taint"))
            else {
                return Vec::new();
            };
            let tainted = facts.all("Node").iter().flat_map(|node| {
                let taints =
                    node.get("/spec/taints").and_then(Value::as_array).into_iter().flatten().enumerate();
                let repels = taints
                    .filter(|(_, taint)| taint["effect"] != "PreferNoSchedule" && !tolerates(pod, taint));
                repels.map(|(index, taint)| (node, index, taint.clone())).collect::<Vec<_>>()
            });
            // The node controller's taints say that a kubelet is gone, the cordon's that somebody closed the node: other rules.
            let ours = tainted.filter(|(_, _, taint)| {
                !taint["key"].as_str().unwrap_or_default().starts_with("node.kubernetes.io/")
            });
            let mut found: Vec<Finding> = ours
                .map(|(node, index, taint)| {
                    let text = shown(&taint);
                    Finding::at(node, &format!("/spec/taints/{index}"))
                        .proof(pod, &at)
                        .proof(pod, "/spec/tolerations")
                        .affecting([ObjectRef::of(pod)])
                        .message(format!(
                            "{} has the taint {text}, which {} doesn't tolerate",
                            node.name(),
                            ObjectRef::of(pod)
                        ))
                        .next("kubectl get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints")
                })
                .collect();
            if found.is_empty() && facts.all("Node").is_empty() {
                found.push(Finding::at(pod, &at).message(message.to_owned()));
            }
            found
        })
        .collect()
}

/// `key=value:effect`.
fn shown(taint: &Value) -> String {
    let text = |name: &str| taint[name].as_str().unwrap_or_default();
    let value = if text("value").is_empty() { String::new() } else { format!("={}", text("value")) };
    format!("{}{value}:{}", text("key"), text("effect"))
}

/// Whether a pod tolerates a taint.
fn tolerates(pod: &Object, taint: &Value) -> bool {
    let tolerations = pod.get("/spec/tolerations").and_then(Value::as_array);
    tolerations.into_iter().flatten().any(|one| {
        let text = |name: &str| one[name].as_str().unwrap_or_default();
        let key = text("key").is_empty() || taint["key"] == text("key");
        let effect = text("effect").is_empty() || taint["effect"] == text("effect");
        let value =
            text("operator") == "Exists" || taint["value"].as_str().unwrap_or_default() == text("value");
        key && effect && value && (!text("key").is_empty() || text("operator") == "Exists")
    })
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .set("Node/node-1", "/spec/taints", json!([{"key": "team", "value": "a", "effect": "NoSchedule"}]))
        .set("Node/node-2", "/spec/taints", json!([{"key": "team", "value": "a", "effect": "NoSchedule"}]))
        .unbound(
            "web-b",
            Some(
                "0/2 nodes are available: 2 node(s) had untolerated taint {team: a}. preemption: not helpful",
            ),
        )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::find;

    #[test]
    fn each_node_with_the_taint_is_named() {
        let found = find(&RULE, fault());
        assert_eq!(found.len(), 2);
        assert!(found[0].message.starts_with("node-1 has the taint team=a:NoSchedule"));
    }

    #[test]
    fn silent_about_taints_that_are_tolerated_or_that_mean_a_dead_kubelet() {
        let tolerated =
            fault().set("Pod/web-b", "/spec/tolerations", json!([{"key": "team", "operator": "Exists"}]));
        assert!(find(&RULE, tolerated).is_empty());
        assert!(find(&RULE, super::super::kubelet_down::fault()).is_empty());
        assert!(find(&RULE, super::super::affinity_unsatisfied::fault()).is_empty());
    }
}
