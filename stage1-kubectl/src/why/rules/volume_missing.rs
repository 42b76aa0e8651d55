//! volume-missing: a volume names a ConfigMap, Secret or key that isn't there
//!
//! The kubelet can't fill the volume, so no container starts: ContainerCreating for ever, with FailedMount in
//! the events.
//!
//! # In Kubernetes
//! `pkg/volume/{secret,configmap}`: `MountVolume.SetUp failed for volume "x" : secret "y" not found`;
//! `references non-existent config key`.

use serde_json::Value;

use crate::journey::Stage;
use crate::object::Object;
use crate::why::ObjectRef;
use crate::why::container::containers;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// a volume names a ConfigMap, Secret or key that isn't there
pub const RULE: Rule = Rule {
    id: "volume-missing",
    stage: Stage::Kubelet,
    mechanism: Mechanism::MissingReference,
    lab: "5-C",
    symptom: "ContainerCreating, FailedMount … not found",
    first_command: "kubectl describe pod NAME",
    ruled_out_by: "FailedCreatePodSandBox instead: network-not-ready (5-B); CreateContainerConfigError: config-missing (5-H)",
    explained: Explained::Never,
    find,
};

const REASONS: [&str; 3] = ["FailedMount", "FailedAttachVolume", "FailedMapVolume"];

/// The newest event that a volume can't be mounted, of a pod that has not started.
pub(super) fn failed_mounts(facts: &Facts) -> Vec<(&Object, &Object, &str)> {
    let waiting = facts.pods().filter(|pod| {
        containers(pod).iter().any(|one| one.waiting().is_some_and(|(reason, _)| STARTING.contains(&reason)))
    });
    waiting
        .filter_map(|pod| {
            let event = facts
                .events(pod)
                .into_iter()
                .rfind(|event| event.get_str("/reason").is_some_and(|reason| REASONS.contains(&reason)))?;
            Some((pod, event, event.get_str("/message")?))
        })
        .collect()
}

const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

fn find(facts: &Facts) -> Vec<Finding> {
    let missing = failed_mounts(facts).into_iter().filter(|(_, _, message)| is_missing(message));
    missing
        .map(|(pod, event, message)| {
            let volume = message.split('"').nth(1).unwrap_or_default();
            let volumes = pod.get("/spec/volumes").and_then(Value::as_array);
            let at = volumes.and_then(|volumes| volumes.iter().position(|one| one["name"] == volume));
            let finding = match at {
                Some(at) => Finding::in_pod(facts, pod, &format!("/spec/volumes/{at}")),
                None => Finding::at(pod, "/spec/volumes"),
            };
            let what = message.split_once(" : ").map_or(message, |(_, what)| what);
            let namespace = pod.namespace().unwrap_or_default();
            finding
                .event(Some(event))
                .message(format!("volume {volume} of {} can't be filled: {what}", ObjectRef::of(pod)))
                .next(format!("kubectl -n {namespace} get configmaps,secrets"))
        })
        .collect()
}

pub(super) fn is_missing(message: &str) -> bool {
    (message.contains("not found")
        || message.contains("non-existent config key")
        || message.contains("references non-existent"))
        && !message.contains("timed out waiting")
        && !message.contains("hostPath")
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .set("Pod/web-b", "/spec/volumes", json!([{"name": "cert", "secret": {"secretName": "tls-cert"}}]))
        .set(
            "Deployment/web",
            "/spec/template/spec/volumes",
            json!([{"name": "cert", "secret": {"secretName": "tls-cert"}}]),
        )
        .waiting("web-b", "ContainerCreating", "")
        .event(
            "Pod/web-b",
            "Warning",
            "FailedMount",
            "MountVolume.SetUp failed for volume \"cert\" : secret \"tls-cert\" not found",
        )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{World, find, only};

    #[test]
    fn the_volume_of_the_template_is_blamed() {
        let finding = only(&RULE, fault());
        assert_eq!(finding.field, "/spec/template/spec/volumes/0");
        assert!(finding.message.ends_with("secret \"tls-cert\" not found"));
    }

    #[test]
    fn silent_once_the_container_runs_and_about_the_network() {
        let runs = World::healthy().event(
            "Pod/web-b",
            "Warning",
            "FailedMount",
            "MountVolume.SetUp failed for volume \"cert\" : secret \"x\" not found",
        );
        assert!(find(&RULE, runs).is_empty());
        assert!(find(&RULE, super::super::network_not_ready::fault()).is_empty());
    }
}
