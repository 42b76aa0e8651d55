//! not-ready: a pod isn't ready, and nobody says why
//!
//! The last resort of stage ⑤: a pod that has been bound for a while, isn't Ready, and shows none of the known
//! signs.
//!
//! # In Kubernetes
//! Condition Ready False, reason ContainersNotReady.

use crate::journey::Stage;
use crate::why::container::containers;
use crate::why::facts::{condition, time_at};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};
use crate::why::{ObjectRef, Severity};

/// a pod isn't ready, and nobody says why
pub const RULE: Rule = Rule {
    id: "not-ready",
    stage: Stage::Kubelet,
    mechanism: Mechanism::RuntimeFailed,
    lab: "",
    symptom: "pod not Ready",
    first_command: "kubectl describe pod NAME",
    ruled_out_by: "any rule that knows more",
    explained: Explained::ByAnyCause,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .pods()
        .filter_map(|pod| {
            let (ready, at) = condition(pod, "Ready")?;
            let over = matches!(pod.get_str("/status/phase"), Some("Failed" | "Succeeded"));
            let since = facts.since(time_at(ready, "/lastTransitionTime")).as_secs();
            if ready["status"] == "True" || over || pod.get_str("/spec/nodeName").is_none() {
                return None;
            }
            // What has just begun is on its way.
            let severity = if since < PATIENCE_SECONDS { Severity::Info } else { Severity::Error };
            let states: Vec<String> = containers(pod)
                .iter()
                .filter(|one| !one.is_ready() && !one.is_init)
                .map(|one| {
                    let state = match one.waiting() {
                        Some((reason, _)) => reason,
                        None if one.status("/state/terminated").is_some() => "has ended",
                        None => "runs",
                    };
                    format!("{} {state}", one.name)
                })
                .collect();
            // With every container ready, it is the pod's gates that aren't.
            let states = match states.as_slice() {
                [] => "its containers are ready, it isn't".to_owned(),
                states => states.join(", "),
            };
            Some(
                Finding::at(pod, &format!("{at}/status"))
                    .severity(severity)
                    .proof(pod, &format!("{at}/message"))
                    .message(format!("{} hasn't been Ready for {since} s: {states}", ObjectRef::of(pod)))
                    .next(format!("kubectl describe {}", ObjectRef::of(pod).arguments())),
            )
        })
        .collect()
}

const PATIENCE_SECONDS: i64 = 60;

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy().not_ready("web-a")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::only;

    #[test]
    fn what_its_containers_do_is_told_also_when_they_are_not_the_reason() {
        let state = |world: crate::why::worlds::World| {
            let message = only(&RULE, world).message;
            message.rsplit_once(": ").map(|(_, state)| state.to_owned()).unwrap_or_default()
        };
        assert_eq!(state(fault()), "c runs");
        let at = "/status/containerStatuses/0";
        let ended = fault().set("Pod/web-a", &format!("{at}/state"), json!({"terminated": {"exitCode": 0}}));
        assert_eq!(state(ended), "c has ended");
        let gated = fault().set("Pod/web-a", &format!("{at}/ready"), json!(true));
        assert_eq!(state(gated), "its containers are ready, it isn't");
    }

    #[test]
    fn what_has_just_begun_is_on_its_way() {
        assert_eq!(only(&RULE, fault()).severity, crate::why::Severity::Error);
        let young = fault().set(
            "Pod/web-a",
            "/status/conditions/1/lastTransitionTime",
            json!("2026-01-01T11:59:55Z"),
        );
        assert_eq!(only(&RULE, young).severity, crate::why::Severity::Info);
    }
}
