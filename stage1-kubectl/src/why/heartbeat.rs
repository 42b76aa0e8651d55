//! Heartbeats: does a component live, as far as its Lease tells?
//!
//! *Beside a pod's journey.* The scheduler and the controller manager renew a Lease in `kube-system` every two seconds, each
//! kubelet one in `kube-node-lease` every ten. A Lease that is too old says that the process is gone, without asking it.
//!
//! The subtle thing: a Lease that isn't there proves nothing. A component with `--leader-elect=false` has none; only together
//! with work that nobody does it is a sign.
//!
//! # Invariants
//! 1. `now` is the server's time, as the Lease's time nearly is.
//!
//! # In Kubernetes
//! `client-go/tools/leaderelection`, `component-helpers/apimachinery/lease`.

use jiff::{SignedDuration, Timestamp};

use super::facts::Facts;
use crate::object::Object;
use crate::time::human_duration;

/// What a Lease tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heartbeat {
    /// Renewed in time.
    Fresh,
    /// Not renewed for this long, or given back.
    Stale(SignedDuration),
    /// There is no Lease.
    Absent,
    /// Leases could not be read.
    Unseen,
}

/// The Lease of a component in `kube-system`, or of a node in `kube-node-lease`.
#[must_use]
pub fn heartbeat(facts: &Facts, namespace: &str, name: &str) -> Heartbeat {
    match facts.find("Lease", namespace, name) {
        Some(lease) => of_lease(lease, facts.now),
        None if facts.is_unseen("leases") => Heartbeat::Unseen,
        None => Heartbeat::Absent,
    }
}

/// What one Lease tells.
#[must_use]
pub fn of_lease(lease: &Object, now: Timestamp) -> Heartbeat {
    let renewed: Option<Timestamp> = lease.get_str("/spec/renewTime").and_then(|time| time.parse().ok());
    let age = renewed.map_or(SignedDuration::MAX, |renewed| now.duration_since(renewed));
    let seconds = lease.get_i64("/spec/leaseDurationSeconds").unwrap_or(15);
    let held = lease.get_str("/spec/holderIdentity").is_some_and(|holder| !holder.is_empty());
    match held && age.as_secs() <= seconds {
        true => Heartbeat::Fresh,
        false => Heartbeat::Stale(age),
    }
}

impl Heartbeat {
    /// Whether it says that nobody is there.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        matches!(self, Heartbeat::Stale(_))
    }

    /// In words: `its Lease was renewed 3m ago`.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Heartbeat::Fresh => "its Lease is fresh".into(),
            Heartbeat::Stale(age) if *age == SignedDuration::MAX => "its Lease was never renewed".into(),
            Heartbeat::Stale(age) => format!("its Lease was last renewed {} ago", human_duration(*age)),
            Heartbeat::Absent => "it holds no Lease".into(),
            Heartbeat::Unseen => "its Lease may not be read".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_is_fresh_for_its_duration_and_while_somebody_holds_it() {
        let lease = |holder: &str| {
            Object::from_value(json!({"kind": "Lease", "metadata": {"name": "l"},
                "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}}))
            .unwrap()
        };
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(of_lease(&lease("a"), at("2026-01-01T00:00:15Z")), Heartbeat::Fresh);
        let stale = of_lease(&lease("a"), at("2026-01-01T00:01:00Z"));
        assert_eq!(stale.words(), "its Lease was last renewed 60s ago");
        assert!(of_lease(&lease(""), at("2026-01-01T00:00:01Z")).is_stale());
    }
}
