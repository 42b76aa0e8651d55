//! apiserver-failing: the API server answers, but isn't well
//!
//! It listens and says 500, or a check of `/readyz` fails: most often its store. A store that is full reads
//! well and refuses writes (`database space exceeded`).
//!
//! # In Kubernetes
//! `/readyz?verbose`; etcd's alarm NOSPACE.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::trouble::TroubleKind;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the API server answers, but isn't well
pub const RULE: Rule = Rule {
    id: "apiserver-failing",
    stage: Stage::ApiServer,
    mechanism: Mechanism::StorageQuota,
    lab: "2-G",
    symptom: "etcdserver: mvcc: database space exceeded; readyz check failed",
    first_command: "kubectl get --raw='/readyz?verbose'",
    ruled_out_by: "no answer at all: apiserver-down",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let apiserver = ObjectRef::component("kube-apiserver");
    let mut finding = Finding::about(apiserver.clone()).next("kubectl get --raw='/readyz?verbose'");
    if let Some(trouble) = facts.trouble.as_ref().filter(|trouble| trouble.kind == TroubleKind::ServerError) {
        finding = finding.message(format!("the API server answers with an error: {}", trouble.message));
        return vec![finding.seen(apiserver, "answer", trouble.message.clone())];
    }
    let full = facts
        .all("Event")
        .iter()
        .find(|event| event.get_str("/message").is_some_and(|text| text.contains("database space exceeded")));
    if full.is_some() {
        finding.object = ObjectRef::component("etcd");
        return vec![finding.message("the store is full: reads work, writes are refused").event(full)];
    }
    if facts.unready.is_empty() {
        return Vec::new();
    }
    let checks = facts.unready.join(", ");
    vec![finding.message(format!("the API server isn't ready: {checks}")).seen(apiserver, "/readyz", checks)]
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    let message = "etcdserver: mvcc: database space exceeded";
    World::healthy().event(
        "ReplicaSet/web-5d4",
        "Warning",
        "FailedCreate",
        &format!("Error creating: {message}"),
    )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{World, find, only};

    #[test]
    fn a_full_store_is_told_from_a_failing_check() {
        assert_eq!(only(&RULE, fault()).object.name, "etcd");
        let mut world = World::healthy();
        world.facts.unready.push("etcd".into());
        assert_eq!(only(&RULE, world).message, "the API server isn't ready: etcd");
    }

    #[test]
    fn silent_about_a_quota() {
        assert!(find(&RULE, super::super::quota_exceeded::fault()).is_empty());
    }
}
