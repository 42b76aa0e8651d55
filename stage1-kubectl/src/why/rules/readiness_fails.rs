//! readiness-fails: the readiness probe fails: the pod runs and gets no traffic
//!
//! Running, 0/1. Services leave the pod out. Either the program isn't ready, or the probe asks the wrong port
//! or path; the probe's answer is in the event.
//!
//! # In Kubernetes
//! Event `Unhealthy: Readiness probe failed: …`; condition Ready False, ContainersNotReady.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::container::containers;
use crate::why::facts::time_at;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the readiness probe fails: the pod runs and gets no traffic
pub const RULE: Rule = Rule {
    id: "readiness-fails",
    stage: Stage::Kubelet,
    mechanism: Mechanism::ProbeMisconfigured,
    lab: "6-C",
    symptom: "pods Running 0/1; slice says ready: false",
    first_command: "kubectl describe pod NAME",
    ruled_out_by: "restarts: liveness-kills (5-F); ready pods without endpoints: selector-mismatch (6-A)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .pods()
        .flat_map(|pod| {
            containers(pod)
                .into_iter()
                .filter(|one| one.is_running() && !one.is_ready() && !one.is_init)
                .filter_map(|one| {
                    let probe = one.spec("/readinessProbe")?;
                    let event = facts.event(pod, "Unhealthy", "Readiness probe")?;
                    let message = event.get_str("/message").unwrap_or_default();
                    let started =
                        one.status("/state/running").and_then(|running| time_at(running, "/startedAt"));
                    let patience = probe["initialDelaySeconds"].as_i64().unwrap_or(0)
                        + probe["periodSeconds"].as_i64().unwrap_or(10);
                    if facts.since(started).as_secs() < patience {
                        return None;
                    }
                    let (answer, _) = message.split_once('\n').unwrap_or((message, ""));
                    Some(
                        one.finding(facts, "/readinessProbe")
                            .event(Some(event))
                            .proof(pod, &one.status_pointer("/ready"))
                            .message(format!(
                                "{} of {} runs, but isn't ready: {answer}",
                                one.title(),
                                ObjectRef::of(pod)
                            ))
                            .not(
                                Stage::Proxy,
                                "the Service selects the pod; it isn't sent to because it isn't ready",
                            ),
                    )
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy()
        .not_ready("web-a")
        .not_ready("web-b")
        .event(
            "Pod/web-a",
            "Warning",
            "Unhealthy",
            "Readiness probe failed: HTTP probe failed with statuscode: 404",
        )
        .event(
            "Pod/web-b",
            "Warning",
            "Unhealthy",
            "Readiness probe failed: HTTP probe failed with statuscode: 404",
        )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{World, find};

    #[test]
    fn the_probe_is_blamed_with_its_answer() {
        let found = find(&RULE, fault());
        assert!(found[0].message.ends_with("statuscode: 404"), "{}", found[0].message);
        assert_eq!(found[0].field, "/spec/template/spec/containers/0/readinessProbe");
    }

    #[test]
    fn silent_once_the_pod_is_ready_again() {
        assert!(
            find(
                &RULE,
                World::healthy().event("Pod/web-a", "Warning", "Unhealthy", "Readiness probe failed: x")
            )
            .is_empty()
        );
        assert!(find(&RULE, super::super::liveness_kills::fault()).is_empty());
    }
}
