//! stale-endpoint: traffic is sent to an address that no pod has
//!
//! A Service without a selector has EndpointSlices that somebody writes by hand. An address of the pods' range
//! that no pod has any more takes its share of the connections.
//!
//! # In Kubernetes
//! EndpointSlices without `endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io`.

use std::collections::{BTreeMap, BTreeSet};

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::traffic::{is_ready, slices};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// traffic is sent to an address that no pod has
pub const RULE: Rule = Rule {
    id: "stale-endpoint",
    stage: Stage::Proxy,
    mechanism: Mechanism::StaleEndpoint,
    lab: "6-I",
    symptom: "some connections fail",
    first_command: "kubectl get endpointslices -o wide; kubectl get pods -A -o wide",
    ruled_out_by: "a Service with a selector: loop-disabled (3-B)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let pods: BTreeMap<&str, &str> =
        facts.all("Pod").iter().filter_map(|pod| Some((pod.get_str("/status/podIP")?, pod.name()))).collect();
    // Addresses outside of the pods' networks are other machines, and none of our business.
    let networks: BTreeSet<&str> = pods.keys().filter_map(|ip| network(ip)).collect();
    let by_hand = facts.focused("Service").filter(|service| service.string_map("/spec/selector").is_empty());
    by_hand
        .flat_map(|service| {
            slices(facts, service)
                .flat_map(|slice| {
                    let all = slice
                        .get("/endpoints")
                        .and_then(serde_json::Value::as_array)
                        .into_iter()
                        .flatten()
                        .enumerate();
                    all.filter_map(|(at, endpoint)| {
                        let ip = endpoint.pointer("/addresses/0")?.as_str()?;
                        if pods.contains_key(ip)
                            || !is_ready(endpoint)
                            || !network(ip).is_some_and(|network| networks.contains(network))
                        {
                            return None;
                        }
                        Some(
                            Finding::at(slice, &format!("/endpoints/{at}/addresses"))
                                .affecting([ObjectRef::of(service)])
                                .message(format!(
                                    "{} sends to {ip}, which no pod has",
                                    ObjectRef::of(service)
                                ))
                                .next("kubectl get pods -A -o wide"),
                        )
                    })
                    .collect::<Vec<_>>()
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

/// The first three numbers of an IPv4 address: each node's pods share them.
fn network(ip: &str) -> Option<&str> {
    ip.rsplit_once('.').map(|(network, _)| network)
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .with(json!({"kind": "Service", "metadata": {"name": "manual", "namespace": "default"}, "spec": {"ports": []}}))
        .with(json!({"kind": "EndpointSlice", "metadata": {"name": "m", "namespace": "default", "labels": {"kubernetes.io/service-name": "manual"}},
            "endpoints": [{"addresses": ["10.244.0.2"]}, {"addresses": ["10.244.0.99"]}]}))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_dead_address_is_named() {
        assert!(only(&RULE, fault()).message.contains("10.244.0.99"));
    }

    #[test]
    fn silent_about_machines_outside() {
        assert!(
            find(&RULE, fault().set("EndpointSlice/m", "/endpoints/1/addresses", json!(["192.0.2.1"])))
                .is_empty()
        );
    }
}
