//! The configuration file as it is written: `kubescheduler.config.k8s.io/v1`.
//!
//! Every field of the kind is here, so that a field that isn't is a mistake of the user and is said to be one
//! ([`super::strict`]). What a field means when it is absent stands in [`super::defaults`], what it must not be in
//! [`super::validation`].
//!
//! # In Kubernetes
//! `staging/src/k8s.io/kube-scheduler/config/v1/{types,types_pluginargs}.go`,
//! `component-base/config/v1alpha1/types.go`.

use k8s_openapi::api::core::v1::{NodeAffinity, TopologySpreadConstraint};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeSchedulerConfiguration {
    /// `kubescheduler.config.k8s.io/v1`.
    pub api_version: String,
    /// `KubeSchedulerConfiguration`.
    pub kind: String,
    /// How many nodes may be looked at at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<i32>,
    /// Of several schedulers, one works.
    pub leader_election: LeaderElection,
    /// How the API server is talked to.
    pub client_connection: ClientConnection,
    /// Serves profiles of the running process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_profiling: Option<bool>,
    /// Those of locks, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_contention_profiling: Option<bool>,
    /// Percentage of nodes that are enough, 0 means a formula.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage_of_nodes_to_score: Option<i32>,
    /// First pause of a pod that could not be placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_initial_backoff_seconds: Option<i64>,
    /// Longest pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_max_backoff_seconds: Option<i64>,
    /// One per scheduler name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<KubeSchedulerProfile>,
    /// Webhooks that have a say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extenders: Vec<Extender>,
    /// Watch only once this scheduler leads.
    pub delay_cache_until_active: bool,
}

/// `leaderElection`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaderElection {
    /// Whether at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader_elect: Option<bool>,
    /// After this time without renewal others may take over.
    pub lease_duration: Option<String>,
    /// The leader stops when it could not renew for so long.
    pub renew_deadline: Option<String>,
    /// Between two tries.
    pub retry_period: Option<String>,
    /// `leases`.
    pub resource_lock: String,
    /// Name of the lease.
    pub resource_name: String,
    /// Its namespace.
    pub resource_namespace: String,
}

/// `clientConnection`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientConnection {
    /// File with the server's address and our credentials.
    pub kubeconfig: String,
    /// `Accept`.
    pub accept_content_types: String,
    /// `Content-Type`.
    pub content_type: String,
    /// Requests a second.
    pub qps: f64,
    /// Requests at once.
    pub burst: i32,
}

/// One scheduler name and how its pods are placed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeSchedulerProfile {
    /// `spec.schedulerName` of its pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// Instead of the one for all profiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage_of_nodes_to_score: Option<i32>,
    /// Which plugins are asked where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugins: Option<Plugins>,
    /// Their settings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plugin_config: Vec<PluginConfig>,
}

/// Plugins by extension point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Plugins {
    /// Before a pod enters the queue.
    pub pre_enqueue: PluginSet,
    /// The order of the queue.
    pub queue_sort: PluginSet,
    /// Looks at the pod.
    pub pre_filter: PluginSet,
    /// Refuses nodes.
    pub filter: PluginSet,
    /// When no node is left.
    pub post_filter: PluginSet,
    /// Looks at the nodes that are left.
    pub pre_score: PluginSet,
    /// Grades nodes.
    pub score: PluginSet,
    /// Takes what the pod will need.
    pub reserve: PluginSet,
    /// May hold the pod back before it is bound.
    pub permit: PluginSet,
    /// Prepares the binding.
    pub pre_bind: PluginSet,
    /// Binds.
    pub bind: PluginSet,
    /// Hears of it.
    pub post_bind: PluginSet,
    /// At every point that the plugin knows.
    pub multi_point: PluginSet,
}

/// Plugins that are on and off at one point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginSet {
    /// On, besides the default ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub enabled: Vec<Plugin>,
    /// Off; `*` is all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<Plugin>,
}

/// A plugin and what its grade counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Plugin {
    /// Kubernetes' name.
    pub name: String,
    /// Only for scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// Settings of one plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginConfig {
    /// Of which.
    pub name: String,
    /// Its kind depends on the name: see [`super::plugin_args`].
    pub args: Value,
}

/// A webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Extender {
    /// Where.
    pub url_prefix: String,
    /// Path of the filter call; empty: none.
    pub filter_verb: String,
    /// Path of the call about victims.
    pub preempt_verb: String,
    /// Path of the grading call.
    pub prioritize_verb: String,
    /// What its grades count.
    pub weight: i64,
    /// Path of the binding call.
    pub bind_verb: String,
    /// Over TLS.
    #[serde(rename = "enableHTTPS")]
    pub enable_https: bool,
    /// With these certificates.
    pub tls_config: Option<ExtenderTlsConfig>,
    /// How long it may take.
    pub http_timeout: Option<String>,
    /// It knows the nodes: names are enough.
    pub node_cache_capable: bool,
    /// It is asked only about pods that want one of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub managed_resources: Vec<ExtenderManagedResource>,
    /// It may fail.
    pub ignorable: bool,
}

/// TLS of a webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtenderTlsConfig {
    /// Trust anyone.
    pub insecure: bool,
    /// The name that its certificate must have.
    pub server_name: String,
    /// Our certificate, a file.
    pub cert_file: String,
    /// Our key, a file.
    pub key_file: String,
    /// Whom to trust, a file.
    pub ca_file: String,
    /// Our certificate, base64.
    pub cert_data: String,
    /// Our key, base64.
    pub key_data: String,
    /// Whom to trust, base64.
    pub ca_data: String,
}

/// An extended resource that a webhook looks after.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtenderManagedResource {
    /// `example.com/gpu`.
    pub name: String,
    /// The scheduler itself doesn't count it.
    pub ignored_by_scheduler: bool,
}

/// `DefaultPreemptionArgs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DefaultPreemptionArgs {
    /// Share of the nodes that are tried.
    pub min_candidate_nodes_percentage: Option<i32>,
    /// But so many.
    pub min_candidate_nodes_absolute: Option<i32>,
}

/// `InterPodAffinityArgs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InterPodAffinityArgs {
    /// What a required affinity of an existing pod counts as a wish.
    pub hard_pod_affinity_weight: Option<i32>,
    /// Wishes of existing pods count only if the pod has some itself.
    pub ignore_preferred_terms_of_existing_pods: bool,
}

/// `NodeAffinityArgs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAffinityArgs {
    /// Besides the pod's own.
    pub added_affinity: Option<NodeAffinity>,
}

/// A resource and what it counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceSpec {
    /// `cpu`, `example.com/gpu`.
    pub name: String,
    /// 1 to 100.
    pub weight: i64,
}

/// A point of a curve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UtilizationShapePoint {
    /// Percent.
    pub utilization: i32,
    /// 0 to 10.
    pub score: i32,
}

/// `scoringStrategy.requestedToCapacityRatio`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestedToCapacityRatioParam {
    /// The curve.
    pub shape: Vec<UtilizationShapePoint>,
}

/// `scoringStrategy`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScoringStrategy {
    /// `LeastAllocated`, `MostAllocated`, `RequestedToCapacityRatio`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Which resources.
    pub resources: Vec<ResourceSpec>,
    /// The curve of the third.
    pub requested_to_capacity_ratio: Option<RequestedToCapacityRatioParam>,
}

/// `NodeResourcesFitArgs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeResourcesFitArgs {
    /// Extended resources that don't count.
    pub ignored_resources: Vec<String>,
    /// All extended resources of these domains.
    pub ignored_resource_groups: Vec<String>,
    /// How nodes are graded.
    pub scoring_strategy: Option<ScoringStrategy>,
}

/// `NodeResourcesBalancedAllocationArgs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeResourcesBalancedAllocationArgs {
    /// Which resources.
    pub resources: Vec<ResourceSpec>,
}

/// `PodTopologySpreadArgs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodTopologySpreadArgs {
    /// For pods without constraints.
    pub default_constraints: Vec<TopologySpreadConstraint>,
    /// `System` or `List`.
    pub defaulting_type: String,
}

/// `VolumeBindingArgs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeBindingArgs {
    /// How long a pod waits for its claims.
    pub bind_timeout_seconds: Option<i64>,
    /// Behind a feature gate that is off.
    pub shape: Option<Vec<UtilizationShapePoint>>,
}
