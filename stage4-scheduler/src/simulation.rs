//! Simulation: places the waiting pods of a [`World`], one after another, without a cluster.
//!
//! *Beside a pod's journey through this stage.* Before: objects from a file, or a live cluster's and some "what if". After:
//! who goes where, who is evicted for it, and what the scheduler would say of the others.
//!
//! The loop is the scheduler's: the most important pod first ([`crate::scheduling_queue`]), [`decide`] on a snapshot, assume the
//! pod, next. Evicted pods are gone at once; nobody makes new ones.
//!
//! # Invariants
//! 1. Every waiting pod ends placed, unplaced or gated.
//! 2. The same world and seed give the same result.
//!
//! # In Kubernetes
//! Nothing; the cluster autoscaler's simulator is the nearest relative.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::decision::{Decision, decide};
use crate::pod_info::PodInfo;
use crate::profiles::Profiles;
use crate::world::World;

#[cfg(test)]
mod tests;

/// Version of the JSON form.
pub const API_VERSION: &str = "simulate.kube-scheduler/v1";

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Simulation {
    /// [`API_VERSION`].
    pub api_version: String,
    /// `Simulation`.
    pub kind: String,
    /// Who goes where, in the order of the decisions.
    pub placements: Vec<Placement>,
    /// Who doesn't.
    pub unplaced: Vec<Unplaced>,
    /// Who was evicted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evicted: Vec<Evicted>,
    /// How full the nodes are afterwards.
    pub nodes: Vec<NodeUsage>,
}

/// A pod that has a node now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// `namespace/name`.
    pub pod: String,
    /// Where.
    pub node: String,
}

/// A pod that has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unplaced {
    /// `namespace/name`.
    pub pod: String,
    /// `Unschedulable`, `SchedulingGated`, or `NoScheduler` if no profile has its scheduler name.
    pub reason: String,
    /// What the event would say.
    pub message: String,
}

/// A pod that had to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evicted {
    /// `namespace/name`.
    pub pod: String,
    /// From where.
    pub node: String,
    /// For whom.
    pub preemptor: String,
}

/// How full a node is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeUsage {
    /// Its name.
    pub name: String,
    /// Number of pods.
    pub pods: usize,
    /// Requested CPU in thousandths of a core, and what the node has.
    pub cpu_millis: (i64, i64),
    /// Requested memory in bytes, and what the node has.
    pub memory_bytes: (i64, i64),
}

/// Places the pods. `seed` breaks ties.
pub fn simulate(world: &mut World, profiles: &Profiles, seed: u64) -> Simulation {
    let mut result = Simulation {
        api_version: API_VERSION.to_owned(),
        kind: "Simulation".to_owned(),
        ..Simulation::default()
    };
    let mut waiting = std::mem::take(&mut world.waiting);
    // Stable: among equals the order of the file.
    waiting.sort_by_key(|pod| std::cmp::Reverse(pod.priority));
    let mut chance = seed;
    for pod in &waiting {
        chance = next_chance(chance);
        match place(world, profiles, pod, chance, &mut result.evicted) {
            Ok(node) => result.placements.push(Placement { pod: pod.key.to_string(), node }),
            Err((reason, message)) => {
                let (pod, reason) = (pod.key.to_string(), reason.to_owned());
                result.unplaced.push(Unplaced { pod, reason, message });
            }
        }
    }
    world.refresh();
    let usage = |node: &Arc<crate::node_info::NodeInfo>| NodeUsage {
        name: node.name.to_string(),
        pods: node.pods.len(),
        cpu_millis: (node.requested.cpu_millis, node.allocatable().cpu_millis),
        memory_bytes: (node.requested.memory_bytes, node.allocatable().memory_bytes),
    };
    result.nodes = world.current.nodes().iter().map(usage).collect();
    result.nodes.sort_by(|a, b| a.name.cmp(&b.name));
    result
}

/// The next number of a sequence that looks like chance (splitmix64).
fn next_chance(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn place(
    world: &mut World,
    profiles: &Profiles,
    pod: &Arc<PodInfo>,
    chance: u64,
    evicted: &mut Vec<Evicted>,
) -> Result<String, (&'static str, String)> {
    let Some(profile) = profiles.of(pod) else {
        let name = pod.scheduler_name();
        return Err(("NoScheduler", format!("no profile has the scheduler name {name:?}")));
    };
    let gate = profile.pre_enqueue.iter().map(|plugin| plugin.pre_enqueue(pod));
    if let Some(gate) = gate.into_iter().find(|status| !status.is_success()) {
        return Err(("SchedulingGated", gate.message()));
    }
    // Twice at most: after room was made the pod fits.
    for last in [false, true] {
        world.refresh();
        match decide(profile, pod, &world.current, chance) {
            Decision::Bind { result, before } => {
                let seen = world.current.start_node_index + result.evaluated_nodes;
                world.current.start_node_index = seen % world.current.nodes().len().max(1);
                world.state.queue.nominator.remove(&pod.uid);
                world.state.cache.assume(pod.clone(), &result.suggested_host);
                crate::binding_cycle::assume_volumes(&mut world.state, &before);
                return Ok(result.suggested_host.to_string());
            }
            Decision::Unschedulable { error, preemption } => {
                let Some(candidate) = preemption.nominated.filter(|_| !last) else {
                    return Err(("Unschedulable", error.to_string()));
                };
                for victim in &candidate.victims {
                    world.state.remove_pod(&victim.uid, Duration::ZERO);
                    evicted.push(Evicted {
                        pod: victim.key.to_string(),
                        node: candidate.node.to_string(),
                        preemptor: pod.key.to_string(),
                    });
                }
                world.state.queue.nominator.set(pod, Some(&candidate.node));
            }
        }
    }
    Err(("Unschedulable", "room was made, but the pod doesn't fit".to_owned()))
}

/// The result as text for people.
pub fn table(simulation: &Simulation) -> String {
    let columns = crate::explain::table::columns;
    let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
    let mut rows = vec![row(&["POD", "NODE"])];
    rows.extend(simulation.placements.iter().map(|placed| row(&[&placed.pod, &placed.node])));
    let mut text = columns(&rows);
    if !simulation.evicted.is_empty() {
        let mut rows = vec![row(&["EVICTED", "NODE", "FOR"])];
        rows.extend(simulation.evicted.iter().map(|gone| row(&[&gone.pod, &gone.node, &gone.preemptor])));
        text.push_str(&format!("\n{}", columns(&rows)));
    }
    if !simulation.unplaced.is_empty() {
        let mut rows = vec![row(&["UNPLACED", "REASON", "MESSAGE"])];
        rows.extend(simulation.unplaced.iter().map(|pod| row(&[&pod.pod, &pod.reason, &pod.message])));
        text.push_str(&format!("\n{}", columns(&rows)));
    }
    let mut rows = vec![row(&["NODE", "PODS", "CPU", "MEMORY"])];
    let percent = |(used, has): (i64, i64)| format!("{}%", if has > 0 { used * 100 / has } else { 0 });
    for node in &simulation.nodes {
        let (pods, cpu, memory) =
            (node.pods.to_string(), percent(node.cpu_millis), percent(node.memory_bytes));
        rows.push(vec![node.name.clone(), pods, cpu, memory]);
    }
    text.push_str(&format!("\n{}", columns(&rows)));
    text
}
