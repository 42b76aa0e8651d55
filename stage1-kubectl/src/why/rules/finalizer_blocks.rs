//! finalizer-blocks: a finalizer waits for somebody who never comes
//!
//! `delete` hangs: the object has a deletionTimestamp and stays, because a finalizer asks for clean-up first,
//! and whoever should do it is gone.
//!
//! # In Kubernetes
//! Finalizers in `apiserver/pkg/registry/generic/registry/store.go`; a namespace has its own in
//! `spec.finalizers`.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::facts::condition;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// a finalizer waits for somebody who never comes
pub const RULE: Rule = Rule {
    id: "finalizer-blocks",
    stage: Stage::Controllers,
    mechanism: Mechanism::FinalizerOrphaned,
    lab: "3-D",
    symptom: "delete hangs, Terminating",
    first_command: "kubectl get TYPE NAME -o jsonpath='{.metadata.finalizers} {.metadata.deletionTimestamp}'",
    ruled_out_by: "no finalizer, and a node that is gone: terminating-stuck",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    KINDS
        .iter()
        .flat_map(|kind| facts.focused(kind))
        .filter_map(|object| {
            let since = facts.since(object.deletion_timestamp()).as_secs();
            object.deletion_timestamp().filter(|_| since > GRACE_SECONDS)?;
            let (what, field) = match object.finalizers().as_slice() {
                [] if object.kind() == "Namespace" => {
                    let stuck = [
                        "NamespaceContentRemaining",
                        "NamespaceFinalizersRemaining",
                        "NamespaceDeletionDiscoveryFailure",
                    ];
                    let (condition, at) = stuck.iter().find_map(|kind| {
                        condition(object, kind).filter(|(one, _)| one["status"] == "True")
                    })?;
                    (condition["message"].as_str().unwrap_or_default().to_owned(), format!("{at}/message"))
                }
                [] => return None,
                // The garbage collector works through these by itself.
                ["foregroundDeletion" | "orphan"] if since < 60 => return None,
                names => (
                    format!("finalizer {} isn't taken off", names.join(", ")),
                    "/metadata/finalizers".to_owned(),
                ),
            };
            Some(
                Finding::at(object, &field)
                    .proof(object, "/metadata/deletionTimestamp")
                    .message(format!("{} has been going away for {since} s: {what}", ObjectRef::of(object)))
                    .next(format!("kubectl get {} -o yaml", ObjectRef::of(object).arguments())),
            )
        })
        .collect()
}

const GRACE_SECONDS: i64 = 30;
const KINDS: [&str; 12] = [
    "Pod",
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "CronJob",
    "Service",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "Namespace",
    "Ingress",
];

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .set("Deployment/web", "/metadata/deletionTimestamp", json!(crate::why::worlds::ago(120)))
        .set("Deployment/web", "/metadata/finalizers", json!(["cloud.example.org/cleanup"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_finalizer_is_named() {
        assert!(only(&RULE, fault()).message.contains("cloud.example.org/cleanup"));
    }

    #[test]
    fn silent_while_the_object_has_just_been_deleted() {
        assert!(
            find(
                &RULE,
                fault().set("Deployment/web", "/metadata/deletionTimestamp", json!("2026-01-01T11:59:58Z"))
            )
            .is_empty()
        );
        assert!(find(&RULE, super::super::terminating_stuck::fault()).is_empty());
    }
}
