//! Schedule a pod: filter, score, select.
//!
//! *Step 10 of a pod's journey through this stage.* Before: [`crate::snapshot`] shows the cluster.
//! After: [`crate::scheduling_cycle`] assumes the pod on the node, or reads the [`FitError`].
//!
//! The whole decision is one pure function of the profile, the pod and the snapshot. Even chance is an
//! argument: among equally good nodes `tie_breaker` picks. So a decision that somebody complains about
//! can be made again, in a test, from the same input.
//!
//! Three steps. *Filter*: which nodes can take the pod? Each plugin looks at the pod first and returns the
//! rule for nodes; the first rule that refuses a node gives the reason. *Score*: each plugin grades the
//! remaining nodes, grades are brought to 0..=100, weighted and added. *Select*: the highest sum.
//!
//! The subtle thing is where the search begins and ends. In a large cluster it ends after "enough" feasible
//! nodes; if it always began at the first node, the last ones would stay empty. So it begins where the
//! previous one ended ([`Snapshot::start_node_index`], [`ScheduleResult::evaluated_nodes`]).
//!
//! # Invariants
//! 1. The chosen node passes every filter.
//! 2. Every node that was looked at is either feasible or in the error with a reason.
//! 3. The order of the nodes changes the choice only among equals (if all nodes are looked at).
//!
//! # In Kubernetes
//! `pkg/scheduler/schedule_one.go` (`schedulePod`, `findNodesThatFitPod`, `prioritizeNodes`, `selectHost`).
//! Left out: parallel goroutines per chunk of nodes.

use std::sync::Arc;

use crate::fit_error::FitError;
use crate::framework::{
    Code, Filter, Normalize, PreFilter, PreScore, Status, WhatIf, normalize_proportionally,
};
use crate::node_info::NodeInfo;
use crate::node_to_status::NodeToStatus;
use crate::pod_info::PodInfo;
use crate::profile::{Profile, SharedPlugin};
use crate::snapshot::Snapshot;

#[cfg(test)]
mod tests;

/// The score of one node, plugin by plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeScore {
    /// The node.
    pub node: Arc<str>,
    /// Sum of score × weight.
    pub total: i64,
    /// Plugin, score in 0..=100, weight.
    pub plugins: Vec<(&'static str, i64, i64)>,
}

/// Where a pod goes, and how that came about.
#[derive(Clone, Debug)]
pub struct ScheduleResult {
    /// The node.
    pub suggested_host: Arc<str>,
    /// How many nodes were looked at.
    pub evaluated_nodes: usize,
    /// How many of them could take the pod.
    pub feasible_nodes: usize,
    /// The best nodes, best first; empty if there was nothing to compare.
    pub top: Vec<NodeScore>,
    /// The nodes that were refused, for whoever asks why.
    pub refused: NodeToStatus,
}

/// How many nodes [`ScheduleResult::top`] shows.
const TOP: usize = 3;

// ANCHOR: schedule-pod
/// Chooses a node for the pod.
///
/// # Errors
/// No node can take it; the error knows why each can't.
pub fn schedule_pod(
    profile: &Profile,
    pod: &PodInfo,
    snapshot: &Snapshot,
    tie_breaker: u64,
) -> Result<ScheduleResult, FitError> {
    let found = find_nodes_that_fit(profile, pod, snapshot)?;
    Ok(select_host(profile, pod, snapshot, found, &[], tie_breaker))
}

/// Scores the nodes that fit and takes the best. `outside` are grades of somebody else ([`crate::extender`]), to be
/// added; none, or one per feasible node.
pub fn select_host(
    profile: &Profile,
    pod: &PodInfo,
    snapshot: &Snapshot,
    found: Found<'_>,
    outside: &[i64],
    tie_breaker: u64,
) -> ScheduleResult {
    let top = if found.feasible.len() == 1 {
        Vec::new() // nothing to compare
    } else {
        prioritize(profile, pod, snapshot, &found.feasible, outside, tie_breaker)
    };
    ScheduleResult {
        suggested_host: top.first().map_or_else(|| found.feasible[0].name.clone(), |best| best.node.clone()),
        evaluated_nodes: found.feasible.len() + found.refused.len(),
        feasible_nodes: found.feasible.len(),
        top,
        refused: found.refused,
    }
}
// ANCHOR_END: schedule-pod

/// The rules of all plugins that have something to say about one pod.
pub struct Rules<'a> {
    rules: Vec<(&'static str, Filter<'a>)>,
    /// The only nodes worth looking at, and the plugins that said so.
    only: Option<(Vec<String>, Vec<&'static str>)>,
}

impl<'a> Rules<'a> {
    /// Asks every filter plugin about the pod.
    ///
    /// # Errors
    /// The status of the plugin that refuses the pod on every node.
    pub fn new(profile: &'a Profile, pod: &'a PodInfo, snapshot: &'a Snapshot) -> Result<Self, Status> {
        Rules::of(profile.filters.iter(), pod, snapshot)
    }

    /// Asks only these plugins.
    ///
    /// # Errors
    /// As [`Rules::new`].
    pub fn of(
        plugins: impl Iterator<Item = &'a SharedPlugin>,
        pod: &'a PodInfo,
        snapshot: &'a Snapshot,
    ) -> Result<Self, Status> {
        let mut rules = Vec::new();
        let mut only: Option<(Vec<String>, Vec<&'static str>)> = None;
        for plugin in plugins {
            match plugin.pre_filter(pod, snapshot) {
                PreFilter::Skip => {}
                PreFilter::Reject(status) => return Err(status.by(plugin.name())),
                PreFilter::Run(rule) => rules.push((plugin.name(), rule)),
                PreFilter::Only(names, rule) => {
                    rules.push((plugin.name(), rule));
                    let (kept, who) = only.get_or_insert_with(|| (names.clone(), Vec::new()));
                    kept.retain(|name| names.contains(name));
                    who.push(plugin.name());
                    who.sort_unstable();
                }
            }
        }
        Ok(Rules { rules, only })
    }

    /// True if no plugin named the only nodes worth looking at.
    pub fn concern_all_nodes(&self) -> bool {
        self.only.is_none()
    }

    /// The first objection of any rule.
    pub fn check(&self, node: &NodeInfo, what_if: &WhatIf<'_>) -> Status {
        for (name, rule) in &self.rules {
            let status = rule(node, what_if);
            if !status.is_success() {
                return status.by(name);
            }
        }
        Status::success()
    }

    /// Every objection, for people: the scheduler itself is content with the first.
    pub fn objections(&self, pod: &PodInfo, node: &NodeInfo, nominated: &[Arc<PodInfo>]) -> Vec<Status> {
        let each = |rule: &(&'static str, Filter<'a>), node: &NodeInfo, what_if: &WhatIf<'_>| {
            let status = rule.1(node, what_if);
            (!status.is_success()).then(|| status.by(rule.0))
        };
        let added = nominated_before(pod, nominated);
        let mut fuller = node.clone();
        added.iter().for_each(|other| fuller.add_pod(other.clone()));
        let full = WhatIf { added: &added, removed: &[] };
        let rules = self.rules.iter();
        rules
            .filter_map(|rule| each(rule, &fuller, &full).or_else(|| each(rule, node, &WhatIf::NOTHING)))
            .collect()
    }

    /// Also counts pods of at least the same priority that are nominated to the node: it must fit with them
    /// (they will come) and without them (they may not).
    pub fn check_with_nominated(
        &self,
        pod: &PodInfo,
        node: &NodeInfo,
        nominated: &[Arc<PodInfo>],
        removed: &[Arc<PodInfo>],
    ) -> Status {
        let added = nominated_before(pod, nominated);
        if !added.is_empty() {
            let mut fuller = node.clone();
            added.iter().for_each(|other| fuller.add_pod(other.clone()));
            let status = self.check(&fuller, &WhatIf { added: &added, removed });
            if !status.is_success() {
                return status;
            }
        }
        self.check(node, &WhatIf { added: &[], removed })
    }
}

/// The nominated pods that the pod has to make room for.
fn nominated_before(pod: &PodInfo, nominated: &[Arc<PodInfo>]) -> Vec<Arc<PodInfo>> {
    let counts = |other: &&Arc<PodInfo>| other.priority >= pod.priority && other.uid != pod.uid;
    nominated.iter().filter(counts).cloned().collect()
}

/// What the filters say: one feasible node at least.
#[derive(Debug)]
pub struct Found<'a> {
    /// The nodes that can take the pod.
    pub feasible: Vec<&'a NodeInfo>,
    /// Those that can't, and why.
    pub refused: NodeToStatus,
}

/// Asks every filter about the nodes, until enough can take the pod.
///
/// # Errors
/// None can.
pub fn find_nodes_that_fit<'a>(
    profile: &'a Profile,
    pod: &'a PodInfo,
    snapshot: &'a Snapshot,
) -> Result<Found<'a>, FitError> {
    let num_all_nodes = snapshot.nodes().len();
    let unlooked = Status { code: Code::UnschedulableAndUnresolvable, ..Status::default() };
    if num_all_nodes == 0 {
        return Err(FitError { absent: unlooked, ..FitError::default() });
    }
    let rules = Rules::new(profile, pod, snapshot).map_err(|status| FitError {
        num_all_nodes,
        pre_filter_message: status.message(),
        absent: status,
        ..FitError::default()
    })?;
    let check =
        |node: &NodeInfo| rules.check_with_nominated(pod, node, snapshot.nominated_to(&node.name), &[]);
    // Room was made on that node for this very pod: if it fits now, no other needs to be looked at.
    if let Some(node) = pod.nominated_node_name().and_then(|name| snapshot.get(name))
        && check(node).is_success()
    {
        return Ok(Found { feasible: vec![node], refused: NodeToStatus::default() });
    }
    let mut found = Found { feasible: Vec::new(), refused: NodeToStatus::new(snapshot.names().clone()) };
    let absent = match &rules.only {
        Some((names, plugins)) => {
            for at in names.iter().filter_map(|name| snapshot.position(name)) {
                let node = &snapshot.nodes()[at];
                sort_in(&mut found, at, node, check(node));
            }
            let reason = format!("node(s) didn't satisfy plugin(s) [{}]", plugins.join(" "));
            // Signed by the first plugin, so that the queue knows whom an event must convince.
            Status::unresolvable(reason).by(plugins[0])
        }
        None => {
            let enough = profile.nodes_to_score.enough(num_all_nodes);
            let start = snapshot.start_node_index.min(num_all_nodes);
            for at in (start..num_all_nodes).chain(0..start) {
                let node = &snapshot.nodes()[at];
                sort_in(&mut found, at, node, check(node));
                if found.feasible.len() >= enough {
                    break;
                }
            }
            unlooked
        }
    };
    if found.feasible.is_empty() {
        return Err(FitError { num_all_nodes, statuses: found.refused, absent, ..FitError::default() });
    }
    Ok(found)
}

fn sort_in<'a>(found: &mut Found<'a>, at: usize, node: &'a NodeInfo, status: Status) {
    if status.is_success() {
        found.feasible.push(node);
    } else {
        found.refused.push(at, status);
    }
}

/// Plugin by plugin: name, weight, a score per feasible node.
type ScoreTable = Vec<(&'static str, i64, Vec<i64>)>;

/// The normalised scores of every plugin that has an opinion, one column per feasible node.
pub fn score_table(
    profile: &Profile,
    pod: &PodInfo,
    snapshot: &Snapshot,
    feasible: &[&NodeInfo],
) -> ScoreTable {
    let mut table = ScoreTable::new();
    for (plugin, weight) in &profile.scores {
        let PreScore::Run(scorer) = plugin.pre_score(pod, snapshot, feasible) else { continue };
        let mut scores: Vec<i64> = feasible.iter().map(|node| (scorer.score)(node)).collect();
        match &scorer.normalize {
            Normalize::Already => {}
            Normalize::Proportional { reverse } => normalize_proportionally(&mut scores, *reverse),
            Normalize::Own(normalize) => normalize(feasible, &mut scores),
        }
        table.push((plugin.name(), *weight, scores));
    }
    table
}

fn prioritize(
    profile: &Profile,
    pod: &PodInfo,
    snapshot: &Snapshot,
    feasible: &[&NodeInfo],
    outside: &[i64],
    tie_breaker: u64,
) -> Vec<NodeScore> {
    let table = score_table(profile, pod, snapshot, feasible);
    let mut totals = vec![0i64; feasible.len()];
    totals.iter_mut().zip(outside).for_each(|(total, grade)| *total += grade);
    for (_, weight, scores) in &table {
        for (total, score) in totals.iter_mut().zip(scores) {
            *total += weight * score;
        }
    }
    select_hosts(&totals, tie_breaker)
        .into_iter()
        .map(|at| NodeScore {
            node: feasible[at].name.clone(),
            total: totals[at],
            plugins: table.iter().map(|(name, weight, scores)| (*name, scores[at], *weight)).collect(),
        })
        .collect()
}

// ANCHOR: select-host
/// Positions of the best totals: first the chosen one, picked from the highest by `tie_breaker`, then those
/// that come next. Empty only if there are no totals.
pub fn select_hosts(totals: &[i64], tie_breaker: u64) -> Vec<usize> {
    let mut top: Vec<usize> = Vec::with_capacity(TOP + 1);
    let (mut best, mut last, mut ties) = (i64::MIN, i64::MIN, 0u64);
    for (at, &total) in totals.iter().enumerate() {
        if total > best || ties == 0 {
            (best, ties) = (total, 1);
        } else {
            ties += u64::from(total == best);
        }
        if total > last || top.len() < TOP {
            top.insert(top.partition_point(|&other| totals[other] >= total), at);
            top.truncate(TOP);
            last = totals[top[top.len() - 1]];
        }
    }
    let pick = usize::try_from(tie_breaker % ties.max(1)).expect("less than the number of nodes");
    let chosen = match top.get(pick) {
        // The first of the equals are the first of the list.
        Some(&at) => Some(at),
        None => (0..totals.len()).filter(|&at| totals[at] == best).nth(pick),
    };
    let next = top.into_iter().filter(|at| Some(*at) != chosen).take(TOP - 1);
    chosen.into_iter().chain(next).collect()
}
// ANCHOR_END: select-host
