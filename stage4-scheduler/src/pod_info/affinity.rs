//! Affinity terms and spread constraints of a pod, parsed.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/types.go` (`AffinityTerm`),
//! `pkg/scheduler/framework/plugins/podtopologyspread/common.go` (`topologySpreadConstraint`).

use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use stage1_kubectl::selector::LabelSelector;

use super::{PodInfo, selector};
use crate::listers::Listers;

/// "Pods like these, in the same domain of this topology".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AffinityTerm {
    namespaces: Vec<String>,
    namespace_selector: Option<LabelSelector>,
    selector: LabelSelector,
    /// The node label whose value is the domain.
    pub topology_key: String,
}

impl AffinityTerm {
    pub(super) fn parse(term: &api::PodAffinityTerm, pod: &api::Pod) -> Self {
        let mut namespaces = term.namespaces.clone().unwrap_or_default();
        // No namespace named in any way: the pod's own.
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.extend(pod.metadata.namespace.clone());
        }
        let merged = with_label_keys(&term.label_selector, &term.match_label_keys, "In", pod);
        let merged = with_label_keys(&merged, &term.mismatch_label_keys, "NotIn", pod);
        AffinityTerm {
            namespaces,
            namespace_selector: term.namespace_selector.as_ref().map(|s| selector(Some(s))),
            selector: selector(merged.as_ref()),
            topology_key: term.topology_key.clone(),
        }
    }

    /// Is the other pod one of those that the term means?
    pub fn matches(&self, other: &PodInfo, listers: &Listers) -> bool {
        let namespace = other.namespace();
        let in_namespace = self.namespaces.iter().any(|name| name == namespace)
            || self
                .namespace_selector
                .as_ref()
                .is_some_and(|s| s.matches(listers.namespace_labels(namespace)));
        in_namespace && self.selector.matches(other.labels())
    }

    /// Like `matches` without knowing the labels of namespaces: true if in doubt.
    pub fn could_match(&self, other: &PodInfo) -> bool {
        (self.namespace_selector.is_some() || self.namespaces.iter().any(|name| name == other.namespace()))
            && self.selector.matches(other.labels())
    }
}

/// An affinity term that is a wish, with its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedAffinityTerm {
    /// 1 to 100.
    pub weight: i64,
    /// The wish.
    pub term: AffinityTerm,
}

impl WeightedAffinityTerm {
    pub(super) fn parse(term: &api::WeightedPodAffinityTerm, pod: &api::Pod) -> Self {
        WeightedAffinityTerm {
            weight: i64::from(term.weight),
            term: AffinityTerm::parse(&term.pod_affinity_term, pod),
        }
    }
}

/// One entry of `topologySpreadConstraints`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadConstraint {
    /// How far a domain may be ahead of the emptiest one.
    pub max_skew: i64,
    /// The node label whose value is the domain.
    pub topology_key: String,
    /// Which pods count.
    pub selector: LabelSelector,
    /// With fewer domains than this the emptiest counts as 0.
    pub min_domains: usize,
    /// Only nodes that the pod's node affinity allows count.
    pub honors_node_affinity: bool,
    /// Only nodes whose taints the pod tolerates count.
    pub honors_node_taints: bool,
    /// `DoNotSchedule` (a filter), else `ScheduleAnyway` (a score).
    pub hard: bool,
}

impl SpreadConstraint {
    /// Reads one constraint of this pod.
    pub fn parse(constraint: &api::TopologySpreadConstraint, pod: &api::Pod) -> Self {
        let merged = with_label_keys(&constraint.label_selector, &constraint.match_label_keys, "In", pod);
        SpreadConstraint {
            max_skew: i64::from(constraint.max_skew),
            topology_key: constraint.topology_key.clone(),
            selector: selector(merged.as_ref()),
            min_domains: constraint.min_domains.and_then(|n| usize::try_from(n).ok()).unwrap_or(1),
            honors_node_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
            honors_node_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
            hard: constraint.when_unsatisfiable == "DoNotSchedule",
        }
    }
}

/// Adds "and the same (or another) value as my own label KEY" for each key that the pod has.
fn with_label_keys(
    selector: &Option<meta::LabelSelector>,
    keys: &Option<Vec<String>>,
    operator: &str,
    pod: &api::Pod,
) -> Option<meta::LabelSelector> {
    let mut merged = selector.clone()?;
    let labels = pod.metadata.labels.as_ref();
    let own = keys.iter().flatten().filter_map(|key| Some((key, labels?.get(key)?)));
    let added: Vec<_> = own
        .map(|(key, value)| meta::LabelSelectorRequirement {
            key: key.clone(),
            operator: operator.to_owned(),
            values: Some(vec![value.clone()]),
        })
        .collect();
    if !added.is_empty() {
        merged.match_expressions.get_or_insert_default().extend(added);
    }
    Some(merged)
}
