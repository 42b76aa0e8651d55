//! Explain: why a pod goes where it goes, node by node and plugin by plugin.
//!
//! *Beside step 10 of a pod's journey through this stage.* Before: a pod and a [`Snapshot`]. After: `kube-scheduler explain`
//! prints it, `kubectl why` reads it.
//!
//! The scheduler itself stops at the first plugin that refuses a node, since one "no" is enough. A person who mends a
//! pod wants all of them, or the second "no" is found after the first was mended. So each node is asked every rule, and
//! each plugin that refuses adds the numbers that it compared ([`crate::framework::Plugin::explain`]).
//!
//! Nothing is decided here a second time: the verdict is [`decide`]'s, the objections are those of the same [`Rules`], the
//! grades come from the same [`score_table`]. Only the sampling is off: all nodes are looked at.
//!
//! The JSON form is versioned ([`API_VERSION`]). Fields may be added; what a field means doesn't change within a version.
//!
//! # Invariants
//! 1. A node is feasible exactly if it has no objection.
//! 2. The chosen node is feasible, and no other has a higher total.
//!
//! # In Kubernetes
//! Nothing: there are events with counts, and the scheduler's log at `-v=10`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decision::{Decision, decide};
use crate::framework::{Code, Status};
use crate::node_info::NodeInfo;
use crate::pod_info::PodInfo;
use crate::profile::{NodesToScore, Profile};
use crate::schedule_pod::{Rules, score_table};
use crate::snapshot::Snapshot;

pub mod table;
#[cfg(test)]
mod tests;

/// Version of the JSON form.
pub const API_VERSION: &str = "explain.kube-scheduler/v1";

/// Why a pod goes where it goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// [`API_VERSION`].
    pub api_version: String,
    /// `Explanation`.
    pub kind: String,
    /// `namespace/name`.
    pub pod: String,
    /// Who places it.
    pub scheduler_name: String,
    /// Its priority: higher goes first, and may evict lower.
    pub priority: i32,
    /// What is to happen.
    pub decision: Verdict,
    /// Why it doesn't matter which node, if the pod is refused as such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Objection>,
    /// Node by node: first those that fit, the best first; then the others by name.
    pub nodes: Vec<NodeExplanation>,
}

/// What is to happen with the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Where it goes, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The sentence that the event will have.
    pub message: String,
    /// The node where room can be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominated_node_name: Option<String>,
    /// Who must go there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<String>,
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeExplanation {
    /// Its name.
    pub name: String,
    /// Can it take the pod?
    pub feasible: bool,
    /// Why not: every plugin that refuses it, in the order in which they are asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objections: Vec<Objection>,
    /// How good it is: the sum of score × weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// Plugin by plugin. Plugins to whom all nodes are the same aren't listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<PluginScore>,
}

/// A plugin's "no".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Objection {
    /// Who says so.
    pub plugin: String,
    /// In Kubernetes' words.
    pub reasons: Vec<String>,
    /// The numbers behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// Could evicting pods change it?
    pub preemption_may_help: bool,
}

/// A plugin's grade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginScore {
    /// Who.
    pub plugin: String,
    /// 0 to 100.
    pub score: i64,
    /// What it counts.
    pub weight: i64,
}

// ANCHOR: explain
/// Explains what the scheduler would do with the pod now. `chance` breaks ties.
pub fn explain(profile: &Profile, pod: &PodInfo, snapshot: &Snapshot, chance: u64) -> Explanation {
    let all_nodes = Profile { nodes_to_score: NodesToScore::Percentage(100), ..profile.clone() };
    let mut explanation = Explanation {
        api_version: API_VERSION.to_owned(),
        kind: "Explanation".to_owned(),
        pod: pod.key.to_string(),
        scheduler_name: profile.scheduler_name.clone(),
        priority: pod.priority,
        decision: Verdict::default(),
        refused: None,
        nodes: Vec::new(),
    };
    let gate = profile.pre_enqueue.iter().map(|plugin| plugin.pre_enqueue(pod).by(plugin.name()));
    if let Some(gate) = gate.into_iter().find(|status| !status.is_success()) {
        explanation.decision.message = gate.message();
        explanation.refused = Some(objection(&gate, None));
        return explanation;
    }
    explanation.decision = verdict(&all_nodes, pod, snapshot, chance);
    match Rules::new(&all_nodes, pod, snapshot) {
        Err(status) => explanation.refused = Some(objection(&status, None)),
        Ok(rules) => explanation.nodes = nodes(&all_nodes, pod, snapshot, &rules),
    }
    let chosen = explanation.decision.node.clone();
    explanation.nodes.sort_by(|a, b| {
        let rank = |node: &NodeExplanation| {
            (Some(&node.name) != chosen.as_ref(), !node.feasible, node.total.map(|total| -total))
        };
        rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name))
    });
    explanation
}
// ANCHOR_END: explain

fn verdict(profile: &Profile, pod: &PodInfo, snapshot: &Snapshot, chance: u64) -> Verdict {
    match decide(profile, pod, snapshot, chance) {
        Decision::Bind { result, .. } => Verdict {
            message: format!("Successfully assigned {} to {}", pod.key, result.suggested_host),
            node: Some(result.suggested_host.to_string()),
            ..Verdict::default()
        },
        Decision::Unschedulable { error, preemption } => {
            let (mut node, mut victims) = (None, Vec::new());
            if let Some(candidate) = preemption.nominated {
                node = Some(candidate.node.to_string());
                victims = candidate.victims.iter().map(|victim| victim.key.to_string()).collect();
            }
            Verdict { node: None, message: error.to_string(), nominated_node_name: node, victims }
        }
    }
}

fn nodes(profile: &Profile, pod: &PodInfo, snapshot: &Snapshot, rules: &Rules<'_>) -> Vec<NodeExplanation> {
    let mut explained = Vec::with_capacity(snapshot.nodes().len());
    let mut feasible: Vec<&NodeInfo> = Vec::new();
    for node in snapshot.nodes() {
        let objections = rules.objections(pod, node, snapshot.nominated_to(&node.name));
        if objections.is_empty() {
            feasible.push(node);
        }
        explained.push(NodeExplanation {
            name: node.name.to_string(),
            feasible: objections.is_empty(),
            objections: objections
                .iter()
                .map(|status| objection(status, numbers(profile, status.plugin, pod, node, snapshot)))
                .collect(),
            ..NodeExplanation::default()
        });
    }
    let table = score_table(profile, pod, snapshot, &feasible);
    let graded = explained.iter_mut().filter(|node| node.feasible);
    for (at, node) in graded.enumerate() {
        let score = |(plugin, weight, scores): &(&'static str, i64, Vec<i64>)| PluginScore {
            plugin: (*plugin).to_owned(),
            score: scores[at],
            weight: *weight,
        };
        node.scores = table.iter().map(score).collect();
        node.total = Some(node.scores.iter().map(|score| score.score * score.weight).sum());
    }
    explained
}

fn numbers(
    profile: &Profile,
    plugin: &str,
    pod: &PodInfo,
    node: &Arc<NodeInfo>,
    snapshot: &Snapshot,
) -> Option<String> {
    profile.plugin(plugin)?.explain(pod, node, snapshot).filter(|text| !text.is_empty())
}

fn objection(status: &Status, details: Option<String>) -> Objection {
    Objection {
        plugin: status.plugin.to_owned(),
        reasons: status.reasons.iter().map(|reason| reason.to_string()).collect(),
        details,
        preemption_may_help: status.code == Code::Unschedulable,
    }
}
