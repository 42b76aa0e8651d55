//! PodTopologySpread: the pods of one kind, evenly over zones or nodes.
//!
//! A constraint names a node label (the *topology key*; each of its values is a *domain*), a selector for
//! the pods that count and a `maxSkew`: how far a domain may be ahead of the emptiest one.
//! `DoNotSchedule` makes a filter of it, `ScheduleAnyway` a score. Pods without constraints get gentle
//! default ones (by zone and by node), for the pods that their Service or their controller selects.
//!
//! The subtle thing is "the emptiest one". It is taken over the domains that the pod *could* use: nodes
//! that its node affinity excludes don't count (nor, if asked for, those with taints it doesn't tolerate),
//! and neither do nodes that lack one of the keys. For preemption the counts must change with the pods that
//! are taken away, and the minimum with them: that is why the two emptiest domains are kept, not one.
//!
//! # Invariants
//! 1. A node that passes keeps every hard constraint's skew within `maxSkew`.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/podtopologyspread/{common,filtering,scoring}.go`.

use std::collections::HashMap;

use crate::framework::{ClusterEvent, Depends, Hint, Plugin, PreFilter, PreScore, Status, WhatIf};
use crate::node_info::NodeInfo;
use crate::plugins::taint_toleration::untolerated;
use crate::pod_info::{PodInfo, SpreadConstraint};
use crate::snapshot::Snapshot;

mod scoring;

/// The key whose domains are the nodes themselves.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";

/// The reason that users see.
pub const ERR_REASON: &str = "node(s) didn't match pod topology spread constraints";
/// The reason if the node has no domain at all.
pub const ERR_REASON_LABEL: &str =
    "node(s) didn't match pod topology spread constraints (missing required label)";

/// Constraints for pods that have none of their own.
#[derive(Clone, Debug, Default)]
pub enum Defaults {
    /// Kubernetes': by node with skew 3, by zone with skew 5, both only as a score.
    #[default]
    System,
    /// Those of the configuration file; their selector is filled in per pod.
    List(Vec<SpreadConstraint>),
}

/// Spreads pods over domains.
#[derive(Default)]
pub struct PodTopologySpread {
    /// For pods without constraints.
    pub defaults: Defaults,
}

/// Does this existing pod count for the constraint? Pods that are ending don't.
pub(crate) fn counts(constraint: &Constraint<'_>, namespace: &str, other: &PodInfo) -> bool {
    !constraint.selects_all
        && !other.is_terminating()
        && other.namespace() == namespace
        && constraint.matches(other)
}

/// A constraint with its effective selectors.
pub(crate) struct Constraint<'a> {
    pub(crate) max_skew: i64,
    pub(crate) key: &'a str,
    pub(crate) min_domains: usize,
    honors_affinity: bool,
    honors_taints: bool,
    own: Option<&'a stage1_kubectl::selector::LabelSelector>,
    default: Vec<stage1_kubectl::selector::LabelSelector>,
    /// An empty selector counts nothing (sic).
    selects_all: bool,
}

impl<'a> Constraint<'a> {
    pub(super) fn own(constraint: &'a SpreadConstraint) -> Self {
        Constraint {
            max_skew: constraint.max_skew,
            key: &constraint.topology_key,
            min_domains: constraint.min_domains,
            honors_affinity: constraint.honors_node_affinity,
            honors_taints: constraint.honors_node_taints,
            own: Some(&constraint.selector),
            default: Vec::new(),
            selects_all: constraint.selector.is_empty(),
        }
    }

    pub(super) fn default(
        key: &'a str,
        max_skew: i64,
        selectors: Vec<stage1_kubectl::selector::LabelSelector>,
    ) -> Self {
        Constraint {
            max_skew,
            key,
            min_domains: 1,
            honors_affinity: true,
            honors_taints: false,
            own: None,
            default: selectors,
            selects_all: false,
        }
    }

    pub(crate) fn matches(&self, other: &PodInfo) -> bool {
        self.own.is_none_or(|selector| selector.matches(other.labels()))
            && self.default.iter().all(|selector| selector.matches(other.labels()))
    }

    /// Do pods on this node count?
    pub(crate) fn includes(&self, pod: &PodInfo, node: &NodeInfo) -> bool {
        (!self.honors_affinity || pod.node_affinity.matches(&node.name, node.labels()))
            && (!self.honors_taints || untolerated(node.taints(), pod.tolerations()).is_none())
    }
}

impl PodTopologySpread {
    /// The pod's hard (or soft) constraints, or the default ones. The flag: they are the system's.
    pub(crate) fn constraints<'a>(
        &'a self,
        pod: &'a PodInfo,
        snapshot: &Snapshot,
        hard: bool,
    ) -> (Vec<Constraint<'a>>, bool) {
        if !pod.spread.is_empty() {
            return (pod.spread.iter().filter(|c| c.hard == hard).map(Constraint::own).collect(), false);
        }
        let system = matches!(self.defaults, Defaults::System);
        if system && hard {
            return (Vec::new(), true);
        }
        let selectors = snapshot.listers.default_selectors(pod);
        if selectors.is_empty() {
            return (Vec::new(), system);
        }
        let list = match &self.defaults {
            Defaults::System => vec![
                Constraint::default("kubernetes.io/hostname", 3, selectors.clone()),
                Constraint::default("topology.kubernetes.io/zone", 5, selectors),
            ],
            Defaults::List(list) => list
                .iter()
                .filter(|c| c.hard == hard)
                .map(|c| Constraint {
                    own: None,
                    default: selectors.clone(),
                    selects_all: false,
                    ..Constraint::own(c)
                })
                .collect(),
        };
        (list, system)
    }
}

pub(crate) fn has_all_keys(node: &NodeInfo, constraints: &[Constraint<'_>]) -> bool {
    constraints.iter().all(|constraint| node.labels().contains_key(constraint.key))
}

/// Pods per domain of one constraint, and the two emptiest domains.
struct Domains<'a> {
    counts: HashMap<&'a str, i64>,
    emptiest: [(&'a str, i64); 2],
}

impl<'a> Domains<'a> {
    fn new(counts: HashMap<&'a str, i64>) -> Self {
        let mut emptiest = [("", i64::from(i32::MAX)); 2];
        for (&domain, &count) in &counts {
            if count < emptiest[0].1 {
                emptiest = [(domain, count), emptiest[0]];
            } else if count < emptiest[1].1 {
                emptiest[1] = (domain, count);
            }
        }
        Domains { counts, emptiest }
    }

    /// The smallest count, if `domain` had `change` more.
    fn minimum(&self, min_domains: usize, domain: &str, change: i64) -> i64 {
        if self.counts.len() < min_domains {
            return 0;
        }
        let [first, second] = self.emptiest;
        match self.counts.get(domain) {
            Some(count) if change != 0 => {
                let others = if first.0 == domain { second.1 } else { first.1 };
                others.min(count + change)
            }
            _ => first.1,
        }
    }
}

// ANCHOR: spread-filter
fn check(
    pod: &PodInfo,
    constraints: &[Constraint<'_>],
    domains: &[Domains<'_>],
    node: &NodeInfo,
    what_if: &WhatIf<'_>,
) -> Status {
    let counted = !what_if.is_nothing() && has_all_keys(node, constraints);
    for (constraint, domains) in constraints.iter().zip(domains) {
        let Some(domain) = node.label(constraint.key) else { return Status::unresolvable(ERR_REASON_LABEL) };
        let change = if counted && constraint.includes(pod, node) {
            what_if.difference(|other| i64::from(counts(constraint, pod.namespace(), other)))
        } else {
            0
        };
        let here = domains.counts.get(domain).copied().unwrap_or(0) + change;
        let itself = i64::from(constraint.matches(pod));
        if here + itself - domains.minimum(constraint.min_domains, domain, change) > constraint.max_skew {
            return Status::unschedulable(ERR_REASON);
        }
    }
    Status::success()
}
// ANCHOR_END: spread-filter

impl Plugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn depends(&self, _pod: &PodInfo) -> Depends<'_> {
        Depends::Spread(self)
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> PreFilter<'a> {
        let (constraints, _) = self.constraints(pod, snapshot, true);
        if constraints.is_empty() {
            return PreFilter::Skip;
        }
        let mut found: Vec<HashMap<&str, i64>> = constraints.iter().map(|_| HashMap::new()).collect();
        for node in snapshot.nodes() {
            if !has_all_keys(node, &constraints) {
                continue;
            }
            for (constraint, counted) in constraints.iter().zip(&mut found) {
                if let Some(domain) = node.label(constraint.key).filter(|_| constraint.includes(pod, node)) {
                    let here =
                        node.pods.iter().filter(|other| counts(constraint, pod.namespace(), other)).count();
                    *counted.entry(domain).or_default() += here as i64;
                }
            }
        }
        let domains: Vec<Domains<'_>> = found.into_iter().map(Domains::new).collect();
        PreFilter::Run(Box::new(move |node, what_if| check(pod, &constraints, &domains, node, what_if)))
    }

    fn pre_score<'a>(
        &'a self,
        pod: &'a PodInfo,
        snapshot: &'a Snapshot,
        feasible: &[&NodeInfo],
    ) -> PreScore<'a> {
        scoring::pre_score(self, pod, snapshot, feasible)
    }

    fn hint(&self, pod: &PodInfo, event: &ClusterEvent) -> Hint {
        let hard = || pod.spread.iter().filter(|constraint| constraint.hard);
        let moved =
            |old: &NodeInfo, new: &NodeInfo| old.labels() != new.labels() || old.taints() != new.taints();
        // Which pods count for default constraints depends on services: any pod of the namespace may.
        let defaults = match &self.defaults {
            Defaults::List(list) if pod.spread.is_empty() => list.iter().any(|constraint| constraint.hard),
            _ => false,
        };
        if defaults {
            return match event {
                ClusterEvent::AssignedPodAdded(other) | ClusterEvent::AssignedPodDeleted(other) => {
                    Hint::queue_if(other.namespace() == pod.namespace())
                }
                ClusterEvent::ObjectChanged(kind, _) => Hint::queue_if(*kind == "Service"),
                ClusterEvent::NodeUpdated { old, new } => Hint::queue_if(moved(old, new)),
                _ => Hint::Queue,
            };
        }
        let concerns = |other: &PodInfo| {
            other.namespace() == pod.namespace() && hard().any(|c| c.selector.matches(other.labels()))
        };
        let keyed = |node: &NodeInfo| hard().all(|c| node.labels().contains_key(&c.topology_key));
        match event {
            ClusterEvent::AssignedPodAdded(other) | ClusterEvent::AssignedPodDeleted(other) => {
                Hint::queue_if(concerns(other))
            }
            ClusterEvent::AssignedPodUpdated { old, new } => {
                Hint::queue_if(concerns(old) != concerns(new) || (concerns(new) && new.is_terminating()))
            }
            ClusterEvent::NodeAdded(node) | ClusterEvent::NodeDeleted(node) => Hint::queue_if(keyed(node)),
            ClusterEvent::NodeUpdated { old, new } => {
                Hint::queue_if((keyed(old) || keyed(new)) && moved(old, new))
            }
            ClusterEvent::PodUpdated(_) => Hint::Queue,
            _ => Hint::Skip,
        }
    }

    fn explain(&self, pod: &PodInfo, node: &NodeInfo, snapshot: &Snapshot) -> Option<String> {
        let (constraints, _) = self.constraints(pod, snapshot, true);
        let mut shown = Vec::new();
        for constraint in &constraints {
            let key = constraint.key;
            let Some(domain) = node.label(key) else {
                shown.push(format!("no label {key}"));
                continue;
            };
            let mut found: std::collections::BTreeMap<&str, i64> = Default::default();
            for other in snapshot.nodes().iter().filter(|other| has_all_keys(other, &constraints)) {
                if let Some(domain) = other.label(key).filter(|_| constraint.includes(pod, other)) {
                    let here = other.pods.iter().filter(|other| counts(constraint, pod.namespace(), other));
                    *found.entry(domain).or_default() += here.count() as i64;
                }
            }
            let here = found.get(domain).copied().unwrap_or(0);
            let least = if found.len() < constraint.min_domains {
                0
            } else {
                found.values().copied().min().unwrap_or(0)
            };
            let skew = here + i64::from(constraint.matches(pod)) - least;
            if skew > constraint.max_skew {
                let max = constraint.max_skew;
                shown.push(format!("{key}={domain} has {here} pod(s), the emptiest of {} domain(s) counts {least}: skew {skew}, maxSkew {max}", found.len()));
            }
        }
        Some(shown.join("; "))
    }
}
