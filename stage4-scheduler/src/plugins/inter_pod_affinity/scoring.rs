//! The score of InterPodAffinity: how many wishes a node fulfils, in both directions.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/interpodaffinity/scoring.go`.

use std::collections::HashMap;

use super::InterPodAffinity;
use crate::framework::{MAX_NODE_SCORE, Normalize, PreScore, Scorer};
use crate::listers::Listers;
use crate::node_info::{NodeInfo, PodList};
use crate::pod_info::{AffinityTerm, PodInfo};
use crate::snapshot::Snapshot;

/// Weights by topology key and value.
#[derive(Default)]
struct Weights<'a>(HashMap<&'a str, HashMap<&'a str, i64>>);

impl<'a> Weights<'a> {
    fn add(&mut self, term: &'a AffinityTerm, node: &'a NodeInfo, weight: i64) {
        if let Some(value) = node.label(&term.topology_key) {
            *self.0.entry(&term.topology_key).or_default().entry(value).or_default() += weight;
        }
    }
}

/// What the existing pod wishes of the new one, and the new one of it: terms with their weights.
pub(crate) fn weigh<'a>(
    hard_pod_affinity_weight: i64,
    pod: &'a PodInfo,
    other: &'a PodInfo,
    listers: &Listers,
    add: &mut impl FnMut(&'a AffinityTerm, i64),
) {
    let wishes = |of: &'a PodInfo| {
        let near = of.preferred_affinity.iter().map(|wish| (&wish.term, wish.weight));
        near.chain(of.preferred_anti_affinity.iter().map(|wish| (&wish.term, -wish.weight)))
    };
    for (term, weight) in wishes(pod) {
        if term.matches(other, listers) {
            add(term, weight);
        }
    }
    if hard_pod_affinity_weight > 0 {
        for term in other.required_affinity.iter().filter(|term| term.matches(pod, listers)) {
            add(term, hard_pod_affinity_weight);
        }
    }
    for (term, weight) in wishes(other) {
        if term.matches(pod, listers) {
            add(term, weight);
        }
    }
}

pub(super) fn pre_score<'a>(
    plugin: &InterPodAffinity,
    pod: &'a PodInfo,
    snapshot: &'a Snapshot,
) -> PreScore<'a> {
    let wishes = !(pod.preferred_affinity.is_empty() && pod.preferred_anti_affinity.is_empty());
    if !wishes && plugin.ignore_preferred_terms_of_existing_pods {
        return PreScore::Skip;
    }
    let listers = &*snapshot.listers;
    let mut weights = Weights::default();
    let mut weigh_on = |node: &'a NodeInfo, others: &'a PodList| {
        for other in others {
            weigh(plugin.hard_pod_affinity_weight, pod, other, listers, &mut |term, weight| {
                weights.add(term, node, weight);
            });
        }
    };
    if wishes {
        snapshot.nodes().iter().for_each(|node| weigh_on(node, &node.pods));
    } else {
        // Only pods that have wishes themselves can matter.
        snapshot.nodes_with_affinity().for_each(|node| weigh_on(node, &node.pods_with_affinity));
    }
    if weights.0.is_empty() {
        return PreScore::Skip;
    }
    let score = move |node: &NodeInfo| {
        let of_key = |(key, values): (&&str, &HashMap<&str, i64>)| {
            node.label(key).and_then(|value| values.get(value)).copied().unwrap_or(0)
        };
        weights.0.iter().map(of_key).sum()
    };
    PreScore::Run(Scorer {
        score: Box::new(score),
        normalize: Normalize::Own(Box::new(|_, scores| {
            let (lowest, highest) =
                (scores.iter().copied().min().unwrap_or(0), scores.iter().copied().max().unwrap_or(0));
            let difference = highest - lowest;
            for score in scores {
                *score = if difference == 0 { 0 } else { MAX_NODE_SCORE * (*score - lowest) / difference };
            }
        })),
    })
}
