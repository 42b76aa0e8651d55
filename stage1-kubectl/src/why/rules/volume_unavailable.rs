//! volume-unavailable: the pod's volumes can't be had on any node
//!
//! A claim that the pod names isn't there, isn't bound, is in use elsewhere, or its volume lives on another
//! node.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/{volumebinding,volumezone,volumerestrictions}`.

use serde_json::Value;

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::acting::unschedulable;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the pod's volumes can't be had on any node
pub const RULE: Rule = Rule {
    id: "volume-unavailable",
    stage: Stage::Scheduler,
    mechanism: Mechanism::VolumeConflict,
    lab: "",
    symptom: "Pending, persistentvolumeclaim \"…\" not found",
    first_command: "kubectl get pvc",
    ruled_out_by: "a claim that is there and Pending: claim-pending explains it",
    explained: Explained::By(&["claim-pending"]),
    find,
};

const TEXTS: [&str; 8] = [
    "persistentvolumeclaim",
    "unbound immediate PersistentVolumeClaims",
    "didn't find available persistent volumes",
    "volume node affinity conflict",
    "persistentvolume",
    "max volume count",
    "volume zone conflict",
    "no available volume zone",
];

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .pods()
        .filter_map(|pod| {
            let (message, at) = unschedulable(pod)?;
            TEXTS.iter().find(|text| message.contains(**text))?;
            let claims = pod.get("/spec/volumes").and_then(Value::as_array).into_iter().flatten().enumerate();
            let mut claims = claims.filter_map(|(at, volume)| {
                Some((at, volume.pointer("/persistentVolumeClaim/claimName")?.as_str()?))
            });
            let namespace = pod.namespace().unwrap_or_default();
            let unbound = |name: &str| {
                let claim = facts.find("PersistentVolumeClaim", namespace, name);
                claim.is_none_or(|claim| claim.get_str("/status/phase") != Some("Bound"))
            };
            let (index, name) = claims.clone().find(|(_, name)| unbound(name)).or_else(|| claims.next())?;
            let what = message.split_once(": ").map_or(message, |(_, rest)| rest);
            let what = what.split(". preemption").next().unwrap_or(what);
            let mut finding = Finding::in_pod(
                facts,
                pod,
                &format!("/spec/volumes/{index}/persistentVolumeClaim/claimName"),
            )
            .proof(pod, &at);
            finding = match facts.find("PersistentVolumeClaim", namespace, name) {
                Some(claim) => finding.proof(claim, "/status/phase").affecting([ObjectRef::of(claim)]),
                None => finding.seen(
                    ObjectRef::new("PersistentVolumeClaim", namespace, name),
                    "answer",
                    "not found",
                ),
            };
            Some(
                finding
                    .message(format!("no node can give {} its volume: {what}", ObjectRef::of(pod)))
                    .next(format!("kubectl -n {namespace} get pvc")),
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
        .set(
            "Pod/web-b",
            "/spec/volumes",
            json!([{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]),
        )
        .unbound(
            "web-b",
            Some(
                "0/2 nodes are available: persistentvolumeclaim \"data\" not found. preemption: not helpful",
            ),
        )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_claim_is_named() {
        let finding = only(&RULE, fault());
        assert!(finding.message.contains("\"data\" not found"), "{}", finding.message);
        assert!(finding.evidence.iter().any(|one| one.value == json!("not found")));
        assert!(find(&RULE, super::super::taint_not_tolerated::fault()).is_empty());
    }
}
