//! Plugin sets: which plugins are asked at which point, after all that a user switched on and off.
//!
//! Three layers, as Kubernetes has them. Kubernetes' own list stands in `multiPoint`: each plugin there is asked at every
//! point that it knows. A file adds to and takes from each of the thirteen lists (`*` takes all). At last
//! `multiPoint` is spread over the twelve points; what a point says for itself wins over what `multiPoint` says.
//!
//! The subtle thing is the order, since the first filter that refuses a node gives the reason: plugins that a
//! point configures anew come first, in the point's order, then those of `multiPoint`, then the point's others.
//!
//! # Invariants
//! 1. A plugin stands in a list at most once.
//! 2. A plugin stands only in lists of points that it knows.
//!
//! # In Kubernetes
//! `pkg/scheduler/apis/config/v1/default_plugins.go` (`mergePlugins`),
//! `pkg/scheduler/framework/runtime/framework.go` (`expandMultiPointPlugins`, `updatePluginList`).

use super::v1::{Plugin, PluginSet, Plugins};

/// A point at which plugins are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// May the pod enter the queue?
    PreEnqueue,
    /// Which pod is first?
    QueueSort,
    /// What does the pod want?
    PreFilter,
    /// Can the node take it?
    Filter,
    /// No node can: what now?
    PostFilter,
    /// What do the nodes have in common?
    PreScore,
    /// How good is the node?
    Score,
    /// Take what it will need.
    Reserve,
    /// Not yet?
    Permit,
    /// Prepare the binding.
    PreBind,
    /// Bind.
    Bind,
    /// It is bound.
    PostBind,
}

impl Point {
    /// All of them, in the order of a pod's way.
    pub const ALL: [Point; 12] = [
        Point::PreEnqueue,
        Point::QueueSort,
        Point::PreFilter,
        Point::Filter,
        Point::PostFilter,
        Point::PreScore,
        Point::Score,
        Point::Reserve,
        Point::Permit,
        Point::PreBind,
        Point::Bind,
        Point::PostBind,
    ];

    /// The point in a set of points.
    pub const fn bit(self) -> u16 {
        1 << self as u16
    }

    /// Go's name of the interface, as errors have it.
    fn interface(self) -> String {
        format!("{self:?}Plugin")
    }

    fn of(self, plugins: &Plugins) -> &PluginSet {
        match self {
            Point::PreEnqueue => &plugins.pre_enqueue,
            Point::QueueSort => &plugins.queue_sort,
            Point::PreFilter => &plugins.pre_filter,
            Point::Filter => &plugins.filter,
            Point::PostFilter => &plugins.post_filter,
            Point::PreScore => &plugins.pre_score,
            Point::Score => &plugins.score,
            Point::Reserve => &plugins.reserve,
            Point::Permit => &plugins.permit,
            Point::PreBind => &plugins.pre_bind,
            Point::Bind => &plugins.bind,
            Point::PostBind => &plugins.post_bind,
        }
    }
}

/// Kubernetes' default list.
const DEFAULT_PLUGINS: [(&str, i32); 18] = [
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeUnschedulable", 0),
    ("NodeName", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
];

/// What a profile without `plugins` has.
pub fn default_plugins() -> Plugins {
    let plugin = |(name, weight): &(&str, i32)| Plugin {
        name: (*name).to_owned(),
        weight: (*weight > 0).then_some(*weight),
    };
    let multi_point =
        PluginSet { enabled: DEFAULT_PLUGINS.iter().map(plugin).collect(), disabled: Vec::new() };
    Plugins { multi_point, ..Plugins::default() }
}

/// The default list with a file's wishes in it.
pub fn merge(custom: Option<&Plugins>) -> Plugins {
    let mut merged = custom.cloned().unwrap_or_default();
    merged.multi_point = merge_set(&default_plugins().multi_point, &merged.multi_point);
    merged
}

fn merge_set(default: &PluginSet, custom: &PluginSet) -> PluginSet {
    let disabled = |name: &str| custom.disabled.iter().any(|plugin| plugin.name == name);
    let mut replaced = vec![false; custom.enabled.len()];
    let mut enabled = Vec::new();
    if !disabled("*") {
        for plugin in default.enabled.iter().filter(|plugin| !disabled(&plugin.name)) {
            // Configured anew: in its old place.
            let anew = custom.enabled.iter().rposition(|custom| custom.name == plugin.name);
            if let Some(at) = anew {
                replaced[at] = true;
            }
            enabled.push(anew.map_or(plugin, |at| &custom.enabled[at]).clone());
        }
    }
    let others = custom.enabled.iter().zip(&replaced).filter(|(_, replaced)| !**replaced);
    enabled.extend(others.map(|(plugin, _)| plugin.clone()));
    PluginSet { enabled, disabled: custom.disabled.clone() }
}

/// The plugins of one point with their weights, in the order in which they are asked. `knows` says at which points
/// a plugin can be asked, `None` if there is no such plugin.
///
/// # Errors
/// A plugin that doesn't exist, doesn't know the point, or stands there twice.
pub fn expand(
    plugins: &Plugins,
    point: Point,
    knows: &impl Fn(&str) -> Option<u16>,
) -> Result<Vec<Plugin>, String> {
    let set = point.of(plugins);
    let mut own: Vec<Plugin> = Vec::new();
    for plugin in &set.enabled {
        let points = knows(&plugin.name)
            .ok_or_else(|| format!("{} {:?} does not exist", point.interface(), plugin.name))?;
        if points & point.bit() == 0 {
            return Err(format!("plugin {:?} does not extend {} plugin", plugin.name, point.interface()));
        }
        push_once(&mut own, plugin, point)?;
    }
    let disabled = |name: &str| set.disabled.iter().any(|plugin| plugin.name == name);
    if disabled("*") {
        return Ok(own);
    }
    let (mut spread, mut anew): (Vec<Plugin>, Vec<&str>) = (Vec::new(), Vec::new());
    for plugin in &plugins.multi_point.enabled {
        let points = knows(&plugin.name)
            .ok_or_else(|| format!("{} {:?} does not exist", point.interface(), plugin.name))?;
        if points & point.bit() == 0 || disabled(&plugin.name) {
            continue;
        }
        if own.iter().any(|own| own.name == plugin.name) {
            anew.push(&plugin.name);
        } else {
            push_once(&mut spread, plugin, point)?;
        }
    }
    let (mut order, others): (Vec<Plugin>, Vec<Plugin>) =
        own.into_iter().partition(|plugin| anew.contains(&&*plugin.name));
    order.extend(spread);
    order.extend(others);
    Ok(order)
}

fn push_once(list: &mut Vec<Plugin>, plugin: &Plugin, point: Point) -> Result<(), String> {
    if list.iter().any(|other| other.name == plugin.name) {
        return Err(format!("plugin {:?} already registered as {:?}", plugin.name, point.interface()));
    }
    list.push(plugin.clone());
    Ok(())
}
