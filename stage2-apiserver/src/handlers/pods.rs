//! Pods' own subresources: binding to a node, eviction, ephemeral containers, resize.
//!
//! *Step 4 and back.* Before: the scheduler chose a node. After: `spec.nodeName` is set, once and for all, and the node's
//! kubelet sees the pod in its watch.
//!
//! A binding is no object: it is a request to set one field that nobody may set by an ordinary update. An eviction is a
//! delete that asks the disruption budgets first; the answer 429 means "not now, ask again".
//!
//! # Invariants
//! 1. A pod is bound at most once.
//! 2. `disruptionsAllowed` is taken before the pod is deleted, so that two evictions can't share one.
//!
//! # In Kubernetes
//! `pkg/registry/core/pod/storage/{storage,eviction}.go`, `pkg/registry/core/pod/strategy.go`.

use bytes::Bytes;
use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::resource::GroupVersionKind;
use stage1_kubectl::selector::LabelSelector;
use stage1_kubectl::status::{Status, StatusCause};

use super::options::WriteOptions;
use super::respond::{self, Answer};
use super::write_path::{self, WriteRequest};
use super::{Routed, admit, delete};
use crate::admission::Operation;
use crate::decode::decode_body;
use crate::negotiation::body_format;
use crate::registry;
use crate::table::cells::{number, text};
use crate::watch_cache::At;

/// What an update through a subresource may change: the rest stays as it is. Status is the strategies' business, and so is
/// what is wrong with the change.
pub fn subresource_view(subresource: &str, sent: &Object, current: &Object) -> Object {
    let pointers: &[&str] = match subresource {
        "ephemeralcontainers" => &["/spec/ephemeralContainers"],
        "resize" => &["/spec/containers", "/spec/initContainers"],
        "approval" => &["/status/conditions"],
        _ => return sent.clone(),
    };
    let mut new = current.clone();
    for pointer in pointers {
        match sent.get(pointer) {
            Some(value) => new.set(pointer, value.clone()),
            None => drop(new.remove(pointer)),
        }
    }
    new.set_resource_version(sent.resource_version());
    new.set_uid(sent.uid());
    new
}

/// POST `pods/NAME/binding` (or `bindings`): gives the pod to a node.
///
/// # Errors
/// 409 when it has one already, 500 for a binding without a target (as Kubernetes has it).
pub async fn bind(routed: &Routed<'_>, body: &Bytes) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&routed.context.query, "CreateOptions", false)?;
    let gvk = GroupVersionKind::new("", "v1", "Binding");
    let format = body_format(routed.content_type())?;
    let binding = decode_body(body, format, &gvk, options.field_validation)?.object;
    check_target(&binding)?;
    let name = match routed.context.info.name.as_str() {
        "" => binding.name(),
        name => name,
    };
    let request = WriteRequest {
        context: routed.context,
        resource: registry::find("", "v1", "pods").expect("pods are registered"),
        name: name.to_owned(),
        subresource: "binding",
        dry_run: options.dry_run,
    };
    let attributes = request.attributes(Operation::Create, gvk);
    let mut admitted = binding.clone();
    admit::mutate(routed.context, &attributes, &mut admitted, None).await?;
    admit::validate(routed.context, &attributes, Some(&admitted), None).await?;
    write_path::update_unchecked(&request, &|pod: &Object| assigned(pod, &admitted, routed.context.now))
        .await?;
    let mut done = Status::success(None);
    done.code = 201;
    Ok(respond::status(routed.negotiated.format, &done))
}

/// The pod on the binding's node.
fn assigned(pod: &Object, binding: &Object, now: jiff::Timestamp) -> Result<Object, Status> {
    let conflict = |why: String| Err(Status::conflict("pods/binding", pod.name(), &why));
    if !binding.uid().is_empty() && binding.uid() != pod.uid() {
        return conflict(format!(
            "Precondition failed: UID in precondition: {}, UID in object meta: {}",
            binding.uid(),
            pod.uid()
        ));
    }
    if pod.deletion_timestamp().is_some() {
        return conflict(format!("pod {} is being deleted, cannot be assigned to a host", pod.name()));
    }
    if let Some(node) = pod.get_str("/spec/nodeName").filter(|n| !n.is_empty()) {
        return conflict(format!("pod {} is already assigned to node {node:?}", pod.name()));
    }
    if pod.get("/spec/schedulingGates").and_then(Value::as_array).is_some_and(|g| !g.is_empty()) {
        return conflict(format!("pod {} has non-empty .spec.schedulingGates", pod.name()));
    }
    let mut new = pod.clone();
    new.set("/spec/nodeName", binding.get_str("/target/name").unwrap_or(""));
    for (key, value) in binding.annotations() {
        new.set_annotation(&key, &value);
    }
    let scheduled = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    });
    let mut conditions = pod.get("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    conditions.retain(|c| text(c, "/type") != "PodScheduled");
    conditions.push(scheduled);
    new.set("/status/conditions", conditions);
    Ok(new)
}

fn check_target(binding: &Object) -> Result<(), Status> {
    let kind = binding.get_str("/target/kind").unwrap_or("");
    if !matches!(kind, "" | "Node") {
        let text =
            format!("target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\"");
        return Err(Status::failure(500, "", text));
    }
    match binding.get_str("/target/name").unwrap_or("") {
        "" => Err(Status::failure(500, "", "target.name: Required value")),
        _ => Ok(()),
    }
}

/// POST `pods/NAME/eviction`: deletes the pod if its budgets allow.
///
/// # Errors
/// 429 when a budget doesn't, 500 when several cover the pod.
pub async fn evict(routed: &Routed<'_>, body: &Bytes) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&routed.context.query, "CreateOptions", false)?;
    let gvk = GroupVersionKind::new("policy", "v1", "Eviction");
    let format = body_format(routed.content_type())?;
    let eviction = decode_body(body, format, &gvk, options.field_validation)?.object;
    let name = routed.context.info.name.clone();
    if !eviction.name().is_empty() && eviction.name() != name {
        return Err(Status::bad_request(format!(
            "name in URL does not match name in Eviction object: {} and {name}",
            eviction.name()
        )));
    }
    let store = routed.context.server.stores.of(routed.resource);
    let pod = store.get(routed.context.namespace(), &name, At::Consistent).await?.object.clone();
    admit_eviction(routed, gvk, &eviction, options.dry_run).await?;
    let over = matches!(pod.get_str("/status/phase"), Some("Succeeded" | "Failed" | "Pending"));
    if !over && pod.deletion_timestamp().is_none() {
        take_disruption(routed, &pod, options.dry_run).await?;
    }
    if !options.dry_run {
        tell_disruption(routed, &name).await?;
    }
    let mut deletion = eviction.get("/deleteOptions").cloned().unwrap_or_else(|| json!({}));
    if options.dry_run {
        deletion["dryRun"] = json!(["All"]);
    }
    delete::delete_named(routed, &name, &deletion).await?;
    let mut done = Status::success(None);
    done.code = 201;
    Ok(respond::status(routed.negotiated.format, &done))
}

/// An eviction is an object of its own to plugins and webhooks.
async fn admit_eviction(
    routed: &Routed<'_>,
    gvk: GroupVersionKind,
    eviction: &Object,
    dry_run: bool,
) -> Result<(), Status> {
    let request = WriteRequest {
        context: routed.context,
        resource: routed.resource,
        name: routed.context.info.name.clone(),
        subresource: "eviction",
        dry_run,
    };
    let attributes = request.attributes(Operation::Create, gvk);
    let mut admitted = eviction.clone();
    admit::mutate(routed.context, &attributes, &mut admitted, None).await?;
    admit::validate(routed.context, &attributes, Some(&admitted), None).await.map(drop)
}

/// Finds the pod's budget and takes one disruption from it.
async fn take_disruption(routed: &Routed<'_>, pod: &Object, dry_run: bool) -> Result<(), Status> {
    let resource = registry::find("policy", "v1", "poddisruptionbudgets").expect("budgets are registered");
    let cache = routed.context.server.stores.of(resource).cacher().clone();
    let present = cache.snapshot(&resource.key_prefix(pod.namespace())).await?;
    let labels = pod.labels();
    let covering: Vec<&Object> = present.iter().map(|c| &c.object).filter(|b| covers(b, &labels)).collect();
    let budget = match covering.as_slice() {
        [] => return Ok(()),
        [one] => *one,
        _ => {
            return Err(Status::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
    };
    let request = WriteRequest {
        context: routed.context,
        resource,
        name: budget.name().to_owned(),
        subresource: "status",
        dry_run,
    };
    write_path::update_unchecked(&request, &|budget: &Object| disrupted(budget, pod, routed.context.now))
        .await?;
    Ok(())
}

/// The pod says why it goes, before it goes.
async fn tell_disruption(routed: &Routed<'_>, name: &str) -> Result<(), Status> {
    let request = WriteRequest {
        context: routed.context,
        resource: routed.resource,
        name: name.to_owned(),
        subresource: "status",
        dry_run: false,
    };
    let now = routed.context.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    write_path::update_unchecked(&request, &|pod: &Object| Ok(with_disruption_target(pod, &now))).await?;
    Ok(())
}

/// The pod with the condition that an eviction gives it.
fn with_disruption_target(pod: &Object, now: &str) -> Object {
    const TYPE: &str = "DisruptionTarget";
    let mut conditions = pod.get("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    if conditions.iter().any(|c| text(c, "/type") == TYPE && text(c, "/status") == "True") {
        return pod.clone();
    }
    conditions.retain(|c| text(c, "/type") != TYPE);
    conditions.push(json!({
        "type": TYPE, "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
    }));
    let mut new = pod.clone();
    new.set("/status/conditions", conditions);
    new
}

fn covers(budget: &Object, labels: &std::collections::BTreeMap<String, String>) -> bool {
    let Some(selector) = budget.get("/spec/selector") else { return false };
    let selector = serde_json::from_value(selector.clone()).ok();
    selector.and_then(|s| LabelSelector::from_match(&s).ok()).is_some_and(|s| s.matches(labels))
}

/// The budget with one disruption less, or the refusal.
fn disrupted(budget: &Object, pod: &Object, now: jiff::Timestamp) -> Result<Object, Status> {
    let value = budget.as_value();
    let name = budget.name();
    let observed = number(value, "/status/observedGeneration");
    let refuse = |message: String| {
        let mut status =
            Status::too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.", 0);
        let details = status.details.get_or_insert_default();
        details.retry_after_seconds = None;
        details.causes.push(StatusCause { reason: "DisruptionBudget".into(), message, field: String::new() });
        Err(status)
    };
    if observed < budget.generation() {
        return refuse(format!("The disruption budget {name} is still being processed by the server."));
    }
    let allowed = number(value, "/status/disruptionsAllowed");
    if allowed <= 0 {
        let (needed, healthy) =
            (number(value, "/status/desiredHealthy"), number(value, "/status/currentHealthy"));
        return refuse(format!(
            "The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
        ));
    }
    let mut new = budget.clone();
    new.set("/status/disruptionsAllowed", allowed - 1);
    let pointer = format!("/status/disruptedPods/{}", pod.name());
    new.set(&pointer, now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evicted_pod_says_so_once() {
        let pod = Object::from_value(json!({
            "metadata": {"name": "p"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }));
        let evicted = with_disruption_target(&pod.expect("a map"), "2026-01-01T00:00:00Z");
        let conditions = evicted.get("/status/conditions").and_then(Value::as_array).expect("conditions");
        assert_eq!(conditions.len(), 2);
        assert_eq!(
            conditions[1],
            json!({
                "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
            })
        );
        assert_eq!(with_disruption_target(&evicted, "2027-01-01T00:00:00Z"), evicted);
    }
}
