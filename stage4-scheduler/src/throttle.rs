//! Throttle: `qps` and `burst`, if the configuration file asks for them.
//!
//! A bucket of `burst` tokens that fills at `qps` a second; a write takes one, or waits for it. Watches and reads of the
//! caches don't count. Without a limit nothing waits, and API priority and fairness keeps the server safe.
//!
//! # In Kubernetes
//! `client-go/util/flowcontrol/throttle.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock")]

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Makes writers wait.
#[derive(Debug)]
pub struct Throttle {
    limit: Option<(f64, f64)>,
    /// Tokens, and when they were counted. Negative: promised to somebody who waits.
    bucket: Mutex<(f64, Instant)>,
}

impl Throttle {
    /// Requests a second and at once; `None` is no limit.
    pub fn new(rate: Option<(f64, u32)>) -> Self {
        let limit = rate.map(|(qps, burst)| (qps, f64::from(burst.max(1))));
        let full = limit.map_or(0.0, |(_, burst)| burst);
        Throttle { limit, bucket: Mutex::new((full, Instant::now())) }
    }

    /// Waits until one more request is allowed. Whoever asks first goes first.
    pub async fn acquire(&self) {
        let Some((qps, burst)) = self.limit else { return };
        let wait = {
            let mut bucket = self.bucket.lock();
            let now = Instant::now();
            let filled = bucket.0 + (now - bucket.1).as_secs_f64() * qps;
            *bucket = (filled.min(burst) - 1.0, now);
            -bucket.0 / qps
        };
        if wait > 0.0 {
            tokio::time::sleep(Duration::from_secs_f64(wait)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn after_the_burst_requests_come_at_the_rate() {
        let throttle = Throttle::new(Some((10.0, 5)));
        let start = Instant::now();
        for _ in 0..25 {
            throttle.acquire().await;
        }
        let took = start.elapsed().as_secs_f64();
        assert!((1.99..2.1).contains(&took), "{took}");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_nobody_waits() {
        let throttle = Throttle::new(None);
        let start = Instant::now();
        for _ in 0..1000 {
            throttle.acquire().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
