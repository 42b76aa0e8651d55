//! pod-security: the namespace's pod security level forbids the pod
//!
//! The label `pod-security.kubernetes.io/enforce` of the namespace asks for a stricter pod than the template
//! describes. The text lists every field that is missing.
//!
//! # In Kubernetes
//! `pod-security-admission/admission/admission.go`: `violates PodSecurity "restricted:latest": …`.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::refusal::{Gate, refusals};
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
    let refused = refusals(facts).into_iter().filter(|one| one.gate == Gate::PodSecurity);
    refused
        .map(|one| {
            let owner = ObjectRef::of(one.owner);
            one.finding(facts, "/spec")
                .message(format!(
                    "namespace {} forbids such pods as {owner} wants: {}",
                    one.namespace(),
                    one.words()
                ))
                .next(format!("kubectl get ns {} --show-labels", one.namespace()))
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
