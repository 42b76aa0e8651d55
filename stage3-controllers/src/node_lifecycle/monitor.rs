//! Monitor: the watchdog over all nodes.
//!
//! A kubelet renews its Lease every ten seconds. Whoever did not for `node-monitor-grace-period` is `Unknown`: its conditions
//! are overwritten, its pods are marked as not ready (so that no Service sends traffic there), and it gets a
//! `NoExecute` taint, at the pace that [`super::disruption_mode`] allows.
//!
//! The subtle thing: the age of a heartbeat is measured on *our* clock, from the moment we saw it change. A node with a wrong clock is
//! not dead; and after our own restart every node has its full grace period again.
//!
//! [`Monitor::step`] is pure: nodes, leases and the time go in, actions come out. The shell at the end calls it every five seconds.
//!
//! # Invariants
//! 1. A node whose Lease or status changed within the grace period is never marked `Unknown`.
//! 2. A node that is ready again loses its `NoExecute` taints at the next step.
//! 3. While every zone is fully disrupted no node gets a `NoExecute` taint.
//!
//! # In Kubernetes
//! `node_lifecycle_controller.go` (`monitorNodeHealth`, `processTaintBaseEviction`), `pkg/controller/util/node/controller_utils.go`.
#![expect(clippy::disallowed_methods, reason = "shell: run() reads the clock every five seconds")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::disruption_mode::{EvictionLimiter, ZoneState, compute_zone_state, eviction_rate};
use super::{node_condition, patch_taints, status_event, taints_of};
use crate::action::{Action, EventText, encode};
use crate::endpoint_slice::NODE_INDEX;
use crate::executor::Executor;
use crate::indexer::{Cached, NamespacedName};
use crate::informer::Store;
use crate::informer::factory::InformerFactory;
use crate::pod::PodExt;

/// `NoExecute` taint of a node that says that it is not ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// `NoExecute` taint of a node that says nothing.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// How long a node may be silent.
#[derive(Clone, Copy, Debug)]
pub struct Periods {
    /// A node that reported before. Shorter: a slow kubelet loses its pods; longer: a dead one keeps them.
    pub grace: SignedDuration,
    /// A node that never reported.
    pub startup_grace: SignedDuration,
    /// Time between two looks.
    pub monitor: Duration,
}

/// What we saw of a node, and when by our clock.
#[derive(Clone, Debug)]
struct Health {
    heartbeat: Option<Time>,
    renewed: Option<MicroTime>,
    /// When one of the two changed last.
    probed: Timestamp,
}

/// The memory of the watchdog.
pub struct Monitor {
    periods: Periods,
    health: HashMap<String, Health>,
    limiters: HashMap<String, EvictionLimiter>,
}

/// What one step looks at.
pub struct Cluster<'a> {
    /// All nodes.
    pub nodes: &'a [Arc<Node>],
    /// Their Leases, by node.
    pub leases: &'a HashMap<String, Arc<Lease>>,
    /// The pods on a node.
    pub pods_on: &'a dyn Fn(&str) -> Vec<Arc<Pod>>,
}

impl Monitor {
    /// A watchdog that knows no node yet.
    pub fn new(periods: Periods) -> Monitor {
        Monitor { periods, health: HashMap::new(), limiters: HashMap::new() }
    }

    /// Looks at all nodes once.
    pub fn step(&mut self, cluster: &Cluster<'_>, now: Timestamp) -> Vec<Vec<Action>> {
        let mut plans = Vec::new();
        let names: BTreeSet<&str> = cluster.nodes.iter().map(|node| node.object_name()).collect();
        let gone: Vec<String> =
            self.health.keys().filter(|name| !names.contains(name.as_str())).cloned().collect();
        for name in gone {
            self.health.remove(&name);
        }
        let mut ready: BTreeMap<&str, &str> = BTreeMap::new();
        for node in cluster.nodes {
            let (status, actions) = self.look_at(node, cluster, now);
            ready.insert(node.object_name(), status);
            plans.push(actions);
        }
        plans.extend(self.evictions(cluster, &ready, now));
        plans.retain(|actions| !actions.is_empty());
        plans
    }

    /// Judges one node; returns the status of `Ready` after it and what to do.
    fn look_at(&mut self, node: &Node, cluster: &Cluster<'_>, now: Timestamp) -> (&'static str, Vec<Action>) {
        let mut actions = Vec::new();
        let condition = node_condition(node, "Ready");
        let heartbeat = condition.and_then(|condition| condition.last_heartbeat_time.clone());
        let lease = cluster.leases.get(node.object_name());
        let renewed = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.clone());
        if !self.health.contains_key(node.object_name()) {
            let text = format!("Node {0} event: Registered Node {0} in Controller", node.object_name());
            actions.push(Action::record(node, EventText::normal("RegisteredNode", text)));
        }
        let new = Health { heartbeat, renewed, probed: now };
        let health = self.health.entry(node.object_name().to_owned()).or_insert_with(|| new.clone());
        if health.heartbeat != new.heartbeat || health.renewed != new.renewed {
            *health = new;
        }
        let grace = if condition.is_some() { self.periods.grace } else { self.periods.startup_grace };
        let silent = now.duration_since(health.probed) > grace;
        let before = condition.map_or("", |condition| condition.status.as_str());
        let status = match before {
            _ if silent => "Unknown",
            "True" => "True",
            "False" => "False",
            _ => "Unknown",
        };
        if silent && before != "Unknown" {
            actions.push(mark_unknown(node, now));
        }
        if status != "True" {
            if before == "True" {
                actions.push(status_event(node, "NodeNotReady"));
            }
            actions.extend(
                (cluster.pods_on)(node.object_name()).iter().filter_map(|pod| mark_pod_not_ready(pod, now)),
            );
        }
        (status, actions)
    }

    /// `NoExecute` taints: taken away at once, given at the pace of the zone.
    fn evictions(
        &mut self,
        cluster: &Cluster<'_>,
        ready: &BTreeMap<&str, &str>,
        now: Timestamp,
    ) -> Vec<Vec<Action>> {
        let mut zones: BTreeMap<String, Vec<&Arc<Node>>> = BTreeMap::new();
        for node in cluster.nodes {
            zones.entry(zone_of(node)).or_default().push(node);
        }
        let is_ready = |node: &Arc<Node>| ready.get(node.object_name()) == Some(&"True");
        let states: BTreeMap<&String, ZoneState> = zones
            .iter()
            .map(|(zone, nodes)| {
                let ready = nodes.iter().filter(|node| is_ready(node)).count();
                (zone, compute_zone_state(ready, nodes.len() - ready))
            })
            .collect();
        let all_disrupted = states.values().all(|state| *state == ZoneState::FullDisruption);
        let mut plans = Vec::new();
        for (zone, nodes) in &zones {
            let limiter = self.limiters.entry(zone.clone()).or_default();
            let rate = eviction_rate(states[zone], nodes.len());
            for node in nodes {
                let wanted = match ready.get(node.object_name()).copied() {
                    _ if all_disrupted => None,
                    Some("True") => None,
                    Some("False") => Some(NOT_READY),
                    _ => Some(UNREACHABLE),
                };
                let present: Vec<Taint> = taints_of(node).into_iter().filter(is_eviction_taint).collect();
                let in_place = wanted.is_some_and(|key| present.len() == 1 && present[0].key == key);
                if in_place || (wanted.is_none() && present.is_empty()) {
                    continue;
                }
                // Swapping one for the other evicts nobody new, so it needs no token.
                if wanted.is_some() && present.is_empty() && !limiter.try_accept(rate, now) {
                    continue;
                }
                plans.push(vec![swap_taint(node, wanted, now)]);
            }
        }
        plans
    }
}

fn zone_of(node: &Node) -> String {
    let label = |key: &str| node.label(key).unwrap_or_default();
    format!("{}:\0:{}", label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"))
}

fn is_eviction_taint(taint: &Taint) -> bool {
    taint.effect == "NoExecute" && (taint.key == NOT_READY || taint.key == UNREACHABLE)
}

fn swap_taint(node: &Node, wanted: Option<&str>, now: Timestamp) -> Action {
    let mut taints: Vec<Taint> =
        taints_of(node).into_iter().filter(|taint| !is_eviction_taint(taint)).collect();
    if let Some(key) = wanted {
        taints.push(Taint {
            key: key.to_owned(),
            effect: "NoExecute".to_owned(),
            time_added: Some(Time(now)),
            value: None,
        });
    }
    patch_taints(
        node,
        &taints,
        if wanted.is_some() { "it is not ready: its pods must move" } else { "it is ready again" },
    )
}

/// Overwrites the conditions that a silent kubelet can no longer vouch for.
fn mark_unknown(node: &Node, now: Timestamp) -> Action {
    let mut conditions =
        node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    for kind in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
        let told = |reason: &str, message: &str, heartbeat: Option<Time>| NodeCondition {
            type_: kind.to_owned(),
            status: "Unknown".to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: heartbeat,
            last_transition_time: Some(Time(now)),
        };
        match conditions.iter_mut().find(|condition| condition.type_ == kind) {
            Some(condition) if condition.status == "Unknown" => {}
            Some(condition) => {
                *condition = told(
                    "NodeStatusUnknown",
                    "Kubelet stopped posting node status.",
                    condition.last_heartbeat_time.clone(),
                )
            }
            None => conditions.push(told(
                "NodeStatusNeverUpdated",
                "Kubelet never posted node status.",
                node.created().cloned(),
            )),
        }
    }
    let patch = json!({"status": {"conditions": encode(&conditions)}, "metadata": {"resourceVersion": node.metadata.resource_version}});
    Action::patch_status(node, patch, "its kubelet did not renew its Lease in time")
}

fn mark_pod_not_ready(pod: &Pod, now: Timestamp) -> Option<Action> {
    if pod.is_terminal() || !pod.is_ready() {
        return None;
    }
    let mut conditions = pod.status.as_ref()?.conditions.clone()?;
    let ready = conditions.iter_mut().find(|condition| condition.type_ == "Ready")?;
    ready.status = "False".to_owned();
    ready.last_transition_time = Some(Time(now));
    let patch = json!({"status": {"conditions": encode(&conditions)}, "metadata": {"resourceVersion": pod.metadata.resource_version}});
    let told = EventText::warning("NodeNotReady", "Node is not ready");
    Some(Action::patch_status(pod, patch, "its node is not ready").announcing(
        crate::action::reference_to(pod),
        Some(told),
        None,
    ))
}

/// Runs the watchdog until `shutdown`.
pub async fn run(
    factory: InformerFactory,
    executor: Executor,
    periods: Periods,
    shutdown: CancellationToken,
) {
    let (nodes, leases, pods): (Store<Node>, Store<Lease>, Store<Pod>) =
        (factory.store(), factory.store(), factory.store());
    pods.add_index(NODE_INDEX, Arc::new(|pod: &Pod| vec![pod.node_name().to_owned()]));
    factory.wait_for_sync().await;
    let mut monitor = Monitor::new(periods);
    let mut tick = tokio::time::interval(periods.monitor);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = shutdown.cancelled() => return,
        }
        let all = nodes.list();
        let lease = |node: &Arc<Node>| {
            let name = node.object_name();
            Some((name.to_owned(), leases.get(&NamespacedName::new("kube-node-lease", name))?))
        };
        let by_node: HashMap<String, Arc<Lease>> = all.iter().filter_map(lease).collect();
        let pods_on = |node: &str| pods.by_index(NODE_INDEX, node);
        let plans =
            monitor.step(&Cluster { nodes: &all, leases: &by_node, pods_on: &pods_on }, Timestamp::now());
        // One node's conflict must not keep the others waiting: each node's plan is its own.
        for plan in plans {
            if let Some(failure) = executor.execute(plan).await.failure {
                warn!(error = %failure, cause = %failure.message(), "Unable to update node, will look again");
            }
        }
    }
}

#[cfg(test)]
mod tests;
