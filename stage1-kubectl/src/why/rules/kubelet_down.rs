//! kubelet-down: the node's kubelet is gone
//!
//! The node turns NotReady (`Kubelet stopped posting node status`), its Lease in kube-node-lease is old. Its
//! pods are still listed as Running until they are evicted; new ones stay Pending with a node.
//!
//! # In Kubernetes
//! `pkg/controller/nodelifecycle`: condition Ready Unknown, reason NodeStatusUnknown, taint
//! `node.kubernetes.io/unreachable`.

use crate::journey::Stage;
use crate::object::Object;
use crate::why::ObjectRef;
use crate::why::acting::unschedulable;
use crate::why::facts::condition;
use crate::why::heartbeat::heartbeat;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the node's kubelet is gone
pub const RULE: Rule = Rule {
    id: "kubelet-down",
    stage: Stage::Kubelet,
    mechanism: Mechanism::ComponentNotRunning,
    lab: "5-A",
    symptom: "node NotReady; pods Pending with a node, or Running and unreachable",
    first_command: "kubectl describe node NAME; kubectl -n kube-node-lease get lease NAME",
    ruled_out_by: "Ready False with a network message: network-not-ready (5-B); a node that was never there: scheduler-bypassed (4-G)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .all("Node")
        .iter()
        .filter_map(|node| {
            let (ready, at) = condition(node, "Ready")?;
            let beat = heartbeat(facts, "kube-node-lease", node.name());
            let unknown = ready["status"] == "Unknown" || beat.is_stale();
            let affected: Vec<ObjectRef> = facts
                .pods()
                .filter(|pod| pod.get_str("/spec/nodeName") == Some(node.name()) && !has_ended(pod))
                .map(ObjectRef::of)
                .collect();
            // A node whose Lease is old is told at once; the node controller needs most of a minute.
            if !unknown
                || (affected.is_empty()
                    && !facts.wide
                    && !facts.in_focus(node)
                    && !waits_for(facts, node.name()))
            {
                return None;
            }
            let mut finding = Finding::about(ObjectRef::of(node))
                .proof(node, &format!("{at}/status"))
                .proof(node, &format!("{at}/message"));
            finding.field = format!("{at}/status");
            if let Some(lease) = facts.find("Lease", "kube-node-lease", node.name()) {
                finding = finding.proof(lease, "/spec/renewTime");
            }
            Some(
                finding
                    .message(format!("the kubelet of {} doesn't report: {}", node.name(), beat.words()))
                    .affecting(affected)
                    .next(format!("kubectl describe node {}", node.name())),
            )
        })
        .collect()
}

fn has_ended(pod: &Object) -> bool {
    matches!(pod.get_str("/status/phase"), Some("Failed" | "Succeeded"))
}

/// Whether an unplaced pod of the focus is kept away by this node's state.
fn waits_for(facts: &Facts, node: &str) -> bool {
    let tainted = facts.node(node).and_then(|node| node.get("/spec/taints")).is_some();
    tainted
        && facts
            .pods()
            .any(|pod| unschedulable(pod).is_some_and(|(message, _)| message.contains("untolerated taint")))
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .set("Node/node-1", "/status/conditions/0", json!({"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}))
        .change("Lease/node-1", |lease| lease.set("/spec/renewTime", crate::why::worlds::ago(120)))
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_node_and_its_pods_are_named() {
        let finding = only(&RULE, fault());
        assert_eq!(finding.object.name, "node-1");
        assert!(finding.affects.iter().any(|one| one.name == "web-a"));
    }

    #[test]
    fn silent_about_nodes_of_others_and_a_network_that_is_missing() {
        assert!(find(&RULE, fault().focus(&["Pod/web-b"])).is_empty());
        assert!(find(&RULE, super::super::network_not_ready::fault()).is_empty());
    }
}
