//! Refusals: which plugins keep how many pods waiting.
//!
//! # In Kubernetes
//! `pkg/scheduler/metrics/metrics.go` (`UnschedulableReason`), counted there with each move of a pod.

use std::collections::BTreeMap;

use super::SchedulingQueue;
use crate::metrics::Refusal;

impl SchedulingQueue {
    /// How many sleeping pods each plugin keeps waiting.
    pub fn refusals(&self) -> BTreeMap<Refusal, usize> {
        let mut refusals = BTreeMap::new();
        for pod in self.sleeping.values() {
            for plugin in &pod.rejectors {
                let profile = pod.info.scheduler_name().to_owned();
                *refusals.entry(Refusal { plugin, profile }).or_default() += 1;
            }
        }
        refusals
    }
}
