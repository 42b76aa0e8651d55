//! policy-denies: a NetworkPolicy lets nothing in
//!
//! Connections time out instead of being refused: a policy selects the Service's pods for ingress, and no rule
//! of any policy lets anybody in.
//!
//! # In Kubernetes
//! Policies only ever allow; a pod that one selects is closed for all that none allows.

use serde_json::Value;

use crate::journey::Stage;
use crate::object::Object;
use crate::selector::LabelSelector;
use crate::why::traffic::{has_selector, pods_of};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};
use crate::why::{ObjectRef, Severity};

/// a NetworkPolicy lets nothing in
pub const RULE: Rule = Rule {
    id: "policy-denies",
    stage: Stage::Proxy,
    mechanism: Mechanism::PolicyDenied,
    lab: "6-E",
    symptom: "timeouts, not refused",
    first_command: "kubectl get networkpolicies -A",
    ruled_out_by: "refused at once: port-mismatch (6-B)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .focused("Service")
        .filter(|service| has_selector(service))
        .filter_map(|service| {
            let pod = pods_of(facts, service).next()?;
            let labels = pod.labels();
            let policies: Vec<&Object> = facts
                .all("NetworkPolicy")
                .iter()
                .filter(|policy| {
                    let selector = policy.get("/spec/podSelector").cloned().unwrap_or_default();
                    let selector = serde_json::from_value(selector)
                        .ok()
                        .and_then(|one| LabelSelector::from_match(&one).ok());
                    policy.namespace() == service.namespace()
                        && selector.is_some_and(|one| one.matches(&labels))
                        && concerns_ingress(policy)
                })
                .collect();
            let opens = |policy: &&Object| {
                policy.get("/spec/ingress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty())
            };
            let first = policies.first().filter(|_| !policies.iter().any(opens))?;
            Some(
                Finding::at(first, "/spec/podSelector")
                    .severity(Severity::Warning)
                    .proof(first, "/spec/ingress")
                    .affecting([ObjectRef::of(service), ObjectRef::of(pod)])
                    .message(format!(
                        "{} lets nobody in to the pods of {}",
                        ObjectRef::of(first),
                        ObjectRef::of(service)
                    ))
                    .next(format!("kubectl describe {}", ObjectRef::of(first).arguments())),
            )
        })
        .collect()
}

fn concerns_ingress(policy: &Object) -> bool {
    let kinds = policy.get("/spec/policyTypes").and_then(Value::as_array);
    kinds.is_none_or(|kinds| kinds.iter().any(|kind| kind == "Ingress"))
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .with(json!({"kind": "NetworkPolicy", "metadata": {"name": "deny", "namespace": "default"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_policy_that_selects_and_allows_nothing_is_named() {
        assert_eq!(only(&RULE, fault()).object.name, "deny");
        assert!(find(&RULE, fault().set("NetworkPolicy/deny", "/spec/ingress", json!([{}]))).is_empty());
        assert!(
            find(&RULE, fault().set("NetworkPolicy/deny", "/spec/policyTypes", json!(["Egress"]))).is_empty()
        );
    }
}
