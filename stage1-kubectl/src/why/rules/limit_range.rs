//! limit-range: a LimitRange forbids the pod's requests or limits
//!
//! Each container asks for more, or for less, than the namespace's LimitRange allows; the API server refuses
//! the pods one by one.
//!
//! # In Kubernetes
//! `plugin/pkg/admission/limitranger`: `maximum memory usage per Container is …, but limit is …`.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::refusal::{Gate, refusals};
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
    let refused = refusals(facts).into_iter().filter(|one| one.gate == Gate::LimitRange);
    refused
        .map(|one| {
            let owner = ObjectRef::of(one.owner);
            one.finding(facts, "/spec/containers")
                .message(format!(
                    "a limit range of {} refuses the pods of {owner}: {}",
                    one.namespace(),
                    one.words()
                ))
                .next(format!("kubectl -n {} describe limitrange", one.namespace()))
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
