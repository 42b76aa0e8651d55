//! ports-taken: the host port is taken on every node
//!
//! A hostPort can be had once a node. Another pod has it, often an older one of the same Deployment.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/nodeports`: `node(s) didn't have free ports for the requested pod ports`.

use serde_json::Value;

use crate::journey::Stage;
use crate::object::Object;
use crate::why::ObjectRef;
use crate::why::acting::unschedulable;
use crate::why::container::containers;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the host port is taken on every node
pub const RULE: Rule = Rule {
    id: "ports-taken",
    stage: Stage::Scheduler,
    mechanism: Mechanism::PortConflict,
    lab: "",
    symptom: "Pending, didn't have free ports",
    first_command: "kubectl get pods -A -o wide",
    ruled_out_by: "an update that may take no old pod away: rollout-deadlock (3-E)",
    explained: Explained::By(&["rollout-deadlock"]),
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .pods()
        .filter_map(|pod| {
            let (_, at) =
                unschedulable(pod).filter(|(message, _)| message.contains("didn't have free ports"))?;
            let (port, field) = host_ports(pod).into_iter().next()?;
            let holder = facts.all("Pod").iter().find(|other| {
                other.uid() != pod.uid()
                    && other.get_str("/spec/nodeName").is_some()
                    && host_ports(other).iter().any(|(other, _)| *other == port)
            });
            let who = holder.map(|holder| format!("; {} has it", ObjectRef::of(holder))).unwrap_or_default();
            let mut finding = Finding::in_pod(facts, pod, &field).proof(pod, &at);
            if let Some(holder) = holder {
                finding = finding.proof(holder, &host_ports(holder)[0].1);
            }
            Some(finding.message(format!(
                "host port {port} is taken on every node that could take {}{who}",
                ObjectRef::of(pod)
            )))
        })
        .collect()
}

fn host_ports(pod: &Object) -> Vec<(i64, String)> {
    let all = containers(pod);
    let ports = all.iter().flat_map(|one| {
        let list = one.spec("/ports").and_then(Value::as_array).into_iter().flatten().enumerate();
        list.filter_map(|(at, port)| {
            Some((port["hostPort"].as_i64()?, format!("{}/ports/{at}/hostPort", one.spec_at)))
        })
        .collect::<Vec<_>>()
    });
    ports.collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .set("Pod/web-a", "/spec/containers/0/ports/0/hostPort", json!(8080))
        .set("Pod/web-b", "/spec/containers/0/ports/0/hostPort", json!(8080))
        .unbound(
            "web-b",
            Some("0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports."),
        )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_holder_is_named() {
        assert!(only(&RULE, fault()).message.ends_with("Pod default/web-a has it"));
        assert!(find(&RULE, super::super::insufficient_resource::fault()).is_empty());
    }
}
