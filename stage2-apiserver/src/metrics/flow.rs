//! Metrics of priority and fairness: seats, who has one, who waits, who was sent away.
//!
//! # In Kubernetes
//! `apiserver/pkg/util/flowcontrol/metrics/metrics.go`. Left out: histograms of waiting, what is about borrowing and widths.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Which flow.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct FlowLabels {
    /// PriorityLevelConfiguration.
    pub priority_level: String,
    /// FlowSchema.
    pub flow_schema: String,
}

/// Labels of `apiserver_flowcontrol_rejected_requests_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RejectionLabels {
    priority_level: String,
    flow_schema: String,
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LevelLabels {
    priority_level: String,
}

/// The flows' part of `/metrics`.
#[derive(Default)]
pub struct FlowMetrics {
    executing: Family<FlowLabels, Gauge>,
    waiting: Family<FlowLabels, Gauge>,
    dispatched: Family<FlowLabels, Counter>,
    rejected: Family<RejectionLabels, Counter>,
    seats: Family<LevelLabels, Gauge>,
}

impl FlowMetrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = FlowMetrics::default();
        let name = |rest: &str| format!("apiserver_flowcontrol_{rest}");
        registry.register(
            name("current_executing_requests"),
            "Requests that run now",
            metrics.executing.clone(),
        );
        registry.register(name("current_inqueue_requests"), "Requests that wait", metrics.waiting.clone());
        registry.register(
            name("dispatched_requests"),
            "Requests that got a seat",
            metrics.dispatched.clone(),
        );
        registry.register(name("rejected_requests"), "Requests sent away", metrics.rejected.clone());
        registry.register(name("nominal_limit_seats"), "Seats of a level", metrics.seats.clone());
        metrics
    }

    /// Requests that run now.
    pub fn executing(&self, labels: &FlowLabels) -> Gauge {
        self.executing.get_or_create(labels).clone()
    }

    /// Requests that wait.
    pub fn waiting(&self, labels: &FlowLabels) -> Gauge {
        self.waiting.get_or_create(labels).clone()
    }

    /// A request got a seat.
    pub fn dispatched(&self, labels: &FlowLabels) {
        self.dispatched.get_or_create(labels).inc();
    }

    /// A request was sent away.
    pub fn reject(&self, labels: &FlowLabels, reason: &str) {
        let labels = RejectionLabels {
            priority_level: labels.priority_level.clone(),
            flow_schema: labels.flow_schema.clone(),
            reason: reason.to_owned(),
        };
        self.rejected.get_or_create(&labels).inc();
    }

    /// A level has so many seats.
    pub fn seats(&self, level: &str, seats: usize) {
        let labels = LevelLabels { priority_level: level.to_owned() };
        self.seats.get_or_create(&labels).set(i64::try_from(seats).unwrap_or(i64::MAX));
    }
}
