//! Metrics of admission webhooks: calls, how long they took, refusals, failures that were let through.
//!
//! # In Kubernetes
//! `apiserver/pkg/admission/metrics/metrics.go`. Left out: step and controller durations.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Labels of a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CallLabels {
    /// The webhook.
    pub name: String,
    /// `admit` or `validating`.
    pub r#type: String,
    /// `CREATE` …
    pub operation: String,
    /// `true` when the request was refused.
    pub rejected: String,
}

/// Labels of a refusal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RejectionLabels {
    /// The webhook.
    pub name: String,
    /// `admit` or `validating`.
    pub r#type: String,
    /// `CREATE` …
    pub operation: String,
    /// `calling_webhook_error` or `no_error`.
    pub error_type: String,
    /// HTTP status code of the refusal.
    pub rejection_code: String,
}

/// Labels of a failure that was let through.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct FailOpenLabels {
    /// The webhook.
    pub name: String,
    /// `admit` or `validating`.
    pub r#type: String,
}

const BUCKETS: [f64; 8] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];

/// The webhooks' part of `/metrics`.
pub struct WebhookMetrics {
    durations: Family<CallLabels, Histogram, fn() -> Histogram>,
    requests: Family<CallLabels, Counter>,
    rejections: Family<RejectionLabels, Counter>,
    fail_open: Family<FailOpenLabels, Counter>,
}

impl WebhookMetrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let durations: Family<CallLabels, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(BUCKETS));
        let metrics = WebhookMetrics {
            durations,
            requests: Family::default(),
            rejections: Family::default(),
            fail_open: Family::default(),
        };
        let name = |rest: &str| format!("apiserver_admission_webhook_{rest}");
        let durations = metrics.durations.clone();
        registry.register(name("admission_duration_seconds"), "How long a webhook took", durations);
        registry.register(name("request"), "Calls of webhooks", metrics.requests.clone());
        registry.register(name("rejection_count"), "Refusals by webhooks", metrics.rejections.clone());
        registry.register(name("fail_open_count"), "Failures let through", metrics.fail_open.clone());
        metrics
    }

    /// A call was answered, or failed.
    pub fn observe(&self, labels: CallLabels, seconds: f64) {
        self.durations.get_or_create(&labels).observe(seconds);
        self.requests.get_or_create(&labels).inc();
    }

    /// A request was refused.
    pub fn reject(&self, labels: RejectionLabels) {
        self.rejections.get_or_create(&labels).inc();
    }

    /// A failure was let through.
    pub fn fail_open(&self, labels: FailOpenLabels) {
        self.fail_open.get_or_create(&labels).inc();
    }
}
