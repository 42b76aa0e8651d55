//! limit-range: a LimitRange forbids the pod's requests or limits
//!
//! Each container asks for more, or for less, than the namespace's LimitRange allows; the API server refuses
//! the pods one by one.
//!
//! # In Kubernetes
//! `plugin/pkg/admission/limitranger`: `maximum memory usage per Container is …, but limit is …`.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::refusal::{Gate, refusals, top_template};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// a LimitRange forbids the pod's requests or limits
pub const RULE: Rule = Rule {
    id: "limit-range",
    stage: Stage::ApiServer,
    mechanism: Mechanism::LimitRangeViolated,
    lab: "",
    symptom: "no pods; FailedCreate … usage per Container",
    first_command: "kubectl describe limitrange",
    ruled_out_by: "the text names a quota: quota-exceeded (2-E)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let refused = refusals(facts).into_iter().filter_map(|one| match &one.gate {
        Gate::LimitRange => Some((String::new(), one)),
        _ => None,
    });
    refused
        .map(|(_, one)| {
            let namespace = one.owner.namespace().unwrap_or_default();
            let owner = ObjectRef::of(one.owner);
            let (top, field) = top_template(facts, one.owner);
            let reason = one.message.trim_start_matches("Error creating: ");
            Finding::at(top, &format!("{field}/spec/containers"))
                .message(format!("a limit range of {namespace} refuses the pods of {owner}: {reason}"))
                .event(Some(one.event))
                .affecting([owner.clone(), ObjectRef::of(top)])
                .not(Stage::Controllers, format!("{owner} exists and tried: its event is the proof"))
                .next(format!("kubectl -n {namespace} describe limitrange"))
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy().create_refused(
        "pods \"web\" is forbidden: maximum memory usage per Container is 64Mi, but limit is 128Mi",
    )
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
