//! affinity-unsatisfied: no node has the labels that the pod asks for
//!
//! A nodeSelector or a required node affinity fits no node: the label was never there, was removed, or is
//! spelled otherwise. The nearest label that the nodes have is shown.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/nodeaffinity`: `node(s) didn't match Pod's node affinity/selector`.

use std::collections::BTreeSet;

use crate::journey::Stage;
use crate::object::escape;
use crate::why::ObjectRef;
use crate::why::acting::unschedulable;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// no node has the labels that the pod asks for
pub const RULE: Rule = Rule {
    id: "affinity-unsatisfied",
    stage: Stage::Scheduler,
    mechanism: Mechanism::AffinityUnsatisfied,
    lab: "4-E",
    symptom: "Pending, didn't match Pod's node affinity/selector",
    first_command: "kubectl get nodes --show-labels",
    ruled_out_by: "taints (4-D) or resources (4-C) in the same sentence concern other nodes",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .pods()
        .filter_map(|pod| {
            let (_, at) = unschedulable(pod)
                .filter(|(message, _)| message.contains("didn't match Pod's node affinity/selector"))?;
            let selector = pod.string_map("/spec/nodeSelector");
            let missing = selector
                .iter()
                .find(|(key, value)| !facts.all("Node").iter().any(|node| node.label(key) == Some(value)));
            let (field, what) = match missing {
                Some((key, value)) => {
                    let have: BTreeSet<&str> =
                        facts.all("Node").iter().filter_map(|node| node.label(key)).collect();
                    let have = match have.is_empty() {
                        true => format!("no node has a label {key}"),
                        false => format!(
                            "the nodes have {key}={}",
                            have.into_iter().collect::<Vec<_>>().join(", ")
                        ),
                    };
                    (format!("/spec/nodeSelector/{}", escape(key)), format!("{key}={value}; {have}"))
                }
                None if !selector.is_empty() => {
                    ("/spec/nodeSelector".to_owned(), "all labels of its nodeSelector at once".into())
                }
                None => {
                    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
                    (terms.to_owned(), "the labels of its required node affinity".into())
                }
            };
            let mut finding = Finding::in_pod(facts, pod, &field).proof(pod, &at);
            if let Some(node) = facts.all("Node").first() {
                finding = finding.proof(node, "/metadata/labels");
            }
            Some(
                finding
                    .message(format!("no node has what {} asks for: {what}", ObjectRef::of(pod)))
                    .next("kubectl get nodes --show-labels"),
            )
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .set("Pod/web-b", "/spec/nodeSelector", json!({"disk": "nvme"}))
        .set("Deployment/web", "/spec/template/spec/nodeSelector", json!({"disk": "nvme"}))
        .unbound(
            "web-b",
            Some("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."),
        )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_labels_that_the_nodes_have_are_shown() {
        let finding = only(&RULE, fault());
        assert!(finding.message.ends_with("disk=nvme; the nodes have disk=ssd"), "{}", finding.message);
        assert_eq!(finding.field, "/spec/template/spec/nodeSelector/disk");
        assert!(find(&RULE, super::super::taint_not_tolerated::fault()).is_empty());
    }
}
