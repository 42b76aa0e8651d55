//! Plugin arguments: the settings of each plugin, decoded by the plugin's name, with defaults filled in.
//!
//! `pluginConfig` is a list of (name, args); the kind of `args` is the plugin's name with `Args` behind it. A kind
//! that is given must be that one. Plugins without settings take whatever they are given, as in Kubernetes, but
//! a plugin that nobody knows takes nothing.
//!
//! # In Kubernetes
//! `pkg/scheduler/apis/config/v1/defaults.go`, `staging/src/k8s.io/kube-scheduler/config/v1/types.go`
//! (`DecodeNestedObjects`).

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::strict;
use super::v1::{self, PluginConfig, ResourceSpec};
use crate::plugins::default_preemption::{MIN_CANDIDATE_NODES_ABSOLUTE, MIN_CANDIDATE_NODES_PERCENTAGE};

/// The settings of all plugins of a profile, defaults included.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginArgs {
    /// Of DefaultPreemption.
    pub default_preemption: v1::DefaultPreemptionArgs,
    /// Of InterPodAffinity.
    pub inter_pod_affinity: v1::InterPodAffinityArgs,
    /// Of NodeAffinity.
    pub node_affinity: v1::NodeAffinityArgs,
    /// Of NodeResourcesFit.
    pub node_resources_fit: v1::NodeResourcesFitArgs,
    /// Of NodeResourcesBalancedAllocation.
    pub balanced_allocation: v1::NodeResourcesBalancedAllocationArgs,
    /// Of PodTopologySpread.
    pub pod_topology_spread: v1::PodTopologySpreadArgs,
    /// Of VolumeBinding.
    pub volume_binding: v1::VolumeBindingArgs,
    /// Of plugins that aren't in the tree: as they were written.
    pub others: BTreeMap<String, Value>,
}

impl Default for PluginArgs {
    fn default() -> Self {
        let mut args = PluginArgs {
            default_preemption: Default::default(),
            inter_pod_affinity: Default::default(),
            node_affinity: Default::default(),
            node_resources_fit: Default::default(),
            balanced_allocation: Default::default(),
            pod_topology_spread: Default::default(),
            volume_binding: Default::default(),
            others: BTreeMap::new(),
        };
        args.fill_in();
        args
    }
}

impl PluginArgs {
    /// Reads the settings of profile number `profile`.
    ///
    /// # Errors
    /// Args of another kind, or with fields that nobody knows.
    pub fn decode(configs: &[PluginConfig], profile: usize) -> Result<Self, String> {
        let mut args = PluginArgs::default();
        for (at, config) in configs.iter().enumerate() {
            args.take(config)
                .map_err(|why| format!("decoding .profiles[{profile}].pluginConfig[{at}]: {why}"))?;
        }
        args.fill_in();
        Ok(args)
    }

    fn take(&mut self, config: &PluginConfig) -> Result<(), String> {
        let (name, value) = (config.name.as_str(), &config.args);
        match name {
            "DefaultPreemption" => self.default_preemption = decode(name, value)?,
            "InterPodAffinity" => self.inter_pod_affinity = decode(name, value)?,
            "NodeAffinity" => self.node_affinity = decode(name, value)?,
            "NodeResourcesFit" => self.node_resources_fit = decode(name, value)?,
            "NodeResourcesBalancedAllocation" => self.balanced_allocation = decode(name, value)?,
            "PodTopologySpread" => self.pod_topology_spread = decode(name, value)?,
            "VolumeBinding" => self.volume_binding = decode(name, value)?,
            other => drop(self.others.insert(other.to_owned(), value.clone())),
        }
        Ok(())
    }

    /// What nobody said, Kubernetes says.
    fn fill_in(&mut self) {
        let default_resources =
            || ["cpu", "memory"].map(|name| ResourceSpec { name: name.to_owned(), weight: 1 }).to_vec();
        let complete = |resources: &mut Vec<ResourceSpec>| {
            if resources.is_empty() {
                *resources = default_resources();
            }
            for resource in resources.iter_mut().filter(|resource| resource.weight == 0) {
                resource.weight = 1;
            }
        };
        let preemption = &mut self.default_preemption;
        preemption.min_candidate_nodes_percentage.get_or_insert(MIN_CANDIDATE_NODES_PERCENTAGE as i32);
        preemption.min_candidate_nodes_absolute.get_or_insert(MIN_CANDIDATE_NODES_ABSOLUTE as i32);
        self.inter_pod_affinity.hard_pod_affinity_weight.get_or_insert(1);
        complete(&mut self.balanced_allocation.resources);
        let strategy = self.node_resources_fit.scoring_strategy.get_or_insert_with(|| v1::ScoringStrategy {
            type_: "LeastAllocated".to_owned(),
            ..Default::default()
        });
        complete(&mut strategy.resources);
        if self.pod_topology_spread.defaulting_type.is_empty() {
            self.pod_topology_spread.defaulting_type = "System".to_owned();
        }
        self.volume_binding.bind_timeout_seconds.get_or_insert(600);
    }
}

fn decode<T: DeserializeOwned + Default>(name: &str, value: &Value) -> Result<T, String> {
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        let kind = fields.remove("kind");
        let api_version = fields.remove("apiVersion");
        let wanted = format!("{name}Args");
        let text = |value: &Option<Value>| value.as_ref().and_then(Value::as_str).map(str::to_owned);
        let (kind, version) = (text(&kind), text(&api_version));
        if kind.as_deref().is_some_and(|kind| kind != wanted) {
            let kind = kind.unwrap_or_default();
            return Err(format!(
                "decoding args for plugin {name}: args for plugin {name} were not of type {wanted}.{}, got {kind}.{}",
                super::GROUP,
                super::GROUP
            ));
        }
        if version.as_deref().is_some_and(|version| version != super::API_VERSION) {
            return Err(format!(
                "decoding args for plugin {name}: no kind \"{wanted}\" is registered for version \"{}\"",
                version.unwrap_or_default()
            ));
        }
    }
    if value.is_null() {
        return Ok(T::default());
    }
    strict::decode(&value).map_err(|why| format!("decoding args for plugin {name}: {why}"))
}
