//! Profile: which plugins a scheduler uses, in which order, with which weights.
//!
//! *Step 9 of a pod's journey through this stage.* Before: flags or a configuration file named them.
//! After: [`crate::schedule_pod`] walks the lists.
//!
//! A pod names its scheduler (`spec.schedulerName`); one process can serve several names, each with its
//! own profile. The order of the filters matters for speed and for the text that a user reads: the first
//! plugin that refuses a node gives the reason, so the cheap and telling ones come first.
//!
//! Weights as Kubernetes has them. They look arbitrary and are: scores of 0 to 100 are added up, so a
//! weight of 3 lets a `PreferNoSchedule` taint outvote the emptiness of a node.
//!
//! # Invariants
//! 1. Without a configuration file the profile equals Kubernetes' default one.
//!
//! # In Kubernetes
//! `pkg/scheduler/apis/config/v1/default_plugins.go`, `pkg/scheduler/profile/profile.go`.

use std::sync::Arc;
use std::time::Duration;

use crate::framework::Plugin;
use crate::plugins;

/// How many nodes a profile looks at before it takes the best so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodesToScore {
    /// Kubernetes' formula: the larger the cluster, the smaller the share, 5 % at least.
    #[default]
    Adaptive,
    /// That many percent.
    Percentage(u32),
}

/// How long a pod waits for its claims before it is scheduled anew. Shorter, and a slow provisioner never gets done.
pub const BIND_TIMEOUT: Duration = Duration::from_secs(600);
/// Below this many nodes all are looked at: sampling would save nothing.
pub const MIN_FEASIBLE_NODES_TO_FIND: usize = 100;
/// The smallest share of a very large cluster that is looked at.
pub const MIN_FEASIBLE_NODES_PERCENTAGE_TO_FIND: usize = 5;

impl NodesToScore {
    /// How many feasible nodes are enough.
    pub fn enough(self, all_nodes: usize) -> usize {
        if all_nodes < MIN_FEASIBLE_NODES_TO_FIND {
            return all_nodes;
        }
        let percentage = match self {
            NodesToScore::Percentage(share) if share > 0 => share.min(100) as usize,
            _ => 50usize.saturating_sub(all_nodes / 125).max(MIN_FEASIBLE_NODES_PERCENTAGE_TO_FIND),
        };
        (all_nodes * percentage / 100).max(MIN_FEASIBLE_NODES_TO_FIND).min(all_nodes)
    }
}

/// A plugin that others can share.
pub type SharedPlugin = Arc<dyn Plugin>;

/// The plugins of one scheduler name.
#[derive(Clone)]
pub struct Profile {
    /// `spec.schedulerName` of the pods that it serves.
    pub scheduler_name: String,
    /// Asked before a pod enters the active queue.
    pub pre_enqueue: Vec<SharedPlugin>,
    /// Filters, in the order in which they are asked.
    pub filters: Vec<SharedPlugin>,
    /// Scores with their weights.
    pub scores: Vec<(SharedPlugin, i64)>,
    /// Take what a placed pod needs.
    pub reserve: Vec<SharedPlugin>,
    /// May hold a placed pod back.
    pub permit: Vec<SharedPlugin>,
    /// Hear of a binding.
    pub post_bind: Vec<SharedPlugin>,
    /// How long a pod waits for its claims.
    pub bind_timeout: Duration,
    /// Whether pods may evict others.
    pub preemption: Option<plugins::default_preemption::DefaultPreemption>,
    /// When the search ends.
    pub nodes_to_score: NodesToScore,
}

// ANCHOR: default-profile
impl Default for Profile {
    fn default() -> Self {
        use plugins::*;
        let fit: SharedPlugin = Arc::new(node_resources_fit::NodeResourcesFit::default());
        let taints: SharedPlugin = Arc::new(taint_toleration::TaintToleration);
        let affinity: SharedPlugin = Arc::new(node_affinity::NodeAffinity::default());
        let spread: SharedPlugin = Arc::new(pod_topology_spread::PodTopologySpread::default());
        let inter_pod: SharedPlugin = Arc::new(inter_pod_affinity::InterPodAffinity::default());
        Profile {
            scheduler_name: "default-scheduler".to_owned(),
            pre_enqueue: vec![Arc::new(scheduling_gates::SchedulingGates)],
            filters: vec![
                Arc::new(node_unschedulable::NodeUnschedulable),
                Arc::new(node_name::NodeName),
                taints.clone(),
                affinity.clone(),
                Arc::new(node_ports::NodePorts),
                fit.clone(),
                Arc::new(volume_restrictions::VolumeRestrictions),
                Arc::new(node_volume_limits::NodeVolumeLimits),
                Arc::new(volume_binding::VolumeBinding),
                Arc::new(volume_zone::VolumeZone),
                spread.clone(),
                inter_pod.clone(),
            ],
            scores: vec![
                (taints, 3),
                (affinity, 2),
                (fit, 1),
                (spread, 2),
                (inter_pod, 2),
                (Arc::new(balanced_allocation::NodeResourcesBalancedAllocation::default()), 1),
                (Arc::new(image_locality::ImageLocality), 1),
            ],
            reserve: Vec::new(),
            permit: Vec::new(),
            post_bind: Vec::new(),
            bind_timeout: BIND_TIMEOUT,
            preemption: Some(default_preemption::DefaultPreemption::default()),
            nodes_to_score: NodesToScore::Adaptive,
        }
    }
}
// ANCHOR_END: default-profile

impl Profile {
    /// A plugin of this profile by its name.
    pub fn plugin(&self, name: &str) -> Option<&SharedPlugin> {
        let scores = self.scores.iter().map(|(plugin, _)| plugin);
        let late = self.reserve.iter().chain(&self.permit);
        self.filters
            .iter()
            .chain(&self.pre_enqueue)
            .chain(late)
            .chain(scores)
            .find(|plugin| plugin.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_nodes_shrinks_with_the_cluster() {
        let enough = |nodes| NodesToScore::Adaptive.enough(nodes);
        assert_eq!(
            [enough(99), enough(200), enough(1000), enough(5000), enough(10_000)],
            [99, 100, 420, 500, 500]
        );
        assert_eq!(NodesToScore::Percentage(100).enough(5000), 5000);
    }
}
