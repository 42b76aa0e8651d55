//! create-failed: the runtime can't make the container
//!
//! Everything is configured, and the container runtime says no: a path that is taken, a device, a subPath that
//! leaves its volume, a hook that fails.
//!
//! # In Kubernetes
//! Waiting reasons CreateContainerError, RunContainerError, PostStartHookError.

use crate::journey::Stage;
use crate::object::Object;
use crate::why::ObjectRef;
use crate::why::container::{Container, containers};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the runtime can't make the container
pub const RULE: Rule = Rule {
    id: "create-failed",
    stage: Stage::Kubelet,
    mechanism: Mechanism::RuntimeFailed,
    lab: "",
    symptom: "CreateContainerError",
    first_command: "kubectl describe pod NAME",
    ruled_out_by: "CreateContainerConfigError: config-missing (5-H); a command that isn't there: start-error (5-G)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .pods()
        .flat_map(|pod| {
            containers(pod).into_iter().filter_map(|one| found(facts, pod, &one)).collect::<Vec<_>>()
        })
        .collect()
}

fn found(facts: &Facts, pod: &Object, one: &Container<'_>) -> Option<Finding> {
    let (reason, message) = one.waiting()?;
    let what = |message: &str| format!("{} of {} can't be made: {message}", one.title(), ObjectRef::of(pod));
    if REASONS.contains(&reason) && !OTHERS.iter().any(|text| message.contains(text)) {
        let proof = one.status_pointer("/state/waiting/message");
        return Some(
            one.finding(facts, "").proof(pod, &proof).message(what(&format!("{reason}: {message}"))),
        );
    }
    // Some refusals leave the container waiting as at the beginning; only an event tells.
    let starting = ["ContainerCreating", "PodInitializing"].contains(&reason) && !one.is_init;
    let event = facts.event(pod, "Failed", "Error: failed to ").filter(|_| starting)?;
    let message = event.get_str("/message")?.trim_start_matches("Error: ");
    Some(one.finding(facts, "").event(Some(event)).message(what(message)))
}

const REASONS: [&str; 3] = ["CreateContainerError", "PostStartHookError", "CreateContainerConfigError"];
/// Texts of other rules.
const OTHERS: [&str; 7] =
    ["runAsNonRoot", "seccomp", "apparmor", "AppArmor", "SELinux", "not found", "couldn't find key"];

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy().waiting(
        "web-b",
        "CreateContainerError",
        "failed to prepare subPath for volumeMount \"d\" of container \"c\"",
    )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_runtimes_words_are_kept() {
        assert!(only(&RULE, fault()).message.contains("subPath"));
        assert!(find(&RULE, super::super::security_context::fault()).is_empty());
    }
}
