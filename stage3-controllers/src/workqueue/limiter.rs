//! Rate limits of a work queue: exponential back-off for a key, a token bucket for all.
//!
//! A key that fails is tried again after 5 ms, 10 ms, 20 ms … up to 1000 s. A thousand keys that fail at once (the
//! API server is away) would still come back as a thousand requests, so a bucket of 100 tokens, filled with
//! 10 a second, spreads them; the longer of the two delays counts.
//!
//! # Invariants
//! 1. The delay of a key doubles with each failure and never exceeds the maximum.
//! 2. Over any time `t`, the bucket lets through at most `burst + qps * t` retries.
//!
//! # In Kubernetes
//! `client-go/util/workqueue/default_rate_limiters.go` (`DefaultControllerRateLimiter`), with the same numbers.

use std::collections::HashMap;
use std::time::Duration;

use super::Key;

/// First delay of a key that failed. Shorter: a failing key busies a worker; longer: a lost race is felt.
pub const BASE_DELAY: Duration = Duration::from_millis(5);
/// Longest delay of a key that fails again and again. Longer: a repaired cause takes that long to show.
pub const MAX_DELAY: Duration = Duration::from_secs(1000);
/// Retries a second, over all keys.
pub const QPS: f64 = 10.0;
/// Retries that may come at once.
pub const BURST: f64 = 100.0;

/// The delays of keys that failed.
#[derive(Debug)]
pub struct RateLimiter<K: Key> {
    failures: HashMap<K, u32>,
    base: Duration,
    max: Duration,
    tokens: f64,
    refilled_at: Duration,
}

impl<K: Key> Default for RateLimiter<K> {
    fn default() -> Self {
        RateLimiter::new(BASE_DELAY, MAX_DELAY)
    }
}

impl<K: Key> RateLimiter<K> {
    /// A limiter with its own shortest and longest delay.
    pub fn new(base: Duration, max: Duration) -> RateLimiter<K> {
        RateLimiter { failures: HashMap::new(), base, max, tokens: BURST, refilled_at: Duration::ZERO }
    }

    /// Counts a failure of the key; returns how long it must wait.
    pub fn when(&mut self, key: &K, now: Duration) -> Duration {
        let failures = self.failures.entry(key.clone()).or_insert(0);
        let exponential = exponential(self.base, self.max, *failures);
        *failures = failures.saturating_add(1);
        let refill = now.saturating_sub(self.refilled_at).as_secs_f64() * QPS;
        self.tokens = (self.tokens + refill).min(BURST) - 1.0;
        self.refilled_at = now;
        // Below zero the token is borrowed from the future: the wait is the time until it is there.
        let bucket =
            if self.tokens < 0.0 { Duration::from_secs_f64(-self.tokens / QPS) } else { Duration::ZERO };
        exponential.max(bucket)
    }

    /// Forgets the failures of a key.
    pub fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }

    /// How often the key failed.
    pub fn failures(&self, key: &K) -> u32 {
        self.failures.get(key).copied().unwrap_or(0)
    }
}

/// `base * 2^failures`, at most `max`.
pub fn exponential(base: Duration, max: Duration, failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures.min(31)).unwrap_or(u32::MAX);
    base.checked_mul(factor).unwrap_or(max).min(max)
}
