//! webhook-denied: an admission webhook refuses the pods
//!
//! Somebody's policy says no. The webhook's own words follow its name.
//!
//! # In Kubernetes
//! `apiserver/pkg/admission/plugin/webhook/errors/statuserror.go`: `admission webhook "x" denied the request:
//! …`.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::refusal::{Gate, refusals};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// an admission webhook refuses the pods
pub const RULE: Rule = Rule {
    id: "webhook-denied",
    stage: Stage::ApiServer,
    mechanism: Mechanism::WebhookDenied,
    lab: "",
    symptom: "admission webhook … denied the request",
    first_command: "kubectl get validatingwebhookconfigurations",
    ruled_out_by: "the webhook didn't answer: webhook-unreachable (2-C)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    refusals(facts)
        .iter()
        .filter_map(|one| {
            let Gate::WebhookDenied(name) = &one.gate else { return None };
            let owner = ObjectRef::of(one.owner);
            let finding = one
                .finding(facts, "/spec")
                .message(format!("webhook {name} refuses the pods of {owner}: {}", one.words()))
                .next("kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations");
            Some(finding)
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy().create_refused("admission webhook \"v.x.io\" denied the request: image is not signed")
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
