//! insufficient-resource: no node has room for what the pod requests
//!
//! The scheduler counts requests, not use: allocatable minus what the pods on the node request. The numbers of
//! the node that comes nearest are shown; a request larger than any node will never fit.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/noderesources/fit.go`: `Insufficient cpu`, `Too many pods`.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::acting::unschedulable;
use crate::why::usage;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// no node has room for what the pod requests
pub const RULE: Rule = Rule {
    id: "insufficient-resource",
    stage: Stage::Scheduler,
    mechanism: Mechanism::InsufficientResource,
    lab: "4-C",
    symptom: "Pending, FailedScheduling … Insufficient cpu",
    first_command: "kubectl describe pod NAME; kubectl describe nodes",
    ruled_out_by: "another reason in the scheduler's sentence: taints (4-D), affinity (4-E), ports",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .pods()
        .filter_map(|pod| {
            let (message, at) = unschedulable(pod)?;
            let resource = short_resource(message)?;
            let wanted = usage::request(pod, &resource);
            let (field, of_container) = usage::largest_request(pod, &resource);
            let rooms = usage::rooms(facts, &resource);
            let best = rooms.iter().max_by_key(|room| room.free);
            let largest = rooms.iter().map(|room| room.allocatable).max();
            let numbers = match best {
                None => String::new(),
                Some(room) => {
                    let never = match largest.is_some_and(|largest| wanted > largest) {
                        true => "; no node is as large",
                        false => "",
                    };
                    format!(
                        ": {} requests {wanted} {resource}; {} has {} free of {} ({} requested){never}",
                        pod.name(),
                        room.node,
                        room.free,
                        room.allocatable,
                        room.used
                    )
                }
            };
            let mut finding = match of_container {
                Some(_) => Finding::in_pod(facts, pod, &field),
                None => Finding::at(pod, "/spec"),
            };
            finding = finding.proof(pod, &at);
            if let Some(node) = best.and_then(|room| facts.node(&room.node)) {
                finding =
                    finding.proof(node, &format!("/status/allocatable/{}", crate::object::escape(&resource)));
            }
            Some(
                finding
                    .message(format!("no node has room{numbers}"))
                    .next(format!("kubectl describe {}", ObjectRef::of(pod).arguments())),
            )
        })
        .collect()
}

/// The first resource that the scheduler finds short.
fn short_resource(message: &str) -> Option<String> {
    if message.contains("Too many pods") && !message.contains("Insufficient ") {
        return Some("pods".into());
    }
    let rest = message.split_once("Insufficient ")?.1;
    Some(rest.split([',', '.', ' ']).next().unwrap_or(rest).to_owned()).map(|name| {
        // Extended resources have dots in their names.
        rest.split([',', ' ']).next().map_or(name, |word| word.trim_end_matches('.').to_owned())
    })
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .asks("web-b", "/spec/containers/0/resources/requests/cpu", json!("1000"))
        .unbound("web-b", Some("0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."))
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_numbers_of_the_nearest_node_are_shown() {
        let finding = only(&RULE, fault());
        assert_eq!(
            finding.message,
            "no node has room: web-b requests 1k cpu; node-2 has 2 free of 2 (0 requested); no node is as large"
        );
        assert_eq!(finding.field, "/spec/template/spec/containers/0/resources/requests/cpu");
    }

    #[test]
    fn silent_about_taints() {
        assert!(find(&RULE, super::super::taint_not_tolerated::fault()).is_empty());
        assert!(find(&RULE, super::super::scheduler_down::fault()).is_empty());
    }
}
