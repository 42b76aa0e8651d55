//! Failure: the pod goes back to the queue, and people learn why.
//!
//! *Step 20 of a pod's journey through this stage, on the other branch.* Before: no node, or a binding that failed.
//! After: the pod waits in [`crate::scheduling_queue`]; its `PodScheduled` condition and an event say why; if
//! preemption helps, its victims are asked to go and the pod is nominated to their node.
//!
//! Back to the queue comes first, words after: the API server may be slow, and an event that could help must
//! find the pod asleep, not in between. Only a pod that evicts others goes back after they were told.
//!
//! # Invariants
//! 1. A condition is written only if its words changed: a pod refused every ten seconds for the same reason writes nothing.
//! 2. A victim is deleted with its UID as a precondition.
//!
//! # In Kubernetes
//! `pkg/scheduler/schedule_one.go` (`handleSchedulingFailure`), `framework/preemption/preemption.go` (`prepareCandidate`).
#![expect(clippy::disallowed_methods, reason = "shell: stamps conditions")]

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use stage1_kubectl::client::ClientError;
use stage1_kubectl::journey::{Stage, object_name};
use stage1_kubectl::journey_step;
use stage1_kubectl::request::{DeleteParams, Patch};

use crate::events::Sentence;
use crate::fit_error::FitError;
use crate::framework::{ClusterEvent, Status};
use crate::plugins::default_preemption::{Candidate, PostFilterResult};
use crate::pod_info::PodInfo;
use crate::scheduler::Scheduler;
use crate::scheduling_queue::QueuedPod;

/// The condition's reason if no node fits.
pub const REASON_UNSCHEDULABLE: &str = "Unschedulable";
/// The condition's reason if something went wrong.
pub const REASON_SCHEDULER_ERROR: &str = "SchedulerError";

/// What to write into the pod's status.
struct Words {
    reason: &'static str,
    message: String,
    /// `Some("")` clears the nomination.
    nominate: Option<String>,
}

/// No node fits.
pub fn refused(scheduler: &Arc<Scheduler>, pod: QueuedPod, error: FitError, preemption: PostFilterResult) {
    let (info, message) = (pod.info.clone(), error.to_string());
    let internal = error.is_internal();
    let rejectors = error.rejectors();
    let give_back = move |scheduler: &Scheduler, pod: QueuedPod| {
        scheduler.change(|state, now| {
            if internal {
                state.queue.return_failed(pod, now);
            } else {
                state.queue.return_refused(pod, rejectors, now);
            }
        });
    };
    let clear = preemption.clear_nomination && info.nominated_node_name().is_some();
    let nominate = match &preemption.nominated {
        Some(candidate) => Some(candidate.node.to_string()),
        None => clear.then(String::new),
    };
    let reason = if internal { REASON_SCHEDULER_ERROR } else { REASON_UNSCHEDULABLE };
    let words = Words { reason, message, nominate };
    let Some(candidate) = preemption.nominated else {
        if preemption.clear_nomination {
            scheduler.change(|state, _| state.queue.nominator.remove(&info.uid));
        }
        give_back(scheduler, pod);
        let scheduler = scheduler.clone();
        tokio::spawn(async move { say(&scheduler, &info, words).await });
        return;
    };
    // Until its victims are told the pod stays in flight: tried again now it would evict others as well. What
    // happens meanwhile is remembered for it.
    let outranked = scheduler.change(|state, _| {
        state.queue.nominator.set(&info, Some(&candidate.node));
        state.queue.nominator.remove_lower(&candidate.node, info.priority)
    });
    let scheduler = scheduler.clone();
    tokio::spawn(async move {
        preempt(&scheduler, &info, candidate).await;
        give_back(&scheduler, pod);
        say(&scheduler, &info, words).await;
        for other in outranked {
            let patch =
                json!({"metadata": {"uid": other.pod.metadata.uid}, "status": {"nominatedNodeName": null}});
            if let Err(error) = patch_status(&scheduler, &other, patch).await
                && !error.is_not_found()
            {
                tracing::warn!(pod = %other.key, %error, "Cannot clear 'NominatedNodeName' field of pod");
            }
        }
    });
}

/// Something went wrong after a node was found.
pub fn failed(scheduler: &Arc<Scheduler>, pod: QueuedPod, message: String) {
    let info = pod.info.clone();
    scheduler.change(|state, now| state.queue.return_failed(pod, now));
    let scheduler = scheduler.clone();
    tokio::spawn(async move {
        say(&scheduler, &info, Words { reason: REASON_SCHEDULER_ERROR, message, nominate: None }).await;
    });
}

/// A plugin had something against the node after it was found; an event may change its mind.
pub fn rejected(scheduler: &Arc<Scheduler>, pod: QueuedPod, status: Status) {
    let (info, message) = (pod.info.clone(), status.message());
    let rejectors = BTreeSet::from([status.plugin]);
    scheduler.change(|state, now| state.queue.return_refused(pod, rejectors, now));
    let scheduler = scheduler.clone();
    tokio::spawn(async move {
        say(&scheduler, &info, Words { reason: REASON_UNSCHEDULABLE, message, nominate: None }).await;
    });
}

async fn say(scheduler: &Scheduler, info: &PodInfo, words: Words) {
    let note = words.message.clone();
    scheduler.recorder.tell(
        info,
        None,
        Sentence { kind: "Warning", reason: "FailedScheduling", action: "Scheduling", note },
    );
    if let Some(patch) = status_patch(info, &words, Timestamp::now())
        && let Err(error) = patch_status(scheduler, info, patch).await
        && !error.is_not_found()
    {
        tracing::warn!(pod = %info.key, %error, "Error updating pod");
    }
}

/// The patch of the pod's status, `None` if it says that already.
fn status_patch(info: &PodInfo, words: &Words, now: Timestamp) -> Option<Value> {
    let status = info.pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let current = conditions.into_iter().flatten().find(|condition| condition.type_ == "PodScheduled");
    let same_words = current.is_some_and(|condition| {
        condition.status == "False"
            && condition.reason.as_deref() == Some(words.reason)
            && condition.message.as_deref() == Some(&words.message)
    });
    let nominated = info.nominated_node_name().unwrap_or("");
    let nominate = words.nominate.as_deref().filter(|node| *node != nominated);
    if same_words && nominate.is_none() {
        return None;
    }
    let since =
        current.filter(|condition| condition.status == "False").and_then(|c| c.last_transition_time.clone());
    let mut condition =
        json!({"type": "PodScheduled", "status": "False", "reason": words.reason, "message": words.message});
    // When the condition became false, not when its words changed.
    condition["lastTransitionTime"] = match since {
        Some(since) => json!(since),
        None => json!(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now)),
    };
    let mut patch = json!({"conditions": [condition]});
    if let Some(node) = nominate {
        patch["nominatedNodeName"] = if node.is_empty() { Value::Null } else { node.into() };
    }
    Some(json!({"metadata": {"uid": info.pod.metadata.uid}, "status": patch}))
}

async fn patch_status(scheduler: &Scheduler, info: &PodInfo, patch: Value) -> Result<(), ClientError> {
    scheduler.throttle.acquire().await;
    let pods = scheduler.client.namespaced::<Pod>(info.namespace());
    pods.patch_subresource(info.name(), "status", &Patch::Strategic(patch)).await.map(drop)
}

// ANCHOR: evict
/// Asks the victims to go. Their grace period runs; the pod stays nominated meanwhile.
async fn preempt(scheduler: &Scheduler, info: &PodInfo, candidate: Candidate) {
    scheduler.metrics.preemption_attempts.inc();
    scheduler.metrics.preemption_victims.observe(candidate.victims.len() as f64);
    let victims: Vec<&str> = candidate.victims.iter().map(|victim| &*victim.key).collect();
    let name = object_name("Pod", Some(info.namespace()), info.name());
    journey_step!(
        Stage::Scheduler,
        name,
        format!("nominated to {}", candidate.node),
        format!("evicts {}", victims.join(", "))
    );
    for victim in &candidate.victims {
        if let Err(error) = evict(scheduler, info, victim).await {
            tracing::warn!(preemptor = %info.key, victim = %victim.key, %error, "Error preempting pod");
            // The pod counts on that room: let it look again.
            scheduler.change(|state, now| state.queue.on_event(ClusterEvent::Anything, now));
            continue;
        }
        let uid = info.pod.metadata.uid.as_deref().unwrap_or("");
        let note = format!("Preempted by pod {uid} on node {}", candidate.node);
        scheduler.recorder.tell(
            victim,
            Some(info),
            Sentence { kind: "Normal", reason: "Preempted", action: "Preempting", note },
        );
    }
}
// ANCHOR_END: evict

async fn evict(scheduler: &Scheduler, info: &PodInfo, victim: &PodInfo) -> Result<(), ClientError> {
    // Not even bound yet: it is enough to stop that.
    if scheduler.waiting_pods.reject(&victim.uid, "DefaultPreemption", "preempted") {
        return Ok(());
    }
    // Going already: nothing to ask.
    if victim.is_terminating() {
        return Ok(());
    }
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": format!("{}: preempting to accommodate a higher priority pod", info.scheduler_name()),
        "lastTransitionTime": k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::now()),
    });
    let patch = json!({"metadata": {"uid": victim.pod.metadata.uid}, "status": {"conditions": [condition]}});
    let gone = |error: &ClientError| error.is_not_found();
    match patch_status(scheduler, victim, patch).await {
        Err(error) if !gone(&error) => return Err(error),
        _ => {}
    }
    scheduler.throttle.acquire().await;
    let params = DeleteParams { uid: victim.pod.metadata.uid.clone(), ..DeleteParams::default() };
    match scheduler.client.namespaced::<Pod>(victim.namespace()).delete(victim.name(), &params).await {
        Err(error) if !gone(&error) => Err(error),
        _ => Ok(()),
    }
}
