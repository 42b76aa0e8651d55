//! The work queue: which keys need work, each at most once.
//!
//! *Step 5 of a pod's journey.* Before: [`crate::informer`] noticed a change. After: [`crate::controller`] decides.
//!
//! Ten changes to one ReplicaSet in a second need one look at it, not ten; two workers must never look at the
//! same ReplicaSet at the same time; and a key that failed must come back later, and later still if it fails
//! again. The queue promises the three. It hands out a key as an [`InFlight`] token: giving the token back is
//! the only way to say "done", so `done` without `get`, which client-go leaves to the caller's care, cannot be written.
//!
//! The subtle thing: a key that is added while it is in flight is not queued (that would start a second worker
//! on it) and not dropped (the worker may have read the old state already). It is marked *dirty*, and queued when the token comes back.
//!
//! # Invariants
//! 1. A key is in flight at most once, and waits in the queue at most once.
//! 2. A key that was added after the worker took it is handed out again.
//! 3. After shutdown nothing is handed out but what was queued; then `get` returns `None`.
//!
//! # In Kubernetes
//! `client-go/util/workqueue/{queue,delaying_queue,rate_limiting_queue}.go`. Left out: priorities, metrics providers.

pub mod delay;
pub mod limiter;

use std::collections::{HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use delay::Delayed;
use limiter::RateLimiter;

/// What can be queued.
pub trait Key: Clone + Eq + Hash + Ord + Debug + Send + 'static {}
impl<T: Clone + Eq + Hash + Ord + Debug + Send + 'static> Key for T {}

/// The right to work on a key. Give it back with [`WorkQueue::done`].
#[must_use = "give the token back with done(), or the key is blocked for ever"]
#[derive(Debug)]
pub struct InFlight<K>(K);

impl<K> InFlight<K> {
    /// The key to work on.
    pub fn key(&self) -> &K {
        &self.0
    }
}

// ANCHOR: workqueue
/// The queue itself: no clock, no waiting, no threads.
#[derive(Debug)]
pub struct Queue<K> {
    /// Keys to hand out, in order.
    waiting: VecDeque<K>,
    /// Keys that need work: those in `waiting`, and those in flight that were added again.
    dirty: HashSet<K>,
    /// Keys that a worker holds.
    in_flight: HashSet<K>,
}

impl<K: Key> Queue<K> {
    /// An empty queue.
    pub fn new() -> Queue<K> {
        Queue { waiting: VecDeque::new(), dirty: HashSet::new(), in_flight: HashSet::new() }
    }

    /// Says that a key needs work. Returns whether a waiting worker should be woken.
    pub fn add(&mut self, key: K) -> bool {
        if !self.dirty.insert(key.clone()) {
            return false;
        }
        if self.in_flight.contains(&key) {
            return false;
        }
        self.waiting.push_back(key);
        true
    }

    /// Hands out the key that waits longest.
    pub fn take(&mut self) -> Option<InFlight<K>> {
        let key = self.waiting.pop_front()?;
        self.dirty.remove(&key);
        self.in_flight.insert(key.clone());
        Some(InFlight(key))
    }

    /// Takes a token back. Returns whether the key waits again, because it was added meanwhile.
    pub fn done(&mut self, token: InFlight<K>) -> bool {
        self.in_flight.remove(&token.0);
        let again = self.dirty.contains(&token.0);
        if again {
            self.waiting.push_back(token.0);
        }
        again
    }

    /// Number of keys that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no key waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
// ANCHOR_END: workqueue

impl<K: Key> Default for Queue<K> {
    fn default() -> Self {
        Queue::new()
    }
}

struct State<K: Key> {
    queue: Queue<K>,
    delayed: Delayed<K>,
    limiter: RateLimiter<K>,
    shut_down: bool,
}

/// The queue with its shell: workers wait on it, keys come back after a delay. Cheap to clone.
pub struct WorkQueue<K: Key> {
    state: Arc<Mutex<State<K>>>,
    changed: Arc<Notify>,
    started: Instant,
}

impl<K: Key> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        WorkQueue { state: self.state.clone(), changed: self.changed.clone(), started: self.started }
    }
}

impl<K: Key> Default for WorkQueue<K> {
    fn default() -> Self {
        WorkQueue::new()
    }
}

impl<K: Key> WorkQueue<K> {
    /// An empty queue with Kubernetes' default rate limits.
    pub fn new() -> WorkQueue<K> {
        WorkQueue::with_limiter(RateLimiter::default())
    }

    /// An empty queue with its own rate limits.
    pub fn with_limiter(limiter: RateLimiter<K>) -> WorkQueue<K> {
        let state = State { queue: Queue::new(), delayed: Delayed::new(), limiter, shut_down: false };
        WorkQueue { state: Arc::new(Mutex::new(state)), changed: Arc::new(Notify::new()), started: clock() }
    }

    fn elapsed(&self) -> Duration {
        clock().saturating_duration_since(self.started)
    }

    /// Says that a key needs work now.
    pub fn add(&self, key: K) {
        let mut state = self.state.lock();
        if !state.shut_down && state.queue.add(key) {
            self.changed.notify_one();
        }
    }

    /// Says that a key needs work after this time. Several waits for one key: the earliest counts.
    pub fn add_after(&self, key: K, after: Duration) {
        if after.is_zero() {
            return self.add(key);
        }
        let due = self.elapsed() + after;
        let mut state = self.state.lock();
        if !state.shut_down && state.delayed.insert(key, due) {
            // A worker sleeps until the earliest due time: it must learn of an earlier one.
            self.changed.notify_one();
        }
    }

    /// Says that a key needs work after a delay that grows with each failure. Returns the delay.
    pub fn add_rate_limited(&self, key: K) -> Duration {
        let now = self.elapsed();
        let after = self.state.lock().limiter.when(&key, now);
        self.add_after(key, after);
        after
    }

    /// Forgets the failures of a key: it succeeded.
    pub fn forget(&self, key: &K) {
        self.state.lock().limiter.forget(key);
    }

    /// How often the key failed since it was forgotten.
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.state.lock().limiter.failures(key)
    }

    /// Waits for a key. `None`: the queue is shut down.
    pub async fn get(&self) -> Option<InFlight<K>> {
        loop {
            let notified = self.changed.notified();
            let wait = {
                let now = self.elapsed();
                let mut guard = self.state.lock();
                let state = &mut *guard;
                for key in state.delayed.due(now) {
                    state.queue.add(key);
                }
                if let Some(token) = state.queue.take() {
                    if !state.queue.is_empty() {
                        self.changed.notify_one();
                    }
                    return Some(token);
                }
                if state.shut_down {
                    self.changed.notify_one();
                    return None;
                }
                state.delayed.next_due()
            };
            match wait {
                None => notified.await,
                Some(due) => {
                    tokio::select! {
                        () = notified => {}
                        () = tokio::time::sleep_until(self.started + due) => {}
                    }
                }
            }
        }
    }

    /// Takes a token back.
    pub fn done(&self, token: InFlight<K>) {
        if self.state.lock().queue.done(token) {
            self.changed.notify_one();
        }
    }

    /// Lets workers finish what is queued and then stop.
    pub fn shut_down(&self) {
        self.state.lock().shut_down = true;
        self.changed.notify_one();
    }

    /// Number of keys that wait now.
    pub fn len(&self) -> usize {
        self.state.lock().queue.len()
    }

    /// Whether no key waits now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "shell: delays are measured on tokio's clock, which tests pause"
)]
fn clock() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests;
