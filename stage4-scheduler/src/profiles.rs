//! Profiles: all scheduler names that one process serves.
//!
//! *Beside a pod's journey through this stage.* The queue asks it about gates and hints, the event handlers
//! whether a pod is ours at all.
//!
//! # In Kubernetes
//! `pkg/scheduler/profile/profile.go` (`Map`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::framework::{ClusterEvent, Hint};
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::scheduling_queue::{POD_INITIAL_BACKOFF, POD_MAX_BACKOFF};

/// Profiles by scheduler name.
pub struct Profiles {
    by_name: HashMap<String, Arc<Profile>>,
    /// First and longest pause after a failed try.
    pub backoff: (Duration, Duration),
}

impl Default for Profiles {
    fn default() -> Self {
        Profiles::new(vec![Profile::default()])
    }
}

impl Profiles {
    /// These profiles, with Kubernetes' pauses.
    pub fn new(profiles: Vec<Profile>) -> Self {
        let by_name = profiles.into_iter().map(|p| (p.scheduler_name.clone(), Arc::new(p))).collect();
        Profiles { by_name, backoff: (POD_INITIAL_BACKOFF, POD_MAX_BACKOFF) }
    }

    /// The profile that places this pod, if any does.
    pub fn of(&self, pod: &PodInfo) -> Option<&Arc<Profile>> {
        self.by_name.get(pod.scheduler_name())
    }

    /// Is the pod held back?
    pub fn gated(&self, pod: &PodInfo) -> bool {
        self.of(pod)
            .is_some_and(|profile| profile.pre_enqueue.iter().any(|p| !p.pre_enqueue(pod).is_success()))
    }

    /// Could the event lift the plugin's refusal? If the plugin is unknown: yes, to be safe.
    pub fn hint(&self, plugin: &str, pod: &PodInfo, event: &ClusterEvent) -> Hint {
        match self.of(pod).and_then(|profile| profile.plugin(plugin)) {
            Some(plugin) => plugin.hint(pod, event),
            None => Hint::Queue,
        }
    }

    /// Could a binding ever lift the plugin's refusal?
    pub fn waits_for_bindings(&self, plugin: &str, pod: &PodInfo) -> bool {
        self.of(pod)
            .and_then(|profile| profile.plugin(plugin))
            .is_none_or(|plugin| plugin.waits_for_bindings())
    }
}
