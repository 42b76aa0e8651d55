//! Disruption modes: when many nodes fall silent at once, the fault is probably ours.
//!
//! If one node of ten is silent, it is broken and its pods must move. If all are silent, the network between them and us is broken, and moving
//! every pod of the cluster would turn a fault of the network into an outage. So evictions are slowed down by zone: one
//! node in ten seconds normally, slower (or not at all in small clusters) when more than 55 % of a zone are silent, and stopped when every zone is.
//!
//! # In Kubernetes
//! `node_lifecycle_controller.go` (`ComputeZoneState`, `handleDisruption`, `ReducedQPSFunc`), same numbers.

use k8s_openapi::jiff::Timestamp;

/// Nodes of a zone that may be tainted a second. Faster: a short fault of the network moves more pods.
pub const NODE_EVICTION_RATE: f64 = 0.1;
/// The same while most of a large zone is silent.
pub const SECONDARY_NODE_EVICTION_RATE: f64 = 0.01;
/// Zones with fewer nodes are small: no evictions while most of them are silent.
pub const LARGE_CLUSTER_SIZE_THRESHOLD: usize = 50;
/// Share of silent nodes from which a zone counts as disrupted.
pub const UNHEALTHY_ZONE_THRESHOLD: f64 = 0.55;

/// How a zone is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneState {
    /// Most nodes are ready.
    Normal,
    /// More than the threshold, and more than two, are not.
    PartialDisruption,
    /// None is ready.
    FullDisruption,
}

/// State of a zone with so many ready and silent nodes.
pub fn compute_zone_state(ready: usize, not_ready: usize) -> ZoneState {
    let total = ready + not_ready;
    if ready == 0 && not_ready > 0 {
        ZoneState::FullDisruption
    } else if not_ready > 2 && not_ready as f64 / total as f64 >= UNHEALTHY_ZONE_THRESHOLD {
        ZoneState::PartialDisruption
    } else {
        ZoneState::Normal
    }
}

/// Nodes a second that may be tainted in a zone, when not all zones are fully disrupted.
pub fn eviction_rate(state: ZoneState, nodes: usize) -> f64 {
    match state {
        ZoneState::Normal | ZoneState::FullDisruption => NODE_EVICTION_RATE,
        ZoneState::PartialDisruption if nodes > LARGE_CLUSTER_SIZE_THRESHOLD => SECONDARY_NODE_EVICTION_RATE,
        ZoneState::PartialDisruption => 0.0,
    }
}

/// A bucket of one token: lets one node through, then one every `1/rate` seconds.
#[derive(Clone, Debug)]
pub struct EvictionLimiter {
    last: Option<Timestamp>,
}

impl EvictionLimiter {
    /// A full bucket.
    pub fn new() -> Self {
        EvictionLimiter { last: None }
    }

    /// Takes the token if it is there.
    pub fn try_accept(&mut self, rate: f64, now: Timestamp) -> bool {
        let refilled = self.last.is_none_or(|last| now.duration_since(last).as_secs_f64() * rate >= 1.0);
        let accepted = rate > 0.0 && refilled;
        if accepted {
            self.last = Some(now);
        }
        accepted
    }
}

impl Default for EvictionLimiter {
    fn default() -> Self {
        EvictionLimiter::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_judged_by_their_silent_nodes() {
        assert_eq!(compute_zone_state(0, 1), ZoneState::FullDisruption);
        assert_eq!(compute_zone_state(1, 2), ZoneState::Normal, "two silent nodes are no disruption");
        assert_eq!(compute_zone_state(2, 3), ZoneState::PartialDisruption);
        assert_eq!(compute_zone_state(0, 0), ZoneState::Normal);
        assert_eq!(eviction_rate(ZoneState::PartialDisruption, 50), 0.0);
        assert_eq!(eviction_rate(ZoneState::PartialDisruption, 51), 0.01);
    }

    #[test]
    fn one_node_in_ten_seconds() {
        let mut limiter = EvictionLimiter::new();
        let at = |second| Timestamp::from_second(second).unwrap();
        let accepted: Vec<i64> = (0..25).filter(|second| limiter.try_accept(0.1, at(*second))).collect();
        assert_eq!(accepted, [0, 10, 20]);
    }
}
