//! Metrics: how long syncs take.
//!
//! *Beside the journey.* Names are kube-proxy's, so that dashboards work.
//!
//! # In Kubernetes
//! `pkg/proxy/metrics/metrics.go`. Left out: network programming latency, no-local-endpoints counters, nfacct counters.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// What a proxier counts.
#[derive(Clone, Debug)]
pub struct Metrics {
    all: Histogram,
    full: Histogram,
    partial: Histogram,
    failures: Counter,
    last: Gauge<f64, AtomicU64>,
}

impl Metrics {
    /// Registers them.
    pub fn new(registry: &mut Registry) -> Self {
        let histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 15));
        let metrics = Self {
            all: histogram(),
            full: histogram(),
            partial: histogram(),
            failures: Counter::default(),
            last: Gauge::default(),
        };
        let registry = registry.sub_registry_with_prefix("kubeproxy");
        registry.register("sync_proxy_rules_duration_seconds", "Syncs", metrics.all.clone());
        registry.register("sync_full_proxy_rules_duration_seconds", "Full syncs", metrics.full.clone());
        registry.register(
            "sync_partial_proxy_rules_duration_seconds",
            "Partial syncs",
            metrics.partial.clone(),
        );
        registry.register("sync_proxy_rules_failures", "Failed syncs", metrics.failures.clone());
        registry.register("sync_proxy_rules_last_duration_seconds", "The last sync", metrics.last.clone());
        metrics
    }

    /// A sync ended.
    pub fn synced(&self, full: bool, took: Duration, ok: bool) {
        let seconds = took.as_secs_f64();
        self.all.observe(seconds);
        if full {
            self.full.observe(seconds)
        } else {
            self.partial.observe(seconds)
        }
        self.last.set(seconds);
        if !ok {
            self.failures.inc();
        }
    }
}
