//! Metrics: Kubernetes' names for how much is scheduled and how long it takes.
//!
//! *Beside a pod's journey through this stage.* Served at `/metrics`.
//!
//! # In Kubernetes
//! `pkg/scheduler/metrics/metrics.go`. Left out: durations by extension point and by plugin.

use std::sync::atomic::AtomicI64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::scheduling_queue::Pending;

/// Labels of `scheduler_schedule_attempts_total`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Attempt {
    /// `scheduled`, `unschedulable` or `error`.
    pub result: &'static str,
    /// Scheduler name.
    pub profile: String,
}

/// Labels of `scheduler_pending_pods`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Queue {
    /// `active`, `backoff`, `unschedulable` or `gated`.
    pub queue: &'static str,
}

/// What is counted.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Tries by result.
    pub schedule_attempts: Family<Attempt, Counter>,
    /// Time of one decision in seconds.
    pub scheduling_algorithm_duration: Histogram,
    /// Time from the first sight of a pod to its binding in seconds.
    pub pod_scheduling_sli_duration: Histogram,
    /// Pods by queue.
    pub pending_pods: Family<Queue, Gauge<i64, AtomicI64>>,
    /// Attempts to evict pods.
    pub preemption_attempts: Counter,
    /// Pods evicted per attempt.
    pub preemption_victims: Histogram,
}

impl Metrics {
    /// Registers everything under `scheduler_`.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Metrics {
            schedule_attempts: Family::default(),
            scheduling_algorithm_duration: Histogram::new(exponential_buckets(0.000_1, 2.0, 18)),
            pod_scheduling_sli_duration: Histogram::new(exponential_buckets(0.01, 2.0, 20)),
            pending_pods: Family::default(),
            preemption_attempts: Counter::default(),
            preemption_victims: Histogram::new(exponential_buckets(1.0, 2.0, 7)),
        };
        let scheduler = registry.sub_registry_with_prefix("scheduler");
        scheduler.register(
            "schedule_attempts",
            "Number of attempts to schedule pods, by the result",
            metrics.schedule_attempts.clone(),
        );
        scheduler.register(
            "scheduling_algorithm_duration_seconds",
            "Scheduling algorithm latency in seconds",
            metrics.scheduling_algorithm_duration.clone(),
        );
        scheduler.register(
            "pod_scheduling_sli_duration_seconds",
            "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue",
            metrics.pod_scheduling_sli_duration.clone(),
        );
        scheduler.register(
            "pending_pods",
            "Number of pending pods, by the queue type",
            metrics.pending_pods.clone(),
        );
        scheduler.register(
            "preemption_attempts",
            "Total preemption attempts in the cluster till now",
            metrics.preemption_attempts.clone(),
        );
        scheduler.register(
            "preemption_victims",
            "Number of selected preemption victims",
            metrics.preemption_victims.clone(),
        );
        metrics
    }

    /// Notes the lengths of the queues.
    pub fn set_pending(&self, pending: Pending) {
        for (queue, pods) in [
            ("active", pending.active),
            ("backoff", pending.backoff),
            ("unschedulable", pending.unschedulable),
            ("gated", pending.gated),
        ] {
            self.pending_pods.get_or_create(&Queue { queue }).set(pods as i64);
        }
    }
}
