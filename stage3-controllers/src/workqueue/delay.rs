//! Delayed keys: a heap ordered by due time, where a key has one place.
//!
//! A controller asks to see a key again in 30 s, another event asks for 5 s: one visit at 5 s is wanted. A heap
//! cannot move an entry cheaply, so a newer, earlier time is pushed beside the old one and the stale entry is
//! skipped when it comes up (it no longer agrees with the map).
//!
//! # In Kubernetes
//! `client-go/util/workqueue/delaying_queue.go` (`waitForPriorityQueue`). Left out: the heartbeat of 10 s.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use super::Key;

/// Keys with the time at which they are due, measured from the queue's start.
#[derive(Debug)]
pub struct Delayed<K: Key> {
    heap: BinaryHeap<Reverse<(Duration, K)>>,
    due: HashMap<K, Duration>,
}

impl<K: Key> Delayed<K> {
    /// Nothing is delayed.
    pub fn new() -> Delayed<K> {
        Delayed { heap: BinaryHeap::new(), due: HashMap::new() }
    }

    /// Delays a key; of several times the earliest counts. Returns whether it is now the first of all.
    pub fn insert(&mut self, key: K, due: Duration) -> bool {
        if self.due.get(&key).is_some_and(|earlier| *earlier <= due) {
            return false;
        }
        self.due.insert(key.clone(), due);
        self.heap.push(Reverse((due, key)));
        self.heap.peek().is_some_and(|Reverse((first, _))| *first == due)
    }

    /// Takes out the keys that are due.
    pub fn due(&mut self, now: Duration) -> Vec<K> {
        let mut keys = Vec::new();
        while self.next_due().is_some_and(|due| due <= now) {
            if let Some(Reverse((_, key))) = self.heap.pop() {
                self.due.remove(&key);
                keys.push(key);
            }
        }
        keys
    }

    /// When the next key is due. Drops stale entries from the top.
    pub fn next_due(&mut self) -> Option<Duration> {
        while let Some(Reverse((due, key))) = self.heap.peek() {
            if self.due.get(key) == Some(due) {
                return Some(*due);
            }
            self.heap.pop();
        }
        None
    }
}

impl<K: Key> Default for Delayed<K> {
    fn default() -> Self {
        Delayed::new()
    }
}
