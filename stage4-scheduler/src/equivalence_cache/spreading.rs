//! Spreading: PodTopologySpread from sums that follow the nodes.
//!
//! For each constraint a node contributes the number of its pods that the selector counts, and whether it counts at all (the
//! node inclusion policies). Per domain those parts are added up; the filter compares a domain's sum with the smallest
//! one, the score grades by it. Both come out of [`crate::plugins::pod_topology_spread`]; here they are read from columns.
//!
//! # Invariants
//! 1. A domain exists for a hard constraint as long as one of its nodes counts, even with no pod in it.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/podtopologyspread`, where `PreFilter` walks over all nodes.

use super::domains::{NOWHERE, Topologies};
use crate::framework::{Depends, MAX_NODE_SCORE};
use crate::plugins::pod_topology_spread::{Constraint, HOSTNAME, PodTopologySpread, counts, has_all_keys};
use crate::pod_info::PodInfo;
use crate::profile::{Profile, SharedPlugin};
use crate::snapshot::Snapshot;

/// All constraints of a class.
#[derive(Default)]
pub(super) struct SpreadColumns {
    hard: Vec<Column>,
    soft: Vec<Column>,
    /// The soft constraints are the system's: nodes without their keys count, too.
    system: bool,
}

/// One constraint.
struct Column {
    topology: usize,
    hostname: bool,
    max_skew: i64,
    min_domains: usize,
    /// 1 if the pod itself will count.
    itself: i64,
    /// By node: pods that count, if the node does.
    matching: Vec<i64>,
    included: Vec<bool>,
    /// By domain: sum of `matching` over included nodes, and their number.
    totals: Vec<i64>,
    members: Vec<u32>,
    /// Domains with members.
    domains: usize,
}

impl Column {
    fn new(
        constraint: &Constraint<'_>,
        pod: &PodInfo,
        snapshot: &Snapshot,
        topologies: &mut Topologies,
    ) -> Self {
        let nodes = snapshot.nodes().len();
        Column {
            topology: topologies.of(constraint.key, snapshot),
            hostname: constraint.key == HOSTNAME,
            max_skew: constraint.max_skew,
            min_domains: constraint.min_domains,
            itself: i64::from(constraint.matches(pod)),
            matching: vec![0; nodes],
            included: vec![false; nodes],
            totals: Vec::new(),
            members: Vec::new(),
            domains: 0,
        }
    }

    fn set(&mut self, topologies: &Topologies, at: usize, matching: i64, included: bool) {
        let domain = topologies.domains(self.topology)[at];
        let before = (std::mem::replace(&mut self.matching[at], matching), self.included[at]);
        self.included[at] = included;
        if domain == NOWHERE {
            return;
        }
        let domain = domain as usize;
        if self.totals.len() <= domain {
            self.totals.resize(domain + 1, 0);
            self.members.resize(domain + 1, 0);
        }
        let existed = self.members[domain] > 0;
        if before.1 {
            self.totals[domain] -= before.0;
            self.members[domain] -= 1;
        }
        if included {
            self.totals[domain] += matching;
            self.members[domain] += 1;
        }
        let exists = self.members[domain] > 0;
        self.domains = self.domains + usize::from(exists) - usize::from(existed);
    }

    fn total(&self, domain: u32) -> i64 {
        self.totals.get(domain as usize).copied().unwrap_or(0)
    }

    /// The emptiest domain's sum.
    fn minimum(&self) -> i64 {
        if self.domains < self.min_domains {
            return 0;
        }
        let existing = self.totals.iter().zip(&self.members).filter(|(_, members)| **members > 0);
        existing.map(|(total, _)| *total).min().unwrap_or(i64::from(i32::MAX))
    }
}

fn plugin<'p>(
    mut plugins: impl Iterator<Item = &'p SharedPlugin>,
    pod: &PodInfo,
) -> Option<&'p PodTopologySpread> {
    plugins.find_map(|plugin| match plugin.depends(pod) {
        Depends::Spread(plugin) => Some(plugin),
        _ => None,
    })
}

/// The hard and the soft constraints, and whether the latter are the system's.
fn constraints<'a>(
    profile: &'a Profile,
    pod: &'a PodInfo,
    snapshot: &Snapshot,
) -> (Vec<Constraint<'a>>, Vec<Constraint<'a>>, bool) {
    let filter = plugin(profile.filters.iter(), pod);
    let score = plugin(profile.scores.iter().map(|(plugin, _)| plugin), pod);
    let hard = filter.map(|plugin| plugin.constraints(pod, snapshot, true).0).unwrap_or_default();
    let (soft, system) = score.map(|plugin| plugin.constraints(pod, snapshot, false)).unwrap_or_default();
    (hard, soft, system)
}

impl SpreadColumns {
    /// True if there is a filter.
    pub(super) fn has_hard(&self) -> bool {
        !self.hard.is_empty()
    }

    /// True if there is a score.
    pub(super) fn has_soft(&self) -> bool {
        !self.soft.is_empty()
    }

    pub(super) fn reset(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        snapshot: &Snapshot,
        topologies: &mut Topologies,
    ) {
        let (hard, soft, system) = constraints(profile, pod, snapshot);
        self.system = system;
        self.hard =
            hard.iter().map(|constraint| Column::new(constraint, pod, snapshot, topologies)).collect();
        self.soft =
            soft.iter().map(|constraint| Column::new(constraint, pod, snapshot, topologies)).collect();
    }

    pub(super) fn ask(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        snapshot: &Snapshot,
        topologies: &Topologies,
        nodes: impl Iterator<Item = u32>,
    ) {
        if self.hard.is_empty() && self.soft.is_empty() {
            return;
        }
        let (hard, soft, system) = constraints(profile, pod, snapshot);
        for at in nodes.map(|at| at as usize) {
            let node = &snapshot.nodes()[at];
            let set = |columns: &mut [Column], constraints: &[Constraint<'_>], keyed: bool| {
                for (column, constraint) in columns.iter_mut().zip(constraints) {
                    let matching =
                        node.pods.iter().filter(|other| counts(constraint, pod.namespace(), other)).count();
                    let included = keyed && constraint.includes(pod, node);
                    column.set(topologies, at, matching as i64, included);
                }
            };
            set(&mut self.hard, &hard, has_all_keys(node, &hard));
            set(&mut self.soft, &soft, system || has_all_keys(node, &soft));
        }
    }

    /// The filter as of now.
    pub(super) fn verdict<'c>(&'c self, topologies: &'c Topologies) -> Verdict<'c> {
        let rule = |column: &'c Column| (topologies.domains(column.topology), column, column.minimum());
        Verdict { rules: self.hard.iter().map(rule).collect() }
    }

    /// The scores of these nodes, 0 to 100.
    pub(super) fn scores(&self, topologies: &Topologies, feasible: &[u32]) -> Vec<i64> {
        let domains: Vec<&[u32]> =
            self.soft.iter().map(|column| topologies.domains(column.topology)).collect();
        // A node without the user's keys gets 0; the system's keys are only a suggestion.
        let keyed = |at: u32| self.system || domains.iter().all(|domains| domains[at as usize] != NOWHERE);
        let weights: Vec<f64> = (self.soft.iter().zip(&domains))
            .map(|(column, domains)| {
                let nodes = feasible.iter().filter(|at| keyed(**at));
                let size = if column.hostname {
                    nodes.count()
                } else {
                    different(nodes.map(|at| domains[*at as usize]))
                };
                ((size + 2) as f64).ln()
            })
            .collect();
        let raw = |at: u32| {
            let mut sum = 0.0;
            for ((column, domains), weight) in self.soft.iter().zip(&domains).zip(&weights) {
                let domain = domains[at as usize];
                if domain == NOWHERE {
                    continue;
                }
                let count = if column.hostname { column.matching[at as usize] } else { column.total(domain) };
                sum += count as f64 * weight + (column.max_skew - 1) as f64;
            }
            sum.round() as i64
        };
        let raw: Vec<Option<i64>> = feasible.iter().map(|at| keyed(*at).then(|| raw(*at))).collect();
        let lowest = raw.iter().flatten().copied().min().unwrap_or(0);
        let highest = raw.iter().flatten().copied().max().unwrap_or(0);
        let grade = |raw: &Option<i64>| match raw {
            None => 0,
            Some(_) if highest == 0 => MAX_NODE_SCORE,
            Some(raw) => MAX_NODE_SCORE * (highest + lowest - raw) / highest,
        };
        raw.iter().map(grade).collect()
    }
}

/// How many different domains there are.
fn different(domains: impl Iterator<Item = u32>) -> usize {
    let mut met: Vec<bool> = Vec::new();
    let mut count = 0;
    for domain in domains.filter(|domain| *domain != NOWHERE).map(|domain| domain as usize) {
        if met.len() <= domain {
            met.resize(domain + 1, false);
        }
        count += usize::from(!std::mem::replace(&mut met[domain], true));
    }
    count
}

/// What the filter says of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Objection {
    /// A key is missing.
    MissingLabel,
    /// Its domain would be too far ahead.
    Skew,
}

/// The filter, ready to be asked.
pub(super) struct Verdict<'c> {
    rules: Vec<(&'c [u32], &'c Column, i64)>,
}

impl Verdict<'_> {
    /// The first constraint's objection to the node at this position.
    pub(super) fn check(&self, at: usize) -> Option<Objection> {
        for (domains, column, minimum) in &self.rules {
            match domains[at] {
                NOWHERE => return Some(Objection::MissingLabel),
                domain if column.total(domain) + column.itself - minimum > column.max_skew => {
                    return Some(Objection::Skew);
                }
                _ => {}
            }
        }
        None
    }
}
