//! Metrics: Kubernetes' names for how much is scheduled and how long it takes.
//!
//! *Beside a pod's journey through this stage.* Served at `/metrics`.
//!
//! # In Kubernetes
//! `pkg/scheduler/metrics/metrics.go`: all that is stable or beta, and what of the rest makes sense here. Of the extension points
//! those after the decision are timed, and the decision as a whole (`scheduling_algorithm_duration_seconds`): it is one pure function,
//! often answered from memory, and asks the points before it in no order that a clock could follow. Left out: durations and
//! evaluations by plugin (`cargo bench … -- --shares` tells), goroutines (there are none), the durations of hints.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::scheduling_queue::{Counts, Pending};

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

/// Labels of `scheduler_queue_incoming_pods_total`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Incoming {
    /// `active`, `backoff`, `unschedulable` or `gated`.
    pub queue: &'static str,
    /// What brought the pod there: `UnschedulablePodAdd`, `NodeAdd`, `BackoffComplete`, ….
    pub event: String,
}

/// Labels of `scheduler_pod_scheduling_sli_duration_seconds`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Attempts {
    /// How often the pod was tried; `16+` for more than 15.
    pub attempts: String,
}

/// Labels of `scheduler_unschedulable_pods`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub struct Refusal {
    /// Who refused the pods.
    pub plugin: &'static str,
    /// Scheduler name.
    pub profile: String,
}

/// Labels of `scheduler_cache_size`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CacheType {
    /// `nodes`, `pods` or `assumed_pods`.
    pub r#type: &'static str,
}

/// Labels of `scheduler_framework_extension_point_duration_seconds`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ExtensionPoint {
    /// `Bind`, `PreBind`, `Permit`, ….
    pub extension_point: &'static str,
    /// `Success`, `Wait`, `Unschedulable`, `Error`.
    pub status: &'static str,
    /// Scheduler name.
    pub profile: String,
}

/// Labels of `scheduler_permit_wait_duration_seconds`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Outcome {
    /// `Success` or `Unschedulable`.
    pub result: &'static str,
}

type Timed<L> = Family<L, Histogram, fn() -> Histogram>;

/// What is counted.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Tries by result.
    pub schedule_attempts: Family<Attempt, Counter>,
    /// Time of one try, binding included, by result.
    pub scheduling_attempt_duration: Timed<Attempt>,
    /// Time of one decision in seconds.
    pub scheduling_algorithm_duration: Histogram,
    /// Time from the first sight of a pod to its binding in seconds, by the number of tries.
    pub pod_scheduling_sli_duration: Timed<Attempts>,
    /// Number of tries that bound pods took.
    pub pod_scheduling_attempts: Histogram,
    /// Pods by queue.
    pub pending_pods: Family<Queue, Gauge<i64, AtomicI64>>,
    /// Pods that came into a queue, by what brought them.
    pub queue_incoming_pods: Family<Incoming, Counter>,
    /// Sleeping pods by who refused them.
    pub unschedulable_pods: Family<Refusal, Gauge<i64, AtomicI64>>,
    /// What the cache holds.
    pub cache_size: Family<CacheType, Gauge<i64, AtomicI64>>,
    /// Time of the points after the decision.
    pub framework_extension_point_duration: Timed<ExtensionPoint>,
    /// Time that pods waited for a permit.
    pub permit_wait_duration: Timed<Outcome>,
    /// Attempts to evict pods.
    pub preemption_attempts: Counter,
    /// Pods evicted per attempt.
    pub preemption_victims: Histogram,
}

fn attempt_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

fn sli_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.01, 2.0, 20))
}

fn point_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 2.0, 12))
}

impl Metrics {
    /// Registers everything under `scheduler_`.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Metrics {
            schedule_attempts: Family::default(),
            scheduling_attempt_duration: Family::new_with_constructor(attempt_seconds),
            scheduling_algorithm_duration: Histogram::new(exponential_buckets(0.000_1, 2.0, 18)),
            pod_scheduling_sli_duration: Family::new_with_constructor(sli_seconds),
            pod_scheduling_attempts: Histogram::new(exponential_buckets(1.0, 2.0, 5)),
            pending_pods: Family::default(),
            queue_incoming_pods: Family::default(),
            unschedulable_pods: Family::default(),
            cache_size: Family::default(),
            framework_extension_point_duration: Family::new_with_constructor(point_seconds),
            permit_wait_duration: Family::new_with_constructor(attempt_seconds),
            preemption_attempts: Counter::default(),
            preemption_victims: Histogram::new(exponential_buckets(1.0, 2.0, 7)),
        };
        metrics.register(registry.sub_registry_with_prefix("scheduler"));
        metrics
    }

    fn register(&self, to: &mut Registry) {
        let help = "Number of attempts to schedule pods, by the result";
        to.register("schedule_attempts", help, self.schedule_attempts.clone());
        let help = "Scheduling attempt latency in seconds (scheduling algorithm + binding)";
        to.register("scheduling_attempt_duration_seconds", help, self.scheduling_attempt_duration.clone());
        let help = "Scheduling algorithm latency in seconds";
        to.register(
            "scheduling_algorithm_duration_seconds",
            help,
            self.scheduling_algorithm_duration.clone(),
        );
        let help = "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue";
        to.register("pod_scheduling_sli_duration_seconds", help, self.pod_scheduling_sli_duration.clone());
        let help = "Number of attempts to successfully schedule a pod";
        to.register("pod_scheduling_attempts", help, self.pod_scheduling_attempts.clone());
        to.register("pending_pods", "Number of pending pods, by the queue type", self.pending_pods.clone());
        let help = "Number of pods added to scheduling queues by event and queue type";
        to.register("queue_incoming_pods", help, self.queue_incoming_pods.clone());
        let help = "The number of unschedulable pods broken down by plugin name";
        to.register("unschedulable_pods", help, self.unschedulable_pods.clone());
        let help = "Number of nodes, pods, and assumed (bound) pods in the scheduler cache";
        to.register("cache_size", help, self.cache_size.clone());
        let help = "Latency for running all plugins of a specific extension point";
        let points = self.framework_extension_point_duration.clone();
        to.register("framework_extension_point_duration_seconds", help, points);
        let help = "Duration of waiting on permit";
        to.register("permit_wait_duration_seconds", help, self.permit_wait_duration.clone());
        let help = "Total preemption attempts in the cluster till now";
        to.register("preemption_attempts", help, self.preemption_attempts.clone());
        let help = "Number of selected preemption victims";
        to.register("preemption_victims", help, self.preemption_victims.clone());
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

    /// Adds the pods that came into the queues.
    pub fn add_incoming(&self, incoming: Counts) {
        for ((queue, (kind, action)), pods) in incoming {
            let labels = Incoming { queue, event: format!("{kind}{action}") };
            self.queue_incoming_pods.get_or_create(&labels).inc_by(pods);
        }
    }

    /// Notes who keeps how many pods waiting. Plugins that don't any more are forgotten.
    pub fn set_refusals(&self, refusals: BTreeMap<Refusal, usize>) {
        self.unschedulable_pods.clear();
        for (refusal, pods) in refusals {
            self.unschedulable_pods.get_or_create(&refusal).set(pods as i64);
        }
    }

    /// Notes what the cache holds.
    pub fn set_cache(&self, nodes: usize, pods: usize, assumed_pods: usize) {
        for (r#type, size) in [("nodes", nodes), ("pods", pods), ("assumed_pods", assumed_pods)] {
            self.cache_size.get_or_create(&CacheType { r#type }).set(size as i64);
        }
    }

    /// A pod was bound after so many tries, so long after it was seen first.
    pub fn bound(&self, attempts: u32, since: Duration) {
        let label = if attempts > 15 { "16+".to_owned() } else { attempts.to_string() };
        self.pod_scheduling_sli_duration
            .get_or_create(&Attempts { attempts: label })
            .observe(since.as_secs_f64());
        self.pod_scheduling_attempts.observe(f64::from(attempts));
    }

    /// A try ended, so long after it began.
    pub fn attempted(&self, result: &'static str, profile: &str, took: Duration) {
        let labels = Attempt { result, profile: profile.to_owned() };
        self.schedule_attempts.get_or_create(&labels).inc();
        self.scheduling_attempt_duration.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// A point after the decision took so long.
    pub fn point(&self, extension_point: &'static str, status: &'static str, profile: &str, took: Duration) {
        let labels = ExtensionPoint { extension_point, status, profile: profile.to_owned() };
        self.framework_extension_point_duration.get_or_create(&labels).observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_kubernetes_names() {
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        metrics.attempted("scheduled", "default-scheduler", Duration::from_millis(3));
        metrics.bound(17, Duration::from_secs(1));
        metrics.point("Bind", "Success", "default-scheduler", Duration::from_millis(1));
        metrics.set_cache(2, 3, 1);
        metrics.add_incoming([(("active", ("Node", "UpdateNodeLabel")), 2)].into());
        let refusal = Refusal { plugin: "NodeName", profile: "default-scheduler".to_owned() };
        metrics.set_refusals([(refusal, 4)].into());
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"default-scheduler\"} 1",
            "scheduler_scheduling_attempt_duration_seconds_count{result=\"scheduled\",profile=\"default-scheduler\"} 1",
            "scheduler_pod_scheduling_sli_duration_seconds_count{attempts=\"16+\"} 1",
            "scheduler_pod_scheduling_attempts_sum 17.0",
            "scheduler_cache_size{type=\"assumed_pods\"} 1",
            "scheduler_unschedulable_pods{plugin=\"NodeName\",profile=\"default-scheduler\"} 4",
            "scheduler_framework_extension_point_duration_seconds_count{extension_point=\"Bind\",status=\"Success\",profile=\"default-scheduler\"} 1",
            "scheduler_queue_incoming_pods_total{queue=\"active\",event=\"NodeUpdateNodeLabel\"} 2",
            "scheduler_preemption_attempts_total 0",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        metrics.set_refusals(BTreeMap::new());
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(!text.contains("NodeName"));
    }
}
