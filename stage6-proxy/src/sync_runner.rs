//! The sync runner: at once when it's quiet, once a second when it isn't.
//!
//! *Step 6 of a pod's journey.* Before: something changed. After: [`crate::proxier`] syncs.
//!
//! A rolling update changes endpoints dozens of times a minute, and each sync costs a process and a kernel
//! transaction. So syncs are rationed by a token bucket: two may follow each other at once (a Service that is made
//! and gets its endpoints a moment later answers without delay), after that one a second, each with all
//! changes that came in between.
//!
//! # Invariants
//! 1. A change is synced within [`MIN_SYNC_PERIOD`] of the sync before it.
//! 2. Over any N seconds there are at most N + [`BURST_SYNCS`] syncs.
//!
//! # In Kubernetes
//! `pkg/util/async/bounded_frequency_runner.go`, with `minSyncPeriod` 1 s, `syncPeriod` 30 s and `burstSyncs` 2.

use std::time::{Duration, Instant};

/// Time between syncs under load (`--iptables-min-sync-period`). Less, and large clusters do nothing else.
pub const MIN_SYNC_PERIOD: Duration = Duration::from_secs(1);
/// How often it is checked that the rules are still there (`--iptables-sync-period`).
pub const SYNC_PERIOD: Duration = Duration::from_secs(30);
/// Syncs that may follow each other at once.
pub const BURST_SYNCS: u32 = 2;

/// A token bucket. The clock is the caller's.
#[derive(Clone, Debug)]
pub struct SyncRunner {
    period: Duration,
    /// When the bucket will be full again; every sync moves it by a period.
    full_at: Instant,
}

impl SyncRunner {
    /// With a full bucket.
    pub fn new(period: Duration, now: Instant) -> Self {
        Self { period, full_at: now }
    }

    /// May a sync run now? `Err`: in so long.
    pub fn ask(&self, now: Instant) -> Result<(), Duration> {
        let debt = self.full_at.saturating_duration_since(now);
        // One token is left as long as the debt leaves room for one more period.
        let allowed = self.period * (BURST_SYNCS - 1);
        if debt <= allowed { Ok(()) } else { Err(debt - allowed) }
    }

    /// A sync ran.
    pub fn ran(&mut self, now: Instant) {
        self.full_at = self.full_at.max(now) + self.period;
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test needs some instant")]
mod tests {
    use super::*;

    #[test]
    fn two_syncs_go_at_once_and_then_one_a_second() {
        let start = Instant::now();
        let mut runner = SyncRunner::new(MIN_SYNC_PERIOD, start);
        let mut now = start;
        let mut times = Vec::new();
        for _ in 0..5 {
            if let Err(wait) = runner.ask(now) {
                now += wait;
            }
            assert_eq!(runner.ask(now), Ok(()));
            runner.ran(now);
            times.push((now - start).as_secs());
        }
        assert_eq!(times, [0, 0, 1, 2, 3]);
    }

    #[test]
    fn a_quiet_time_fills_the_bucket_and_no_more() {
        let start = Instant::now();
        let mut runner = SyncRunner::new(MIN_SYNC_PERIOD, start);
        let later = start + Duration::from_secs(3600);
        for expected in [Ok(()), Ok(()), Err(MIN_SYNC_PERIOD)] {
            assert_eq!(runner.ask(later), expected);
            runner.ran(later);
        }
    }
}
