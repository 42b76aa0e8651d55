//! deadline-exceeded: the pod had more time than it was given
//!
//! `activeDeadlineSeconds` is over: the kubelet ends the pod, whatever it does.
//!
//! # In Kubernetes
//! Phase Failed, reason DeadlineExceeded (`pkg/kubelet/active_deadline.go`).

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the pod had more time than it was given
pub const RULE: Rule = Rule {
    id: "deadline-exceeded",
    stage: Stage::Kubelet,
    mechanism: Mechanism::DeadlineExceeded,
    lab: "",
    symptom: "pod Failed, DeadlineExceeded",
    first_command: "kubectl get pod NAME -o jsonpath='{.spec.activeDeadlineSeconds}'",
    ruled_out_by: "an exit code of its own: crash-loop",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let over = facts.pods().filter(|pod| pod.get_str("/status/reason") == Some("DeadlineExceeded"));
    over.map(|pod| {
        Finding::in_pod(facts, pod, "/spec/activeDeadlineSeconds")
            .proof(pod, "/status/reason")
            .message(format!("{} was ended: its activeDeadlineSeconds are over", ObjectRef::of(pod)))
    })
    .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy().not_ready("web-b").set("Pod/web-b", "/spec/activeDeadlineSeconds", json!(5)).set(
        "Pod/web-b",
        "/status",
        json!({"phase": "Failed", "reason": "DeadlineExceeded"}),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_deadline_is_shown() {
        assert_eq!(only(&RULE, fault()).evidence[0].value, json!(5));
        assert!(find(&RULE, super::super::crash_loop::fault()).is_empty());
    }
}
