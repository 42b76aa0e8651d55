//! start-error: the container's command can't be started
//!
//! The runtime finds no such executable, or may not run it: the log is empty, because nothing ever ran. Exit
//! code 128 (StartError), or 126 and 127 from a shell.
//!
//! # In Kubernetes
//! Waiting reason RunContainerError, terminated reason StartError; `exec: "x": executable file not found in
//! $PATH`.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::container::containers;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the container's command can't be started
pub const RULE: Rule = Rule {
    id: "start-error",
    stage: Stage::Kubelet,
    mechanism: Mechanism::StartError,
    lab: "5-G",
    symptom: "CrashLoopBackOff, logs empty",
    first_command: "kubectl get pod NAME -o jsonpath='{..lastState.terminated.message}'",
    ruled_out_by: "a log with lines in it: crash-loop",
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
                    let waiting = one.waiting().filter(|(reason, _)| *reason == "RunContainerError");
                    let ended = one.recent_end(facts, RECENT_SECONDS).filter(|(end, _)| {
                        ["StartError", "ContainerCannotRun"].iter().any(|reason| end["reason"] == *reason)
                            || end["exitCode"] == 127
                            || end["exitCode"] == 126
                    });
                    let (text, at) = match (waiting, ended) {
                        (_, Some((end, at))) => {
                            (end["message"].as_str().unwrap_or_default(), format!("{at}/exitCode"))
                        }
                        (Some((_, message)), None) => (message, one.status_pointer("/state/waiting/message")),
                        (None, None) => return None,
                    };
                    let why = text
                        .split("exec: ")
                        .nth(1)
                        .map(|why| format!(": exec: {}", why.lines().next().unwrap_or(why)))
                        .unwrap_or_default();
                    let field = if one.spec("/command").is_some() { "/command" } else { "/args" };
                    Some(
                        one.finding(facts, field)
                            .proof(pod, &at)
                            .proof(pod, &at.replace("/exitCode", "/message"))
                            .message(format!(
                                "the command of {} of {} can't be started{why}",
                                one.title(),
                                ObjectRef::of(pod)
                            ))
                            .next(format!("kubectl describe {}", ObjectRef::of(pod).arguments())),
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
        .set("Pod/web-a", "/spec/containers/0/command", json!(["nginxzz"]))
        .crashed("web-a", 128, "StartError")
        .set(
            "Pod/web-a",
            "/status/containerStatuses/0/lastState/terminated/message",
            json!("failed to create containerd task: exec: \"nginxzz\": executable file not found in $PATH"),
        )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_command_is_blamed_with_the_runtimes_words() {
        let finding = only(&RULE, fault());
        assert!(finding.message.ends_with("executable file not found in $PATH"), "{}", finding.message);
        assert!(find(&RULE, super::super::crash_loop::fault()).is_empty());
    }
}
