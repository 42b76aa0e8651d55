//! Decision: all that one scheduling cycle decides about one pod.
//!
//! *Step 14 of a pod's journey through this stage.* Before: the queue handed out a pod.
//! After: [`crate::scheduling_cycle`] carries the decision out.
//!
//! [`schedule_pod`] finds a node or says why there is none; in the second case preemption is asked. Both
//! together are still a pure function, so that a recorded world gives the same decision in a test, in an
//! offline simulation and in a running cluster.
//!
//! # In Kubernetes
//! `pkg/scheduler/schedule_one.go` (`schedulingCycle`).

use std::sync::Arc;

use crate::equivalence_cache::EquivalenceCache;
use crate::fit_error::FitError;
use crate::framework::PreBindAction;
use crate::plugins::default_preemption::{DefaultPreemption, PostFilterResult};
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::schedule_pod::{ScheduleResult, schedule_pod};
use crate::snapshot::Snapshot;

/// What becomes of a pod.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Bind it to `result.suggested_host`, after these steps.
    Bind {
        /// Where, and why there.
        result: ScheduleResult,
        /// What must be written first.
        before: Vec<PreBindAction>,
    },
    /// No node fits now.
    Unschedulable {
        /// Why, preemption's answer included.
        error: FitError,
        /// Whom to evict, if that helps.
        preemption: PostFilterResult,
    },
}

// ANCHOR: decide
/// Decides about one pod. `chance` breaks ties.
pub fn decide(profile: &Profile, pod: &PodInfo, snapshot: &Snapshot, chance: u64) -> Decision {
    conclude(profile, pod, snapshot, schedule_pod(profile, pod, snapshot, chance), |preemption, error| {
        preemption.post_filter(profile, pod, snapshot, error, chance as usize)
    })
}

/// The same decision, made faster for pods like those before.
pub fn decide_remembering(
    memory: &mut EquivalenceCache,
    profile: &Profile,
    pod: &Arc<PodInfo>,
    snapshot: &Snapshot,
    chance: u64,
) -> Decision {
    let scheduled = memory.schedule(profile, pod, snapshot, chance);
    conclude(profile, pod, snapshot, scheduled, |preemption, error| {
        memory.post_filter(preemption, profile, pod, snapshot, (error, chance as usize))
    })
}

fn conclude(
    profile: &Profile,
    pod: &PodInfo,
    snapshot: &Snapshot,
    scheduled: Result<ScheduleResult, FitError>,
    post_filter: impl FnOnce(&DefaultPreemption, &FitError) -> PostFilterResult,
) -> Decision {
    match scheduled {
        Ok(result) => bind(profile, pod, snapshot, result),
        Err(error) => {
            let preemption = match preemption_of(profile, &error) {
                Some(preemption) => post_filter(preemption, &error),
                None => PostFilterResult::default(),
            };
            refuse(error, preemption)
        }
    }
}
// ANCHOR_END: decide

/// A node is found: what comes before the binding?
pub fn bind(profile: &Profile, pod: &PodInfo, snapshot: &Snapshot, result: ScheduleResult) -> Decision {
    let node = snapshot.get(&result.suggested_host);
    let steps = |node| profile.filters.iter().flat_map(move |plugin| plugin.pre_bind(pod, node, snapshot));
    let before = node.map_or_else(Vec::new, |node| steps(node).collect());
    Decision::Bind { result, before }
}

/// Who may make room, if anybody may.
pub fn preemption_of<'p>(profile: &'p Profile, error: &FitError) -> Option<&'p DefaultPreemption> {
    profile.preemption.as_ref().filter(|_| error.num_all_nodes > 0 && !error.is_internal())
}

/// No node is found.
pub fn refuse(mut error: FitError, preemption: PostFilterResult) -> Decision {
    error.post_filter_message = preemption.message.clone();
    Decision::Unschedulable { error, preemption }
}
