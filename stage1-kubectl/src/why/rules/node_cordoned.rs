//! node-cordoned: nodes are closed for new pods
//!
//! Somebody has cordoned the nodes, perhaps to drain them, and not opened them again.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/nodeunschedulable`: `node(s) were unschedulable`.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::acting::unschedulable;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// nodes are closed for new pods
pub const RULE: Rule = Rule {
    id: "node-cordoned",
    stage: Stage::Scheduler,
    mechanism: Mechanism::NodeCordoned,
    lab: "",
    symptom: "Pending, node(s) were unschedulable",
    first_command: "kubectl get nodes",
    ruled_out_by: "another taint: taint-not-tolerated (4-D)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .pods()
        .flat_map(|pod| {
            let refused = unschedulable(pod).filter(|(message, _)| message.contains("were unschedulable"));
            let Some((_, at)) = refused else { return Vec::new() };
            let closed =
                facts.all("Node").iter().filter(|node| node.get("/spec/unschedulable") == Some(&true.into()));
            closed
                .map(|node| {
                    Finding::at(node, "/spec/unschedulable")
                        .proof(pod, &at)
                        .affecting([ObjectRef::of(pod)])
                        .message(format!("{} is cordoned: it takes no new pods", node.name()))
                        .next("kubectl get nodes")
                })
                .collect()
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .set("Node/node-1", "/spec/unschedulable", json!(true))
        .unbound("web-b", Some("0/2 nodes are available: 1 node(s) were unschedulable, 1 Insufficient cpu."))
        .set(
            "Pod/web-b",
            "/status/conditions/0/message",
            json!("0/2 nodes are available: 2 node(s) were unschedulable."),
        )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_closed_node_is_named() {
        assert_eq!(only(&RULE, fault()).object.name, "node-1");
        assert!(find(&RULE, super::super::taint_not_tolerated::fault()).is_empty());
    }
}
