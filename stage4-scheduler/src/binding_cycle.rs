//! Binding cycle: tell the API server, or take it back.
//!
//! *Step 19 of a pod's journey through this stage, the last.* Before: the pod is assumed on a node. After: the API
//! server knows it, and the node's kubelet sees the pod in its watch.
//!
//! First the volumes, if claims waited for a node: the claim goes into the volume, or the node into the
//! claim, and the pod waits until the claim is bound. Then one POST to the pod's `binding` subresource. It is a
//! subresource and not an update of the pod, so that the right to place pods isn't the right to change them.
//!
//! The subtle thing is the failure. The node's room was given away on credit; if the binding fails it must be
//! free again *before* the pod goes back to the queue, and other pods must hear that room came free.
//!
//! # Invariants
//! 1. A failed binding leaves the cache as if the pod had never been assumed.
//! 2. A binding carries the pod's UID: a new pod of the same name isn't bound by accident.
//!
//! # In Kubernetes
//! `pkg/scheduler/schedule_one.go` (`bindingCycle`), `plugins/defaultbinder/default_binder.go`,
//! `plugins/volumebinding/binder.go` (`BindPodVolumes`).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod};
use serde_json::{Value, json};
use stage1_kubectl::client::ClientError;
use stage1_kubectl::journey::{Stage, object_name};
use stage1_kubectl::journey_step;
use stage1_kubectl::request::Patch;
use stage3_controllers::indexer::NamespacedName;
use stage3_controllers::informer::Store;
use tokio::sync::oneshot;

use crate::event_handlers::State;
use crate::events::Sentence;
use crate::extender::{self, ExtenderError};
use crate::failure;
use crate::framework::{ClusterEvent, Code, PreBindAction, Status};
use crate::listers::set;
use crate::metrics::Outcome;
use crate::plugins::volume_binding::ANN_SELECTED_NODE;
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::schedule_pod::ScheduleResult;
use crate::scheduler::Scheduler;
use crate::scheduling_queue::QueuedPod;

/// Why a pod couldn't be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A volume or claim couldn't be written.
    #[error("running PreBind plugin \"VolumeBinding\": binding volumes: {0}")]
    Volumes(#[source] ClientError),
    /// The claims didn't become bound.
    #[error("running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded")]
    Timeout,
    /// The API server refused the binding.
    #[error("running Bind plugin \"DefaultBinder\": {0}")]
    Bind(#[source] ClientError),
    /// An extender that binds didn't.
    #[error(transparent)]
    Extender(ExtenderError),
    /// A plugin had something against it.
    #[error("running {0} plugin {plugin:?}: {message}", plugin = .1.plugin, message = .1.message())]
    Rejected(&'static str, Status),
}

impl BindError {
    /// A plugin's "no", which an event may turn into a "yes"; else something failed.
    pub fn is_refusal(&self) -> bool {
        matches!(self, BindError::Rejected(_, status) if status.code != Code::Error)
    }
}

/// A pod on its way to its node.
pub struct BindingCycle {
    /// The pod.
    pub pod: QueuedPod,
    /// Whose plugins are asked.
    pub profile: Arc<Profile>,
    /// Where it goes.
    pub result: ScheduleResult,
    /// What must be written first.
    pub before: Vec<PreBindAction>,
    /// Where its claims are seen to become bound.
    pub claims: Store<PersistentVolumeClaim>,
    /// When the try began.
    pub began: Duration,
}

/// Where the word comes that a pod waits for, and how long it waits.
pub type Waiting = (oneshot::Receiver<Status>, Duration);

/// Carries out the decision.
pub async fn run(scheduler: Arc<Scheduler>, cycle: BindingCycle, waiting: Option<Waiting>) {
    let info = cycle.pod.info.clone();
    if let Some((word, limit)) = waiting {
        let before = scheduler.now();
        let status = scheduler.waiting_pods.wait(&info.uid, word, limit).await;
        let result = if status.is_success() { "Success" } else { "Unschedulable" };
        let waited = scheduler.now().saturating_sub(before).as_secs_f64();
        scheduler.metrics.permit_wait_duration.get_or_create(&Outcome { result }).observe(waited);
        if !status.is_success() {
            return take_back(&scheduler, cycle, BindError::Rejected("Permit", status));
        }
    }
    let (pod, result) = (&cycle.pod, &cycle.result);
    let node = result.suggested_host.clone();
    // Told before the request: the kubelet hears of the binding as soon as we do.
    let name = object_name("Pod", Some(info.namespace()), info.name());
    let why = format!("the best of {} nodes that can take it", result.feasible_nodes);
    journey_step!(Stage::Scheduler, name, format!("binding to {node}"), why);
    let bound = match timed(&scheduler, &cycle, "PreBind", pre_bind(&scheduler, &cycle, &info)).await {
        Ok(()) => timed(&scheduler, &cycle, "Bind", bind(&scheduler, &info, &node)).await,
        error => error,
    };
    match bound {
        Ok(()) => {
            scheduler.change(|state, now| {
                state.cache.finish_binding(&info.uid, now);
                state.queue.done(&info.uid);
            });
            let (profile, before) = (&cycle.profile.scheduler_name, scheduler.now());
            for plugin in &cycle.profile.post_bind {
                plugin.post_bind(&info, &node);
            }
            let now = scheduler.now();
            scheduler.metrics.point("PostBind", "Success", profile, now.saturating_sub(before));
            scheduler.metrics.attempted("scheduled", profile, now.saturating_sub(cycle.began));
            scheduler.metrics.bound(pod.attempts, now.saturating_sub(pod.first_seen));
            tracing::debug!(pod = %info.key, %node, evaluated_nodes = result.evaluated_nodes, feasible_nodes = result.feasible_nodes,
                "Successfully bound pod to node");
            let note = format!("Successfully assigned {} to {node}", info.key);
            scheduler.recorder.tell(
                &info,
                None,
                Sentence { kind: "Normal", reason: "Scheduled", action: "Binding", note },
            );
        }
        Err(error) => take_back(&scheduler, cycle, error),
    }
}

/// The pod isn't bound: its room is free again, and it goes back to the queue.
pub fn take_back(scheduler: &Arc<Scheduler>, cycle: BindingCycle, error: BindError) {
    let (info, node) = (cycle.pod.info.clone(), &cycle.result.suggested_host);
    tracing::warn!(pod = %info.key, %node, %error, "Error scheduling pod; retrying");
    let result = if error.is_refusal() { "unschedulable" } else { "error" };
    let took = scheduler.now().saturating_sub(cycle.began);
    scheduler.metrics.attempted(result, &cycle.profile.scheduler_name, took);
    for plugin in cycle.profile.reserve.iter().rev() {
        plugin.unreserve(&info, node);
    }
    scheduler.change(|state, now| {
        if state.cache.forget(&info.uid) {
            forget_volumes(state, &cycle.before);
            state.queue.on_event(ClusterEvent::AssignedPodDeleted(info.clone()), now);
        }
    });
    match error {
        BindError::Rejected(_, status) if status.code != Code::Error => {
            failure::rejected(scheduler, cycle.pod, status);
        }
        error => failure::failed(scheduler, cycle.pod, error.to_string()),
    }
}

/// Runs one extension point and notes how long it took.
async fn timed(
    scheduler: &Scheduler,
    cycle: &BindingCycle,
    extension_point: &'static str,
    point: impl Future<Output = Result<(), BindError>>,
) -> Result<(), BindError> {
    let before = scheduler.now();
    let outcome = point.await;
    let status = if outcome.is_ok() { "Success" } else { "Error" };
    let took = scheduler.now().saturating_sub(before);
    scheduler.metrics.point(extension_point, status, &cycle.profile.scheduler_name, took);
    outcome
}

// ANCHOR: bind
async fn pre_bind(scheduler: &Scheduler, cycle: &BindingCycle, info: &PodInfo) -> Result<(), BindError> {
    for action in &cycle.before {
        scheduler.throttle.acquire().await;
        write_volume(scheduler, action).await.map_err(BindError::Volumes)?;
    }
    if !cycle.before.is_empty() {
        let bound = wait_until_bound(info, &cycle.claims);
        tokio::time::timeout(cycle.profile.bind_timeout, bound).await.map_err(|_| BindError::Timeout)?;
    }
    Ok(())
}

async fn bind(scheduler: &Scheduler, info: &PodInfo, node: &str) -> Result<(), BindError> {
    if let Some(extender) = extender::binder(&scheduler.extenders, info) {
        match extender.bind(info, node).await {
            Err(error) if extender.is_ignorable() => {
                tracing::info!(extender = extender.name(), %error, "Skipping extender in bind as it returned error and has ignorable flag set");
            }
            done => return done.map_err(BindError::Extender),
        }
    }
    scheduler.throttle.acquire().await;
    let body = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": info.name(), "namespace": info.namespace(), "uid": info.pod.metadata.uid},
        "target": {"kind": "Node", "name": node},
    });
    let pods = scheduler.client.namespaced::<Pod>(info.namespace());
    let answer: Result<Value, ClientError> = pods.create_subresource(info.name(), "binding", &body).await;
    answer.map(drop).map_err(BindError::Bind)
}
// ANCHOR_END: bind

async fn write_volume(scheduler: &Scheduler, action: &PreBindAction) -> Result<(), ClientError> {
    match action {
        PreBindAction::BindVolume { volume, namespace, claim } => {
            let wanted = scheduler.client.namespaced::<PersistentVolumeClaim>(namespace).get(claim).await?;
            let reference = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim,
                "uid": wanted.metadata.uid, "resourceVersion": wanted.metadata.resource_version});
            let patch = json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}, "spec": {"claimRef": reference}});
            scheduler.client.api::<PersistentVolume>().patch(volume, &Patch::Merge(patch)).await.map(drop)
        }
        PreBindAction::SelectNode { namespace, claim, node } => {
            let patch = json!({"metadata": {"annotations": {ANN_SELECTED_NODE: node}}});
            let claims = scheduler.client.namespaced::<PersistentVolumeClaim>(namespace);
            claims.patch(claim, &Patch::Merge(patch)).await.map(drop)
        }
    }
}

async fn wait_until_bound(info: &PodInfo, claims: &Store<PersistentVolumeClaim>) {
    let mut changes = claims.subscribe();
    let bound = || {
        info.claims.iter().all(|wanted| {
            let claim = claims.get(&NamespacedName::new(info.namespace(), &*wanted.name));
            claim.is_some_and(|claim| claim.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound"))
        })
    };
    while !bound() {
        if changes.next().await.is_none() {
            return;
        }
    }
}

/// Counts planned volumes as taken, so that the next pod doesn't plan them, too.
pub fn assume_volumes(state: &mut State, before: &[PreBindAction]) {
    for action in before {
        let PreBindAction::BindVolume { volume, namespace, claim } = action else { continue };
        let reference = ObjectReference {
            namespace: Some(namespace.clone()),
            name: Some(claim.clone()),
            ..Default::default()
        };
        set_claim_ref(state, volume, Some(reference));
    }
}

fn forget_volumes(state: &mut State, before: &[PreBindAction]) {
    for action in before {
        if let PreBindAction::BindVolume { volume, .. } = action {
            set_claim_ref(state, volume, None);
        }
    }
}

fn set_claim_ref(state: &mut State, volume: &str, reference: Option<ObjectReference>) {
    let listers = Arc::make_mut(&mut state.cache.listers);
    let Some(mut changed) = listers.volumes.get(volume).map(|volume| (**volume).clone()) else { return };
    // A reference with a UID comes from the API server: that is the truth, not our guess.
    let current = changed.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    if current.is_some_and(|reference| reference.uid.is_some()) {
        return;
    }
    changed.spec.get_or_insert_default().claim_ref = reference;
    set(&mut listers.volumes, volume, Some(Arc::new(changed)));
}
