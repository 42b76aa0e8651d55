//! oom-killed: the kernel killed the container at its memory limit
//!
//! Exit code 137 and reason OOMKilled. Exit code 137 alone isn't enough: whoever is killed with SIGKILL has it,
//! by a probe or by hand.
//!
//! # In Kubernetes
//! `pkg/kubelet/kuberuntime`: reason from the runtime, which reads the cgroup's oom counter.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::container::containers;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the kernel killed the container at its memory limit
pub const RULE: Rule = Rule {
    id: "oom-killed",
    stage: Stage::Kubelet,
    mechanism: Mechanism::OomKilled,
    lab: "5-E",
    symptom: "restarts, exit code 137, CrashLoopBackOff",
    first_command: "kubectl get pod NAME -o jsonpath='{..lastState.terminated}'",
    ruled_out_by: "events Unhealthy and Killing: liveness-kills (5-F); the template has another limit: silent-mutation (2-D)",
    explained: Explained::By(&["silent-mutation"]),
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .pods()
        .flat_map(|pod| {
            containers(pod)
                .into_iter()
                .filter_map(|one| {
                    let (end, at) = one.recent_end(facts, RECENT_SECONDS)?;
                    if end["reason"] != "OOMKilled" {
                        return None;
                    }
                    let limit = one.spec_str("/resources/limits/memory");
                    let limit = if limit.is_empty() {
                        "its memory limit".into()
                    } else {
                        format!("its memory limit of {limit}")
                    };
                    Some(
                        one.finding(facts, "/resources/limits/memory")
                            .proof(pod, &format!("{at}/reason"))
                            .proof(pod, &format!("{at}/exitCode"))
                            .proof(pod, &one.status_pointer("/restartCount"))
                            .message(format!(
                                "{} of {} was killed at {limit}, {} restarts",
                                one.title(),
                                ObjectRef::of(pod),
                                one.restarts()
                            ))
                            .next(format!(
                                "kubectl get {} -o jsonpath='{{..lastState.terminated}}'",
                                ObjectRef::of(pod).arguments()
                            )),
                    )
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

/// An end that is older is history.
const RECENT_SECONDS: i64 = 600;

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy().crashed("web-a", 137, "OOMKilled")
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_limit_of_the_template_is_blamed() {
        let finding = only(&RULE, fault());
        assert_eq!(
            (finding.object.kind.as_str(), finding.evidence[0].value.as_str()),
            ("Deployment", Some("128Mi"))
        );
    }

    #[test]
    fn silent_when_a_probe_kills_with_the_same_exit_code() {
        assert!(find(&RULE, super::super::liveness_kills::fault()).is_empty());
    }
}
