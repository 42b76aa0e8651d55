//! Timed: plugins with a stopwatch, for the shares of the scheduler's time.
//!
//! A wrapper that answers as the plugin does and adds up how long it took. Reading the clock costs about as much as a small rule
//! does, so shares are read off a run of their own, and a run that is timed isn't the run whose speed is reported.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/runtime/instrumented_plugins.go`, the metric `plugin_execution_duration_seconds`.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::framework::{
    ClusterEvent, Depends, Hint, Normalize, Plugin, PreBindAction, PreFilter, PreScore, Scorer, Status,
};
use crate::node_info::NodeInfo;
use crate::pod_info::PodInfo;
use crate::profile::{Profile, SharedPlugin};
use crate::snapshot::Snapshot;

/// Nanoseconds by plugin name.
pub type Shares = Vec<(&'static str, Arc<AtomicU64>)>;

struct Timed {
    inner: SharedPlugin,
    nanos: Arc<AtomicU64>,
}

/// Runs until dropped.
struct Watch<'w>(&'w AtomicU64, Instant);

impl<'w> Watch<'w> {
    fn start(nanos: &'w AtomicU64) -> Self {
        Watch(nanos, Instant::now())
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let nanos = u64::try_from(self.1.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// The profile with a stopwatch in every plugin.
pub fn timed(mut profile: Profile) -> (Profile, Shares) {
    let mut shares = Shares::new();
    let mut wrap = |inner: &SharedPlugin| -> SharedPlugin {
        let name = inner.name();
        let known = shares.iter().find(|(other, _)| *other == name).map(|(_, nanos)| nanos.clone());
        let nanos = known.unwrap_or_else(|| {
            shares.push((name, Arc::default()));
            shares[shares.len() - 1].1.clone()
        });
        Arc::new(Timed { inner: inner.clone(), nanos })
    };
    profile.filters = profile.filters.iter().map(&mut wrap).collect();
    profile.scores = profile.scores.iter().map(|(plugin, weight)| (wrap(plugin), *weight)).collect();
    (profile, shares)
}

impl Plugin for Timed {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn depends(&self, pod: &PodInfo) -> Depends<'_> {
        self.inner.depends(pod)
    }

    fn pre_enqueue(&self, pod: &PodInfo) -> Status {
        self.inner.pre_enqueue(pod)
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> PreFilter<'a> {
        let _watch = Watch::start(&self.nanos);
        match self.inner.pre_filter(pod, snapshot) {
            PreFilter::Run(rule) => PreFilter::Run(Box::new(move |node, what_if| {
                let _watch = Watch::start(&self.nanos);
                rule(node, what_if)
            })),
            other => other,
        }
    }

    fn pre_score<'a>(
        &'a self,
        pod: &'a PodInfo,
        snapshot: &'a Snapshot,
        feasible: &[&NodeInfo],
    ) -> PreScore<'a> {
        let _watch = Watch::start(&self.nanos);
        let PreScore::Run(Scorer { score, normalize }) = self.inner.pre_score(pod, snapshot, feasible) else {
            return PreScore::Skip;
        };
        let normalize = match normalize {
            Normalize::Own(own) => {
                Normalize::Own(Box::new(move |nodes: &[&NodeInfo], scores: &mut [i64]| {
                    let _watch = Watch::start(&self.nanos);
                    own(nodes, scores);
                }))
            }
            other => other,
        };
        let score = Box::new(move |node: &NodeInfo| {
            let _watch = Watch::start(&self.nanos);
            score(node)
        });
        PreScore::Run(Scorer { score, normalize })
    }

    fn hint(&self, pod: &PodInfo, event: &ClusterEvent) -> Hint {
        let _watch = Watch::start(&self.nanos);
        self.inner.hint(pod, event)
    }

    fn pre_bind(&self, pod: &PodInfo, node: &NodeInfo, snapshot: &Snapshot) -> Vec<PreBindAction> {
        self.inner.pre_bind(pod, node, snapshot)
    }
}
