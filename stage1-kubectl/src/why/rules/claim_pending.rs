//! claim-pending: a claim has no volume
//!
//! A PersistentVolumeClaim waits: no class has its name, nobody provisions it, or no volume fits. A class that
//! waits for the first consumer is no fault until a pod wants it.
//!
//! # In Kubernetes
//! `pkg/controller/volume/persistentvolume/pv_controller.go`: events ProvisioningFailed, FailedBinding,
//! WaitForFirstConsumer, ExternalProvisioning.

use serde_json::Value;

use crate::journey::Stage;
use crate::object::Object;
use crate::why::ObjectRef;
use crate::why::near_miss::nearest;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// a claim has no volume
pub const RULE: Rule = Rule {
    id: "claim-pending",
    stage: Stage::Controllers,
    mechanism: Mechanism::VolumeUnbound,
    lab: "",
    symptom: "PVC Pending; pod has unbound immediate PersistentVolumeClaims",
    first_command: "kubectl describe pvc NAME",
    ruled_out_by: "the claim that the pod names isn't there: volume-unavailable",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .focused("PersistentVolumeClaim")
        .filter_map(|claim| {
            if claim.get_str("/status/phase").unwrap_or("Pending") != "Pending"
                || facts.age(claim).as_secs() < GRACE_SECONDS
            {
                return None;
            }
            let class = claim.get_str("/spec/storageClassName");
            let known = class.and_then(|name| facts.find("StorageClass", "", name));
            let waits =
                known.and_then(|class| class.get_str("/volumeBindingMode")) == Some("WaitForFirstConsumer");
            let event = facts.events(claim).into_iter().next_back();
            let users = users(facts, claim);
            if waits && users.is_empty() {
                return None;
            }
            let names = facts.all("StorageClass").iter().map(Object::name);
            let what = match (class, known) {
                (Some(""), _) => "it asks for a volume without a class, and none fits".to_owned(),
                (Some(name), None) if !facts.is_unseen("storageclasses") => {
                    let meant =
                        nearest(name, names).map(|meant| format!("; there is {meant}")).unwrap_or_default();
                    format!("there is no StorageClass {name}{meant}")
                }
                (None, _) => "it names no StorageClass, and there is no default one".into(),
                (Some(name), _) => format!("nobody provisions a volume of class {name}"),
            };
            Some(
                Finding::at(claim, "/spec/storageClassName")
                    .proof(claim, "/status/phase")
                    .event(event)
                    .affecting(users)
                    .message(format!("{} has no volume: {what}", ObjectRef::of(claim)))
                    .next(format!("kubectl describe {}", ObjectRef::of(claim).arguments())),
            )
        })
        .collect()
}

const GRACE_SECONDS: i64 = 10;

fn users(facts: &Facts, claim: &Object) -> Vec<ObjectRef> {
    let uses = |pod: &&Object| {
        let volumes = pod.get("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
        let mut names = volumes.filter_map(|volume| volume.pointer("/persistentVolumeClaim/claimName"));
        pod.namespace() == claim.namespace() && names.any(|name| name == claim.name())
    };
    facts.all("Pod").iter().filter(uses).map(ObjectRef::of).collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .with(json!({"kind": "StorageClass", "metadata": {"name": "fast"}, "volumeBindingMode": "Immediate"}))
        .with(json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default", "creationTimestamp": crate::why::worlds::ago(90)},
            "spec": {"storageClassName": "fst"}, "status": {"phase": "Pending"}}))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_class_that_was_meant_is_shown() {
        assert!(only(&RULE, fault()).message.ends_with("no StorageClass fst; there is fast"));
    }

    #[test]
    fn silent_when_bound_and_while_nobody_wants_a_volume_of_a_waiting_class() {
        assert!(
            find(&RULE, fault().set("PersistentVolumeClaim/data", "/status/phase", json!("Bound")))
                .is_empty()
        );
        let waiting = fault().set("PersistentVolumeClaim/data", "/spec/storageClassName", json!("fast")).set(
            "StorageClass/fast",
            "/volumeBindingMode",
            json!("WaitForFirstConsumer"),
        );
        assert!(find(&RULE, waiting).is_empty());
    }
}
