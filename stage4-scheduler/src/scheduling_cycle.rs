//! Scheduling cycle: one pod after another, from the queue to a decision.
//!
//! *Step 18 of a pod's journey through this stage.* Before: the queue has a pod. After: either
//! [`crate::binding_cycle`] writes the binding, or [`crate::failure`] says why not.
//!
//! The loop does four short things under the lock (pop, update the snapshot, assume, give back) and the long
//! one, the decision, without it. Everything that talks to the API server is spawned: the next pod doesn't
//! wait for this one's binding.
//!
//! # Invariants
//! 1. A pod is assumed before the next pod is decided.
//! 2. Every pod popped ends in exactly one of: bound or failed binding, refused, dropped because it is gone.
//!
//! # In Kubernetes
//! `pkg/scheduler/schedule_one.go` (`ScheduleOne`, `schedulingCycle`).
#![expect(clippy::disallowed_methods, reason = "shell: chance breaks ties, the clock measures")]

use std::sync::Arc;
use std::time::Duration;

use stage1_kubectl::journey::{Stage, object_name};
use stage1_kubectl::journey_step;
use stage3_controllers::informer::factory::InformerFactory;

use crate::binding_cycle::{self, BindError, Waiting};
use crate::decision::{Decision, decide_remembering};
use crate::equivalence_cache::EquivalenceCache;
use crate::extender::{self, Extender};
use crate::failure;
use crate::framework::Permit;
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::schedule_pod::ScheduleResult;
use crate::scheduler::Scheduler;
use crate::scheduling_queue::QueuedPod;
use crate::snapshot::Snapshot;

// ANCHOR: scheduling-loop
/// Places pods for ever.
pub async fn run(scheduler: Arc<Scheduler>, factory: &InformerFactory) {
    let mut snapshot = Snapshot::default();
    let mut memory = EquivalenceCache::default();
    loop {
        let (next, deadline) = {
            let mut state = scheduler.state.lock();
            let next = state.queue.pop(scheduler.now());
            if next.is_some() {
                state.cache.update(&mut snapshot);
                state.queue.nominator.update(&mut snapshot);
            }
            (next, state.queue.next_deadline())
        };
        match next {
            Some(pod) => {
                schedule_one(&scheduler, factory, pod, &mut snapshot, &mut memory).await;
                // The bindings just spawned, and whoever shares this thread, get their turn.
                tokio::task::yield_now().await;
            }
            None => {
                let pause = deadline.map(|deadline| deadline.saturating_sub(scheduler.now()));
                tokio::select! {
                    () = scheduler.news.notified() => {}
                    () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
                }
            }
        }
    }
}
// ANCHOR_END: scheduling-loop

async fn schedule_one(
    scheduler: &Arc<Scheduler>,
    factory: &InformerFactory,
    pod: QueuedPod,
    snapshot: &mut Snapshot,
    memory: &mut EquivalenceCache,
) {
    let info = pod.info.clone();
    let Some(profile) = scheduler.profiles.of(&info).cloned() else {
        return scheduler.state.lock().queue.done(&info.uid);
    };
    if info.is_terminating() {
        tracing::debug!(pod = %info.key, "Skip schedule deleting pod");
        return scheduler.state.lock().queue.done(&info.uid);
    }
    let before = scheduler.now();
    let chance = rand::random();
    let interested: Vec<&Extender> =
        scheduler.extenders.iter().filter(|extender| extender.is_interested(&info)).collect();
    let decision = match interested.as_slice() {
        [] => decide_remembering(memory, &profile, &info, snapshot, chance),
        extenders => extender::decide(extenders, &profile, &info, snapshot, chance).await,
    };
    scheduler.metrics.scheduling_algorithm_duration.observe((scheduler.now() - before).as_secs_f64());
    let attempt = |result| {
        scheduler.metrics.attempted(result, &profile.scheduler_name, scheduler.now().saturating_sub(before));
    };
    match decision {
        Decision::Bind { result, before: steps } => {
            snapshot.start_node_index =
                (snapshot.start_node_index + result.evaluated_nodes) % snapshot.nodes().len().max(1);
            tell_journey(&info, &result);
            let node = result.suggested_host.to_string();
            let assumed = scheduler.change(|state, _| {
                state.queue.nominator.remove(&info.uid);
                let assumed = state.cache.assume(info.clone(), &node);
                if assumed {
                    binding_cycle::assume_volumes(state, &steps);
                } else {
                    state.queue.done(&info.uid);
                }
                assumed
            });
            if assumed {
                let claims = factory.store();
                let cycle = binding_cycle::BindingCycle {
                    pod,
                    profile: profile.clone(),
                    result,
                    before: steps,
                    claims,
                    began: before,
                };
                match reserve_and_permit(scheduler, &profile, &info, &node) {
                    Ok(waiting) => {
                        // Counted when it is bound.
                        tokio::spawn(binding_cycle::run(scheduler.clone(), cycle, waiting));
                    }
                    Err(error) => binding_cycle::take_back(scheduler, cycle, error),
                }
            }
        }
        Decision::Unschedulable { error, preemption } => {
            attempt(if error.is_internal() { "error" } else { "unschedulable" });
            let why = error.to_string();
            journey_step!(Stage::Scheduler, name(&info), "no node can take the pod now", &*why);
            failure::refused(scheduler, pod, error, preemption);
        }
    }
}

/// Asks Reserve and Permit plugins; the answer is what the pod has to wait for, if anything.
fn reserve_and_permit(
    scheduler: &Scheduler,
    profile: &Profile,
    info: &PodInfo,
    node: &str,
) -> Result<Option<Waiting>, BindError> {
    let begin = scheduler.now();
    let reserved = reserve(profile, info, node);
    let reserved_at = scheduler.now();
    let status = if reserved.is_ok() { "Success" } else { "Unschedulable" };
    let name = &profile.scheduler_name;
    scheduler.metrics.point("Reserve", status, name, reserved_at.saturating_sub(begin));
    reserved?;
    let permitted = permit(profile, info, node);
    let status = match &permitted {
        Ok((pending, _)) if pending.is_empty() => "Success",
        Ok(_) => "Wait",
        Err(_) => "Unschedulable",
    };
    scheduler.metrics.point("Permit", status, name, scheduler.now().saturating_sub(reserved_at));
    let (pending, limit) = permitted?;
    Ok((!pending.is_empty()).then(|| (scheduler.waiting_pods.add(info.uid.clone(), pending), limit)))
}

fn reserve(profile: &Profile, info: &PodInfo, node: &str) -> Result<(), BindError> {
    for plugin in &profile.reserve {
        let status = plugin.reserve(info, node);
        if !status.is_success() {
            return Err(BindError::Rejected("Reserve", status.by(plugin.name())));
        }
    }
    Ok(())
}

/// Who wants the pod to wait, and how long at most.
fn permit(profile: &Profile, info: &PodInfo, node: &str) -> Result<(Vec<&'static str>, Duration), BindError> {
    let (mut pending, mut limit) = (Vec::new(), Duration::ZERO);
    for plugin in &profile.permit {
        match plugin.permit(info, node) {
            Permit::Allow => {}
            Permit::Reject(status) => return Err(BindError::Rejected("Permit", status.by(plugin.name()))),
            Permit::Wait(time) => {
                pending.push(plugin.name());
                limit = limit.max(time);
            }
        }
    }
    Ok((pending, limit))
}

fn name(info: &PodInfo) -> String {
    object_name("Pod", Some(info.namespace()), info.name())
}

/// How the choice came about: what was filtered and why, and the scores of the best.
fn tell_journey(info: &PodInfo, result: &ScheduleResult) {
    if !tracing::enabled!(target: stage1_kubectl::journey::TARGET, tracing::Level::INFO) {
        return; // nobody reads it: some texts a pod saved
    }
    let reasons = result.refused.histogram();
    let reasons: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    let decided =
        format!("filtered: {} of {} nodes can take the pod", result.feasible_nodes, result.evaluated_nodes);
    let why = if reasons.is_empty() { "no filter refused a node".to_owned() } else { reasons.join(", ") };
    journey_step!(Stage::Scheduler, name(info), decided, why);
    if result.top.is_empty() {
        return;
    }
    let scores: Vec<String> =
        result.top.iter().map(|score| format!("{}={}", score.node, score.total)).collect();
    let parts = |(plugin, score, weight): &(&str, i64, i64)| format!("{plugin} {score}×{weight}");
    let best = result.top[0].plugins.iter().map(parts).collect::<Vec<_>>().join(" + ");
    journey_step!(
        Stage::Scheduler,
        name(info),
        format!("scored: {}", scores.join(", ")),
        format!("{}: {best}", result.top[0].node)
    );
}
