//! liveness-kills: a probe kills a container that does its work
//!
//! The kubelet believes the liveness (or startup) probe and restarts the container. A wrong port or path in the
//! probe looks like a crashing program, with exit codes of 0, 137 or 143.
//!
//! # In Kubernetes
//! `pkg/kubelet/prober`; events Unhealthy, Killing (`Container c failed liveness probe, will be restarted`).

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::container::containers;
use crate::why::facts::time_at;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// a probe kills a container that does its work
pub const RULE: Rule = Rule {
    id: "liveness-kills",
    stage: Stage::Kubelet,
    mechanism: Mechanism::ProbeMisconfigured,
    lab: "5-F",
    symptom: "restarts, exit codes 0, 137 or 143, events Unhealthy and Killing",
    first_command: "kubectl describe pod NAME",
    ruled_out_by: "reason OOMKilled: oom-killed (5-E); no event Unhealthy: crash-loop",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .pods()
        .flat_map(|pod| {
            containers(pod)
                .into_iter()
                .filter_map(|one| {
                    let (end, at) = one.last_end()?;
                    let restarting = one.waiting().is_some()
                        || facts.since(time_at(end, "/finishedAt")).as_secs() <= RECENT_SECONDS;
                    if !restarting || end["reason"] == "OOMKilled" {
                        return None;
                    }
                    let kills = ["liveness", "startup"].into_iter().find_map(|probe| {
                        let text = format!("Container {} failed {probe} probe", one.name);
                        facts.event(pod, "Killing", &text).map(|event| (probe, event))
                    });
                    let (probe, event) = kills?;
                    let said = facts.event(
                        pod,
                        "Unhealthy",
                        &format!("{}{} probe failed", probe[..1].to_uppercase(), &probe[1..]),
                    );
                    let field = format!("/{probe}Probe");
                    let port = one
                        .spec(&format!("{field}/httpGet/port"))
                        .or(one.spec(&format!("{field}/tcpSocket/port")));
                    let ports: Vec<i64> = one.ports().map(|(number, _)| number).collect();
                    let wrong = port
                        .and_then(serde_json::Value::as_i64)
                        .filter(|port| !ports.is_empty() && !ports.contains(port));
                    let hint = wrong
                        .map(|port| format!(": it asks port {port}, the container listens on {ports:?}"))
                        .unwrap_or_default();
                    Some(
                        one.finding(facts, &field)
                            .event(said)
                            .event(Some(event))
                            .proof(pod, &format!("{at}/exitCode"))
                            .message(format!(
                                "the {probe} probe kills {} of {} again and again{hint}",
                                one.title(),
                                ObjectRef::of(pod)
                            )),
                    )
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

const RECENT_SECONDS: i64 = 600;

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .crashed("web-a", 137, "Error")
        .set("Pod/web-a", "/spec/containers/0/livenessProbe/httpGet/port", json!(8081))
        .set("Deployment/web", "/spec/template/spec/containers/0/livenessProbe/httpGet/port", json!(8081))
        .event("Pod/web-a", "Warning", "Unhealthy", "Liveness probe failed: Get \"http://10.244.0.2:8081/\": dial tcp 10.244.0.2:8081: connect: connection refused")
        .event("Pod/web-a", "Normal", "Killing", "Container c failed liveness probe, will be restarted")
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_probe_of_the_template_is_blamed_with_its_port() {
        let finding = only(&RULE, fault());
        assert_eq!(finding.field, "/spec/template/spec/containers/0/livenessProbe");
        assert!(
            finding.message.ends_with("it asks port 8081, the container listens on [80]"),
            "{}",
            finding.message
        );
    }

    #[test]
    fn silent_when_the_kernel_kills_and_when_the_program_ends_by_itself() {
        assert!(find(&RULE, super::super::oom_killed::fault()).is_empty());
        assert!(find(&RULE, super::super::crash_loop::fault()).is_empty());
    }
}
