//! Validation of plugin arguments.
//!
//! # In Kubernetes
//! `pkg/scheduler/apis/config/validation/validation_pluginargs.go`. As there, the check of NodeResourcesFit's
//! arguments happens when the plugin is made.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{NodeSelectorTerm, TopologySpreadConstraint};

use super::field::{Errors, qualified_name_errors};
use super::plugin_args::PluginArgs;
use super::v1::{KubeSchedulerProfile, NodeResourcesFitArgs, PodTopologySpreadArgs, UtilizationShapePoint};

const STRATEGIES: [&str; 3] = ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"];

/// Checks the settings of every plugin that the profile configures.
pub fn validate(path: &str, profile: &KubeSchedulerProfile, args: &PluginArgs, errors: &mut Errors) {
    for (at, config) in profile.plugin_config.iter().enumerate() {
        let path = format!("{path}.pluginConfig[{at}].args");
        match config.name.as_str() {
            "DefaultPreemption" => default_preemption(&path, args, errors),
            "InterPodAffinity" => {
                let weight = args.inter_pod_affinity.hard_pod_affinity_weight.unwrap_or(1);
                if !(0..=100).contains(&weight) {
                    errors.invalid(
                        format!("{path}.hardPodAffinityWeight"),
                        weight,
                        "not in valid range [0, 100]",
                    );
                }
            }
            "NodeAffinity" => node_affinity(&path, args, errors),
            "NodeResourcesBalancedAllocation" => balanced_allocation(&path, args, errors),
            "NodeResourcesFit" => node_resources_fit(&path, &args.node_resources_fit, errors),
            "PodTopologySpread" => pod_topology_spread(&path, &args.pod_topology_spread, errors),
            "VolumeBinding" => {
                let seconds = args.volume_binding.bind_timeout_seconds.unwrap_or(0);
                if seconds < 0 {
                    errors.invalid(
                        format!("{path}.bindTimeoutSeconds"),
                        seconds,
                        "invalid BindTimeoutSeconds, should not be a negative value",
                    );
                }
                if let Some(shape) = &args.volume_binding.shape {
                    let shape = serde_json::to_value(shape).unwrap_or_default();
                    errors.invalid(
                        format!("{path}.shape"),
                        &shape,
                        "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring",
                    );
                }
            }
            _ => {}
        }
    }
}

fn default_preemption(path: &str, args: &PluginArgs, errors: &mut Errors) {
    let percentage = args.default_preemption.min_candidate_nodes_percentage.unwrap_or(0);
    let absolute = args.default_preemption.min_candidate_nodes_absolute.unwrap_or(0);
    let (of_percentage, of_absolute) =
        (format!("{path}.minCandidateNodesPercentage"), format!("{path}.minCandidateNodesAbsolute"));
    if !(0..=100).contains(&percentage) {
        errors.invalid(&of_percentage, percentage, "not in valid range [0, 100]");
    }
    if absolute < 0 {
        errors.invalid(&of_absolute, absolute, "not in valid range [0, inf)");
    }
    if percentage == 0 && absolute == 0 {
        errors.invalid(
            of_percentage,
            percentage,
            "cannot be zero at the same time as minCandidateNodesAbsolute",
        );
        errors.invalid(
            of_absolute,
            absolute,
            "cannot be zero at the same time as minCandidateNodesPercentage",
        );
    }
}

fn node_affinity(path: &str, args: &PluginArgs, errors: &mut Errors) {
    let Some(affinity) = &args.node_affinity.added_affinity else { return };
    if let Some(required) = &affinity.required_during_scheduling_ignored_during_execution {
        for (at, term) in required.node_selector_terms.iter().enumerate() {
            let path = format!(
                "{path}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{at}]"
            );
            node_selector_term(&path, term, errors);
        }
    }
    for (at, wish) in
        affinity.preferred_during_scheduling_ignored_during_execution.iter().flatten().enumerate()
    {
        let path = format!("{path}.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[{at}]");
        node_selector_term(&path, &wish.preference, errors);
    }
}

fn node_selector_term(path: &str, term: &NodeSelectorTerm, errors: &mut Errors) {
    for (at, requirement) in term.match_expressions.iter().flatten().enumerate() {
        let path = format!("{path}.matchExpressions[{at}]");
        let values = requirement.values.as_deref().unwrap_or_default();
        match requirement.operator.as_str() {
            "In" | "NotIn" if values.is_empty() => {
                errors.invalid(
                    format!("{path}.values"),
                    &serde_json::json!(values),
                    "for 'in', 'notin' operators, values set can't be empty",
                );
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.invalid(
                    format!("{path}.values"),
                    &serde_json::json!(values),
                    "values set must be empty for exists and does not exist",
                );
            }
            "Gt" | "Lt" if values.len() != 1 => {
                errors.invalid(
                    format!("{path}.values"),
                    &serde_json::json!(values),
                    "for 'Gt', 'Lt' operators, exactly one value is required",
                );
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => errors.not_supported(
                format!("{path}.operator"),
                other,
                &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"],
            ),
        }
        for why in qualified_name_errors(&requirement.key) {
            errors.invalid(format!("{path}.key"), &requirement.key, why);
        }
    }
    for (at, requirement) in term.match_fields.iter().flatten().enumerate() {
        let path = format!("{path}.matchFields[{at}]");
        if requirement.key != "metadata.name" {
            errors.not_supported(format!("{path}.key"), &requirement.key, &["metadata.name"]);
        }
        if requirement.values.as_ref().is_none_or(|values| values.len() != 1) {
            errors.required(format!("{path}.values"), "must have one element");
        }
    }
}

fn balanced_allocation(path: &str, args: &PluginArgs, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (at, resource) in args.balanced_allocation.resources.iter().enumerate() {
        if !seen.insert(&resource.name) {
            errors.duplicate(format!("{path}.resources[{at}].name"), &resource.name);
        }
        if resource.weight != 1 {
            errors.invalid(format!("{path}.resources[{at}].weight"), resource.weight, "must be 1");
        }
    }
}

fn node_resources_fit(path: &str, args: &NodeResourcesFitArgs, errors: &mut Errors) {
    for (at, name) in args.ignored_resources.iter().enumerate() {
        for why in qualified_name_errors(name) {
            errors.invalid(format!("{path}.ignoredResources[{at}]"), name, why);
        }
    }
    for (at, group) in args.ignored_resource_groups.iter().enumerate() {
        let path = format!("{path}.ignoredResourceGroups[{at}]");
        if group.contains('/') {
            errors.invalid(&path, group, "resource group name can't contain '/'");
        }
        for why in qualified_name_errors(group) {
            errors.invalid(&path, group, why);
        }
    }
    let Some(strategy) = &args.scoring_strategy else { return };
    let path = format!("{path}.scoringStrategy");
    if !STRATEGIES.contains(&&*strategy.type_) {
        errors.not_supported(format!("{path}.type"), &strategy.type_, &STRATEGIES);
    }
    for (at, resource) in strategy.resources.iter().enumerate() {
        if !(1..=100).contains(&resource.weight) {
            let detail = format!("resource weight of {} not in valid range (0, 100]", resource.name);
            errors.invalid(format!("{path}.resources[{at}].weight"), resource.weight, detail);
        }
    }
    let curve = format!("{path}.requestedToCapacityRatio");
    match &strategy.requested_to_capacity_ratio {
        Some(ratio) if strategy.type_ == STRATEGIES[2] => {
            shape(&format!("{curve}.shape"), &ratio.shape, errors)
        }
        None if strategy.type_ == STRATEGIES[2] => {
            errors.required(curve, "must be specified when type is RequestedToCapacityRatio");
        }
        Some(_) => errors.forbidden(curve, "must be nil when type is not RequestedToCapacityRatio"),
        None => {}
    }
}

fn shape(path: &str, points: &[UtilizationShapePoint], errors: &mut Errors) {
    if points.is_empty() {
        return errors.required(path, "at least one point must be specified");
    }
    let unsorted = points.windows(2).position(|pair| pair[0].utilization >= pair[1].utilization);
    if let Some(at) = unsorted.map(|at| at + 1) {
        errors.invalid(
            format!("{path}[{at}].utilization"),
            points[at].utilization,
            "values must be sorted in increasing order",
        );
    }
    for (at, point) in points.iter().enumerate() {
        if !(0..=100).contains(&point.utilization) {
            let path = format!("{path}[{at}].utilization");
            errors.invalid(path, point.utilization, "not in valid range [0, 100]");
        }
        if !(0..=10).contains(&point.score) {
            errors.invalid(format!("{path}[{at}].score"), point.score, "not in valid range [0, 10]");
        }
    }
}

fn pod_topology_spread(path: &str, args: &PodTopologySpreadArgs, errors: &mut Errors) {
    let defaulting = args.defaulting_type.as_str();
    if !["System", "List"].contains(&defaulting) {
        errors.not_supported(format!("{path}.defaultingType"), defaulting, &["System", "List"]);
    } else if defaulting == "System" && !args.default_constraints.is_empty() {
        errors.invalid(
            format!("{path}.defaultingType"),
            defaulting,
            "when .defaultConstraints are not empty",
        );
    }
    for (at, constraint) in args.default_constraints.iter().enumerate() {
        spread_constraint(&format!("{path}.defaultConstraints[{at}]"), constraint, errors);
        let same = |other: &&TopologySpreadConstraint| {
            other.topology_key == constraint.topology_key
                && other.when_unsatisfiable == constraint.when_unsatisfiable
        };
        if args.default_constraints[..at].iter().any(|other| same(&other)) {
            let shown = format!("{{{}, {}}}", constraint.topology_key, constraint.when_unsatisfiable);
            errors.duplicate(format!("{path}.defaultConstraints[{at}]"), &shown);
        }
    }
}

fn spread_constraint(path: &str, constraint: &TopologySpreadConstraint, errors: &mut Errors) {
    if constraint.max_skew <= 0 {
        errors.invalid(format!("{path}.maxSkew"), constraint.max_skew, "not in valid range (0, inf)");
    }
    if constraint.topology_key.is_empty() {
        errors.required(format!("{path}.topologyKey"), "can not be empty");
    } else {
        for why in qualified_name_errors(&constraint.topology_key) {
            errors.invalid(format!("{path}.topologyKey"), &constraint.topology_key, why);
        }
    }
    let action = constraint.when_unsatisfiable.as_str();
    if action.is_empty() {
        errors.required(format!("{path}.whenUnsatisfiable"), "can not be empty");
    } else if !["DoNotSchedule", "ScheduleAnyway"].contains(&action) {
        errors.not_supported(
            format!("{path}.whenUnsatisfiable"),
            action,
            &["DoNotSchedule", "ScheduleAnyway"],
        );
    }
    if constraint.label_selector.is_some() {
        let why = "constraint must not define a selector, as they deduced for each pod";
        errors.forbidden(format!("{path}.labelSelector"), why);
    }
}
