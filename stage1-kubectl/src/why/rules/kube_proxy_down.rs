//! kube-proxy-down: a node has no kube-proxy
//!
//! New Services don't work from that node; old ones still do, because the rules stay. Only seen where kube-
//! proxy runs as a DaemonSet.
//!
//! # In Kubernetes
//! DaemonSet kube-system/kube-proxy, label `k8s-app=kube-proxy`.

use crate::journey::Stage;
use crate::object::Object;
use crate::why::ObjectRef;
use crate::why::facts::has_condition;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// a node has no kube-proxy
pub const RULE: Rule = Rule {
    id: "kube-proxy-down",
    stage: Stage::Proxy,
    mechanism: Mechanism::ComponentNotRunning,
    lab: "6-D",
    symptom: "new Services dead from one node only",
    first_command: "kubectl -n kube-system get pods -o wide -l k8s-app=kube-proxy",
    ruled_out_by: "from all nodes: selector-mismatch (6-A), port-mismatch (6-B); a traffic policy: traffic-policy-local (6-G)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let Some(proxies) = facts.find("DaemonSet", "kube-system", "kube-proxy") else { return Vec::new() };
    let runs_on = |node: &Object| {
        facts.all("Pod").iter().any(|pod| {
            pod.namespace() == Some("kube-system")
                && pod.label("k8s-app") == Some("kube-proxy")
                && pod.get_str("/spec/nodeName") == Some(node.name())
                && has_condition(pod, "Ready", "True")
        })
    };
    let bare = facts.all("Node").iter().filter(|node| has_condition(node, "Ready", "True") && !runs_on(node));
    bare.map(|node| {
        Finding::about(ObjectRef::of(proxies))
            .proof(proxies, "/status/numberReady")
            .proof(proxies, "/spec/template/spec/nodeSelector")
            .affecting([ObjectRef::of(node)])
            .message(format!("no kube-proxy runs on {}: new Services don't work from there", node.name()))
            .next("kubectl -n kube-system get pods -o wide -l k8s-app=kube-proxy")
    })
    .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .with(json!({"kind": "DaemonSet", "metadata": {"name": "kube-proxy", "namespace": "kube-system"},
        "spec": {"template": {}}, "status": {"numberReady": 0, "observedGeneration": 1}}))
        .set("Node/node-2", "/status/conditions/0/status", json!("False"))
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{World, find, only};

    #[test]
    fn the_node_is_named() {
        assert!(only(&RULE, fault()).message.contains("node-1"));
        assert!(find(&RULE, World::healthy()).is_empty());
    }
}
