//! dns-down: nobody answers for names
//!
//! The Service address works and its name doesn't: the cluster's DNS Service has no ready endpoint.
//!
//! # In Kubernetes
//! Service kube-system/kube-dns, Deployment coredns.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::traffic::{endpoints, is_ready, slices};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// nobody answers for names
pub const RULE: Rule = Rule {
    id: "dns-down",
    stage: Stage::Proxy,
    mechanism: Mechanism::DnsDown,
    lab: "6-F",
    symptom: "name fails, ClusterIP works",
    first_command: "kubectl -n kube-system get endpointslice -l kubernetes.io/service-name=kube-dns",
    ruled_out_by: "the ClusterIP fails too: selector-mismatch (6-A), port-mismatch (6-B)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let Some(dns) = facts.find("Service", "kube-system", "kube-dns") else { return Vec::new() };
    if facts.is_unseen("endpointslices")
        || facts.age(dns).as_secs() < GRACE_SECONDS
        || endpoints(facts, dns).any(is_ready)
    {
        return Vec::new();
    }
    let server = facts.find("Deployment", "kube-system", "coredns");
    let mut finding = match server {
        Some(server) => Finding::at(server, "/spec/replicas").proof(server, "/status/readyReplicas"),
        None => Finding::about(ObjectRef::of(dns)),
    };
    finding = match slices(facts, dns).next() {
        Some(slice) => finding.proof(slice, "/endpoints"),
        None => {
            finding.seen(ObjectRef::new("EndpointSlice", "kube-system", "kube-dns"), "answer", "not found")
        }
    };
    vec![
        finding
            .affecting([ObjectRef::of(dns)])
            .message("the cluster's DNS has no ready endpoint: no name of a Service resolves")
            .next("kubectl -n kube-system get endpointslices,pods -o wide"),
    ]
}

const GRACE_SECONDS: i64 = 20;

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .with(json!({"kind": "Service", "metadata": {"name": "kube-dns", "namespace": "kube-system", "creationTimestamp": crate::why::worlds::ago(900)}, "spec": {}}))
        .with(json!({"kind": "Deployment", "metadata": {"name": "coredns", "namespace": "kube-system"}, "spec": {"replicas": 0}, "status": {}}))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_server_of_names_is_named() {
        let finding = only(&RULE, fault());
        assert_eq!((finding.object.name.as_str(), &finding.evidence[0].value), ("coredns", &json!(0)));
    }

    #[test]
    fn silent_with_an_endpoint() {
        let slice = json!({"kind": "EndpointSlice", "metadata": {"name": "d", "namespace": "kube-system", "labels": {"kubernetes.io/service-name": "kube-dns"}},
            "endpoints": [{"addresses": ["10.0.0.1"]}]});
        assert!(find(&RULE, fault().with(slice)).is_empty());
    }
}
