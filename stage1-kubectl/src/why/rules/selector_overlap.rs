//! selector-overlap: a controller takes a pod for its own by its labels
//!
//! A bare pod with the labels of a Deployment is adopted by its ReplicaSet, which then has one too many and
//! deletes it. Nobody reports an error.
//!
//! # In Kubernetes
//! `pkg/controller/controller_ref_manager.go` (`ClaimPods`); event `SuccessfulDelete`.

use crate::journey::Stage;
use crate::object::Object;
use crate::why::ObjectRef;
use crate::why::facts::last_seen;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// a controller takes a pod for its own by its labels
pub const RULE: Rule = Rule {
    id: "selector-overlap",
    stage: Stage::Controllers,
    mechanism: Mechanism::SelectorOverlap,
    lab: "3-C",
    symptom: "a debug pod dies within seconds, no error",
    first_command: "kubectl get pod NAME -o jsonpath='{.metadata.ownerReferences}' -w",
    ruled_out_by: "the pod ends by itself: crash-loop",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let owners = ["ReplicaSet", "ReplicationController"].into_iter().flat_map(|kind| facts.focused(kind));
    owners
        .flat_map(|owner| {
            let deleted = facts.events(owner).into_iter().filter_map(|event| {
                let name = event.get_str("/message")?.strip_prefix("Deleted pod: ")?;
                let stranger = event.get_str("/reason") == Some("SuccessfulDelete")
                    && !name.starts_with(&format!("{}-", owner.name()));
                let recent = facts.since(last_seen(event)).as_secs() <= RECENT_SECONDS;
                (stranger && recent).then(|| (name.to_owned(), event))
            });
            let of_events = deleted.map(|(name, event)| {
                let pod = ObjectRef::new("Pod", owner.namespace().unwrap_or_default(), &name);
                told(
                    owner,
                    &pod,
                    format!(
                        "{} took pod {name} for its own and deleted it as one too many",
                        ObjectRef::of(owner)
                    ),
                )
                .event(Some(event))
            });
            of_events.collect::<Vec<_>>()
        })
        .collect()
}

const RECENT_SECONDS: i64 = 3600;

fn told(owner: &Object, pod: &ObjectRef, message: String) -> Finding {
    let mut finding = Finding::about(pod.clone()).message(message).affecting([ObjectRef::of(owner)]);
    finding.field = "/metadata/labels".into();
    finding
        .proof(owner, "/spec/selector/matchLabels")
        .next(format!("kubectl describe {}", ObjectRef::of(owner).arguments()))
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy().event("ReplicaSet/web-5d4", "Normal", "SuccessfulDelete", "Deleted pod: dbg")
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{World, find, only};

    #[test]
    fn the_pod_and_its_taker_are_named() {
        assert_eq!(only(&RULE, fault()).object.name, "dbg");
    }

    #[test]
    fn silent_when_a_replica_set_deletes_a_pod_that_it_made() {
        let own = World::healthy().event(
            "ReplicaSet/web-5d4",
            "Normal",
            "SuccessfulDelete",
            "Deleted pod: web-5d4-x1",
        );
        assert!(find(&RULE, own).is_empty());
    }
}
