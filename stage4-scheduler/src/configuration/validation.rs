//! Validation of the configuration file: what its fields must not be.
//!
//! Everything that is wrong is said at once, in Kubernetes' words and with the field's path, so that a file is
//! mended in one go. It is checked after the defaults are filled in: an absent field is never wrong.
//!
//! # In Kubernetes
//! `pkg/scheduler/apis/config/validation/validation.go`, `component-base/config/validation/validation.go`.

use std::collections::{BTreeMap, BTreeSet};

use super::field::{Errors, qualified_name_errors};
use super::plugin_args::PluginArgs;
use super::v1::{self, KubeSchedulerConfiguration, PluginSet, Plugins};
use super::{API_VERSION, duration};

/// Plugins that are gone, their work being done by NodeVolumeLimits.
const INVALID_PLUGINS: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];

/// All that is wrong with a file whose defaults are filled in; `args` are those of its profiles.
pub fn validate(config: &KubeSchedulerConfiguration, args: &[PluginArgs]) -> Errors {
    let mut errors = Errors::new();
    if config.client_connection.burst < 0 {
        errors.invalid("clientConnection.burst", config.client_connection.burst, "must be non-negative");
    }
    leader_election(&config.leader_election, &mut errors);
    let parallelism = config.parallelism.unwrap_or(0);
    if parallelism <= 0 {
        errors.invalid("parallelism", parallelism, "should be an integer value greater than zero");
    }
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, profile) in config.profiles.iter().enumerate() {
        let path = format!("profiles[{at}]");
        let name = profile.scheduler_name.as_deref().unwrap_or("");
        if name.is_empty() {
            errors.required(format!("{path}.schedulerName"), "");
        }
        percentage(
            &format!("{path}.percentageOfNodesToScore"),
            profile.percentage_of_nodes_to_score,
            &mut errors,
        );
        plugin_sets(&path, profile.plugins.as_ref(), &mut errors);
        plugin_configs(&path, profile, &mut errors);
        if let Some(args) = args.get(at) {
            super::plugin_args_validation::validate(&path, profile, args, &mut errors);
        }
        if let Some(first) = names.get(name) {
            errors.duplicate(format!("{path}.schedulerName"), &format!("profiles[{first}].schedulerName"));
        }
        names.insert(name, at);
    }
    queue_sort(&config.profiles, &mut errors);
    percentage("percentageOfNodesToScore", config.percentage_of_nodes_to_score, &mut errors);
    let (initial, max) =
        (config.pod_initial_backoff_seconds.unwrap_or(0), config.pod_max_backoff_seconds.unwrap_or(0));
    if initial <= 0 {
        errors.invalid("podInitialBackoffSeconds", initial, "must be greater than 0");
    }
    if max < initial {
        errors.invalid(
            "podMaxBackoffSeconds",
            max,
            "must be greater than or equal to PodInitialBackoffSeconds",
        );
    }
    extenders(&config.extenders, &mut errors);
    errors
}

fn leader_election(election: &v1::LeaderElection, errors: &mut Errors) {
    if election.leader_elect != Some(true) {
        return;
    }
    let seconds = |text: &Option<String>| duration(text.as_deref().unwrap_or("")).unwrap_or_default();
    let (lease, renew, retry) = (
        seconds(&election.lease_duration),
        seconds(&election.renew_deadline),
        seconds(&election.retry_period),
    );
    let shown = |text: &Option<String>| text.clone().unwrap_or_default();
    for (name, value, text) in [
        ("leaseDuration", lease, &election.lease_duration),
        ("renewDeadline", renew, &election.renew_deadline),
        ("retryPeriod", retry, &election.retry_period),
    ] {
        if value.is_zero() {
            errors.invalid(format!("leaderElection.{name}"), &shown(text), "must be greater than zero");
        }
    }
    if lease < renew {
        errors.invalid(
            "leaderElection.leaseDuration",
            &shown(&election.renew_deadline),
            "LeaseDuration must be greater than RenewDeadline",
        );
    }
    if renew < retry {
        errors.invalid(
            "leaderElection.renewDeadline",
            &shown(&election.retry_period),
            "RenewDeadline must be greater than RetryPeriod",
        );
    }
    for (name, value) in [
        ("resourceLock", &election.resource_lock),
        ("resourceNamespace", &election.resource_namespace),
        ("resourceName", &election.resource_name),
    ] {
        if value.is_empty() {
            errors.invalid(format!("leaderElection.{name}"), value, format!("{name} is required"));
        }
    }
    if election.resource_lock != "leases" {
        errors.invalid(
            "leaderElection.resourceLock",
            &election.resource_lock,
            "resourceLock value must be \"leases\"",
        );
    }
}

fn percentage(path: &str, value: Option<i32>, errors: &mut Errors) {
    if let Some(value) = value.filter(|value| !(0..=100).contains(value)) {
        errors.invalid(path, value, "not in valid range [0-100]");
    }
}

/// The sets of a profile with the names of their fields.
fn sets(plugins: &Plugins) -> [(&'static str, &PluginSet); 12] {
    [
        ("preEnqueue", &plugins.pre_enqueue),
        ("queueSort", &plugins.queue_sort),
        ("preFilter", &plugins.pre_filter),
        ("filter", &plugins.filter),
        ("postFilter", &plugins.post_filter),
        ("preScore", &plugins.pre_score),
        ("score", &plugins.score),
        ("reserve", &plugins.reserve),
        ("permit", &plugins.permit),
        ("preBind", &plugins.pre_bind),
        ("bind", &plugins.bind),
        ("postBind", &plugins.post_bind),
    ]
}

fn was_invalid() -> String {
    format!(
        "was invalid in version \"{API_VERSION}\" (KubeSchedulerConfiguration is version \"{API_VERSION}\")"
    )
}

fn plugin_sets(path: &str, plugins: Option<&Plugins>, errors: &mut Errors) {
    for (point, set) in plugins.map(sets).into_iter().flatten() {
        for (at, plugin) in set.enabled.iter().enumerate() {
            if INVALID_PLUGINS.contains(&&*plugin.name) {
                errors.invalid(format!("{path}.plugins.{point}.enabled[{at}]"), &plugin.name, was_invalid());
            }
        }
    }
}

fn plugin_configs(path: &str, profile: &v1::KubeSchedulerProfile, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (at, config) in profile.plugin_config.iter().enumerate() {
        let path = format!("{path}.pluginConfig[{at}]");
        if !seen.insert(&config.name) {
            errors.duplicate(&path, &config.name);
        }
        if INVALID_PLUGINS.contains(&&*config.name) {
            errors.invalid(&path, &config.name, was_invalid());
        }
    }
}

/// One queue has one order, whatever the profiles are.
fn queue_sort(profiles: &[v1::KubeSchedulerProfile], errors: &mut Errors) {
    let set = |profile: &v1::KubeSchedulerProfile| {
        profile.plugins.as_ref().map(|plugins| plugins.queue_sort.clone()).unwrap_or_default()
    };
    let Some((first, others)) = profiles.split_first() else { return };
    let canon = set(first);
    if canon.enabled.len() > 1 {
        errors.invalid(
            "profiles[0].plugins.queueSort.Enabled",
            canon.enabled.len(),
            "only one queue sort plugin can be enabled",
        );
    }
    for (at, profile) in others.iter().enumerate() {
        let other = set(profile);
        if other != canon {
            let shown = serde_json::to_value(&other).unwrap_or_default();
            let path = format!("profiles[{}].plugins.queueSort", at + 1);
            errors.invalid(path, &shown, "must be the same for all profiles");
        }
    }
}

fn extenders(extenders: &[v1::Extender], errors: &mut Errors) {
    let mut managed = BTreeSet::new();
    for (at, extender) in extenders.iter().enumerate() {
        let path = format!("extenders[{at}]");
        if !extender.prioritize_verb.is_empty() && extender.weight <= 0 {
            errors.invalid(
                format!("{path}.weight"),
                extender.weight,
                "must have a positive weight applied to it",
            );
        }
        for (number, resource) in extender.managed_resources.iter().enumerate() {
            let path = format!("{path}.managedResources[{number}].name");
            let wrong = qualified_name_errors(&resource.name);
            for why in &wrong {
                errors.invalid(&path, &resource.name, why);
            }
            if wrong.is_empty() && !is_extended_resource_name(&resource.name) {
                errors.invalid(&path, &resource.name, "is an invalid extended resource name");
            }
            if !managed.insert(&resource.name) {
                errors.invalid(&path, &resource.name, "duplicate extender managed resource name");
            }
        }
    }
    let binders = extenders.iter().filter(|extender| !extender.bind_verb.is_empty()).count();
    if binders > 1 {
        let found = format!("found {binders} extenders implementing bind");
        errors.invalid("extenders", &found, "only one extender can implement bind");
    }
}

/// Not Kubernetes' own: with a domain, outside of `kubernetes.io`, no quota's name.
fn is_extended_resource_name(name: &str) -> bool {
    let domain = name.split_once('/').map(|(domain, _)| domain);
    domain.is_some_and(|domain| domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io"))
        && !name.starts_with("requests.")
}
