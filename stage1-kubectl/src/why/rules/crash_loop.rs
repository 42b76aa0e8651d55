//! crash-loop: the program ends by itself again and again
//!
//! The container starts and ends: with an error (a message in its log), by a signal, or without any error,
//! because its program was never meant to run for ever.
//!
//! # In Kubernetes
//! Waiting reason CrashLoopBackOff; back-off from 10 s to 5 min (`pkg/kubelet/kuberuntime`).

use crate::journey::Stage;
use crate::why::container::containers;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};
use crate::why::{ObjectRef, Severity};

/// the program ends by itself again and again
pub const RULE: Rule = Rule {
    id: "crash-loop",
    stage: Stage::Kubelet,
    mechanism: Mechanism::AppError,
    lab: "",
    symptom: "CrashLoopBackOff; Error; restarts",
    first_command: "kubectl logs NAME --previous",
    ruled_out_by: "OOMKilled: oom-killed (5-E); events Unhealthy and Killing: liveness-kills (5-F); an empty log: start-error (5-G)",
    explained: Explained::By(&["liveness-kills"]),
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .pods()
        .flat_map(|pod| {
            let never = pod.get_str("/spec/restartPolicy") == Some("Never");
            let job = facts.owners(pod).iter().any(|owner| owner.kind() == "Job");
            containers(pod)
                .into_iter()
                .filter_map(|one| {
                    let (end, at) = one.recent_end(facts, RECENT_SECONDS)?;
                    let code = end["exitCode"].as_i64().unwrap_or(0);
                    let waits = one.waiting().is_some_and(|(reason, _)| reason == "CrashLoopBackOff");
                    let ended = one.status("/state/terminated").is_some();
                    let failed = ended && code != 0;
                    // A container that was started again and runs is told only while it keeps falling over.
                    let flaps = one.is_running() && !one.is_init && one.restarts() > 1 && code != 0;
                    // Between two starts the state is the end itself.
                    let for_ever = pod.get_str("/spec/restartPolicy").unwrap_or("Always") == "Always";
                    let again = ended && one.restarts() > 0 && for_ever && !one.is_init;
                    if !(waits || failed || flaps || again)
                        || OTHERS.iter().any(|reason| end["reason"] == *reason)
                        || [126, 127].contains(&code)
                    {
                        return None;
                    }
                    let what = match code {
                        0 => "ends without an error, but should run for ever".to_owned(),
                        129..=192 => format!("is ended by signal {} (exit code {code})", signal(code - 128)),
                        _ => format!("ends with exit code {code}"),
                    };
                    let log = if one.status("/state/terminated").is_some() {
                        one.previous_logs().replace(" --previous", "")
                    } else {
                        one.previous_logs()
                    };
                    let severity = if (never || job) && pod.get_str("/status/phase") != Some("Failed") {
                        Severity::Warning
                    } else {
                        Severity::Error
                    };
                    Some(
                        one.finding(facts, "/command")
                            .severity(severity)
                            .proof(pod, &format!("{at}/exitCode"))
                            .proof(pod, &format!("{at}/reason"))
                            .proof(pod, &one.status_pointer("/restartCount"))
                            .message(format!(
                                "{} of {} {what}, {} restarts",
                                one.title(),
                                ObjectRef::of(pod),
                                one.restarts()
                            ))
                            .next(log),
                    )
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

const RECENT_SECONDS: i64 = 600;
/// Ends that have rules of their own.
const OTHERS: [&str; 4] = ["OOMKilled", "StartError", "ContainerCannotRun", "ContainerStatusUnknown"];

fn signal(number: i64) -> String {
    match number {
        6 => "SIGABRT".into(),
        9 => "SIGKILL".into(),
        11 => "SIGSEGV".into(),
        15 => "SIGTERM".into(),
        other => other.to_string(),
    }
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy().crashed("web-a", 1, "Error")
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{World, find, only};

    #[test]
    fn code_signal_and_success_are_told_apart() {
        assert!(only(&RULE, fault()).message.contains("ends with exit code 1, 4 restarts"));
        assert!(only(&RULE, World::healthy().crashed("web-a", 139, "Error")).message.contains("SIGSEGV"));
        assert!(
            only(&RULE, World::healthy().crashed("web-a", 0, "Completed"))
                .message
                .contains("should run for ever")
        );
    }

    #[test]
    fn silent_when_the_kernel_or_the_runtime_is_the_cause() {
        assert!(find(&RULE, super::super::oom_killed::fault()).is_empty());
        assert!(find(&RULE, super::super::start_error::fault()).is_empty());
    }
}
