//! Equivalence cache: the answer for the last pod is most of the answer for the next one.
//!
//! *Step 15 of a pod's journey through this stage.* Before: [`crate::schedule_pod`] says what the answer is.
//! After: [`crate::scheduling_cycle`] asks here first, and gets the same answer sooner.
//!
//! `schedule_pod` asks twelve rules about every node, for each pod anew. But pods come in crowds: the replicas of one
//! Deployment differ in nothing that any rule looks at. They are one *class*. And between two of them hardly
//! anything happens: the first one took its place on one node. So for each class of late the cache keeps what
//! the rules said, as columns of small numbers with one row per node ([`columns`]), and before the next pod of the class it
//! asks again about the few nodes that have changed since ([`crate::snapshot::ChangeLog`]).
//!
//! Two rules look at the whole cluster: PodTopologySpread and InterPodAffinity. What they need are *sums over
//! nodes* ("matching pods in zone b"), and a sum doesn't have to be added up anew: when a node changes, its old
//! part is taken out and its new part put in ([`domains`], [`spreading`], [`affinity`]).
//!
//! What is left per pod is one walk over two columns and a look at the highest total ([`walk`]).
//!
//! The subtle thing is to know when *not* to remember. A class is left to the plain scan if one of its rules looks at
//! more than that (volumes, a plugin that doesn't say), if the pod names its node (a daemon's), if room was made for
//! just this pod, or if it is the first of its kind: columns for a pod that comes once would cost more than they save.
//!
//! # Invariants
//! 1. The answer is that of [`schedule_pod`], to the last tie and the last reason (a property test compares them
//!    over random histories).
//! 2. The cost of a decision follows the nodes that changed, plus a few machine instructions for each node looked at.
//! 3. Nothing here outlives a change of the list of nodes; one cache goes with one snapshot and one set of profiles.
//!
//! # In Kubernetes
//! The scheduler had an equivalence cache for filters until 1.11 (`core/equivalence`), removed because its invalidation by
//! event was never complete. Here nothing is invalidated by event: rows follow the snapshot's own change log. 1.35 has "opportunistic
//! batching" (KEP-5598), which reuses one pod's order of nodes for the next.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::fit_error::FitError;
use crate::framework::Depends;
use crate::listers::Listers;
use crate::plugins::default_preemption::{DefaultPreemption, PostFilterResult, select_victims_on_node};
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::schedule_pod::{ScheduleResult, schedule_pod};
use crate::snapshot::Snapshot;

mod affinity;
mod class;
mod columns;
mod domains;
mod spreading;
#[cfg(test)]
mod tests;
mod walk;

use class::Class;
use domains::Topologies;

/// Classes that are kept. Each costs some ten bytes per node and rule with an opinion; a queue rarely holds
/// more kinds of pods at a time.
const MAX_CLASSES: usize = 32;
/// Pods seen once whose next of kind gets a class.
const MAX_SEEN: usize = 256;

/// What is remembered.
#[derive(Default)]
pub struct EquivalenceCache {
    classes: Vec<Class>,
    /// Hashes of pods that came without a class, the latest last.
    seen: VecDeque<u64>,
    topologies: Topologies,
    versions: Versions,
    /// Grows with each decision: the class used longest ago makes room.
    turn: u64,
    /// The pod that was decided last from memory, and its class: preemption asks about the same pod again.
    latest: Option<(Arc<PodInfo>, usize)>,
}

/// Numbers that grow when objects beside nodes and pods change.
#[derive(Default)]
struct Versions {
    listers: Arc<Listers>,
    /// Of namespaces' labels.
    namespaces: u64,
    /// Of what selects pods that belong together: services and workloads.
    groups: u64,
    /// Of disruption budgets.
    budgets: u64,
}

impl Versions {
    fn follow(&mut self, listers: &Arc<Listers>) {
        let (old, new) = (&self.listers, listers);
        if Arc::ptr_eq(old, new) {
            return;
        }
        // A namespace's status changes more often than its labels.
        let same_labels = Arc::ptr_eq(&old.namespaces, &new.namespaces) || old.namespaces == new.namespaces;
        self.namespaces += u64::from(!same_labels);
        let same_groups =
            Arc::ptr_eq(&old.services, &new.services) && Arc::ptr_eq(&old.workloads, &new.workloads);
        self.groups += u64::from(!same_groups);
        self.budgets += u64::from(!Arc::ptr_eq(&old.budgets, &new.budgets));
        self.listers = listers.clone();
    }
}

impl EquivalenceCache {
    // ANCHOR: remembered
    /// What [`schedule_pod`] says, from memory where possible.
    ///
    /// # Errors
    /// No node can take the pod.
    pub fn schedule(
        &mut self,
        profile: &Profile,
        pod: &Arc<PodInfo>,
        snapshot: &Snapshot,
        tie_breaker: u64,
    ) -> Result<ScheduleResult, FitError> {
        let class = self.class(profile, pod, snapshot);
        self.latest = class.map(|at| (pod.clone(), at));
        match class {
            Some(class) => {
                walk::decide(&self.classes[class], &self.topologies, profile, snapshot, tie_breaker)
            }
            None => schedule_pod(profile, pod, snapshot, tie_breaker),
        }
    }

    /// What [`DefaultPreemption::post_filter`] says, with dry runs from memory where possible.
    pub fn post_filter(
        &mut self,
        preemption: &DefaultPreemption,
        profile: &Profile,
        pod: &Arc<PodInfo>,
        snapshot: &Snapshot,
        (error, offset): (&FitError, usize),
    ) -> PostFilterResult {
        let remembered = self
            .latest
            .take()
            .filter(|(latest, at)| Arc::ptr_eq(latest, pod) && self.classes[*at].is_current(snapshot));
        let usable = remembered.filter(|(_, at)| !self.classes[*at].looks_around(snapshot));
        let Some((_, class)) = usable else {
            return preemption.post_filter(profile, pod, snapshot, error, offset);
        };
        let (class, budgets) = (&mut self.classes[class], self.versions.budgets);
        let representative = class.pod.clone();
        let Some(rules) = class::node_rules(profile, &representative, snapshot) else {
            return preemption.post_filter(profile, pod, snapshot, error, offset);
        };
        let dry_runs = class.dry_runs(budgets, snapshot.nodes().len());
        preemption.post_filter_by(pod, snapshot, error, offset, &mut |at| {
            let run = || select_victims_on_node(&rules, &representative, &snapshot.nodes()[at], snapshot);
            dry_runs[at].get_or_insert_with(|| Arc::new(run())).clone()
        })
    }
    // ANCHOR_END: remembered

    /// The class of this pod, up to date; `None` if it is to be decided by the scan.
    fn class(&mut self, profile: &Profile, pod: &Arc<PodInfo>, snapshot: &Snapshot) -> Option<usize> {
        let promised = pod.nominated_node_name().is_some() || snapshot.nominated_node(&pod.uid).is_some();
        if promised || snapshot.nodes().is_empty() || !rememberable(profile, pod) {
            return None;
        }
        let hash = class::hash(pod);
        let known = self.classes.iter().position(|class| class.holds(pod, hash));
        if known.is_none() && !self.seen.contains(&hash) {
            if self.seen.len() == MAX_SEEN {
                self.seen.pop_front();
            }
            self.seen.push_back(hash);
            return None;
        }
        self.turn += 1;
        self.versions.follow(&snapshot.listers);
        self.topologies.follow(snapshot);
        let at = known.unwrap_or_else(|| self.add(Class::new(pod, hash)));
        self.classes[at].last_used = self.turn;
        self.classes[at].follow(profile, snapshot, &mut self.topologies, &self.versions)?;
        // Nominated pods would have to be added to the sums for one node only: the scan can.
        let class = &self.classes[at];
        (snapshot.nobody_is_nominated() || !class.looks_around(snapshot)).then_some(at)
    }

    fn add(&mut self, class: Class) -> usize {
        if self.classes.len() < MAX_CLASSES {
            self.classes.push(class);
            return self.classes.len() - 1;
        }
        let oldest = (0..self.classes.len()).min_by_key(|at| self.classes[*at].last_used);
        let oldest = oldest.expect("there are classes");
        self.classes[oldest] = class;
        oldest
    }
}

/// Can all rules for this pod be kept as columns and sums? The rules about one node must come before those about the
/// cluster: the first rule that refuses a node gives the reason.
fn rememberable(profile: &Profile, pod: &PodInfo) -> bool {
    let mut around = false;
    let filters_fit = profile.filters.iter().all(|plugin| match plugin.depends(pod) {
        Depends::Silent => true,
        Depends::Node => !around,
        Depends::Spread(_) | Depends::Affinity(_) => {
            around = true;
            true
        }
        Depends::Cluster => false,
    });
    filters_fit && profile.scores.iter().all(|(plugin, _)| !matches!(plugin.depends(pod), Depends::Cluster))
}
