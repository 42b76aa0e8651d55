//! network-not-ready: the node can't give pods a network
//!
//! Old pods work, new ones stay ContainerCreating: the CNI configuration is missing or its plugin fails. The
//! node says `cni plugin not initialized`, or the pod has FailedCreatePodSandBox.
//!
//! # In Kubernetes
//! `NetworkReady=false reason:NetworkPluginNotReady`; events of the kubelet.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::facts::{condition, has_condition};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the node can't give pods a network
pub const RULE: Rule = Rule {
    id: "network-not-ready",
    stage: Stage::Kubelet,
    mechanism: Mechanism::NetworkNotReady,
    lab: "5-B",
    symptom: "new pods ContainerCreating, FailedCreatePodSandBox",
    first_command: "kubectl describe pod NAME; kubectl describe node NODE",
    ruled_out_by: "FailedMount instead: volume-missing (5-C); the kubelet silent: kubelet-down (5-A)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let of_nodes = facts.all("Node").iter().filter_map(|node| {
        let (ready, at) = condition(node, "Ready")?;
        let message = ready["message"].as_str().unwrap_or_default();
        if ready["status"] != "False"
            || !["cni", "NetworkReady", "NetworkPluginNotReady"].iter().any(|text| message.contains(text))
        {
            return None;
        }
        let pods =
            facts.pods().filter(|pod| pod.get_str("/spec/nodeName") == Some(node.name())).map(ObjectRef::of);
        let affected: Vec<ObjectRef> = pods.collect();
        if affected.is_empty() && !facts.wide {
            return None;
        }
        Some(
            Finding::at(node, &format!("{at}/message"))
                .affecting(affected)
                .message(format!("{} has no pod network: {message}", node.name()))
                .next(format!("kubectl describe node {}", node.name())),
        )
    });
    let mut found: Vec<Finding> = of_nodes.collect();
    for pod in facts.pods().filter(|pod| {
        !has_condition(pod, "PodReadyToStartContainers", "True") && !has_condition(pod, "Ready", "True")
    }) {
        let Some(event) = facts.event(pod, "FailedCreatePodSandBox", "") else { continue };
        let message = event.get_str("/message").unwrap_or_default();
        let node = pod.get_str("/spec/nodeName").unwrap_or_default();
        if !["network", "cni", "CNI"].iter().any(|text| message.contains(text)) {
            continue;
        }
        found.push(
            Finding::about(ObjectRef::new("Node", "", node))
                .event(Some(event))
                .affecting([ObjectRef::of(pod)])
                .message(format!("{node} can't give {} a network: {message}", ObjectRef::of(pod)))
                .next(format!("kubectl describe {}", ObjectRef::of(pod).arguments())),
        );
    }
    found
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy()
        .waiting("web-b", "ContainerCreating", "")
        .event("Pod/web-b", "Warning", "FailedCreatePodSandBox", "Failed to create pod sandbox: rpc error: failed to setup network for sandbox: cni config uninitialized")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{World, find, only};

    #[test]
    fn the_node_is_blamed() {
        assert_eq!(only(&RULE, fault()).object.name, "node-2");
        let node = World::healthy().set("Node/node-1", "/status/conditions/0", json!({"type": "Ready", "status": "False",
            "message": "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized"}));
        assert_eq!(only(&RULE, node).object.name, "node-1");
    }

    #[test]
    fn silent_about_a_volume() {
        assert!(find(&RULE, super::super::volume_missing::fault()).is_empty());
    }
}
