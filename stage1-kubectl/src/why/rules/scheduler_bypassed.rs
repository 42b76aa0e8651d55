//! scheduler-bypassed: the pod names its node itself, and the node isn't there or doesn't fit
//!
//! `spec.nodeName` in a template skips the scheduler: no filter is asked, and a node that doesn't exist has no
//! kubelet to start the pod.
//!
//! # In Kubernetes
//! Static `nodeName`; the pod garbage collector deletes pods of nodes that are gone.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::facts::template_at;
use crate::why::near_miss::nearest;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the pod names its node itself, and the node isn't there or doesn't fit
pub const RULE: Rule = Rule {
    id: "scheduler-bypassed",
    stage: Stage::Scheduler,
    mechanism: Mechanism::SchedulerBypassed,
    lab: "4-G",
    symptom: "Pending though NODE is filled; pods churn",
    first_command: "kubectl get pod NAME -o wide; kubectl get node NODE",
    ruled_out_by: "a node that exists and is NotReady: kubelet-down (5-A); no node at all: scheduler-down (4-A)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    if facts.all("Node").is_empty() {
        return Vec::new();
    }
    facts.pods().filter_map(|pod| {
        let node = pod.get_str("/spec/nodeName").filter(|node| !node.is_empty())?;
        // Whoever has an owner has its node from the template; a bare pod from whoever made it, when no scheduler says otherwise.
        let unscheduled = facts.event(pod, "Scheduled", "").is_none();
        let by_hand = facts.owners(pod).iter().any(|owner| {
            template_at(owner).is_some_and(|template| owner.get_str(&format!("{template}/spec/nodeName")) == Some(node))
        }) || (pod.owner_references().is_empty() && unscheduled);
        let gone = facts.node(node).is_none();
        let refused = matches!(pod.get_str("/status/reason"), Some(reason) if reason.starts_with("OutOf") || reason == "NodeAffinity" || reason == "NodePorts");
        if !(gone && unscheduled || by_hand && refused) {
            return None;
        }
        let meant = nearest(node, facts.all("Node").iter().map(|node| node.name()));
        let what = match (gone, meant) {
            (true, Some(meant)) => format!("a node {node} that there isn't (there is {meant})"),
            (true, None) => format!("a node {node} that there isn't"),
            (false, _) => format!("node {node}, which refuses it: {}", pod.get_str("/status/reason").unwrap_or_default()),
        };
        let finding = Finding::in_pod(facts, pod, "/spec/nodeName").message(format!("{} names {what}", ObjectRef::of(pod)));
        let finding = match facts.node(node) {
            None => finding.seen(ObjectRef::new("Node", "", node), "answer", "not found"),
            Some(_) => finding.proof(pod, "/status/message"),
        };
        Some(finding.next("kubectl get nodes"))
    }).collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy().unbound("web-b", None).set("Pod/web-b", "/spec/nodeName", json!("ghost")).set(
        "Deployment/web",
        "/spec/template/spec/nodeName",
        json!("ghost"),
    )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_template_that_names_a_node_is_blamed() {
        let finding = only(&RULE, fault());
        assert_eq!(
            (finding.object.kind.as_str(), finding.field.as_str()),
            ("Deployment", "/spec/template/spec/nodeName")
        );
    }

    #[test]
    fn silent_when_the_scheduler_bound_the_pod_and_when_the_scheduler_is_gone() {
        assert!(find(&RULE, super::super::scheduler_down::fault()).is_empty());
        assert!(find(&RULE, super::super::kubelet_down::fault()).is_empty());
    }
}
