//! The pod that a user means: by its own name, or as one of a workload's or Service's pods.
//!
//! `logs deploy/web`, `exec svc/web`, `port-forward rs/web-5d4` all want one pod. Which one matters: the pod that serves already is worth
//! more than one that has just been made. So the pods are put in an order of activity, the same one for everybody; for logs the order differs in one point, since a
//! pod that was restarted often has more to tell.
//!
//! # Invariants
//! 1. A pod that is named is asked for as it is; a workload without pods is waited for, as long as `--pod-running-timeout` says.
//!
//! # In Kubernetes
//! `kubectl/pkg/polymorphichelpers/{attachablepodforobject,helpers,logsforobject}.go`, `pkg/util/podutils` (`ActivePods`, `ByLogging`).

use std::cmp::Ordering;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use serde_json::Value;

use super::builder::Target;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::request::{self, ListParams, WatchParams};
use crate::selector::LabelSelector;
use crate::watch::{WatchEvent, decode_events};

/// What the pod is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To be connected with.
    Attach,
    /// To read what it wrote; other pods are mentioned.
    Logs,
}

/// How long `--pod-running-timeout` waits.
///
/// # Errors
/// Not a duration, or none above zero.
pub fn running_timeout(text: &str, command: &str) -> Result<Duration, Failure> {
    let bad = || {
        let why = format!(
            "invalid argument {text:?} for \"--pod-running-timeout\" flag: time: invalid duration {text:?}"
        );
        Failure::message(format!("{why}\nSee 'kubectl {command} --help' for usage."))
    };
    let limit = crate::time::parse_duration(text).ok_or_else(bad)?;
    match limit.is_positive() {
        true => Ok(limit.unsigned_abs()),
        false if matches!(command, "logs" | "cluster-info dump") => {
            Err(Failure::message("--pod-running-timeout must be higher than zero"))
        }
        false => {
            let hint = format!("See 'kubectl {command} -h' for help and examples");
            Err(Failure::message(format!("--pod-running-timeout must be higher than zero\n{hint}")))
        }
    }
}

/// The pod that is named, or the best pod of the workload that is named.
///
/// # Errors
/// It isn't there, or has no pods in time.
pub async fn find_pod(
    ctx: &Context,
    argument: &str,
    purpose: Purpose,
    limit: Duration,
) -> Result<Object, Failure> {
    let (object, selector) = match named(ctx, argument).await? {
        Named::Pod(pod) => return Ok(pod),
        Named::Workload(object, selector) => (object, selector),
    };
    let mut pods = pods_of(ctx, &selector, object.namespace()).await?;
    if pods.is_empty() {
        let waited = tokio::time::timeout(limit, first_to_come(ctx, &selector, object.namespace())).await;
        return waited.unwrap_or_else(|_| Err(Failure::message("timed out waiting for the condition")));
    }
    pods.sort_by(|a, b| compare(a, b, purpose));
    if pods.len() > 1 && purpose == Purpose::Logs {
        ctx.warn(&format!("Found {} pods, using pod/{}\n", pods.len(), pods[0].name()));
    }
    Ok(pods.swap_remove(0))
}

/// The pod that is named, or all pods of the workload that is named.
///
/// # Errors
/// It isn't there.
pub async fn pods_behind(ctx: &Context, argument: &str) -> Result<Vec<Object>, Failure> {
    match named(ctx, argument).await? {
        Named::Pod(pod) => Ok(vec![pod]),
        Named::Workload(object, selector) => pods_of(ctx, &selector, object.namespace()).await,
    }
}

/// The pods that a selector selects.
///
/// # Errors
/// The server doesn't answer.
pub async fn pods_of(ctx: &Context, selector: &str, namespace: Option<&str>) -> Result<Vec<Object>, Failure> {
    let pods = crate::resource::of::<k8s_openapi::api::core::v1::Pod>();
    let params = ListParams { label_selector: Some(selector.to_string()), ..ListParams::default() };
    let namespace = namespace.map_or_else(|| ctx.namespace(), String::from);
    Ok(ctx.client().await?.objects(&pods, Some(&namespace)).list(&params).await?.items)
}

enum Named {
    Pod(Object),
    Workload(Box<Object>, String),
}

async fn named(ctx: &Context, argument: &str) -> Result<Named, Failure> {
    let (kind, name) = argument.split_once('/').unwrap_or(("pods", argument));
    let resource = match kind {
        "pods" | "pod" | "po" => crate::resource::of::<k8s_openapi::api::core::v1::Pod>(),
        kind => ctx.resource(kind).await?.clone(),
    };
    let namespace = Some(ctx.namespace()).filter(|_| resource.namespaced);
    let target = Target { resource, namespace, name: name.to_string(), manifest: None };
    let object = target.get(ctx).await?;
    if object.kind() == "Pod" {
        return Ok(Named::Pod(object));
    }
    let selector = match (object.get("/spec/selector"), object.kind()) {
        (Some(selector), "Service" | "ReplicationController") => {
            let map = serde_json::from_value(selector.clone()).unwrap_or_default();
            LabelSelector::from_map(&map)
        }
        (None, "Service") => {
            let why = format!("invalid service '{name}': Service is defined without a selector");
            return Err(Failure::message(why));
        }
        (Some(selector), _) => {
            LabelSelector::from_match(&serde_json::from_value(selector.clone()).unwrap_or_default())?
        }
        (None, kind) => {
            return Err(Failure::message(format!("cannot get the logs from {kind}: selector not found")));
        }
    };
    Ok(Named::Workload(Box::new(object), selector.to_string()))
}

/// Watches until the first pod is there.
async fn first_to_come(ctx: &Context, selector: &str, namespace: Option<&str>) -> Result<Object, Failure> {
    let pods = crate::resource::of::<k8s_openapi::api::core::v1::Pod>();
    let client = ctx.client().await?;
    let namespace = namespace.map_or_else(|| ctx.namespace(), String::from);
    let params = WatchParams { label_selector: Some(selector.to_string()), ..WatchParams::default() };
    loop {
        let response = client.stream(request::watch(&pods, Some(&namespace), &params)).await?;
        let events = decode_events::<Object, _>(response.into_body(), client.config().server.clone());
        let mut events = Box::pin(events);
        while let Some(event) = events.next().await {
            if let Ok(WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event {
                return Ok(pod);
            }
        }
        // A server that ends watches at once isn't asked without end.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Which of two pods comes first.
fn compare(a: &Object, b: &Object, purpose: Purpose) -> Ordering {
    let assigned = |pod: &Object| pod.get_str("/spec/nodeName").is_some_and(|node| !node.is_empty());
    let phase = |pod: &Object| match pod.get_str("/status/phase") {
        Some("Running") => 2,
        Some("Unknown") => 1,
        _ => 0,
    };
    let ready = |pod: &Object| ready_since(pod).is_some();
    // The larger value first: assigned, running, ready.
    let activity = |pod: &Object| (assigned(pod), phase(pod), ready(pod));
    // Ready for long comes before ready since a moment ago; a time that is missing comes last.
    let earlier = |a: Option<Timestamp>, b: Option<Timestamp>| match (a, b) {
        (Some(a), Some(b)) => a.cmp(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    };
    let restarts = match purpose {
        Purpose::Attach => restarts(a).cmp(&restarts(b)),
        Purpose::Logs => restarts(b).cmp(&restarts(a)),
    };
    let created =
        |pod: &Object| pod.get_str("/metadata/creationTimestamp").and_then(|time| time.parse().ok());
    activity(b)
        .cmp(&activity(a))
        .then_with(|| earlier(ready_since(a).flatten(), ready_since(b).flatten()))
        .then(restarts)
        .then_with(|| earlier(created(a), created(b)))
}

/// Since when a pod is ready: nothing when it isn't, nothing inside when it isn't known.
fn ready_since(pod: &Object) -> Option<Option<Timestamp>> {
    let conditions = pod.get("/status/conditions")?.as_array()?;
    let ready = conditions.iter().find(|one| one["type"] == "Ready").filter(|one| one["status"] == "True")?;
    Some(ready["lastTransitionTime"].as_str().and_then(|time| time.parse().ok()))
}

fn restarts(pod: &Object) -> i64 {
    let statuses = pod.get("/status/containerStatuses").and_then(Value::as_array).into_iter().flatten();
    statuses.filter_map(|status| status["restartCount"].as_i64()).max().unwrap_or(0)
}

/// What is said when the first container of several was meant, whatever sort the others are of.
pub(super) fn defaulted(pod: &Object) -> Option<String> {
    let names = |field: &str, mark: &str| -> Vec<String> {
        let list = pod.get(field).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(|container| container["name"].as_str()).map(|name| format!("{name}{mark}")).collect()
    };
    let normal = names("/spec/containers", "");
    let first = normal.first()?.clone();
    let all =
        [normal, names("/spec/ephemeralContainers", " (ephem)"), names("/spec/initContainers", " (init)")]
            .concat();
    (all.len() > 1).then(|| format!("Defaulted container {first:?} out of: {}\n", all.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, phase: &str, ready: &str, restarts: i64, created: &str) -> Object {
        Object::from_value(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "creationTimestamp": created}, "spec": {"nodeName": "n"},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": created}],
                "containerStatuses": [{"restartCount": restarts}]}}))
        .unwrap()
    }

    #[test]
    fn the_most_active_pod_comes_first() {
        let order = |purpose| {
            let mut pods = [
                pod("pending", "Pending", "False", 0, "2024-01-01T00:00:00Z"),
                pod("unready", "Running", "False", 0, "2024-01-01T00:00:00Z"),
                pod("young", "Running", "True", 0, "2024-01-03T00:00:00Z"),
                pod("restarted", "Running", "True", 3, "2024-01-02T00:00:00Z"),
                pod("old", "Running", "True", 0, "2024-01-02T00:00:00Z"),
            ];
            pods.sort_by(|a, b| compare(a, b, purpose));
            pods.map(|pod| pod.name().to_string())
        };
        assert_eq!(order(Purpose::Attach), ["old", "restarted", "young", "unready", "pending"]);
        assert_eq!(order(Purpose::Logs), ["restarted", "old", "young", "unready", "pending"]);
    }

    #[test]
    fn a_timeout_must_be_above_zero() {
        assert_eq!(running_timeout("1m0s", "exec").unwrap(), Duration::from_secs(60));
        let zero = running_timeout("0s", "exec").unwrap_err().report().0;
        assert_eq!(
            zero,
            "error: --pod-running-timeout must be higher than zero\nSee 'kubectl exec -h' for help and examples"
        );
        assert!(running_timeout("x", "exec").is_err());
    }

    #[test]
    fn the_first_of_several_containers_of_any_sort_is_named_as_the_default() {
        let pod = |spec: Value| {
            let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" }, "spec": spec });
            Object::from_value(pod).unwrap()
        };
        assert_eq!(defaulted(&pod(json!({ "containers": [{ "name": "a" }] }))), None);
        let all = json!({ "containers": [{ "name": "a" }], "initContainers": [{ "name": "i" }], "ephemeralContainers": [{ "name": "e" }] });
        assert_eq!(
            defaulted(&pod(all)).unwrap(),
            "Defaulted container \"a\" out of: a, e (ephem), i (init)\n"
        );
    }
}
