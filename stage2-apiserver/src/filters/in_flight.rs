//! The in-flight limit: so many requests at a time, and no more.
//!
//! Without it a burst of lists would take all memory and everybody would wait; with it a few are told to come back in a
//! second. Reads and writes have limits of their own, so that readers can't keep writers out. Watches don't
//! count. With priority and fairness ([`super::fairness`]), the default, this only counts.
//!
//! # In Kubernetes
//! `apiserver/pkg/server/filters/maxinflight.go` (what priority and fairness replaced).

use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;
use stage1_kubectl::status::Status;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::metrics::Metrics;
use crate::request_info::RequestInfo;

/// `--max-requests-inflight`: more, and memory is at the mercy of the clients.
pub const DEFAULT_MAX_READS: usize = 400;
/// `--max-mutating-requests-inflight`.
pub const DEFAULT_MAX_WRITES: usize = 200;

/// The two limits.
pub struct InFlight {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
}

/// A place among the running requests; dropping it frees the place.
pub struct Permit {
    _place: OwnedSemaphorePermit,
    gauge: Gauge,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

impl InFlight {
    /// Limits for reads and writes.
    pub fn new(max_reads: usize, max_writes: usize) -> Self {
        Self { reads: Arc::new(Semaphore::new(max_reads)), writes: Arc::new(Semaphore::new(max_writes)) }
    }

    /// Counts without limits.
    pub fn unlimited() -> Self {
        Self::new(Semaphore::MAX_PERMITS, Semaphore::MAX_PERMITS)
    }

    /// Takes a place.
    ///
    /// # Errors
    /// 429 when all are taken.
    pub fn enter(&self, info: &RequestInfo, metrics: &Metrics) -> Result<Permit, Status> {
        let mutating = !matches!(info.verb.as_str(), "get" | "list");
        let limit = if mutating { &self.writes } else { &self.reads };
        let Ok(place) = limit.clone().try_acquire_owned() else {
            return Err(Status::too_many_requests("Too many requests, please try again later.", 1));
        };
        let gauge = metrics.in_flight_gauge(mutating);
        gauge.inc();
        Ok(Permit { _place: place, gauge })
    }
}

impl Default for InFlight {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_READS, DEFAULT_MAX_WRITES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_find_a_place_while_readers_fill_theirs() {
        let limits = InFlight::new(1, 1);
        let metrics = Metrics::default();
        let request = |verb: &str| RequestInfo { verb: verb.into(), ..RequestInfo::default() };
        let first = limits.enter(&request("list"), &metrics).expect("a place");
        assert_eq!(limits.enter(&request("get"), &metrics).err().expect("full").code, 429);
        assert!(limits.enter(&request("create"), &metrics).is_ok());
        drop(first);
        assert!(limits.enter(&request("get"), &metrics).is_ok());
    }
}
