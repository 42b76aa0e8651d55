//! mount-failed: a volume can't be mounted
//!
//! The object is there, and the mount fails all the same: a host path of another type, a file system, a driver,
//! a volume that another node still holds.
//!
//! # In Kubernetes
//! `pkg/volume/util/operationexecutor`: FailedMount, FailedAttachVolume (`Multi-Attach error`).

use serde_json::Value;

use super::volume_missing::{failed_mounts, is_missing};
use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// a volume can't be mounted
pub const RULE: Rule = Rule {
    id: "mount-failed",
    stage: Stage::Kubelet,
    mechanism: Mechanism::MountFailed,
    lab: "",
    symptom: "ContainerCreating, FailedMount",
    first_command: "kubectl describe pod NAME",
    ruled_out_by: "the text says `not found`: volume-missing (5-C)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let failed = failed_mounts(facts).into_iter();
    let failed = failed.filter(|(_, _, message)| {
        !is_missing(message) && !message.contains("timed out waiting for the condition")
    });
    failed
        .map(|(pod, event, message)| {
            let volume = message.split('"').nth(1).unwrap_or_default();
            let volumes = pod.get("/spec/volumes").and_then(Value::as_array);
            let at = volumes.and_then(|volumes| volumes.iter().position(|one| one["name"] == volume));
            let finding = match at {
                Some(at) => Finding::in_pod(facts, pod, &format!("/spec/volumes/{at}")),
                None => Finding::at(pod, "/spec/volumes"),
            };
            finding
                .event(Some(event))
                .message(format!("{} waits for a volume: {message}", ObjectRef::of(pod)))
                .next(format!("kubectl describe {}", ObjectRef::of(pod).arguments()))
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .set("Pod/web-b", "/spec/volumes", json!([{"name": "h", "hostPath": {"path": "/etc/passwd", "type": "Directory"}}]))
        .waiting("web-b", "ContainerCreating", "")
        .event("Pod/web-b", "Warning", "FailedMount", "MountVolume.SetUp failed for volume \"h\" : hostPath type check failed: /etc/passwd is not a directory")
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_kubelets_words_are_kept() {
        assert!(only(&RULE, fault()).message.contains("is not a directory"));
        assert!(find(&RULE, super::super::volume_missing::fault()).is_empty());
    }
}
