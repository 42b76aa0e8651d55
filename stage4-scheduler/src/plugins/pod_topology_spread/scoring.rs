//! The score of PodTopologySpread: the fewer pods of its kind a domain has, the better.
//!
//! Domains of different keys aren't equally telling: one more pod among 3 zones weighs more than one more
//! among 1,000 nodes. So each count is multiplied with ln(number of domains + 2).
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/podtopologyspread/scoring.go`.

use std::collections::HashMap;

use super::{Constraint, HOSTNAME, PodTopologySpread, counts, has_all_keys};
use crate::framework::{MAX_NODE_SCORE, Normalize, PreScore, Scorer};
use crate::node_info::NodeInfo;
use crate::pod_info::PodInfo;
use crate::snapshot::Snapshot;

pub(super) fn pre_score<'a>(
    plugin: &'a PodTopologySpread,
    pod: &'a PodInfo,
    snapshot: &'a Snapshot,
    feasible: &[&NodeInfo],
) -> PreScore<'a> {
    let (constraints, system) = plugin.constraints(pod, snapshot, false);
    if constraints.is_empty() {
        return PreScore::Skip;
    }
    // A node without the user's keys gets 0; the system's keys are only a suggestion.
    let all_keys_needed = !system;
    let keyed: Vec<&&NodeInfo> =
        feasible.iter().filter(|node| !all_keys_needed || has_all_keys(node, &constraints)).collect();
    let (totals, weights) = totals(pod, snapshot, &constraints, &keyed, all_keys_needed);
    let constraints = std::sync::Arc::new(constraints);
    let ignores = {
        let constraints = constraints.clone();
        move |node: &NodeInfo| all_keys_needed && !has_all_keys(node, &constraints)
    };
    let ignored = ignores.clone();
    let score = move |node: &NodeInfo| {
        if ignored(node) {
            return 0;
        }
        let mut sum = 0.0;
        for (at, constraint) in constraints.iter().enumerate() {
            let Some(domain) = node.label(constraint.key) else { continue };
            let count = if constraint.key == HOSTNAME {
                node.pods.iter().filter(|other| counts(constraint, pod.namespace(), other)).count() as i64
            } else {
                totals[at].get(domain).copied().unwrap_or(0)
            };
            sum += count as f64 * weights[at] + (constraint.max_skew - 1) as f64;
        }
        sum.round() as i64
    };
    PreScore::Run(Scorer {
        score: Box::new(score),
        normalize: Normalize::Own(Box::new(move |nodes, scores| normalize(nodes, scores, &ignores))),
    })
}

/// Pods per domain over the whole cluster, for the domains of the feasible nodes, and each key's weight.
fn totals(
    pod: &PodInfo,
    snapshot: &Snapshot,
    constraints: &[Constraint<'_>],
    keyed: &[&&NodeInfo],
    all_keys_needed: bool,
) -> (Vec<HashMap<String, i64>>, Vec<f64>) {
    let mut totals: Vec<HashMap<String, i64>> = constraints.iter().map(|_| HashMap::new()).collect();
    let mut weights = Vec::with_capacity(constraints.len());
    for (constraint, counted) in constraints.iter().zip(&mut totals) {
        if constraint.key == HOSTNAME {
            weights.push(((keyed.len() + 2) as f64).ln()); // counted per node, when it is scored
            continue;
        }
        for domain in keyed.iter().filter_map(|node| node.label(constraint.key)) {
            if !counted.contains_key(domain) {
                counted.insert(domain.to_owned(), 0);
            }
        }
        weights.push(((counted.len() + 2) as f64).ln());
    }
    if totals.iter().all(HashMap::is_empty) {
        return (totals, weights);
    }
    for node in snapshot.nodes() {
        if node.pods.is_empty() || (all_keys_needed && !has_all_keys(node, constraints)) {
            continue;
        }
        for (constraint, counted) in constraints.iter().zip(&mut totals) {
            let total = node.label(constraint.key).and_then(|domain| counted.get_mut(domain));
            if let Some(total) = total.filter(|_| constraint.includes(pod, node)) {
                *total += node.pods.iter().filter(|other| counts(constraint, pod.namespace(), other)).count()
                    as i64;
            }
        }
    }
    (totals, weights)
}

fn normalize(nodes: &[&NodeInfo], scores: &mut [i64], ignores: &impl Fn(&NodeInfo) -> bool) {
    let counted =
        || nodes.iter().zip(scores.iter()).filter(|(node, _)| !ignores(node)).map(|(_, score)| *score);
    let (lowest, highest) = (counted().min().unwrap_or(0), counted().max().unwrap_or(0));
    for (node, score) in nodes.iter().zip(scores) {
        *score = match highest {
            _ if ignores(node) => 0,
            0 => MAX_NODE_SCORE,
            highest => MAX_NODE_SCORE * (highest + lowest - *score) / highest,
        };
    }
}
