//! no-nodes: the cluster has no nodes
//!
//! The scheduler has nothing to choose from: no kubelet has registered.
//!
//! # In Kubernetes
//! `no nodes available to schedule pods` (`pkg/scheduler/schedule_one.go`, `ErrNoNodesAvailable`).

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::acting::unschedulable;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the cluster has no nodes
pub const RULE: Rule = Rule {
    id: "no-nodes",
    stage: Stage::Scheduler,
    mechanism: Mechanism::NoNodes,
    lab: "",
    symptom: "Pending, no nodes available to schedule pods",
    first_command: "kubectl get nodes",
    ruled_out_by: "nodes that are NotReady: kubelet-down (5-A)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    if !facts.all("Node").is_empty() || facts.is_unseen("nodes") {
        return Vec::new();
    }
    let waiting = facts.pods().filter_map(|pod| Some((pod, unschedulable(pod)?)));
    let waiting: Vec<_> = waiting
        .filter(|(_, (message, _))| message.contains("no nodes available") || message.starts_with("0/0"))
        .collect();
    let Some((pod, (_, at))) = waiting.first() else { return Vec::new() };
    let affected: Vec<ObjectRef> = waiting.iter().map(|(pod, _)| ObjectRef::of(pod)).collect();
    vec![
        Finding::about(ObjectRef::new("Node", "", "any"))
            .proof(pod, at)
            .affecting(affected)
            .message("the cluster has no nodes: no kubelet has registered")
            .next("kubectl get nodes"),
    ]
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy()
        .without(&["Node/node-1", "Node/node-2"])
        .unbound("web-a", Some("no nodes available to schedule pods"))
        .unbound("web-b", Some("no nodes available to schedule pods"))
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn no_node_is_told_from_nodes_without_room() {
        assert_eq!(only(&RULE, fault()).affects.len(), 3);
        assert!(find(&RULE, super::super::insufficient_resource::fault()).is_empty());
    }
}
