//! traffic-policy-local: only pods on the same node are asked
//!
//! `internalTrafficPolicy: Local` (or `externalTrafficPolicy: Local`): from a node without a pod of the
//! Service, packets are dropped. As asked for, and seldom as meant.
//!
//! # In Kubernetes
//! Drop rules of kube-proxy for local endpoints that there aren't.

use std::collections::BTreeSet;

use crate::journey::Stage;
use crate::object::Object;
use crate::why::traffic::{endpoints, is_ready, slices};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};
use crate::why::{ObjectRef, Severity};

/// only pods on the same node are asked
pub const RULE: Rule = Rule {
    id: "traffic-policy-local",
    stage: Stage::Proxy,
    mechanism: Mechanism::TrafficPolicyLocal,
    lab: "6-G",
    symptom: "works from some nodes, drops from others",
    first_command: "kubectl get service NAME -o jsonpath='{.spec.internalTrafficPolicy}'",
    ruled_out_by: "policy Cluster: kube-proxy-down (6-D)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts.focused("Service").flat_map(|service| {
        let policies = [("/spec/internalTrafficPolicy", "from pods there"), ("/spec/externalTrafficPolicy", "from outside")];
        policies.into_iter().filter_map(|(field, whence)| {
            if service.get_str(field) != Some("Local") {
                return None;
            }
            let served: BTreeSet<&str> = endpoints(facts, service).filter(|one| is_ready(one)).filter_map(|one| one["nodeName"].as_str()).collect();
            let bare = facts.all("Node").iter().map(Object::name).find(|node| !served.contains(node)).filter(|_| !served.is_empty())?;
            let slice = slices(facts, service).next()?;
            Some(
                Finding::at(service, field)
                    .severity(Severity::Warning)
                    .proof(slice, "/endpoints")
                    .message(format!("{} asks only pods of the same node, and {bare} has none: {whence} nothing gets through", ObjectRef::of(service)))
                    .next(format!("kubectl describe {}", ObjectRef::of(service).arguments())),
            )
        }).collect::<Vec<_>>()
    }).collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::empty().app("web", &["a"]).set("Service/web", "/spec/internalTrafficPolicy", json!("Local"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{World, find, only};

    #[test]
    fn the_node_without_a_pod_is_named() {
        assert!(only(&RULE, fault()).message.contains("node-2 has none"));
    }

    #[test]
    fn silent_when_each_node_has_a_pod() {
        assert!(
            find(&RULE, World::healthy().set("Service/web", "/spec/internalTrafficPolicy", json!("Local")))
                .is_empty()
        );
    }
}
