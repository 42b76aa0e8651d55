//! The Pod's row: the one that everybody looks at.
//!
//! STATUS is not `status.phase`: it is the most telling thing about the pod, found by walking the init containers
//! forward to the first that isn't done, then the containers backward, so that the first container's trouble wins.
//! Restarts of init containers count only while they are the ones that matter; sidecars count always.
//!
//! # Invariants
//! 1. A pod that is being deleted says `Terminating` unless it is already over.
//!
//! # In Kubernetes
//! `printPod` in `pkg/printers/internalversion/printers.go`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells::{self, list, number, text, text_or};
use super::{AGE, NAME, Printer, string};

static POD: Printer = Printer {
    columns: &[
        NAME,
        string("Ready", "The aggregate readiness state of this pod for accepting traffic."),
        string("Status", "The aggregate status of the containers in this pod."),
        string(
            "Restarts",
            "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
        ),
        AGE,
        string(
            "IP",
            "podIP address allocated to the pod. Routable at least within the cluster. Empty if not yet allocated.",
        )
        .wide(),
        string("Node", "NodeName indicates in which node this pod is scheduled.").wide(),
        string("Nominated Node", "nominatedNodeName is set only when this pod preempts other pods on the node.").wide(),
        string("Readiness Gates", "If specified, all readiness gates will be evaluated for pod readiness.").wide(),
    ],
    row: pod_row,
    conditions: pod_conditions,
};

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    (kind == "Pod").then_some(&POD)
}

/// What the walk over the containers finds out.
struct Summary {
    reason: String,
    ready: i64,
    total: i64,
    restarts: i64,
    last_restart: String,
}

fn pod_row(pod: &Value, now: Timestamp) -> Vec<Value> {
    let s = summarize(pod);
    let restarts = match s.restarts != 0 && !s.last_restart.is_empty() {
        true => format!("{} ({} ago)", s.restarts, cells::since(&s.last_restart, now)),
        false => s.restarts.to_string(),
    };
    vec![
        cells::name(pod),
        json!(format!("{}/{}", s.ready, s.total)),
        json!(s.reason),
        json!(restarts),
        cells::age(pod, now),
        json!(text_or(pod, "/status/podIPs/0/ip", "<none>")),
        json!(text_or(pod, "/spec/nodeName", "<none>")),
        json!(text_or(pod, "/status/nominatedNodeName", "<none>")),
        json!(readiness_gates(pod)),
    ]
}

// ANCHOR: pod-summary
/// Walks the containers as the module doc tells.
fn summarize(pod: &Value) -> Summary {
    let sidecars: Vec<&str> = list(pod, "/spec/initContainers")
        .iter()
        .filter(|c| text(c, "/restartPolicy") == "Always")
        .map(|c| text(c, "/name"))
        .collect();
    let total = cells::count(pod, "/spec/containers") + i64::try_from(sidecars.len()).unwrap_or(0);
    let mut s =
        Summary { reason: first_reason(pod), ready: 0, total, restarts: 0, last_restart: String::new() };
    let mut sidecar_restarts = (0, String::new());
    let mut initializing = false;
    for (index, status) in list(pod, "/status/initContainerStatuses").iter().enumerate() {
        let sidecar = sidecars.contains(&text(status, "/name"));
        count_restart(status, &mut s.restarts, &mut s.last_restart);
        if sidecar {
            count_restart(status, &mut sidecar_restarts.0, &mut sidecar_restarts.1);
        }
        let terminated = status.pointer("/state/terminated");
        if terminated.is_some_and(|t| number(t, "/exitCode") == 0) {
            continue;
        }
        if sidecar && cells::truth(status, "/started") {
            s.ready += i64::from(cells::truth(status, "/ready"));
            continue;
        }
        s.reason = init_reason(status, index, cells::count(pod, "/spec/initContainers"));
        initializing = true;
        break;
    }
    if !initializing || condition_is_true(pod, "Initialized") {
        (s.restarts, s.last_restart) = sidecar_restarts;
        summarize_containers(pod, &mut s);
    }
    let terminal = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    if pod.pointer("/metadata/deletionTimestamp").is_some_and(|t| !t.is_null()) {
        match text(pod, "/status/reason") {
            "NodeLost" => s.reason = "Unknown".into(),
            _ if !terminal => s.reason = "Terminating".into(),
            _ => {}
        }
    }
    s
}
// ANCHOR_END: pod-summary

fn first_reason(pod: &Value) -> String {
    let gated = list(pod, "/status/conditions")
        .iter()
        .any(|c| text(c, "/type") == "PodScheduled" && text(c, "/reason") == "SchedulingGated");
    if gated {
        return "SchedulingGated".into();
    }
    text_or(pod, "/status/reason", text(pod, "/status/phase")).into()
}

fn init_reason(status: &Value, index: usize, total: i64) -> String {
    if let Some(terminated) = status.pointer("/state/terminated") {
        return format!("Init:{}", termination_reason(terminated));
    }
    match text(status, "/state/waiting/reason") {
        "" | "PodInitializing" => format!("Init:{index}/{total}"),
        reason => format!("Init:{reason}"),
    }
}

fn termination_reason(terminated: &Value) -> String {
    match (text(terminated, "/reason"), number(terminated, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.into(),
    }
}

fn summarize_containers(pod: &Value, s: &mut Summary) {
    let mut has_running = false;
    for status in list(pod, "/status/containerStatuses").iter().rev() {
        count_restart(status, &mut s.restarts, &mut s.last_restart);
        let waiting = text(status, "/state/waiting/reason");
        if !waiting.is_empty() {
            s.reason = waiting.into();
        } else if let Some(terminated) = status.pointer("/state/terminated") {
            s.reason = termination_reason(terminated);
        } else if cells::truth(status, "/ready") && status.pointer("/state/running").is_some() {
            has_running = true;
            s.ready += 1;
        }
    }
    if s.reason == "Completed" && has_running {
        s.reason = if condition_is_true(pod, "Ready") { "Running" } else { "NotReady" }.into();
    }
}

/// Adds a container's restarts and keeps the time of the latest. RFC 3339 times in UTC compare as text.
fn count_restart(status: &Value, restarts: &mut i64, last: &mut String) {
    *restarts += number(status, "/restartCount");
    let finished = text(status, "/lastState/terminated/finishedAt");
    if finished > last.as_str() {
        *last = finished.into();
    }
}

fn condition_is_true(pod: &Value, kind: &str) -> bool {
    list(pod, "/status/conditions").iter().any(|c| text(c, "/type") == kind && text(c, "/status") == "True")
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".into();
    }
    let passed = gates.iter().filter(|g| condition_is_true(pod, text(g, "/conditionType"))).count();
    format!("{passed}/{}", gates.len())
}

/// kubectl hides pods that are over when it is asked to.
fn pod_conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match text(pod, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{ "type": "Completed", "status": "True", "reason": reason, "message": message }]))
}
