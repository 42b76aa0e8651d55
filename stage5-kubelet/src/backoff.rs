//! Back-off: how long a failing container or pull waits before the next try.
//!
//! *Step 5 of a pod's journey.* Before: [`crate::pod_actions`] wants to start a container that just ended, or
//! [`crate::images`] wants to pull an image that just failed. After: it does so, or waits.
//!
//! The first failure costs nothing: the entry is made by the first *restart*, so the second one waits ten seconds, then
//! twenty, up to five minutes. An entry is forgotten when the thing ran well for twice the maximum.
//!
//! # Invariants
//! 1. A wait never exceeds [`MAX_BACK_OFF`].
//! 2. Asking ([`Backoffs::until`]) changes nothing; only [`Backoffs::next`] does.
//!
//! # In Kubernetes
//! `client-go/util/flowcontrol/backoff.go`; `MaxContainerBackOff` and `containerBackOffPeriod` in `pkg/kubelet/kubelet.go`. Left out:
//! jitter, node-level settings of the maximum (alpha in 1.33).

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

/// Wait before the second restart. Shorter and a crashing container burns the node; longer and a hiccup becomes an outage.
pub const BACK_OFF_PERIOD: SignedDuration = SignedDuration::from_secs(10);
/// Longest wait between restarts.
pub const MAX_BACK_OFF: SignedDuration = SignedDuration::from_secs(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    wait: SignedDuration,
    updated: Timestamp,
}

/// The back-off entries of one owner, by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backoffs {
    entries: HashMap<String, Entry>,
}

// ANCHOR: backoff
impl Backoffs {
    /// When `key` may be tried again, if that lies after `now`; `failed_at` is when it last went wrong.
    pub fn until(
        &self,
        key: &str,
        failed_at: Timestamp,
        now: Timestamp,
    ) -> Option<(Timestamp, SignedDuration)> {
        let entry = self.entries.get(key)?;
        if expired(failed_at, entry.updated) {
            return None;
        }
        let until = failed_at + entry.wait;
        (until > now).then_some((until, entry.wait))
    }

    /// Notes a new try: the next failure will wait twice as long.
    pub fn next(&mut self, key: &str, failed_at: Timestamp, now: Timestamp) {
        let wait = match self.entries.get(key) {
            Some(e) if !expired(failed_at, e.updated) => (e.wait * 2).min(MAX_BACK_OFF),
            _ => BACK_OFF_PERIOD,
        };
        self.entries.insert(key.to_owned(), Entry { wait, updated: now });
    }

    /// Drops entries that no longer count.
    pub fn collect_garbage(&mut self, now: Timestamp) {
        self.entries.retain(|_, e| !expired(now, e.updated));
    }
}

fn expired(event: Timestamp, updated: Timestamp) -> bool {
    event.duration_since(updated) > MAX_BACK_OFF * 2
}
// ANCHOR_END: backoff

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn first_restart_is_free_and_waits_double_up_to_five_minutes() {
        let mut b = Backoffs::default();
        let mut t = 0;
        let mut waits = vec![];
        for _ in 0..8 {
            let until = b.until("k", at(t), at(t)).map_or(t, |(u, _)| u.as_second());
            waits.push(until - t);
            t = until;
            b.next("k", at(t), at(t));
        }
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn ten_good_minutes_reset_the_wait() {
        let mut b = Backoffs::default();
        b.next("k", at(0), at(0));
        b.next("k", at(1), at(1));
        assert!(b.until("k", at(5), at(5)).is_some());
        assert_eq!(b.until("k", at(700), at(700)), None);
        b.next("k", at(700), at(700));
        assert_eq!(b.until("k", at(701), at(701)).unwrap().1, BACK_OFF_PERIOD);
    }
}
