//! evicted: the node ran short and put the pod out
//!
//! Phase Failed, reason Evicted, with the resource and the threshold in the message. A node with pressure that
//! its disk doesn't explain has a threshold that somebody set.
//!
//! # In Kubernetes
//! `pkg/kubelet/eviction`: `The node was low on resource: …`; conditions DiskPressure, MemoryPressure,
//! PIDPressure.

use crate::journey::Stage;
use crate::object::Object;
use crate::why::facts::condition;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};
use crate::why::{ObjectRef, Severity};

/// the node ran short and put the pod out
pub const RULE: Rule = Rule {
    id: "evicted",
    stage: Stage::Kubelet,
    mechanism: Mechanism::EvictionThreshold,
    lab: "5-J",
    symptom: "pods Evicted, node DiskPressure",
    first_command: "kubectl describe node NAME",
    ruled_out_by: "TaintManagerEviction: the node was unreachable, kubelet-down (5-A)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    for node in facts.all("Node") {
        for kind in ["DiskPressure", "MemoryPressure", "PIDPressure"] {
            let Some((_, at)) = condition(node, kind).filter(|(one, _)| one["status"] == "True") else {
                continue;
            };
            let evicted: Vec<ObjectRef> = evicted(facts)
                .filter(|pod| pod.get_str("/spec/nodeName") == Some(node.name()))
                .map(ObjectRef::of)
                .collect();
            if facts.wide || !evicted.is_empty() {
                let message = format!("{} has {kind}: it takes no pods and puts some out", node.name());
                found.push(
                    Finding::at(node, &format!("{at}/status"))
                        .proof(node, &format!("{at}/message"))
                        .affecting(evicted)
                        .message(message),
                );
            }
        }
    }
    let alone =
        evicted(facts).filter(|pod| !found.iter().any(|one| one.affects.contains(&ObjectRef::of(pod))));
    let alone: Vec<Finding> = alone
        .map(|pod| {
            let message = pod.get_str("/status/message").unwrap_or_default();
            Finding::at(pod, "/status/reason")
                .severity(Severity::Warning)
                .proof(pod, "/status/message")
                .message(format!("{} was put out: {message}", ObjectRef::of(pod)))
        })
        .collect();
    found.extend(alone);
    found
}

fn evicted(facts: &Facts) -> impl Iterator<Item = &Object> {
    facts.pods().filter(|pod| pod.get_str("/status/reason") == Some("Evicted"))
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .not_ready("web-b")
        .set("Pod/web-b", "/status", json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi"}))
        .set("Node/node-2", "/status/conditions/1", json!({"type": "DiskPressure", "status": "True", "message": "kubelet has disk pressure"}))
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_node_is_blamed_and_its_pods_are_named() {
        let finding = only(&RULE, fault());
        assert_eq!(finding.object.name, "node-2");
        assert!(finding.affects.iter().any(|one| one.name == "web-b"));
        assert!(find(&RULE, super::super::kubelet_down::fault()).is_empty());
    }
}
