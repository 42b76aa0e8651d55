//! Framework: what a plugin may say, and when it is asked.
//!
//! *Step 1 of a pod's journey through this stage.* Before: a pod without a node arrived in the queue.
//! After: [`crate::schedule_pod`] asks every plugin of a [`crate::profile::Profile`] in order.
//!
//! Choosing a node is not one rule but some twenty small ones that know nothing of each other: taints,
//! free memory, labels, volumes. Each is a [`Plugin`]. It answers at the points where it has an opinion
//! and stays silent (the default methods) at the others.
//!
//! The idea that keeps twenty rules cheap: look at the pod *once*, then at each node. In Go a plugin
//! stores what it found out in a map of untyped values (`CycleState`) and casts it back for each node.
//! Here `pre_filter` returns a **closure**: what it captured is the state, the compiler checks it, and
//! "there is nothing to check for this pod" is the value [`PreFilter::Skip`].
//!
//! The subtle thing is [`WhatIf`]. Preemption asks "would the pod fit if these were gone?", and pods
//! nominated to a node must be counted as if they were there. A rule that looks only at the node it is
//! given gets a changed [`NodeInfo`]; a rule that counted over the whole cluster beforehand (affinity,
//! spreading) corrects its counts by the pods that `WhatIf` lists. Go has `AddPod`/`RemovePod` for that.
//!
//! # Invariants
//! 1. A filter closure has no side effect: same node, same [`WhatIf`], same [`Status`].
//! 2. A score after normalisation lies in `0..=MAX_NODE_SCORE`.
//! 3. `Status` of a refused node names at least one reason.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/interface.go`. PreFilter and Filter are one method here, so are PreScore, Score and
//! NormalizeScore. QueueSort and Bind have one plugin each and are [`crate::scheduling_queue`] and
//! [`crate::binding_cycle`]; PostFilter is [`crate::plugins::default_preemption`].

use std::borrow::Cow;
use std::sync::Arc;

use crate::node_info::NodeInfo;
use crate::plugins::inter_pod_affinity::InterPodAffinity;
use crate::plugins::pod_topology_spread::PodTopologySpread;
use crate::pod_info::PodInfo;
use crate::snapshot::Snapshot;

pub mod events;

/// The highest score of one plugin for one node. Larger and a plugin's weight loses its meaning.
pub const MAX_NODE_SCORE: i64 = 100;

// ANCHOR: code
/// What a plugin's answer means for the pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Code {
    /// No objection.
    #[default]
    Success,
    /// The plugin could not decide; the cycle ends and the pod is tried again later.
    Error,
    /// Doesn't fit now; removing pods from the node may help.
    Unschedulable,
    /// Doesn't fit, and no preemption will change that.
    UnschedulableAndUnresolvable,
}

/// An answer: the code, the reasons in Kubernetes' words, and the plugin that gave it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// What it means.
    pub code: Code,
    /// Why, one entry per independent reason.
    pub reasons: Vec<Cow<'static, str>>,
    /// Who said so; filled in by the framework.
    pub plugin: &'static str,
}
// ANCHOR_END: code

impl Status {
    /// No objection. Allocates nothing, so that the common answer is free.
    pub const fn success() -> Self {
        Status { code: Code::Success, reasons: Vec::new(), plugin: "" }
    }

    /// A refusal that preemption may lift.
    pub fn unschedulable(reason: impl Into<Cow<'static, str>>) -> Self {
        Status { code: Code::Unschedulable, reasons: vec![reason.into()], plugin: "" }
    }

    /// A refusal that preemption can't lift.
    pub fn unresolvable(reason: impl Into<Cow<'static, str>>) -> Self {
        Status { code: Code::UnschedulableAndUnresolvable, reasons: vec![reason.into()], plugin: "" }
    }

    /// A failure of the plugin itself.
    pub fn error(reason: impl Into<Cow<'static, str>>) -> Self {
        Status { code: Code::Error, reasons: vec![reason.into()], plugin: "" }
    }

    /// True if nothing speaks against the pod.
    pub fn is_success(&self) -> bool {
        self.code == Code::Success
    }

    /// The reasons as one line.
    pub fn message(&self) -> String {
        self.reasons.join(", ")
    }

    /// The same answer, signed.
    pub fn by(mut self, plugin: &'static str) -> Self {
        self.plugin = plugin;
        self
    }
}

/// Pods that the given node has or lacks compared with the snapshot.
#[derive(Clone, Copy, Default)]
pub struct WhatIf<'w> {
    /// On the node now, but not in the snapshot (nominated pods).
    pub added: &'w [Arc<PodInfo>],
    /// In the snapshot, but taken off the node (possible victims).
    pub removed: &'w [Arc<PodInfo>],
}

impl WhatIf<'_> {
    /// The node is as the snapshot has it.
    pub const NOTHING: WhatIf<'static> = WhatIf { added: &[], removed: &[] };

    /// True if the node is as the snapshot has it.
    pub fn is_nothing(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    /// How much a per-pod count changes: +1 for each added pod that counts, -1 for each removed one.
    pub fn difference(&self, mut counts: impl FnMut(&PodInfo) -> i64) -> i64 {
        self.added.iter().map(|pod| counts(pod)).sum::<i64>()
            - self.removed.iter().map(|pod| counts(pod)).sum::<i64>()
    }
}

// ANCHOR: pre-filter
/// A rule for one pod: asked once per node.
pub type Filter<'a> = Box<dyn Fn(&NodeInfo, &WhatIf<'_>) -> Status + Send + Sync + 'a>;

/// What a plugin found out by looking at the pod alone.
pub enum PreFilter<'a> {
    /// The rule has nothing to say about this pod.
    Skip,
    /// No node can take this pod.
    Reject(Status),
    /// Ask this for each node.
    Run(Filter<'a>),
    /// Only these nodes can take the pod; ask the rule for those.
    Only(Vec<String>, Filter<'a>),
}

/// A rule that prefers nodes.
pub enum PreScore<'a> {
    /// Every node is as good as any other.
    Skip,
    /// Ask this for each feasible node.
    Run(Scorer<'a>),
}

/// A score per node, and how raw scores become `0..=100`.
pub struct Scorer<'a> {
    /// The raw score of a node.
    pub score: Box<dyn Fn(&NodeInfo) -> i64 + Send + Sync + 'a>,
    /// What to do with all raw scores together.
    pub normalize: Normalize<'a>,
}
// ANCHOR_END: pre-filter

/// How raw scores become `0..=100`.
pub enum Normalize<'a> {
    /// They already are.
    Already,
    /// The highest becomes 100, the others in proportion; `reverse` turns "many" into "bad".
    Proportional {
        /// 100 for the lowest raw score.
        reverse: bool,
    },
    /// The plugin's own way; the nodes come in the order of the scores.
    Own(Box<NormalizeFn<'a>>),
}

/// Turns the raw scores of these nodes into `0..=100`, in place.
pub type NormalizeFn<'a> = dyn Fn(&[&NodeInfo], &mut [i64]) + Send + Sync + 'a;

impl<'a> Scorer<'a> {
    /// A scorer whose raw scores already lie in `0..=100`.
    pub fn plain(score: impl Fn(&NodeInfo) -> i64 + Send + Sync + 'a) -> PreScore<'a> {
        PreScore::Run(Scorer { score: Box::new(score), normalize: Normalize::Already })
    }

    /// A scorer that counts: more is better, or worse if `reverse`.
    pub fn proportional(reverse: bool, score: impl Fn(&NodeInfo) -> i64 + Send + Sync + 'a) -> PreScore<'a> {
        PreScore::Run(Scorer { score: Box::new(score), normalize: Normalize::Proportional { reverse } })
    }
}

/// Kubernetes' `DefaultNormalizeScore`.
pub fn normalize_proportionally(scores: &mut [i64], reverse: bool) {
    let highest = scores.iter().copied().max().unwrap_or(0);
    for score in scores {
        let scaled = if highest == 0 { 0 } else { MAX_NODE_SCORE * *score / highest };
        *score = if reverse { MAX_NODE_SCORE - scaled } else { scaled };
    }
}

/// Something that happened in the cluster and may make a waiting pod schedulable.
#[derive(Clone, Debug)]
pub enum ClusterEvent {
    /// A node appeared.
    NodeAdded(Arc<NodeInfo>),
    /// A node changed (allocatable, labels, taints, conditions, annotations, or it was uncordoned).
    NodeUpdated {
        /// As it was.
        old: Arc<NodeInfo>,
        /// As it is.
        new: Arc<NodeInfo>,
    },
    /// A node is gone: counts per domain may have changed.
    NodeDeleted(Arc<NodeInfo>),
    /// A pod got a node.
    AssignedPodAdded(Arc<PodInfo>),
    /// A pod with a node changed (labels, resources).
    AssignedPodUpdated {
        /// As it was.
        old: Arc<PodInfo>,
        /// As it is.
        new: Arc<PodInfo>,
    },
    /// A pod with a node is gone or has ended.
    AssignedPodDeleted(Arc<PodInfo>),
    /// The waiting pod itself changed.
    PodUpdated(Arc<PodInfo>),
    /// A claim, volume, class, service or namespace changed; the name of the kind, and `namespace/name` or name.
    ObjectChanged(&'static str, Arc<str>),
    /// Nothing in particular: wake everything (start-up, `Timeout` flush).
    Anything,
}

/// What a plugin thinks of an event, for a pod that it refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The event may lift the refusal: try again.
    Queue,
    /// It can't.
    Skip,
}

impl Hint {
    /// `Queue` if the condition holds.
    pub fn queue_if(condition: bool) -> Self {
        if condition { Hint::Queue } else { Hint::Skip }
    }
}

/// A step that must succeed before the binding, planned by a plugin and carried out by the binding cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreBindAction {
    /// Write the claim into the volume's `spec.claimRef`.
    BindVolume {
        /// The volume.
        volume: String,
        /// Namespace of the claim.
        namespace: String,
        /// The claim.
        claim: String,
    },
    /// Annotate the claim with the node, so that a provisioner makes a volume there.
    SelectNode {
        /// Namespace of the claim.
        namespace: String,
        /// The claim.
        claim: String,
        /// The node.
        node: String,
    },
}

/// What a plugin's answers about a pod depend on: tells [`crate::equivalence_cache`] what may be remembered.
pub enum Depends<'p> {
    /// On nothing: for a pod like this both `pre_filter` and `pre_score` say `Skip`.
    Silent,
    /// On the pod and the node that is asked about (and, for a score, on the spread of images). Such a plugin
    /// doesn't look at the feasible nodes in `pre_score` and has no `Normalize::Own`.
    Node,
    /// On how many pods that match are in which domain.
    Spread(&'p PodTopologySpread),
    /// On which pods are in which domain, and what those want.
    Affinity(&'p InterPodAffinity),
    /// On anything: it must be asked anew for each pod.
    Cluster,
}

/// May a pod that has a node be bound to it?
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permit {
    /// Yes.
    Allow,
    /// No: the pod goes back to the queue.
    Reject(Status),
    /// Somebody will say so ([`crate::waiting_pods`]), within this time.
    Wait(std::time::Duration),
}

/// One rule of scheduling. Every method but `name` has a silent default.
pub trait Plugin: Send + Sync {
    /// Kubernetes' name of the plugin.
    fn name(&self) -> &'static str;

    /// May the pod enter the active queue at all?
    fn pre_enqueue(&self, _pod: &PodInfo) -> Status {
        Status::success()
    }

    /// Looks at the pod and the cluster once; the answer is the rule for each node.
    fn pre_filter<'a>(&'a self, _pod: &'a PodInfo, _snapshot: &'a Snapshot) -> PreFilter<'a> {
        PreFilter::Skip
    }

    /// Looks at the pod and the nodes that fit; the answer is the preference for each node.
    fn pre_score<'a>(
        &'a self,
        _pod: &'a PodInfo,
        _snapshot: &'a Snapshot,
        _feasible: &[&NodeInfo],
    ) -> PreScore<'a> {
        PreScore::Skip
    }

    /// What the answers for pods like this one depend on. A plugin that doesn't say makes decisions slower,
    /// never wrong.
    fn depends(&self, _pod: &PodInfo) -> Depends<'_> {
        Depends::Cluster
    }

    /// May a pod that gets a node ever lift a refusal of this plugin? Bindings are the most frequent event by far: if
    /// not, those who wait are not even asked.
    fn waits_for_bindings(&self) -> bool {
        true
    }

    /// Could this event lift a refusal of this plugin for this pod?
    fn hint(&self, _pod: &PodInfo, _event: &ClusterEvent) -> Hint {
        Hint::Skip
    }

    /// What must be written before the pod is bound to the node.
    fn pre_bind(&self, _pod: &PodInfo, _node: &NodeInfo, _snapshot: &Snapshot) -> Vec<PreBindAction> {
        Vec::new()
    }

    /// Takes what the pod will need on the node. Called before the next pod is placed.
    fn reserve(&self, _pod: &PodInfo, _node: &str) -> Status {
        Status::success()
    }

    /// Gives it back: the pod isn't bound there. Must not fail, and may come without a `reserve`.
    fn unreserve(&self, _pod: &PodInfo, _node: &str) {}

    /// May the pod be bound?
    fn permit(&self, _pod: &PodInfo, _node: &str) -> Permit {
        Permit::Allow
    }

    /// The pod is bound.
    fn post_bind(&self, _pod: &PodInfo, _node: &str) {}

    /// The numbers behind a refusal, for people; `None` if the reason says it all.
    fn explain(&self, _pod: &PodInfo, _node: &NodeInfo, _snapshot: &Snapshot) -> Option<String> {
        None
    }
}
