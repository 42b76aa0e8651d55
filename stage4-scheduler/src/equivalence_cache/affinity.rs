//! Affinity: InterPodAffinity from sums that follow the nodes.
//!
//! What a node contributes: how many of its pods the newcomer wants near, how many it wants away, which topology keys the
//! anti-affinity of its pods closes to the newcomer, and how its pods and the newcomer's wishes weigh. All of it is known from the node
//! and the newcomer alone, so it changes only when the node does. Per domain it is added up in [`Sums`].
//!
//! The newcomer's own terms have fixed keys. Those of pods that are already there are met while nodes are asked; each new key
//! gets a `Sums` then.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/interpodaffinity`, where `PreFilter` and `PreScore` walk over all nodes.

use super::domains::{NOWHERE, Sums, Topologies};
use crate::framework::{Depends, MAX_NODE_SCORE};
use crate::plugins::inter_pod_affinity::{InterPodAffinity, matches_all, weigh};
use crate::pod_info::PodInfo;
use crate::profile::{Profile, SharedPlugin};
use crate::snapshot::Snapshot;

/// All terms that concern a class.
#[derive(Default)]
pub(super) struct AffinityColumns {
    filter: bool,
    /// Per required affinity term: pods that match all of them.
    near: Vec<Sums>,
    /// Would the pod itself be a neighbour it wants?
    likes_itself: bool,
    /// Per required anti-affinity term: pods that match it.
    apart: Vec<Sums>,
    /// Per key: pods that don't want this one near.
    existing: Vec<(String, Sums)>,
    /// Per key: weights of wishes, in both directions; `None` if nobody's wishes count.
    wishes: Option<Vec<(String, Sums)>>,
    hard_weight: i64,
    /// By node: how many wishes apply, and over all nodes.
    entries: Vec<u32>,
    all_entries: u64,
}

fn plugin<'p>(
    mut plugins: impl Iterator<Item = &'p SharedPlugin>,
    pod: &PodInfo,
) -> Option<&'p InterPodAffinity> {
    plugins.find_map(|plugin| match plugin.depends(pod) {
        Depends::Affinity(plugin) => Some(plugin),
        _ => None,
    })
}

impl AffinityColumns {
    /// True if there is a filter that may refuse a node.
    pub(super) fn filters(&self) -> bool {
        !(self.near.is_empty() && self.apart.is_empty())
            || self.existing.iter().any(|(_, sums)| !sums.is_zero())
    }

    /// True if there is a score.
    pub(super) fn has_scores(&self) -> bool {
        self.all_entries > 0
    }

    pub(super) fn reset(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        snapshot: &Snapshot,
        topologies: &mut Topologies,
    ) {
        let nodes = snapshot.nodes().len();
        let mut sums = |key: &str| Sums::new(topologies.of(key, snapshot), nodes);
        let filter = plugin(profile.filters.iter(), pod).is_some();
        let score = plugin(profile.scores.iter().map(|(plugin, _)| plugin), pod);
        let own = !(pod.preferred_affinity.is_empty() && pod.preferred_anti_affinity.is_empty());
        let scores = score.is_some_and(|plugin| own || !plugin.ignore_preferred_terms_of_existing_pods);
        *self = AffinityColumns {
            filter,
            likes_itself: matches_all(&pod.required_affinity, pod, &snapshot.listers),
            wishes: scores.then(Vec::new),
            hard_weight: score.map_or(0, |plugin| plugin.hard_pod_affinity_weight),
            entries: vec![0; nodes],
            ..AffinityColumns::default()
        };
        if filter {
            self.near = pod.required_affinity.iter().map(|term| sums(&term.topology_key)).collect();
            self.apart = pod.required_anti_affinity.iter().map(|term| sums(&term.topology_key)).collect();
        }
    }

    pub(super) fn ask(
        &mut self,
        pod: &PodInfo,
        snapshot: &Snapshot,
        topologies: &mut Topologies,
        nodes: impl Iterator<Item = u32>,
    ) {
        let listers = &*snapshot.listers;
        let own = !(pod.preferred_affinity.is_empty() && pod.preferred_anti_affinity.is_empty());
        for at in nodes.map(|at| at as usize) {
            let node = &snapshot.nodes()[at];
            if !self.near.is_empty() {
                let all = node
                    .pods
                    .iter()
                    .filter(|other| matches_all(&pod.required_affinity, other, listers))
                    .count();
                self.near.iter_mut().for_each(|sums| sums.set(topologies, at, all as i64));
            }
            for (sums, term) in self.apart.iter_mut().zip(&pod.required_anti_affinity) {
                let matching = node.pods.iter().filter(|other| term.matches(other, listers)).count();
                sums.set(topologies, at, matching as i64);
            }
            let mut by_key: Vec<(&str, i64)> = Vec::new();
            if self.filter {
                for other in &node.pods_with_required_anti_affinity {
                    for term in other.required_anti_affinity.iter().filter(|term| term.matches(pod, listers))
                    {
                        add(&mut by_key, &term.topology_key, 1);
                    }
                }
                set_all(&mut self.existing, topologies, snapshot, at, &by_key);
            }
            let Some(wishes) = &mut self.wishes else { continue };
            by_key.clear();
            let mut entries = 0;
            // Without wishes of its own only pods that have some can matter.
            for other in if own { &node.pods } else { &node.pods_with_affinity } {
                weigh(self.hard_weight, pod, other, listers, &mut |term, weight| {
                    entries += u32::from(node.label(&term.topology_key).is_some());
                    add(&mut by_key, &term.topology_key, weight);
                });
            }
            set_all(wishes, topologies, snapshot, at, &by_key);
            let before = std::mem::replace(&mut self.entries[at], entries);
            self.all_entries = self.all_entries + u64::from(entries) - u64::from(before);
        }
    }

    /// The filter as of now.
    pub(super) fn verdict<'c>(&'c self, topologies: &'c Topologies) -> Verdict<'c> {
        let with_domains = |sums: &'c Sums| (topologies.domains(sums.topology), sums);
        let existing = self.existing.iter().map(|(_, sums)| sums).filter(|sums| !sums.is_zero());
        Verdict {
            // The first of a group that wants to be together may go anywhere.
            first_of_group: self.likes_itself && self.near.iter().all(Sums::is_zero),
            near: self.near.iter().map(with_domains).collect(),
            apart: self.apart.iter().filter(|sums| !sums.is_zero()).map(with_domains).collect(),
            existing: existing.map(with_domains).collect(),
        }
    }

    /// The scores of these nodes, 0 to 100.
    pub(super) fn scores(&self, topologies: &Topologies, feasible: &[u32]) -> Vec<i64> {
        let mut scores = vec![0; feasible.len()];
        for (_, sums) in self.wishes.iter().flatten() {
            let domains = topologies.domains(sums.topology);
            for (score, at) in scores.iter_mut().zip(feasible) {
                *score += sums.total(domains[*at as usize]);
            }
        }
        let lowest = scores.iter().copied().min().unwrap_or(0);
        let difference = scores.iter().copied().max().unwrap_or(0) - lowest;
        for score in &mut scores {
            *score = if difference == 0 { 0 } else { MAX_NODE_SCORE * (*score - lowest) / difference };
        }
        scores
    }
}

fn add<'k>(by_key: &mut Vec<(&'k str, i64)>, key: &'k str, weight: i64) {
    match by_key.iter_mut().find(|(known, _)| *known == key) {
        Some((_, sum)) => *sum += weight,
        None => by_key.push((key, weight)),
    }
}

/// Sets a node's part of every key's sums; keys met first get theirs.
fn set_all(
    slots: &mut Vec<(String, Sums)>,
    topologies: &mut Topologies,
    snapshot: &Snapshot,
    at: usize,
    by_key: &[(&str, i64)],
) {
    for (key, _) in by_key {
        if !slots.iter().any(|(known, _)| known == key) {
            let sums = Sums::new(topologies.of(key, snapshot), snapshot.nodes().len());
            slots.push(((*key).to_owned(), sums));
        }
    }
    for (key, sums) in slots {
        let part = by_key.iter().find(|(known, _)| known == key).map_or(0, |(_, sum)| *sum);
        sums.set(topologies, at, part);
    }
}

/// What the filter says of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Objection {
    /// Nobody wanted is near.
    Affinity,
    /// Somebody unwanted is near.
    AntiAffinity,
    /// Somebody near doesn't want this pod.
    Existing,
}

/// The filter, ready to be asked.
pub(super) struct Verdict<'c> {
    near: Vec<(&'c [u32], &'c Sums)>,
    first_of_group: bool,
    apart: Vec<(&'c [u32], &'c Sums)>,
    existing: Vec<(&'c [u32], &'c Sums)>,
}

impl Verdict<'_> {
    /// The first objection to the node at this position.
    pub(super) fn check(&self, at: usize) -> Option<Objection> {
        let mut near = true;
        for (domains, sums) in &self.near {
            if domains[at] == NOWHERE {
                return Some(Objection::Affinity);
            }
            near &= sums.total(domains[at]) > 0;
        }
        let anybody =
            |rules: &[(&[u32], &Sums)]| rules.iter().any(|(domains, sums)| sums.total(domains[at]) > 0);
        if !(near || self.first_of_group) {
            Some(Objection::Affinity)
        } else if anybody(&self.apart) {
            Some(Objection::AntiAffinity)
        } else if anybody(&self.existing) {
            Some(Objection::Existing)
        } else {
            None
        }
    }
}
