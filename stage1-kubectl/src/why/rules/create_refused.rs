//! create-refused: the API server refuses the pods
//!
//! A gate that no other rule knows: validation, a namespace that is going away, or a policy. The server's words
//! are shown as they are.
//!
//! # In Kubernetes
//! Event `FailedCreate` of the controllers.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::refusal::{Gate, refusals};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the API server refuses the pods
pub const RULE: Rule = Rule {
    id: "create-refused",
    stage: Stage::ApiServer,
    mechanism: Mechanism::AdmissionRefused,
    lab: "",
    symptom: "no pods; FailedCreate",
    first_command: "kubectl describe rs NAME",
    ruled_out_by: "the text names a quota, a limit range, a security level or a webhook",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let refused = refusals(facts)
        .into_iter()
        .filter(|one| one.gate == Gate::Other && !one.message.contains("database space exceeded"));
    refused
        .map(|one| {
            let owner = ObjectRef::of(one.owner);
            one.finding(facts, "/spec")
                .message(format!("the API server refuses the pods of {owner}: {}", one.words()))
                .next(format!(
                    "kubectl -n {} describe {}/{}",
                    one.namespace(),
                    one.owner.kind().to_lowercase(),
                    one.owner.name()
                ))
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy().create_refused("Pod \"web-5d4-\" is invalid: spec.containers[0].image: Required value")
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
