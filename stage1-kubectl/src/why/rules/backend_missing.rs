//! backend-missing: an Ingress names a Service or port that there isn't
//!
//! The controller of the Ingress answers 503 or 404, and the cluster itself reports nothing: references of an
//! Ingress aren't checked.
//!
//! # In Kubernetes
//! `networking.k8s.io/v1` IngressBackend.

use serde_json::Value;

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// an Ingress names a Service or port that there isn't
pub const RULE: Rule = Rule {
    id: "backend-missing",
    stage: Stage::Proxy,
    mechanism: Mechanism::BackendMissing,
    lab: "",
    symptom: "Ingress answers 503",
    first_command: "kubectl describe ingress NAME",
    ruled_out_by: "the Service is there: the other rules of stage ⑥",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .focused("Ingress")
        .flat_map(|ingress| {
            let rules =
                ingress.get("/spec/rules").and_then(Value::as_array).into_iter().flatten().enumerate();
            let backends = rules.flat_map(|(at, rule)| {
                let paths =
                    rule.pointer("/http/paths").and_then(Value::as_array).into_iter().flatten().enumerate();
                paths
                    .map(move |(path_at, path)| {
                        (
                            format!("/spec/rules/{at}/http/paths/{path_at}/backend/service"),
                            &path["backend"]["service"],
                        )
                    })
                    .collect::<Vec<_>>()
            });
            backends
                .filter_map(|(at, backend)| {
                    let name = backend["name"].as_str()?;
                    let namespace = ingress.namespace().unwrap_or_default();
                    let service = facts.find("Service", namespace, name);
                    let ports = service.and_then(|service| service.get("/spec/ports")?.as_array());
                    let port = &backend["port"];
                    let has_port = ports.is_none_or(|ports| {
                        ports.iter().any(|one| {
                            (!port["number"].is_null() && one["port"] == port["number"])
                                || (!port["name"].is_null() && one["name"] == port["name"])
                        })
                    });
                    let (what, field) = match service {
                        None => (format!("Service {name}, which isn't there"), "/name"),
                        Some(_) if !has_port => (
                            format!("port {} of Service {name}, which has no such port", port["number"]),
                            "/port",
                        ),
                        Some(_) => return None,
                    };
                    let finding = Finding::at(ingress, &format!("{at}{field}"))
                        .message(format!("{} sends to {what}", ObjectRef::of(ingress)));
                    let finding = match service {
                        Some(service) => finding.proof(service, "/spec/ports"),
                        None => {
                            finding.seen(ObjectRef::new("Service", namespace, name), "answer", "not found")
                        }
                    };
                    Some(finding.next(format!("kubectl -n {namespace} get services")))
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy().with(
        json!({"kind": "Ingress", "metadata": {"name": "i", "namespace": "default"}, "spec": {"rules": [
        {"http": {"paths": [{"backend": {"service": {"name": "webb", "port": {"number": 80}}}}]}}]}}),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_missing_service_or_port_is_named() {
        assert!(only(&RULE, fault()).message.contains("Service webb"));
        let service = "/spec/rules/0/http/paths/0/backend/service";
        let right = fault().set("Ingress/i", &format!("{service}/name"), json!("web"));
        assert!(find(&RULE, right.clone()).is_empty());
        assert!(
            only(&RULE, right.set("Ingress/i", &format!("{service}/port/number"), json!(81)))
                .message
                .contains("port 81")
        );
    }
}
