//! load-balancer-pending: nobody gives the Service an outside address
//!
//! EXTERNAL-IP `<pending>`: type LoadBalancer needs a controller of the cloud or of the network, and none has
//! answered. The node port works meanwhile.
//!
//! # In Kubernetes
//! `cloud-provider/controllers/service`; status.loadBalancer.ingress.

use serde_json::Value;

use crate::journey::Stage;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};
use crate::why::{ObjectRef, Severity};

/// nobody gives the Service an outside address
pub const RULE: Rule = Rule {
    id: "load-balancer-pending",
    stage: Stage::Proxy,
    mechanism: Mechanism::LoadBalancerPending,
    lab: "",
    symptom: "EXTERNAL-IP <pending>",
    first_command: "kubectl describe service NAME",
    ruled_out_by: "an address is there and nothing answers: the other rules of stage ⑥",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let wanting =
        facts.focused("Service").filter(|service| service.get_str("/spec/type") == Some("LoadBalancer"));
    wanting
        .filter_map(|service| {
            let given = service
                .get("/status/loadBalancer/ingress")
                .and_then(Value::as_array)
                .is_some_and(|all| !all.is_empty());
            if given || facts.age(service).as_secs() < GRACE_SECONDS {
                return None;
            }
            let port = service
                .get_i64("/spec/ports/0/nodePort")
                .map(|port| format!("; node port {port} works meanwhile"))
                .unwrap_or_default();
            Some(
                Finding::at(service, "/status/loadBalancer")
                    .severity(Severity::Warning)
                    .proof(service, "/spec/type")
                    .event(facts.event(service, "SyncLoadBalancerFailed", ""))
                    .message(format!(
                        "nobody has given {} an outside address: is there a load balancer controller?{port}",
                        ObjectRef::of(service)
                    ))
                    .next(format!("kubectl describe {}", ObjectRef::of(service).arguments())),
            )
        })
        .collect()
}

const GRACE_SECONDS: i64 = 60;

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy().set("Service/web", "/spec/type", json!("LoadBalancer")).set(
        "Service/web",
        "/spec/ports/0/nodePort",
        json!(30080),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_node_port_is_shown_and_an_address_silences() {
        assert!(only(&RULE, fault()).message.contains("30080"));
        assert!(
            find(
                &RULE,
                fault().set("Service/web", "/status/loadBalancer/ingress", json!([{"ip": "192.0.2.1"}]))
            )
            .is_empty()
        );
    }
}
