//! loop-disabled: one loop of a living controller manager doesn't run
//!
//! The Lease is fresh, and yet no object of one kind is ever looked at, or EndpointSlices don't follow the
//! pods: `--controllers` leaves a loop out.
//!
//! # In Kubernetes
//! `cmd/kube-controller-manager/app/controllermanager.go` (`--controllers=*,-endpointslice-controller`).

use serde_json::Value;
use std::collections::BTreeSet;

use crate::journey::Stage;
use crate::object::Object;
use crate::why::ObjectRef;
use crate::why::acting::{GRACE_SECONDS, unobserved};
use crate::why::facts::{condition, selects, time_at};
use crate::why::heartbeat::{Heartbeat, heartbeat};
use crate::why::traffic::slices;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// one loop of a living controller manager doesn't run
pub const RULE: Rule = Rule {
    id: "loop-disabled",
    stage: Stage::Controllers,
    mechanism: Mechanism::LoopDisabled,
    lab: "3-B",
    symptom: "pods Ready, selector right, EndpointSlice stale",
    first_command: "kubectl get endpointslices,pods -o wide",
    ruled_out_by: "a stale Lease: controller-manager-down (3-A); a selector that fits no pod: selector-mismatch (6-A)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    if heartbeat(facts, "kube-system", "kube-controller-manager").is_stale() || facts.trouble.is_some() {
        return Vec::new();
    }
    let mut found: Vec<Finding> = Vec::new();
    if heartbeat(facts, "kube-system", "kube-controller-manager") == Heartbeat::Fresh {
        for object in unobserved(facts, GRACE_SECONDS) {
            let ever = facts
                .all(object.kind())
                .iter()
                .any(|one| one.get_i64("/status/observedGeneration").is_some_and(|seen| seen > 0));
            if !ever {
                let what =
                    format!("no {} was ever looked at: the loop for this kind doesn't run", object.kind());
                found.push(off(facts, object, "/status/observedGeneration", what));
            }
        }
    }
    for service in facts.focused("Service").filter(|service| !service.string_map("/spec/selector").is_empty())
    {
        let listed: BTreeSet<&str> = addresses(facts, service).collect();
        let fresh = |pod: &&Object| {
            pod.namespace() == service.namespace()
                && pod.deletion_timestamp().is_none()
                && selects(service, &pod.labels())
                && condition(pod, "Ready").is_some_and(|(ready, _)| {
                    ready["status"] == "True"
                        && facts.since(time_at(ready, "/lastTransitionTime")).as_secs() > GRACE_SECONDS
                })
        };
        let lost = facts
            .all("Pod")
            .iter()
            .filter(fresh)
            .find(|pod| pod.get_str("/status/podIP").is_some_and(|ip| !listed.contains(ip)));
        if let Some(pod) = lost.filter(|_| facts.age(service).as_secs() > GRACE_SECONDS) {
            let what = format!(
                "{} is Ready and selected, but no EndpointSlice of {} has its address",
                ObjectRef::of(pod),
                service.name()
            );
            found.push(
                off(facts, service, "/spec/selector", what)
                    .proof(pod, "/status/podIP")
                    .affecting([ObjectRef::of(pod)]),
            );
        }
    }
    found
}

fn addresses<'a>(facts: &'a Facts, service: &'a Object) -> impl Iterator<Item = &'a str> {
    slices(facts, service).flat_map(|slice| {
        let endpoints = slice.get("/endpoints").and_then(Value::as_array).into_iter().flatten();
        endpoints.filter_map(|endpoint| endpoint.pointer("/addresses/0").and_then(Value::as_str))
    })
}

fn off(facts: &Facts, object: &Object, field: &str, what: String) -> Finding {
    let manager = ObjectRef::component("kube-controller-manager");
    let mut finding =
        Finding::about(manager).message(what).affecting([ObjectRef::of(object)]).proof(object, field);
    if let Some(lease) = facts.find("Lease", "kube-system", "kube-controller-manager") {
        finding = finding.proof(lease, "/spec/renewTime");
    }
    let namespace = object.namespace().unwrap_or("default");
    finding.next(format!("kubectl -n {namespace} get endpointslices,pods -o wide"))
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy().set("EndpointSlice/web-slice", "/endpoints", json!([]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{World, find, only};

    #[test]
    fn ready_pods_that_no_slice_names_prove_a_loop_that_is_off() {
        assert!(only(&RULE, fault()).message.contains("no EndpointSlice of web"));
    }

    #[test]
    fn a_kind_that_nobody_ever_looked_at_is_found() {
        let world = World::empty()
            .app("new", &[])
            .set("Deployment/new", "/status", json!({}))
            .without(&["ReplicaSet/new-5d4"]);
        assert!(only(&RULE, world).message.starts_with("no Deployment was ever"));
    }

    #[test]
    fn silent_when_the_process_is_gone_and_when_the_selector_is_wrong() {
        assert!(find(&RULE, super::super::controller_manager_down::fault()).is_empty());
        assert!(find(&RULE, super::super::selector_mismatch::fault()).is_empty());
    }
}
