//! port-mismatch: the Service sends to a port where the pods don't listen
//!
//! Endpoints are there, and connections are refused: `targetPort` isn't a port of the containers. A named port
//! that no container has gives endpoints without that port.
//!
//! # In Kubernetes
//! `pkg/controller/util/endpoint` (`FindPort`). Ports of containers are only a declaration, so a number that
//! isn't declared is a warning.

use serde_json::Value;

use crate::journey::Stage;
use crate::object::Object;
use crate::why::container::containers;
use crate::why::traffic::{has_selector, pods_of};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};
use crate::why::{ObjectRef, Severity};

/// the Service sends to a port where the pods don't listen
pub const RULE: Rule = Rule {
    id: "port-mismatch",
    stage: Stage::Proxy,
    mechanism: Mechanism::PortMismatch,
    lab: "6-B",
    symptom: "endpoints present, connection refused",
    first_command: "kubectl get service NAME -o jsonpath='{.spec.ports}'; kubectl get pods -o jsonpath='{..containerPort}'",
    ruled_out_by: "no endpoints: selector-mismatch (6-A)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .focused("Service")
        .filter(|service| has_selector(service))
        .flat_map(|service| {
            let pods: Vec<&Object> = pods_of(facts, service).collect();
            let ports =
                service.get("/spec/ports").and_then(Value::as_array).into_iter().flatten().enumerate();
            ports.filter_map(|(at, port)| mismatch(service, &pods, at, port)).collect::<Vec<_>>()
        })
        .collect()
}

fn mismatch(service: &Object, pods: &[&Object], at: usize, port: &Value) -> Option<Finding> {
    let pod = pods.first()?;
    let target = match &port["targetPort"] {
        Value::Null => port["port"].clone(),
        target => target.clone(),
    };
    let all = containers(pod);
    let declared: Vec<(i64, &str)> = all.iter().flat_map(|one| one.ports().collect::<Vec<_>>()).collect();
    let (fits, severity) = match (&target, target.as_i64()) {
        (Value::String(name), _) => (declared.iter().any(|(_, declared)| declared == name), Severity::Error),
        (_, Some(number)) => {
            (declared.is_empty() || declared.iter().any(|(port, _)| *port == number), Severity::Warning)
        }
        _ => (true, Severity::Warning),
    };
    if fits {
        return None;
    }
    let listens: Vec<String> = declared
        .iter()
        .map(|(port, name)| if name.is_empty() { port.to_string() } else { format!("{port} ({name})") })
        .collect();
    let listens = if listens.is_empty() { "no port by name".into() } else { listens.join(", ") };
    let target = target.as_str().map_or_else(|| target.to_string(), str::to_owned);
    let ports_at = all
        .iter()
        .find(|one| one.ports().next().is_some())
        .map_or(format!("{}/ports", all.first()?.spec_at), |one| format!("{}/ports", one.spec_at));
    Some(
        Finding::at(service, &format!("/spec/ports/{at}/targetPort"))
            .severity(severity)
            .proof(pod, &ports_at)
            .affecting([ObjectRef::of(pod)])
            .message(format!(
                "{} sends to port {target}; its pods listen on {listens}",
                ObjectRef::of(service)
            ))
            .not(Stage::Controllers, format!("{} pods are selected and have endpoints", pods.len()))
            .next(format!("kubectl describe {}", ObjectRef::of(service).arguments())),
    )
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy().set("Service/web", "/spec/ports/0/targetPort", json!(8080)).set(
        "EndpointSlice/web-slice",
        "/ports/0/port",
        json!(8080),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{World, find, only};

    #[test]
    fn both_numbers_are_shown() {
        let finding = only(&RULE, fault());
        assert_eq!(finding.message, "Service default/web sends to port 8080; its pods listen on 80 (http)");
        assert_eq!(finding.evidence[0].value, json!(8080));
    }

    #[test]
    fn a_name_that_no_container_has_is_an_error() {
        let named = World::healthy().set("Service/web", "/spec/ports/0/targetPort", json!("htp"));
        assert_eq!(only(&RULE, named).severity, crate::why::Severity::Error);
        let right = World::healthy().set("Service/web", "/spec/ports/0/targetPort", json!("http"));
        assert!(find(&RULE, right).is_empty());
    }

    #[test]
    fn silent_when_nothing_is_selected_and_when_nothing_is_declared() {
        assert!(find(&RULE, super::super::selector_mismatch::fault()).is_empty());
        let none = fault()
            .unset("Pod/web-a", "/spec/containers/0/ports")
            .unset("Pod/web-b", "/spec/containers/0/ports");
        assert!(find(&RULE, none).is_empty());
    }
}
