//! no-ready-endpoints: the Service's pods aren't ready
//!
//! The selector fits, and no endpoint is ready. Always a symptom: why the pods aren't there or aren't ready is
//! another stage's question.
//!
//! # In Kubernetes
//! EndpointSlice `conditions.ready: false`.

use crate::journey::Stage;
use crate::why::traffic::{endpoints, has_selector, is_ready, pods_of, slices, templates_of};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};
use crate::why::{ObjectRef, Severity};

/// the Service's pods aren't ready
pub const RULE: Rule = Rule {
    id: "no-ready-endpoints",
    stage: Stage::Proxy,
    mechanism: Mechanism::NoReadyEndpoints,
    lab: "",
    symptom: "Service refuses; slice says ready: false",
    first_command: "kubectl get endpointslice -l kubernetes.io/service-name=NAME -o yaml",
    ruled_out_by: "the pods have a rule of their own, which is the cause; the selector fits no pod: selector-mismatch (6-A)",
    explained: Explained::ByAnyCause,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .focused("Service")
        .filter(|service| has_selector(service))
        .filter_map(|service| {
            let selected: Vec<ObjectRef> = pods_of(facts, service).map(ObjectRef::of).collect();
            let wanted: Vec<ObjectRef> = templates_of(facts, service).map(ObjectRef::of).collect();
            let publishes = service.get("/spec/publishNotReadyAddresses") == Some(&true.into());
            if endpoints(facts, service).any(is_ready)
                || (selected.is_empty() && wanted.is_empty())
                || publishes
            {
                return None;
            }
            let young = facts.age(service).as_secs() < GRACE_SECONDS;
            let mut finding = Finding::about(ObjectRef::of(service)).severity(if young {
                Severity::Info
            } else {
                Severity::Error
            });
            finding = match slices(facts, service).next() {
                Some(slice) => finding.proof(slice, "/endpoints"),
                None => finding.seen(
                    ObjectRef::new("EndpointSlice", service.namespace().unwrap_or_default(), service.name()),
                    "answer",
                    "not found",
                ),
            };
            Some(
                finding
                    .affecting(selected.iter().cloned().chain(wanted))
                    .message(format!(
                        "{} has no ready endpoint; it selects {} pods",
                        ObjectRef::of(service),
                        selected.len()
                    ))
                    .next(format!("kubectl describe {}", ObjectRef::of(service).arguments())),
            )
        })
        .collect()
}

const GRACE_SECONDS: i64 = 10;

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy().change("EndpointSlice/web-slice", |slice| {
        slice.set("/endpoints/0/conditions/ready", false);
        slice.set("/endpoints/1/conditions/ready", false);
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn endpoints_that_are_not_ready_are_none() {
        assert!(only(&RULE, fault()).message.contains("selects 2 pods"));
        assert!(
            find(&RULE, fault().set("Service/web", "/spec/publishNotReadyAddresses", json!(true))).is_empty()
        );
        assert!(find(&RULE, super::super::selector_mismatch::fault()).is_empty());
    }
}
