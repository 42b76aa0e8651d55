//! selector-mismatch: the Service's selector fits no pod
//!
//! The Service has an address and no endpoints: its selector isn't what the pods' labels say. The nearest pod
//! or template is shown with the label that differs.
//!
//! # In Kubernetes
//! `pkg/controller/endpointslice`; a selector is compared label by label.

use crate::journey::Stage;
use crate::object::{Object, escape};
use crate::why::facts::has_condition;
use crate::why::near_miss::selector_miss;
use crate::why::traffic::{has_selector, pods_of, templates_of};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};
use crate::why::{ObjectRef, Severity};

/// the Service's selector fits no pod
pub const RULE: Rule = Rule {
    id: "selector-mismatch",
    stage: Stage::Proxy,
    mechanism: Mechanism::SelectorMismatch,
    lab: "6-A",
    symptom: "Service times out or refuses; EndpointSlice empty",
    first_command: "kubectl get endpointslice -l kubernetes.io/service-name=NAME; kubectl get pods --show-labels",
    ruled_out_by: "endpoints are there: port-mismatch (6-B); pods fit but aren't ready: readiness-fails (6-C); pods fit and are ready: loop-disabled (3-B)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .focused("Service")
        .filter(|service| has_selector(service))
        .filter_map(|service| {
            if pods_of(facts, service).next().is_some() || templates_of(facts, service).next().is_some() {
                return None;
            }
            let selector = service.string_map("/spec/selector");
            let same = |object: &&Object| object.namespace() == service.namespace();
            let pods =
                facts.all("Pod").iter().filter(same).map(|pod| (pod, pod.labels(), "/metadata/labels"));
            let owners = ["Deployment", "StatefulSet", "DaemonSet"]
                .into_iter()
                .flat_map(|kind| facts.all(kind))
                .filter(same);
            let owners = owners.map(|owner| {
                (owner, owner.string_map("/spec/template/metadata/labels"), "/spec/template/metadata/labels")
            });
            let near = owners
                .chain(pods)
                .filter_map(|(object, labels, at)| Some((selector_miss(&selector, &labels)?, object, at)));
            let nearest = near
                .filter(|(miss, ..)| miss.has.is_some())
                .min_by_key(|(miss, ..)| (miss.distance, std::cmp::Reverse(miss.hits)));
            let text: Vec<String> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let text = text.join(",");
            let finding = match nearest {
                None => Finding::at(service, "/spec/selector")
                    .severity(Severity::Warning)
                    .message(format!("the selector {text} of {} fits no pod", ObjectRef::of(service))),
                Some((miss, object, at)) => {
                    Finding::at(service, &format!("/spec/selector/{}", escape(&miss.key)))
                        .proof(object, at)
                        .affecting([ObjectRef::of(object)])
                        .message(format!(
                            "the selector {text} of {} fits no pod; {} has {}",
                            ObjectRef::of(service),
                            ObjectRef::of(object),
                            miss.has.unwrap_or_default()
                        ))
                }
            };
            let namespace = service.namespace().unwrap_or_default();
            let ready = facts
                .all("Pod")
                .iter()
                .filter(same)
                .filter(|pod| has_condition(pod, "Ready", "True"))
                .count();
            Some(
                finding
                    .not(Stage::Controllers, "an empty EndpointSlice is what this selector asks for")
                    .not(Stage::Kubelet, format!("{ready} pods of namespace {namespace} are Ready"))
                    .next(format!("kubectl -n {namespace} get pods --show-labels")),
            )
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy().set("Service/web", "/spec/selector", json!({"app": "wbe"})).set(
        "EndpointSlice/web-slice",
        "/endpoints",
        json!([]),
    )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_near_miss_is_shown() {
        let finding = only(&RULE, fault());
        assert_eq!(
            finding.message,
            "the selector app=wbe of Service default/web fits no pod; Deployment default/web has app=web"
        );
        assert_eq!(finding.field, "/spec/selector/app");
    }

    #[test]
    fn silent_when_the_pods_fit_but_the_port_or_the_loop_is_wrong() {
        assert!(find(&RULE, super::super::port_mismatch::fault()).is_empty());
        assert!(find(&RULE, super::super::loop_disabled::fault()).is_empty());
        assert!(find(&RULE, super::super::quota_exceeded::fault()).is_empty());
    }
}
