//! init-blocked: an init container doesn't end
//!
//! The other containers wait for it. It runs without an error, for minutes: most often it waits itself, for a
//! name or a service that isn't there any more.
//!
//! # In Kubernetes
//! STATUS `Init:0/1`; `pkg/kubelet/kuberuntime` starts the containers when all init containers have succeeded.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::container::containers;
use crate::why::facts::time_at;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// an init container doesn't end
pub const RULE: Rule = Rule {
    id: "init-blocked",
    stage: Stage::Kubelet,
    mechanism: Mechanism::InitBlocked,
    lab: "5-I",
    symptom: "Init:0/1, no errors",
    first_command: "kubectl logs NAME -c INIT",
    ruled_out_by: "the init container ends with an error: crash-loop",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .pods()
        .flat_map(|pod| {
            containers(pod)
                .into_iter()
                .filter(|one| one.is_init && one.is_running())
                .filter_map(|one| {
                    let since = facts
                        .since(
                            one.status("/state/running").and_then(|running| time_at(running, "/startedAt")),
                        )
                        .as_secs();
                    if since < PATIENCE_SECONDS {
                        return None;
                    }
                    let namespace = pod.namespace().unwrap_or_default();
                    Some(
                        one.finding(facts, "")
                            .proof(pod, &one.status_pointer("/state/running/startedAt"))
                            .message(format!(
                                "{} of {} has been running for {since} s, and the others wait for it",
                                one.title(),
                                ObjectRef::of(pod)
                            ))
                            .next(format!("kubectl -n {namespace} logs {} -c {}", pod.name(), one.name)),
                    )
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Migrations and downloads take their time.
const PATIENCE_SECONDS: i64 = 60;

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .set("Pod/web-b", "/spec/initContainers", json!([{"name": "wait", "image": "busybox"}]))
        .set(
            "Pod/web-b",
            "/status/initContainerStatuses",
            json!([{"name": "wait", "state": {"running": {"startedAt": crate::why::worlds::ago(300)}}}]),
        )
        .waiting("web-b", "PodInitializing", "")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_init_container_is_named() {
        assert!(only(&RULE, fault()).message.starts_with("init container wait"));
    }

    #[test]
    fn silent_about_a_sidecar_and_a_young_init_container() {
        assert!(
            find(&RULE, fault().set("Pod/web-b", "/spec/initContainers/0/restartPolicy", json!("Always")))
                .is_empty()
        );
        let young = fault().set(
            "Pod/web-b",
            "/status/initContainerStatuses/0/state/running/startedAt",
            json!("2026-01-01T11:59:50Z"),
        );
        assert!(find(&RULE, young).is_empty());
    }
}
