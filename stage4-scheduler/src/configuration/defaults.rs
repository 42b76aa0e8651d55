//! Defaults of the configuration file: what a field means that isn't there.
//!
//! # In Kubernetes
//! `pkg/scheduler/apis/config/v1/defaults.go`, `component-base/config/v1alpha1/defaults.go`. Other than there, `qps` and
//! `burst` stay 0, which is no limit: API priority and fairness protects the server better than every client's
//! own brake, and Kubernetes' 50 requests a second are what makes its scheduler slow in a small cluster.

use super::v1::{KubeSchedulerConfiguration, KubeSchedulerProfile};

/// How many nodes Kubernetes looks at in parallel.
pub const DEFAULT_PARALLELISM: i32 = 16;

/// Fills in what the file doesn't say (plugin arguments apart: [`super::plugin_args`]).
pub fn fill_in(config: &mut KubeSchedulerConfiguration) {
    config.parallelism.get_or_insert(DEFAULT_PARALLELISM);
    if config.profiles.is_empty() {
        config.profiles.push(KubeSchedulerProfile::default());
    }
    // Of several profiles each must say its name.
    if let [only] = config.profiles.as_mut_slice() {
        only.scheduler_name.get_or_insert_with(|| "default-scheduler".to_owned());
    }
    for profile in &mut config.profiles {
        profile.plugins = Some(super::plugin_sets::merge(profile.plugins.as_ref()));
    }
    config.percentage_of_nodes_to_score.get_or_insert(0);
    let election = &mut config.leader_election;
    election.leader_elect.get_or_insert(true);
    let text = |field: &mut Option<String>, default: &str| {
        if field.as_deref().is_none_or(|text| matches!(text, "" | "0" | "0s")) {
            *field = Some(default.to_owned());
        }
    };
    text(&mut election.lease_duration, "15s");
    text(&mut election.renew_deadline, "10s");
    text(&mut election.retry_period, "2s");
    let name = |field: &mut String, default: &str| {
        if field.is_empty() {
            *field = default.to_owned();
        }
    };
    name(&mut election.resource_lock, "leases");
    name(&mut election.resource_namespace, "kube-system");
    name(&mut election.resource_name, "kube-scheduler");
    name(&mut config.client_connection.content_type, "application/vnd.kubernetes.protobuf");
    config.pod_initial_backoff_seconds.get_or_insert(1);
    config.pod_max_backoff_seconds.get_or_insert(10);
    let profiling = *config.enable_profiling.get_or_insert(true);
    if profiling {
        config.enable_contention_profiling.get_or_insert(true);
    }
}
