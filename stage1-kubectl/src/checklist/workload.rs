//! Checks of what stands around a pod template: replicas, budgets, spreading, strategy.
//!
//! # In Kubernetes
//! "Specifying a Disruption Budget for your Application", "Pod Topology Spread Constraints".

use serde_json::Value;

use super::{Check, Complaint, Subject};
use crate::selector::LabelSelector;
use crate::why::Severity::{Info, Warning};

/// The checks of a workload.
pub const CHECKS: &[Check] = &[
    Check {
        id: "replicas",
        title: "more than one replica",
        reason: "one replica is none while its node is drained",
        severity: Warning,
        check: replicas,
    },
    Check {
        id: "disruption-budget",
        title: "a PodDisruptionBudget that can be kept",
        reason: "without one a drain takes all pods at once; one that allows nothing blocks every drain",
        severity: Warning,
        check: disruption_budget,
    },
    Check {
        id: "spread",
        title: "the replicas are spread over nodes",
        reason: "replicas on one node end with it",
        severity: Info,
        check: spread,
    },
    Check {
        id: "update-strategy",
        title: "an update takes no replica away before its successor is ready",
        reason: "Recreate, or maxUnavailable 100%, is a gap in service at each update",
        severity: Info,
        check: update_strategy,
    },
    Check {
        id: "service-port",
        title: "Services send to ports that the pods have",
        reason: "endpoints are there, connections are refused",
        severity: Warning,
        check: service_port,
    },
];

fn served(subject: &Subject<'_>) -> bool {
    matches!(subject.object.kind(), "Deployment" | "StatefulSet" | "ReplicaSet")
}

fn wanted(subject: &Subject<'_>) -> i64 {
    subject.object.get_i64("/spec/replicas").unwrap_or(1)
}

fn about(field: &str, message: impl Into<String>) -> Complaint {
    Complaint { field: field.into(), message: message.into() }
}

/// Whether an autoscaler sets the number of replicas, and its least.
fn scaled(subject: &Subject<'_>) -> Option<i64> {
    let targets = |scaler: &&crate::object::Object| {
        scaler.kind() == "HorizontalPodAutoscaler"
            && scaler.namespace() == subject.object.namespace()
            && scaler.get_str("/spec/scaleTargetRef/kind") == Some(subject.object.kind())
            && scaler.get_str("/spec/scaleTargetRef/name") == Some(subject.object.name())
    };
    subject.others.iter().find(targets).map(|scaler| scaler.get_i64("/spec/minReplicas").unwrap_or(1))
}

fn replicas(subject: &Subject<'_>) -> Vec<Complaint> {
    let count = scaled(subject).unwrap_or(wanted(subject));
    if !served(subject) || count != 1 {
        return Vec::new();
    }
    vec![about("/spec/replicas", "there is one replica")]
}

fn disruption_budget(subject: &Subject<'_>) -> Vec<Complaint> {
    let count = scaled(subject).unwrap_or(wanted(subject));
    if !served(subject) || count < 2 {
        return Vec::new();
    }
    let labels = subject.labels();
    let budget = subject
        .others
        .iter()
        .filter(|one| one.kind() == "PodDisruptionBudget" && one.namespace() == subject.object.namespace())
        .find(|one| {
            let selector =
                one.get("/spec/selector").cloned().and_then(|selector| serde_json::from_value(selector).ok());
            selector
                .and_then(|selector| LabelSelector::from_match(&selector).ok())
                .is_some_and(|one| one.matches(&labels))
        });
    let Some(budget) = budget else {
        return vec![about(
            "/spec/replicas",
            format!("no PodDisruptionBudget protects its {count} replicas"),
        )];
    };
    let never = budget.get("/spec/maxUnavailable") == Some(&0.into())
        || budget
            .get("/spec/minAvailable")
            .is_some_and(|least| least.as_i64().is_some_and(|least| least >= count) || least == "100%");
    if !never {
        return Vec::new();
    }
    vec![about(
        "/spec/replicas",
        format!("PodDisruptionBudget {} allows no disruption: no node can be drained", budget.name()),
    )]
}

fn spread(subject: &Subject<'_>) -> Vec<Complaint> {
    let asked = ["/topologySpreadConstraints", "/affinity/podAntiAffinity"]
        .iter()
        .any(|field| subject.spec(field).is_some());
    if !served(subject) || wanted(subject) < 2 || asked {
        return Vec::new();
    }
    vec![subject.complain("/topologySpreadConstraints", "nothing spreads the replicas over nodes")]
}

fn update_strategy(subject: &Subject<'_>) -> Vec<Complaint> {
    let at = "/spec/strategy/rollingUpdate/maxUnavailable";
    match (subject.object.kind(), subject.object.get_str("/spec/strategy/type"), subject.object.get_str(at)) {
        ("Deployment", Some("Recreate"), _) => {
            vec![about("/spec/strategy/type", "Recreate ends all pods before the new ones start")]
        }
        ("Deployment", _, Some("100%")) => vec![about(at, "maxUnavailable 100% ends all pods at once")],
        _ => Vec::new(),
    }
}

fn service_port(subject: &Subject<'_>) -> Vec<Complaint> {
    let labels = subject.labels();
    let mut declared: Vec<Value> = Vec::new();
    for (_, _, container) in subject.containers(false) {
        for port in container["ports"].as_array().into_iter().flatten() {
            declared.extend([port["containerPort"].clone(), port["name"].clone()]);
        }
    }
    if declared.is_empty() || subject.object.kind() == "Pod" && !subject.object.owner_references().is_empty()
    {
        return Vec::new();
    }
    let services = subject.others.iter().filter(|one| {
        one.kind() == "Service"
            && one.namespace() == subject.object.namespace()
            && crate::why::facts::selects(one, &labels)
    });
    services
        .flat_map(|service| {
            let ports = service.get("/spec/ports").and_then(Value::as_array).into_iter().flatten();
            ports
                .filter_map(|port| {
                    let target =
                        if port["targetPort"].is_null() { &port["port"] } else { &port["targetPort"] };
                    let message =
                        format!("Service {} sends to port {target}, which no container has", service.name());
                    (!declared.contains(target)).then(|| subject.complain("/containers/0/ports", message))
                })
                .collect::<Vec<_>>()
        })
        .collect()
}
