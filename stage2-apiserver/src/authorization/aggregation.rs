//! Aggregation: a ClusterRole made of others.
//!
//! `admin`, `edit` and `view` have no rules of their own: they are the union of all ClusterRoles with certain labels, so that an
//! add-on can extend them. This is the union; the loop that writes it is the controller manager's.
//!
//! # In Kubernetes
//! `pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as MatchSelector;
use serde::Deserialize;
use stage1_kubectl::object::Object;
use stage1_kubectl::selector::LabelSelector;

use super::rules::{PolicyRule, rules_of};

/// The rules that an aggregated ClusterRole should have, given all ClusterRoles; `None` when it has no aggregation rule.
pub fn aggregated_rules<'a>(
    role: &Object,
    all: impl IntoIterator<Item = &'a Object> + Clone,
) -> Option<Vec<PolicyRule>> {
    let selectors = role.get("/aggregationRule/clusterRoleSelectors")?.as_array()?;
    let mut rules = Vec::new();
    for selector in selectors {
        let Ok(selector) = MatchSelector::deserialize(selector) else { continue };
        let Ok(selector) = LabelSelector::from_match(&selector) else { continue };
        let mut chosen: Vec<&Object> = all
            .clone()
            .into_iter()
            .filter(|other| other.name() != role.name() && selector.matches(&other.labels()))
            .collect();
        chosen.sort_by(|a, b| a.name().cmp(b.name()));
        for rule in chosen.into_iter().flat_map(rules_of) {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    Some(rules)
}
