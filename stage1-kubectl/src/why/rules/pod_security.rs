//! pod-security: the namespace's pod security level forbids the pod
//!
//! The label `pod-security.kubernetes.io/enforce` of the namespace asks for a stricter pod than the template
//! describes. The text lists every field that is missing.
//!
//! # In Kubernetes
//! `pod-security-admission/admission/admission.go`: `violates PodSecurity "restricted:latest": …`.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::refusal::{Gate, refusals, top_template};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the namespace's pod security level forbids the pod
pub const RULE: Rule = Rule {
    id: "pod-security",
    stage: Stage::ApiServer,
    mechanism: Mechanism::PodSecurityViolated,
    lab: "",
    symptom: "no pods; FailedCreate … violates PodSecurity",
    first_command: "kubectl get ns NS --show-labels",
    ruled_out_by: "the text names a quota or a webhook: quota-exceeded, webhook-denied",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let refused = refusals(facts).into_iter().filter_map(|one| match &one.gate {
        Gate::PodSecurity => Some((String::new(), one)),
        _ => None,
    });
    refused
        .map(|(_, one)| {
            let namespace = one.owner.namespace().unwrap_or_default();
            let owner = ObjectRef::of(one.owner);
            let (top, field) = top_template(facts, one.owner);
            let reason = one.message.trim_start_matches("Error creating: ");
            Finding::at(top, &format!("{field}/spec"))
                .message(format!("namespace {namespace} forbids such pods as {owner} wants: {reason}"))
                .event(Some(one.event))
                .affecting([owner.clone(), ObjectRef::of(top)])
                .not(Stage::Controllers, format!("{owner} exists and tried: its event is the proof"))
                .next(format!("kubectl get ns {namespace} --show-labels"))
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy().create_refused("pods \"web\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false")
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_servers_words_are_kept() {
        let finding = only(&RULE, fault());
        assert!(finding.evidence.iter().any(|one| one.path == "event"), "{finding:#?}");
        assert!(finding.affects.iter().any(|one| one.kind == "Deployment"));
    }

    #[test]
    fn silent_about_a_quota() {
        assert!(find(&RULE, super::super::quota_exceeded::fault()).is_empty());
    }
}
