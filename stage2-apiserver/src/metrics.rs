//! Metrics: how many requests of which kind, and how long they took, under Kubernetes' names.
//!
//! *Step 2 of a pod's journey.* Before: a request was answered. After: `/metrics` tells Prometheus.
//!
//! The names and labels are those of the real server, so that dashboards made for it work. Durations of watches are not
//! observed: they last as long as the client likes.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/metrics/metrics.go`. Left out: SLI durations, response sizes.

pub mod flow;
pub mod webhooks;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Labels of `apiserver_request_total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// GET, LIST, WATCH, POST, PUT, PATCH, DELETE, DELETECOLLECTION, CONNECT.
    pub verb: String,
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Resource.
    pub resource: String,
    /// Subresource.
    pub subresource: String,
    /// `cluster`, `namespace`, `resource` or nothing.
    pub scope: String,
    /// HTTP status code.
    pub code: String,
}

/// Labels of `apiserver_request_duration_seconds`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DurationLabels {
    /// As in [`RequestLabels`].
    pub verb: String,
    /// As in [`RequestLabels`].
    pub group: String,
    /// As in [`RequestLabels`].
    pub version: String,
    /// As in [`RequestLabels`].
    pub resource: String,
    /// As in [`RequestLabels`].
    pub subresource: String,
    /// As in [`RequestLabels`].
    pub scope: String,
}

/// Labels of `apiserver_current_inflight_requests`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct KindLabels {
    /// `readOnly` or `mutating`.
    pub request_kind: String,
}

/// Upper bounds in seconds, as Kubernetes has them.
const BUCKETS: [f64; 22] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0,
];

/// All metrics of the server.
pub struct Metrics {
    registry: Registry,
    /// Requests by verb, resource and code.
    pub requests: Family<RequestLabels, Counter>,
    durations: Family<DurationLabels, Histogram, fn() -> Histogram>,
    /// Requests that run now.
    pub in_flight: Family<KindLabels, Gauge>,
    /// Watches that run now.
    pub long_running: Gauge<i64, std::sync::atomic::AtomicI64>,
    /// Audit events written.
    pub audit_events: Counter<u64, AtomicU64>,
    /// Admission webhooks.
    pub webhooks: webhooks::WebhookMetrics,
    /// Priority and fairness.
    pub flow: Arc<flow::FlowMetrics>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let requests = Family::default();
        let durations: Family<DurationLabels, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(BUCKETS));
        let in_flight = Family::default();
        let long_running = Gauge::default();
        let audit_events = Counter::default();
        registry.register("apiserver_request", "Requests by verb, resource and code", requests.clone());
        registry.register(
            "apiserver_request_duration_seconds",
            "Response latency in seconds",
            durations.clone(),
        );
        registry.register("apiserver_current_inflight_requests", "Requests that run now", in_flight.clone());
        registry.register(
            "apiserver_longrunning_requests",
            "Watches and connections that run now",
            long_running.clone(),
        );
        registry.register("apiserver_audit_event", "Audit events written", audit_events.clone());
        let webhooks = webhooks::WebhookMetrics::register(&mut registry);
        let flow = Arc::new(flow::FlowMetrics::register(&mut registry));
        Self { registry, requests, durations, in_flight, long_running, audit_events, webhooks, flow }
    }
}

impl Metrics {
    /// Counts a finished request; `seconds` is `None` for long-running ones.
    pub fn observe(&self, labels: RequestLabels, seconds: Option<f64>) {
        if let Some(seconds) = seconds {
            let RequestLabels { verb, group, version, resource, subresource, scope, .. } = labels.clone();
            let duration = DurationLabels { verb, group, version, resource, subresource, scope };
            self.durations.get_or_create(&duration).observe(seconds);
        }
        self.requests.get_or_create(&labels).inc();
    }

    /// The gauge of running requests of a kind.
    pub fn in_flight_gauge(&self, mutating: bool) -> Gauge {
        let request_kind = if mutating { "mutating" } else { "readOnly" }.to_owned();
        self.in_flight.get_or_create(&KindLabels { request_kind }).clone()
    }

    /// The Prometheus text.
    pub fn render(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string doesn't fail");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_under_kubernetes_names() {
        let metrics = Metrics::default();
        let labels = RequestLabels {
            verb: "LIST".into(),
            group: String::new(),
            version: "v1".into(),
            resource: "pods".into(),
            subresource: String::new(),
            scope: "namespace".into(),
            code: "200".into(),
        };
        metrics.observe(labels, Some(0.01));
        let text = metrics.render();
        assert!(text.contains(r#"apiserver_request_total{verb="LIST""#), "{text}");
        assert!(text.contains("apiserver_request_duration_seconds_bucket"), "{text}");
    }
}
