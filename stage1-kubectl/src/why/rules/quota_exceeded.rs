//! quota-exceeded: a ResourceQuota has no room for the pods
//!
//! The controller manager works and tries; the API server's admission refuses each pod. The ReplicaSet's event
//! holds the sums.
//!
//! # In Kubernetes
//! `apiserver/pkg/admission/plugin/resourcequota/controller.go`: `exceeded quota: NAME, requested: …, used: …,
//! limited: …`.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::refusal::{Gate, refusals};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// a ResourceQuota has no room for the pods
pub const RULE: Rule = Rule {
    id: "quota-exceeded",
    stage: Stage::ApiServer,
    mechanism: Mechanism::QuotaExceeded,
    lab: "2-E",
    symptom: "Deployment 0/3, no pods; FailedCreate … exceeded quota",
    first_command: "kubectl describe rs -l app=NAME",
    ruled_out_by: "no ReplicaSet and no event: controller-manager-down (3-A)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let refused = refusals(facts).into_iter().filter_map(|one| match &one.gate {
        Gate::Quota(name) => Some((name.clone(), one)),
        _ => None,
    });
    refused
        .map(|(name, one)| {
            let namespace = one.owner.namespace().unwrap_or_default();
            let quota = facts.find("ResourceQuota", namespace, &name);
            let mut finding = Finding::about(ObjectRef::new("ResourceQuota", namespace, &name));
            if let Some(quota) = quota {
                finding = Finding::at(quota, "/spec/hard").proof(quota, "/status/used");
            }
            let sums = one.message.split_once("quota: ").map_or(one.message, |(_, sums)| sums);
            finding
                .message(format!(
                    "quota {name} has no room for the pods of {}: {sums}",
                    ObjectRef::of(one.owner)
                ))
                .event(Some(one.event))
                .affecting([ObjectRef::of(one.owner)])
                .not(
                    Stage::Controllers,
                    format!("{} exists and tried: its event is the proof", ObjectRef::of(one.owner)),
                )
                .next(format!("kubectl -n {namespace} describe resourcequota {name}"))
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    let quota = json!({"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"pods": "0"}}, "status": {"used": {"pods": "0"}}});
    World::healthy().with(quota).create_refused(
        "pods \"web-5d4-\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0",
    )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{World, find, only};

    #[test]
    fn the_quota_is_blamed_with_its_sums() {
        let finding = only(&RULE, fault());
        assert_eq!((finding.object.kind.as_str(), finding.field.as_str()), ("ResourceQuota", "/spec/hard"));
        assert!(finding.message.contains("limited: pods=0"));
    }

    #[test]
    fn silent_when_the_controller_manager_is_gone_and_once_the_pods_are_there() {
        assert!(find(&RULE, super::super::controller_manager_down::fault()).is_empty());
        let old = World::healthy().event(
            "ReplicaSet/web-5d4",
            "Warning",
            "FailedCreate",
            "exceeded quota: q, requested",
        );
        assert!(find(&RULE, old).is_empty());
    }
}
