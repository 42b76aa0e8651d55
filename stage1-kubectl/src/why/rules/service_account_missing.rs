//! service-account-missing: the pod's service account isn't there
//!
//! A pod runs as a service account, and admission wants to see it. Typos show here and not at the Deployment,
//! which nobody checks.
//!
//! # In Kubernetes
//! `plugin/pkg/admission/serviceaccount`: `error looking up service account ns/name: serviceaccount "name" not
//! found`.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::refusal::{Gate, refusals};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the pod's service account isn't there
pub const RULE: Rule = Rule {
    id: "service-account-missing",
    stage: Stage::ApiServer,
    mechanism: Mechanism::MissingReference,
    lab: "",
    symptom: "no pods; FailedCreate … serviceaccount not found",
    first_command: "kubectl get serviceaccounts",
    ruled_out_by: "a Secret or ConfigMap that is missing stops the kubelet, not the API server: config-missing (5-H)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    refusals(facts)
        .iter()
        .filter_map(|one| {
            let Gate::ServiceAccount(name) = &one.gate else { return None };
            let (owner, namespace) = (ObjectRef::of(one.owner), one.namespace());
            let accounts =
                facts.all("ServiceAccount").iter().filter(|one| one.namespace() == Some(namespace));
            let meant = crate::why::near_miss::nearest(name, accounts.map(crate::object::Object::name));
            let meant = meant.map(|meant| format!("; there is {meant}")).unwrap_or_default();
            let finding = one
                .finding(facts, "/spec/serviceAccountName")
                .message(format!(
                    "the pods of {owner} want service account {name}, which isn't in {namespace}{meant}"
                ))
                .next(format!("kubectl -n {namespace} get serviceaccounts"));
            Some(finding)
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy().create_refused("pods \"web\" is forbidden: error looking up service account default/app: serviceaccount \"app\" not found")
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
