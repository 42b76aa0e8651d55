//! sandbox-failed: the container runtime can't make the pod's sandbox
//!
//! Not the network: the runtime itself, its cgroups, its pause image, or a runtime class that it doesn't know.
//!
//! # In Kubernetes
//! Event FailedCreatePodSandBox; `RuntimeHandler not supported`.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::facts::has_condition;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the container runtime can't make the pod's sandbox
pub const RULE: Rule = Rule {
    id: "sandbox-failed",
    stage: Stage::Kubelet,
    mechanism: Mechanism::RuntimeFailed,
    lab: "",
    symptom: "ContainerCreating, FailedCreatePodSandBox",
    first_command: "kubectl describe pod NAME",
    ruled_out_by: "the text names the network: network-not-ready (5-B)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let waiting = facts.pods().filter(|pod| {
        !has_condition(pod, "PodReadyToStartContainers", "True") && !has_condition(pod, "Ready", "True")
    });
    waiting
        .filter_map(|pod| {
            let event = facts.event(pod, "FailedCreatePodSandBox", "")?;
            let message = event.get_str("/message").unwrap_or_default();
            if ["network", "cni", "CNI"].iter().any(|text| message.contains(text)) {
                return None;
            }
            Some(
                Finding::about(ObjectRef::new("Node", "", pod.get_str("/spec/nodeName").unwrap_or_default()))
                    .event(Some(event))
                    .affecting([ObjectRef::of(pod)])
                    .message(format!(
                        "the runtime can't make a sandbox for {}: {message}",
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
    use crate::why::worlds::World;

    World::healthy().waiting("web-b", "ContainerCreating", "").event(
        "Pod/web-b",
        "Warning",
        "FailedCreatePodSandBox",
        "Failed to create pod sandbox: no runtime for \"kata\" is configured",
    )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_runtimes_words_are_kept() {
        assert!(only(&RULE, fault()).message.contains("kata"));
        assert!(find(&RULE, super::super::network_not_ready::fault()).is_empty());
    }
}
