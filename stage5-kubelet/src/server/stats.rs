//! Stats: what containers use, for `kubectl top` and for scrapers.
//!
//! *Beside the journey.* Before: the runtime counts. After: `/stats/summary` (JSON), `/metrics/resource` and `/metrics` (Prometheus text).
//!
//! # Invariants
//! 1. Nothing is measured between two requests.
//!
//! # In Kubernetes
//! `pkg/kubelet/server/stats`, `pkg/kubelet/metrics/collectors/resource_metrics.go`. Left out: network and volume statistics, per-node CPU rates.
#![expect(clippy::disallowed_methods, reason = "shell: reads the machine's counters")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::{Value, json as value};

use super::{Body, json, text};
use crate::cri::ContainerStats;
use crate::kubelet::Kubelet;
use crate::pod_status::seconds;
use crate::runtime_view::labels;

fn label<'a>(c: &'a ContainerStats, key: &str) -> &'a str {
    c.labels.get(key).map(String::as_str).unwrap_or_default()
}

/// Seconds of CPU time and bytes of memory that the machine has used.
fn machine() -> (f64, u64) {
    let read = |p: &str| std::fs::read_to_string(p).unwrap_or_default();
    let stat = read("/proc/stat");
    let ticks: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|t| t.parse().ok())
        .collect();
    // user, nice, system, irq, softirq, steal: all but idle and waiting.
    let busy: u64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|i| ticks.get(*i)).sum();
    let meminfo = read("/proc/meminfo");
    let kb = |key: &str| {
        let line = meminfo.lines().find_map(|l| l.strip_prefix(key)).unwrap_or_default();
        line.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
    };
    (busy as f64 / 100.0, kb("MemTotal:").saturating_sub(kb("MemAvailable:")) * 1024)
}

/// `/stats/summary`.
pub(super) async fn summary(kubelet: &Arc<Kubelet>) -> Response<Body> {
    let all = match kubelet.runtime.list_container_stats().await {
        Ok(all) => all,
        Err(e) => return text(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()),
    };
    let mut pods: BTreeMap<(String, String, String), Vec<&ContainerStats>> = BTreeMap::new();
    for c in &all {
        let key = [labels::POD_NAMESPACE, labels::POD_NAME, labels::POD_UID].map(|k| label(c, k).to_owned());
        let [ns, name, uid] = key;
        pods.entry((ns, name, uid)).or_default().push(c);
    }
    let (cpu, memory) = machine();
    let usage = |cpu: u64, memory: u64, at: jiff::Timestamp| {
        let at = seconds(at);
        value!({"cpu": {"time": at, "usageCoreNanoSeconds": cpu}, "memory": {"time": at, "workingSetBytes": memory}})
    };
    let of_pod = |((ns, name, uid), list): (&(String, String, String), &Vec<&ContainerStats>)| {
        let total = |f: fn(&ContainerStats) -> u64| list.iter().map(|c| f(c)).sum::<u64>();
        let at = list.first().map(|c| c.at).unwrap_or_default();
        let mut pod = usage(total(|c| c.cpu_usage_nanos), total(|c| c.memory_working_set_bytes), at);
        pod["podRef"] = value!({"name": name, "namespace": ns, "uid": uid});
        let containers: Vec<Value> = list
            .iter()
            .map(|c| {
                let mut v = usage(c.cpu_usage_nanos, c.memory_working_set_bytes, c.at);
                v["name"] = value!(label(c, labels::CONTAINER_NAME));
                v["rootfs"] = value!({"time": seconds(c.at), "usedBytes": c.fs_used_bytes});
                v
            })
            .collect();
        pod["containers"] = Value::Array(containers);
        pod
    };
    let mut node = usage((cpu * 1e9) as u64, memory, jiff::Timestamp::now());
    node["nodeName"] = value!(kubelet.config.node_name);
    json(&value!({"node": node, "pods": pods.iter().map(of_pod).collect::<Vec<_>>()}))
}

/// `/metrics/resource`.
pub(super) async fn resource_metrics(kubelet: &Arc<Kubelet>) -> Response<Body> {
    let all = kubelet.runtime.list_container_stats().await.unwrap_or_default();
    let (cpu, memory) = machine();
    let mut out = String::new();
    let mut family = |name: &str, kind: &str, node: String, of: fn(&ContainerStats) -> f64| {
        let _ = writeln!(out, "# TYPE container_{name} {kind}");
        for c in &all {
            let (ns, pod, name_) = (
                label(c, labels::POD_NAMESPACE),
                label(c, labels::POD_NAME),
                label(c, labels::CONTAINER_NAME),
            );
            let at = c.at.as_millisecond();
            let _ = writeln!(
                out,
                "container_{name}{{container=\"{name_}\",namespace=\"{ns}\",pod=\"{pod}\"}} {} {at}",
                of(c)
            );
        }
        let _ = writeln!(out, "# TYPE node_{name} {kind}\nnode_{name} {node}");
    };
    family("cpu_usage_seconds_total", "counter", cpu.to_string(), |c| c.cpu_usage_nanos as f64 / 1e9);
    family("memory_working_set_bytes", "gauge", memory.to_string(), |c| c.memory_working_set_bytes as f64);
    text(StatusCode::OK, out)
}

/// `/metrics`.
pub(super) async fn metrics(kubelet: &Arc<Kubelet>) -> Response<Body> {
    let listed =
        futures::try_join!(kubelet.runtime.list_pod_sandbox(None), kubelet.runtime.list_containers(None));
    let (sandboxes, containers) = listed.unwrap_or_default();
    let ready = sandboxes.iter().filter(|s| s.state == crate::cri::SandboxState::Ready).count();
    let count = |state| containers.iter().filter(|c| c.state == state).count();
    use crate::cri::ContainerState::{Created, Exited, Running};
    let mut out = String::new();
    let _ = writeln!(out, "# HELP kubelet_running_pods Number of pods that have a running pod sandbox");
    let _ = writeln!(out, "# TYPE kubelet_running_pods gauge\nkubelet_running_pods {ready}");
    let _ = writeln!(out, "# HELP kubelet_running_containers Number of containers currently running");
    let _ = writeln!(out, "# TYPE kubelet_running_containers gauge");
    for (word, state) in [("created", Created), ("exited", Exited), ("running", Running)] {
        let _ = writeln!(out, "kubelet_running_containers{{container_state=\"{word}\"}} {}", count(state));
    }
    let name = &kubelet.config.node_name;
    let _ = writeln!(out, "# TYPE kubelet_node_name gauge\nkubelet_node_name{{node=\"{name}\"}} 1");
    text(StatusCode::OK, out)
}
