//! Class: pods that no rule can tell apart, and all that is remembered of them.
//!
//! Two pods are of one class if everything is equal that a rule reads: what they ask for, which nodes and pods they want,
//! their namespace, labels and priority. Names and UIDs are not read by any rule. The comparison is of the parsed
//! pods, field by field; the hash only saves most of the comparisons.
//!
//! # Invariants
//! 1. After [`Class::follow`] the columns are those of a class made from scratch on this snapshot.
//!
//! # In Kubernetes
//! `getEquivalencePod` of the old equivalence cache took the pods of one controller for equal; here nobody is believed.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use stage1_kubectl::selector::LabelSelector;

use super::Versions;
use super::affinity::AffinityColumns;
use super::columns::Columns;
use super::domains::Topologies;
use super::spreading::SpreadColumns;
use crate::framework::Depends;
use crate::plugins::default_preemption::DryRun;
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::schedule_pod::Rules;
use crate::snapshot::{Mark, Snapshot};

/// A class.
pub(super) struct Class {
    /// One of the pods, without its name and UID: as a nominated pod it would not count itself, but it counts
    /// for the others.
    pub(super) pod: Arc<PodInfo>,
    hash: u64,
    /// Turn of the last use.
    pub(super) last_used: u64,
    /// What the columns were made from, besides nodes; `None` if they weren't yet.
    made_from: Option<Inputs>,
    mark: Mark,
    /// The rules about one node.
    pub(super) columns: Columns,
    /// Hard and soft constraints of PodTopologySpread.
    pub(super) spread: SpreadColumns,
    /// InterPodAffinity.
    pub(super) affinity: AffinityColumns,
    dry_runs: Vec<Option<DryRun>>,
    budgets: u64,
}

/// What else an answer depends on.
struct Inputs {
    /// How many nodes have each of the pod's images.
    images: Vec<Option<usize>>,
    /// Which pods belong together by default.
    selectors: Vec<LabelSelector>,
    groups: u64,
    namespaces: u64,
    topologies: u64,
}

impl Inputs {
    fn of(pod: &PodInfo, snapshot: &Snapshot, topologies: &Topologies, versions: &Versions) -> Self {
        Inputs {
            images: image_counts(pod, snapshot).collect(),
            selectors: selectors(pod, snapshot),
            groups: versions.groups,
            namespaces: versions.namespaces,
            topologies: topologies.version(),
        }
    }

    /// True if they are as they were.
    fn hold(
        &mut self,
        pod: &PodInfo,
        snapshot: &Snapshot,
        topologies: &Topologies,
        versions: &Versions,
    ) -> bool {
        if self.groups != versions.groups {
            // A service or workload came or went: does it select these pods?
            if self.selectors != selectors(pod, snapshot) {
                return false;
            }
            self.groups = versions.groups;
        }
        self.namespaces == versions.namespaces
            && self.topologies == topologies.version()
            && image_counts(pod, snapshot).eq(self.images.iter().copied())
    }
}

fn image_counts<'a>(pod: &'a PodInfo, snapshot: &'a Snapshot) -> impl Iterator<Item = Option<usize>> + 'a {
    pod.images.iter().map(|image| snapshot.image_nodes.get(image).copied())
}

/// A pod with constraints of its own isn't spread by default.
fn selectors(pod: &PodInfo, snapshot: &Snapshot) -> Vec<LabelSelector> {
    if pod.spread.is_empty() { snapshot.listers.default_selectors(pod) } else { Vec::new() }
}

impl Class {
    pub(super) fn new(pod: &PodInfo, hash: u64) -> Self {
        let mut anybody = (*pod.pod).clone();
        (anybody.metadata.name, anybody.metadata.uid) = (None, None);
        Class {
            pod: Arc::new(PodInfo::new(Arc::new(anybody))),
            hash,
            last_used: 0,
            made_from: None,
            mark: Mark::default(),
            columns: Columns::default(),
            spread: SpreadColumns::default(),
            affinity: AffinityColumns::default(),
            dry_runs: Vec::new(),
            budgets: 0,
        }
    }

    /// Is the pod one of these?
    pub(super) fn holds(&self, pod: &PodInfo, hash: u64) -> bool {
        self.hash == hash && same(&self.pod, pod)
    }

    /// Does what is remembered hold for this snapshot?
    pub(super) fn is_current(&self, snapshot: &Snapshot) -> bool {
        self.made_from.is_some() && self.mark == snapshot.changes().mark()
    }

    /// Does a *filter* of this class look beyond the node it is asked about?
    pub(super) fn looks_around(&self, snapshot: &Snapshot) -> bool {
        self.spread.has_hard() || self.affinity.filters() || snapshot.nominated_have_affinity()
    }

    /// Brings all columns up to date; `None` if that isn't possible for such pods.
    pub(super) fn follow(
        &mut self,
        profile: &Profile,
        snapshot: &Snapshot,
        topologies: &mut Topologies,
        versions: &Versions,
    ) -> Option<()> {
        let pod = self.pod.clone();
        let same = match &mut self.made_from {
            Some(inputs) => inputs.hold(&pod, snapshot, topologies, versions),
            None => false,
        };
        let changed = snapshot.changes().since(self.mark).filter(|_| same);
        if changed.is_some_and(<[u32]>::is_empty) {
            return Some(());
        }
        let rules = node_rules(profile, &pod, snapshot)?;
        match changed {
            Some(changed) => {
                let mut changed = changed.to_vec();
                changed.sort_unstable();
                changed.dedup();
                self.ask(profile, &pod, snapshot, topologies, &rules, changed.into_iter());
            }
            None => {
                self.columns.reset(profile, &pod, snapshot);
                self.spread.reset(profile, &pod, snapshot, topologies);
                self.affinity.reset(profile, &pod, snapshot, topologies);
                self.dry_runs.clear();
                let all = 0..u32::try_from(snapshot.nodes().len()).expect("a list of nodes");
                self.ask(profile, &pod, snapshot, topologies, &rules, all);
            }
        }
        // Domains that were met first while asking are no news.
        match &mut self.made_from {
            Some(inputs) if same => inputs.topologies = topologies.version(),
            made_from => *made_from = Some(Inputs::of(&pod, snapshot, topologies, versions)),
        }
        self.mark = snapshot.changes().mark();
        Some(())
    }

    fn ask(
        &mut self,
        profile: &Profile,
        pod: &PodInfo,
        snapshot: &Snapshot,
        topologies: &mut Topologies,
        rules: &Rules<'_>,
        nodes: impl Iterator<Item = u32> + Clone,
    ) {
        self.columns.ask(profile, pod, snapshot, rules, nodes.clone());
        self.spread.ask(profile, pod, snapshot, topologies, nodes.clone());
        self.affinity.ask(pod, snapshot, topologies, nodes.clone());
        for at in nodes {
            if let Some(dry_run) = self.dry_runs.get_mut(at as usize) {
                *dry_run = None;
            }
        }
    }

    /// The dry runs of preemption by node, those that still hold.
    pub(super) fn dry_runs(&mut self, budgets: u64, nodes: usize) -> &mut [Option<DryRun>] {
        if self.budgets != budgets {
            self.dry_runs.clear();
            self.budgets = budgets;
        }
        self.dry_runs.resize(nodes, None);
        &mut self.dry_runs
    }
}

/// The rules about one node, in the profile's order; `None` if one of them refuses all nodes, or names some.
pub(super) fn node_rules<'a>(
    profile: &'a Profile,
    pod: &'a PodInfo,
    snapshot: &'a Snapshot,
) -> Option<Rules<'a>> {
    let plugins = profile.filters.iter().filter(|plugin| matches!(plugin.depends(pod), Depends::Node));
    Rules::of(plugins, pod, snapshot).ok().filter(Rules::concern_all_nodes)
}

/// A number that is equal for pods of one class.
pub(super) fn hash(pod: &PodInfo) -> u64 {
    let mut hasher = DefaultHasher::new();
    pod.namespace().hash(&mut hasher);
    pod.labels().hash(&mut hasher);
    pod.scheduler_name().hash(&mut hasher);
    pod.images.hash(&mut hasher);
    (pod.priority, pod.requests.cpu_millis, pod.requests.memory_bytes).hash(&mut hasher);
    (pod.spread.len(), pod.required_affinity.len(), pod.required_anti_affinity.len()).hash(&mut hasher);
    hasher.finish()
}

/// Can no rule tell the two apart?
fn same(a: &PodInfo, b: &PodInfo) -> bool {
    let controller = |pod: &PodInfo| pod.controller().map(|owner| (owner.kind.clone(), owner.name.clone()));
    a.namespace() == b.namespace()
        && a.labels() == b.labels()
        && a.scheduler_name() == b.scheduler_name()
        && a.priority == b.priority
        && a.requests == b.requests
        && a.non_zero_requests == b.non_zero_requests
        && a.host_ports == b.host_ports
        && a.node_affinity == b.node_affinity
        && a.preferred_nodes == b.preferred_nodes
        && a.required_affinity == b.required_affinity
        && a.required_anti_affinity == b.required_anti_affinity
        && a.preferred_affinity == b.preferred_affinity
        && a.preferred_anti_affinity == b.preferred_anti_affinity
        && a.spread == b.spread
        && a.images == b.images
        && a.claims == b.claims
        && a.disks == b.disks
        && a.tolerations() == b.tolerations()
        && a.node_name() == b.node_name()
        && controller(a) == controller(b)
}
