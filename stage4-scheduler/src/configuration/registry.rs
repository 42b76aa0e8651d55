//! Registry: from names to plugins, and from a profile of the file to a [`Profile`] that runs.
//!
//! The plugins of the tree are listed with the points that they know. A program that uses this crate as a library may
//! register plugins of its own ([`Registry::register`]); the file switches them on like any other.
//!
//! The subtle thing: our `pre_filter` returns the filter, so two of Kubernetes' points are one method. If a file
//! switches off only one of them, the plugin is wrapped ([`AtPoints`]) and the other half falls away.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/registry.go`, `pkg/scheduler/framework/runtime/framework.go` (`NewFramework`).
//! PreFilter plugins run in the order of the Filter plugins.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::plugin_args::PluginArgs;
use super::plugin_sets::{Point, expand};
use super::v1::{Plugin as NamedPlugin, Plugins};
use crate::framework::{
    ClusterEvent, Depends, Hint, Permit, Plugin, PreBindAction, PreFilter, PreScore, Status,
};
use crate::node_info::NodeInfo;
use crate::plugins::*;
use crate::pod_info::{PodInfo, SpreadConstraint};
use crate::profile::{NodesToScore, Profile, SharedPlugin};
use crate::snapshot::Snapshot;

/// Makes a plugin from its arguments.
pub type Factory = Arc<dyn Fn(&Value) -> Result<SharedPlugin, String> + Send + Sync>;

/// All plugins that can be switched on.
#[derive(Clone, Default)]
pub struct Registry {
    others: BTreeMap<String, (u16, Factory)>,
}

const FILTER: u16 = Point::Filter.bit();
const FILTERS: u16 = Point::PreFilter.bit() | FILTER;
const SCORES: u16 = Point::PreScore.bit() | Point::Score.bit();

/// The plugins of the tree and their points.
const IN_TREE: [(&str, u16); 18] = [
    ("SchedulingGates", Point::PreEnqueue.bit()),
    ("PrioritySort", Point::QueueSort.bit()),
    ("NodeUnschedulable", FILTER),
    ("NodeName", FILTER),
    ("TaintToleration", FILTER | SCORES),
    ("NodeAffinity", FILTERS | SCORES),
    ("NodePorts", FILTERS),
    ("NodeResourcesFit", FILTERS | SCORES),
    ("VolumeRestrictions", FILTERS),
    ("NodeVolumeLimits", FILTERS),
    ("VolumeBinding", FILTERS | SCORES | Point::Reserve.bit() | Point::PreBind.bit()),
    ("VolumeZone", FILTERS),
    ("PodTopologySpread", FILTERS | SCORES),
    ("InterPodAffinity", FILTERS | SCORES),
    ("DefaultPreemption", Point::PostFilter.bit() | Point::PreEnqueue.bit()),
    ("NodeResourcesBalancedAllocation", SCORES),
    ("ImageLocality", Point::Score.bit()),
    ("DefaultBinder", Point::Bind.bit()),
];

impl Registry {
    /// Adds a plugin that isn't in the tree, and the points at which it can be asked.
    pub fn register(&mut self, name: &str, points: &[Point], factory: Factory) {
        let points = points.iter().fold(0, |set, point| set | point.bit());
        self.others.insert(name.to_owned(), (points, factory));
    }

    fn points_of(&self, name: &str) -> Option<u16> {
        let in_tree = IN_TREE.iter().find(|(known, _)| *known == name).map(|(_, points)| *points);
        in_tree.or_else(|| self.others.get(name).map(|(points, _)| *points))
    }

    /// The profile that these sets and arguments amount to. `ignored` are resources that an extender looks after.
    ///
    /// # Errors
    /// In Kubernetes' words: a plugin that doesn't exist, stands in a list twice, …
    pub fn profile(
        &self,
        scheduler_name: &str,
        plugins: &Plugins,
        args: &PluginArgs,
        ignored: &[String],
    ) -> Result<Profile, String> {
        let list = |point| expand(plugins, point, &|name: &str| self.points_of(name));
        let mut lists: BTreeMap<Point, Vec<NamedPlugin>> = BTreeMap::new();
        for point in Point::ALL {
            lists.insert(point, list(point)?);
        }
        if lists[&Point::QueueSort].len() != 1 {
            let number = lists[&Point::QueueSort].len();
            return Err(format!(
                "only one queue sort plugin required for profile with scheduler name {scheduler_name:?}, but got {number}"
            ));
        }
        if lists[&Point::Bind].is_empty() {
            return Err(format!(
                "at least one bind plugin is needed for profile with scheduler name {scheduler_name:?}"
            ));
        }
        let mut made: BTreeMap<&str, SharedPlugin> = BTreeMap::new();
        for plugin in lists.values().flatten() {
            if !made.contains_key(&*plugin.name)
                && let Some(new) = self.make(&plugin.name, args, ignored)?
            {
                let on = Point::ALL
                    .iter()
                    .filter(|point| lists[point].iter().any(|other| other.name == plugin.name))
                    .fold(0, |set, point| set | point.bit());
                made.insert(&plugin.name, AtPoints::wrap(new, on, self.points_of(&plugin.name).unwrap_or(0)));
            }
        }
        let at = |point: Point| {
            lists[&point].iter().filter_map(|plugin| made.get(&*plugin.name)).cloned().collect::<Vec<_>>()
        };
        let mut filters = at(Point::Filter);
        // A plugin that only looks at the pod, or only plans what comes before the binding, is asked with the filters.
        for point in [Point::PreFilter, Point::PreBind] {
            for plugin in at(point) {
                if !filters.iter().any(|other| other.name() == plugin.name()) {
                    filters.push(plugin);
                }
            }
        }
        let has = |point: Point, name: &str| lists[&point].iter().any(|plugin| plugin.name == name);
        let preemption = has(Point::PostFilter, "DefaultPreemption").then(|| preemption(args));
        Ok(Profile {
            scheduler_name: scheduler_name.to_owned(),
            pre_enqueue: at(Point::PreEnqueue),
            filters,
            scores: weighted(&lists[&Point::Score], &made)?,
            reserve: at(Point::Reserve),
            permit: at(Point::Permit),
            post_bind: at(Point::PostBind),
            bind_timeout: std::time::Duration::from_secs(
                args.volume_binding.bind_timeout_seconds.unwrap_or(0).unsigned_abs(),
            ),
            preemption,
            nodes_to_score: NodesToScore::Adaptive,
        })
    }

    /// `None` for those that are no object here: the queue's order, preemption and the binder.
    fn make(
        &self,
        name: &str,
        args: &PluginArgs,
        ignored: &[String],
    ) -> Result<Option<SharedPlugin>, String> {
        let failed = |why: String| format!("initializing plugin {name:?}: {why}");
        Ok(Some(match name {
            "PrioritySort" | "DefaultPreemption" | "DefaultBinder" => return Ok(None),
            "SchedulingGates" => Arc::new(scheduling_gates::SchedulingGates),
            "NodeUnschedulable" => Arc::new(node_unschedulable::NodeUnschedulable),
            "NodeName" => Arc::new(node_name::NodeName),
            "TaintToleration" => Arc::new(taint_toleration::TaintToleration),
            "NodeAffinity" => {
                let added = args.node_affinity.added_affinity.as_ref();
                Arc::new(added.map_or_else(Default::default, node_affinity::NodeAffinity::with_added))
            }
            "NodePorts" => Arc::new(node_ports::NodePorts),
            "NodeResourcesFit" => Arc::new(node_resources_fit(args, ignored)),
            "VolumeRestrictions" => Arc::new(volume_restrictions::VolumeRestrictions),
            "NodeVolumeLimits" => Arc::new(node_volume_limits::NodeVolumeLimits),
            "VolumeBinding" => Arc::new(volume_binding::VolumeBinding),
            "VolumeZone" => Arc::new(volume_zone::VolumeZone),
            "PodTopologySpread" => Arc::new(pod_topology_spread(args)),
            "InterPodAffinity" => Arc::new(inter_pod_affinity::InterPodAffinity {
                hard_pod_affinity_weight: i64::from(
                    args.inter_pod_affinity.hard_pod_affinity_weight.unwrap_or(1),
                ),
                ignore_preferred_terms_of_existing_pods: args
                    .inter_pod_affinity
                    .ignore_preferred_terms_of_existing_pods,
            }),
            "NodeResourcesBalancedAllocation" => {
                let names = args.balanced_allocation.resources.iter().map(|spec| spec.name.clone());
                Arc::new(balanced_allocation::NodeResourcesBalancedAllocation { resources: names.collect() })
            }
            "ImageLocality" => Arc::new(image_locality::ImageLocality),
            other => {
                let (_, factory) =
                    self.others.get(other).ok_or_else(|| failed("it does not exist".to_owned()))?;
                factory(args.others.get(other).unwrap_or(&Value::Null)).map_err(failed)?
            }
        }))
    }
}

fn preemption(args: &PluginArgs) -> default_preemption::DefaultPreemption {
    let number = |value: Option<i32>| usize::try_from(value.unwrap_or(0)).unwrap_or(0);
    default_preemption::DefaultPreemption {
        min_candidate_nodes_percentage: number(args.default_preemption.min_candidate_nodes_percentage),
        min_candidate_nodes_absolute: number(args.default_preemption.min_candidate_nodes_absolute),
    }
}

fn node_resources_fit(args: &PluginArgs, ignored: &[String]) -> node_resources_fit::NodeResourcesFit {
    use node_resources_fit::{NodeResourcesFit, ScoringStrategy};
    let args = &args.node_resources_fit;
    let strategy = args.scoring_strategy.clone().unwrap_or_default();
    let curve = strategy.requested_to_capacity_ratio.unwrap_or_default().shape;
    let points = curve.iter().map(|point| (i64::from(point.utilization), i64::from(point.score)));
    NodeResourcesFit {
        strategy: match strategy.type_.as_str() {
            "MostAllocated" => ScoringStrategy::MostAllocated,
            "RequestedToCapacityRatio" => ScoringStrategy::RequestedToCapacityRatio(points.collect()),
            _ => ScoringStrategy::LeastAllocated,
        },
        resources: strategy.resources.iter().map(|spec| (spec.name.clone(), spec.weight)).collect(),
        ignored_resources: args.ignored_resources.iter().chain(ignored).cloned().collect(),
        ignored_resource_groups: args.ignored_resource_groups.clone(),
    }
}

fn pod_topology_spread(args: &PluginArgs) -> pod_topology_spread::PodTopologySpread {
    use pod_topology_spread::{Defaults, PodTopologySpread};
    let args = &args.pod_topology_spread;
    if args.defaulting_type != "List" {
        return PodTopologySpread { defaults: Defaults::System };
    }
    // Which pods count is found out for each pod.
    let pod = k8s_openapi::api::core::v1::Pod::default();
    let list = args.default_constraints.iter().map(|constraint| SpreadConstraint::parse(constraint, &pod));
    PodTopologySpread { defaults: Defaults::List(list.collect()) }
}

fn weighted(
    list: &[NamedPlugin],
    made: &BTreeMap<&str, SharedPlugin>,
) -> Result<Vec<(SharedPlugin, i64)>, String> {
    let mut scores = Vec::new();
    let mut total = 0i64;
    for plugin in list {
        let weight = i64::from(plugin.weight.filter(|weight| *weight != 0).unwrap_or(1));
        total = total.saturating_add(weight.saturating_mul(crate::framework::MAX_NODE_SCORE));
        if weight < 0 || total == i64::MAX {
            return Err("total score of Score plugins could overflow".to_owned());
        }
        if let Some(made) = made.get(&*plugin.name) {
            scores.push((made.clone(), weight));
        }
    }
    Ok(scores)
}

/// A plugin of which only some points are on.
struct AtPoints {
    inner: SharedPlugin,
    on: u16,
}

impl AtPoints {
    fn wrap(inner: SharedPlugin, on: u16, all: u16) -> SharedPlugin {
        if on == all { inner } else { Arc::new(AtPoints { inner, on }) }
    }

    fn is(&self, point: Point) -> bool {
        self.on & point.bit() != 0
    }
}

impl Plugin for AtPoints {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn pre_enqueue(&self, pod: &PodInfo) -> Status {
        self.inner.pre_enqueue(pod)
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> PreFilter<'a> {
        let (before, each) = (self.is(Point::PreFilter), self.is(Point::Filter));
        if !before && !each {
            return PreFilter::Skip;
        }
        match self.inner.pre_filter(pod, snapshot) {
            PreFilter::Reject(status) if !before => PreFilter::Run(Box::new(move |_, _| status.clone())),
            PreFilter::Only(_, rule) if !before => PreFilter::Run(rule),
            PreFilter::Only(names, _) if !each => PreFilter::Only(names, Box::new(|_, _| Status::success())),
            PreFilter::Run(_) if !each => PreFilter::Skip,
            other => other,
        }
    }

    fn pre_score<'a>(
        &'a self,
        pod: &'a PodInfo,
        snapshot: &'a Snapshot,
        feasible: &[&NodeInfo],
    ) -> PreScore<'a> {
        self.inner.pre_score(pod, snapshot, feasible)
    }

    fn hint(&self, pod: &PodInfo, event: &ClusterEvent) -> Hint {
        self.inner.hint(pod, event)
    }

    fn depends(&self, pod: &PodInfo) -> Depends<'_> {
        match self.inner.depends(pod) {
            answer @ (Depends::Silent | Depends::Node) => answer,
            // Whoever counts over the cluster would be asked behind our back.
            _ => Depends::Cluster,
        }
    }

    fn reserve(&self, pod: &PodInfo, node: &str) -> Status {
        self.inner.reserve(pod, node)
    }

    fn unreserve(&self, pod: &PodInfo, node: &str) {
        self.inner.unreserve(pod, node);
    }

    fn permit(&self, pod: &PodInfo, node: &str) -> Permit {
        self.inner.permit(pod, node)
    }

    fn pre_bind(&self, pod: &PodInfo, node: &NodeInfo, snapshot: &Snapshot) -> Vec<PreBindAction> {
        if self.is(Point::PreBind) { self.inner.pre_bind(pod, node, snapshot) } else { Vec::new() }
    }

    fn post_bind(&self, pod: &PodInfo, node: &str) {
        self.inner.post_bind(pod, node);
    }

    fn explain(&self, pod: &PodInfo, node: &NodeInfo, snapshot: &Snapshot) -> Option<String> {
        self.inner.explain(pod, node, snapshot)
    }
}
