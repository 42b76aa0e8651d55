//! ResourceQuota: how much a namespace may use in all.
//!
//! The last gate before the store. It counts what the new object would use, adds it to what the quota says is used, refuses when a limit
//! would be passed, and otherwise writes the new sum into the quota's status *first*: two requests at once can't both take the last pod.
//! The controller in stage 3 counts again from time to time, because an object that was counted may fail to be stored.
//!
//! A plan has no I/O in it: [`reserve`] says which quota statuses to write, the caller writes them with their resourceVersion and asks again
//! when one was changed meanwhile.
//!
//! # Invariants
//! 1. Usage that isn't limited by a quota is never refused by it.
//! 2. A dry run reserves nothing.
//!
//! # In Kubernetes
//! `apiserver/pkg/admission/plugin/resourcequota/controller.go`, `pkg/quota/v1/evaluator/core`. Left out: the `limitedResources`
//! configuration, `CrossNamespacePodAffinity`, resource claims.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::quantity::Quantity;
use stage1_kubectl::status::Status;

use super::{Attributes, ObjectReader, Operation};
use crate::validation::fields::{child, has, int, list, text, texts};
use crate::validation::pod::resources::is_extended;

/// Amounts by resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// Plans the reservation: the quotas with their new `status.used`, to be written before the object.
///
/// # Errors
/// 403 `exceeded quota: …`, or `failed quota: …` if the object doesn't say what it would use.
pub fn reserve(
    attributes: &Attributes,
    object: &Object,
    old: Option<&Object>,
    reader: &dyn ObjectReader,
) -> Result<Vec<Object>, Status> {
    let counts = matches!(attributes.operation, Operation::Create | Operation::Update)
        && attributes.subresource.is_empty();
    if !counts || attributes.namespace.is_empty() {
        return Ok(Vec::new());
    }
    let mut delta = usage(attributes, object);
    if let Some(old) = old {
        for (name, amount) in usage(attributes, old) {
            let slot = delta.entry(name).or_insert_with(Quantity::zero);
            *slot = *slot - amount;
        }
    }
    let mut updates = Vec::new();
    for quota in reader.list("", "resourcequotas", &attributes.namespace) {
        let hard = amounts(quota.get("/status/hard"));
        let relevant: Amounts =
            delta.iter().filter(|(name, _)| hard.contains_key(*name)).map(|(n, q)| (n.clone(), *q)).collect();
        if relevant.is_empty() || !in_scope(&quota, attributes, object) {
            continue;
        }
        if attributes.operation == Operation::Create {
            missing_constraints(attributes, &quota, &hard, object)?;
        }
        if relevant.values().all(|amount| amount.sign() <= 0) {
            continue;
        }
        let used = amounts(quota.get("/status/used"));
        check(attributes, &quota, &relevant, &used, &hard)?;
        updates.push(with_used(&quota, &relevant, used));
    }
    Ok(if attributes.dry_run { Vec::new() } else { updates })
}

fn with_used(quota: &Object, delta: &Amounts, mut used: Amounts) -> Object {
    for (name, amount) in delta {
        let slot = used.entry(name.clone()).or_insert_with(Quantity::zero);
        *slot = *slot + *amount;
    }
    let shown: BTreeMap<&String, String> =
        used.iter().map(|(name, amount)| (name, amount.to_string())).collect();
    let mut quota = quota.clone();
    quota.set("/status/used", json!(shown));
    quota
}

fn amounts(value: Option<&Value>) -> Amounts {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    entries
        .filter_map(|(name, amount)| Some((name.clone(), Quantity::parse(amount.as_str()?).ok()?)))
        .collect()
}

fn check(
    attributes: &Attributes,
    quota: &Object,
    delta: &Amounts,
    used: &Amounts,
    hard: &Amounts,
) -> Result<(), Status> {
    let of = |all: &Amounts, name: &String| all.get(name).copied().unwrap_or_else(Quantity::zero);
    let exceeded: Vec<&String> = delta
        .iter()
        .filter(|(name, amount)| amount.sign() > 0 && of(used, name) + **amount > of(hard, name))
        .map(|(n, _)| n)
        .collect();
    if exceeded.is_empty() {
        return Ok(());
    }
    let list = |all: &Amounts| {
        exceeded.iter().map(|name| format!("{name}={}", of(all, name))).collect::<Vec<_>>().join(",")
    };
    Err(attributes.forbidden(format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        quota.name(),
        list(delta),
        list(used),
        list(hard)
    )))
}

/// A quota on CPU needs every container to say how much it wants.
fn missing_constraints(
    attributes: &Attributes,
    quota: &Object,
    hard: &Amounts,
    object: &Object,
) -> Result<(), Status> {
    if !attributes.is_pod() {
        return Ok(());
    }
    let spec = child(object.as_value(), "spec");
    let mut missing: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for name in hard.keys() {
        let (part, resource) = match name.as_str() {
            "cpu" | "memory" => ("requests", name.as_str()),
            other => match other.split_once('.') {
                Some((part @ ("requests" | "limits"), resource @ ("cpu" | "memory"))) => (part, resource),
                _ => continue,
            },
        };
        for container in list(spec, "containers").iter().chain(list(spec, "initContainers")) {
            if !has(child(child(container, "resources"), part), resource) {
                missing.entry(name.clone()).or_default().push(text(container, "name"));
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let shown: Vec<String> =
        missing.iter().map(|(name, containers)| format!("{name} for: {}", containers.join(","))).collect();
    Err(attributes.forbidden(format!("failed quota: {}: must specify {}", quota.name(), shown.join("; "))))
}

/// What an object uses, under every name that a quota may have for it.
pub fn usage(attributes: &Attributes, object: &Object) -> Amounts {
    let one = Quantity::from_value(1, Default::default());
    let resource = attributes.resource.resource.as_str();
    let group = attributes.resource.group.as_str();
    let counted =
        if group.is_empty() { format!("count/{resource}") } else { format!("count/{resource}.{group}") };
    let mut used = Amounts::from([(counted, one)]);
    let spec = child(object.as_value(), "spec");
    match (group, resource) {
        ("", "pods") => {
            let ended = matches!(object.get_str("/status/phase"), Some("Failed" | "Succeeded"));
            if !ended {
                used.insert("pods".to_owned(), one);
                used.extend(pod_usage(spec));
            }
        }
        ("", "services") => {
            used.insert("services".to_owned(), one);
            let ports = i64::try_from(list(spec, "ports").len()).unwrap_or_default();
            let with_node_ports = match text(spec, "type") {
                "NodePort" => ports,
                "LoadBalancer" => {
                    used.insert("services.loadbalancers".to_owned(), one);
                    list(spec, "ports")
                        .iter()
                        .filter(|port| int(port, "nodePort") != 0)
                        .count()
                        .try_into()
                        .unwrap_or(ports)
                }
                _ => 0,
            };
            used.insert(
                "services.nodeports".to_owned(),
                Quantity::from_value(with_node_ports, Default::default()),
            );
        }
        ("", "persistentvolumeclaims") => {
            used.insert("persistentvolumeclaims".to_owned(), one);
            if let Some(size) = amounts(object.get("/spec/resources/requests")).get("storage") {
                used.insert("requests.storage".to_owned(), *size);
                if let Some(class) = object.get_str("/spec/storageClassName") {
                    used.insert(format!("{class}.storageclass.storage.k8s.io/requests.storage"), *size);
                    used.insert(format!("{class}.storageclass.storage.k8s.io/persistentvolumeclaims"), one);
                }
            }
        }
        ("", "configmaps" | "secrets" | "replicationcontrollers" | "resourcequotas") => {
            used.insert(resource.to_owned(), one);
        }
        _ => {}
    }
    used
}

/// Containers together, or the largest init container where that is more; plus the overhead of the runtime.
fn pod_usage(spec: &Value) -> Amounts {
    let mut used = Amounts::new();
    for part in ["requests", "limits"] {
        let mut total = Amounts::new();
        for container in list(spec, "containers") {
            for (name, amount) in amounts(child(container, "resources").get(part)) {
                let slot = total.entry(name).or_insert_with(Quantity::zero);
                *slot = *slot + amount;
            }
        }
        for container in list(spec, "initContainers") {
            for (name, amount) in amounts(child(container, "resources").get(part)) {
                let slot = total.entry(name).or_insert(amount);
                *slot = (*slot).max(amount);
            }
        }
        for (name, amount) in amounts(spec.get("overhead")) {
            let slot = total.entry(name).or_insert_with(Quantity::zero);
            *slot = *slot + amount;
        }
        for (name, amount) in total {
            if part == "requests"
                && (matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
                    || name.starts_with("hugepages-"))
            {
                used.insert(name.clone(), amount);
            }
            if part == "requests" || !is_extended(&name) {
                used.insert(format!("{part}.{name}"), amount);
            }
        }
    }
    used
}

/// The quota is about this object.
fn in_scope(quota: &Object, attributes: &Attributes, object: &Object) -> bool {
    let of_quota = child(quota.as_value(), "spec");
    let scopes = texts(of_quota, "scopes");
    let expressions = list(child(of_quota, "scopeSelector"), "matchExpressions");
    if scopes.is_empty() && expressions.is_empty() {
        return true;
    }
    if !attributes.is_pod() {
        return false;
    }
    let spec = child(object.as_value(), "spec");
    let holds = |scope: &str| match scope {
        "Terminating" => has(spec, "activeDeadlineSeconds"),
        "NotTerminating" => !has(spec, "activeDeadlineSeconds"),
        "BestEffort" => crate::strategies::qos::compute_pod_qos(spec) == "BestEffort",
        "NotBestEffort" => crate::strategies::qos::compute_pod_qos(spec) != "BestEffort",
        "PriorityClass" => !text(spec, "priorityClassName").is_empty(),
        _ => false,
    };
    let matches = |requirement: &Value| {
        let (scope, values) = (text(requirement, "scopeName"), texts(requirement, "values"));
        match (scope, text(requirement, "operator")) {
            ("PriorityClass", "In") => values.contains(&text(spec, "priorityClassName")),
            ("PriorityClass", "NotIn") => !values.contains(&text(spec, "priorityClassName")),
            (scope, "DoesNotExist") => !holds(scope),
            (scope, _) => holds(scope),
        }
    };
    scopes.into_iter().all(holds) && expressions.iter().all(matches)
}
