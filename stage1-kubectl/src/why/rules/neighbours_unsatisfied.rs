//! neighbours-unsatisfied: no node has the neighbours that the pod asks for
//!
//! Pod affinity asks for a neighbour that isn't there, anti-affinity forbids one that is on every node, or a
//! spread constraint allows no more in any zone.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/{interpodaffinity,podtopologyspread}`.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::acting::unschedulable;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// no node has the neighbours that the pod asks for
pub const RULE: Rule = Rule {
    id: "neighbours-unsatisfied",
    stage: Stage::Scheduler,
    mechanism: Mechanism::AffinityUnsatisfied,
    lab: "",
    symptom: "Pending, didn't match pod affinity rules / anti-affinity rules / topology spread",
    first_command: "kubectl describe pod NAME",
    ruled_out_by: "labels of nodes: affinity-unsatisfied (4-E)",
    explained: Explained::By(&["rollout-deadlock"]),
    find,
};

const KINDS: [(&str, &str); 4] = [
    ("didn't match pod affinity rules", "/spec/affinity/podAffinity"),
    ("didn't match pod anti-affinity rules", "/spec/affinity/podAntiAffinity"),
    ("existing pods anti-affinity rules", "/metadata/labels"),
    ("didn't match pod topology spread constraints", "/spec/topologySpreadConstraints"),
];

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .pods()
        .filter_map(|pod| {
            let (message, at) = unschedulable(pod)?;
            let (text, field) = KINDS.iter().find(|(text, _)| message.contains(text))?;
            Some(
                Finding::in_pod(facts, pod, field)
                    .proof(pod, &at)
                    .message(format!(
                        "no node has the neighbours that {} asks for: it {text}",
                        ObjectRef::of(pod)
                    ))
                    .next(format!("kubectl describe {}", ObjectRef::of(pod).arguments())),
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
        .set("Pod/web-b", "/spec/affinity", json!({"podAntiAffinity": {}}))
        .unbound("web-b", Some("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."))
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_field_that_asks_is_named() {
        assert_eq!(only(&RULE, fault()).field, "/spec/affinity/podAntiAffinity");
        assert!(find(&RULE, super::super::affinity_unsatisfied::fault()).is_empty());
    }
}
