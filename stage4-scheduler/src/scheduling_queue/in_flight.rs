//! In flight: pods that are being tried just now, and what happened meanwhile.
//!
//! A pod that is refused for lack of memory must not go to sleep if memory came free while it was being
//! tried: nobody would wake it. So events are kept as long as a pod is in flight that hasn't seen them. Hundreds of
//! bindings may be in flight at a time; when the oldest of them lands is known without asking all of them.
//!
//! # Invariants
//! 1. An event is kept until every pod that was in flight when it came has landed.
//!
//! # In Kubernetes
//! `pkg/scheduler/backend/queue/active_queue.go` (`inFlightPods`, `inFlightEvents`).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use crate::framework::ClusterEvent;
use crate::pod_info::PodInfo;

/// Pods in flight with the events that they may have missed.
#[derive(Default)]
pub(super) struct InFlight {
    /// Each pod's latest version, and the number of the first event that is news for it.
    pods: HashMap<Arc<str>, (u64, Arc<PodInfo>)>,
    /// How many pods by that number.
    first_news: BTreeMap<u64, usize>,
    pub(super) events: VecDeque<ClusterEvent>,
    /// Number of the first event in `events`.
    first_event: u64,
}

impl InFlight {
    fn end(&self) -> u64 {
        self.first_event + self.events.len() as u64
    }

    /// The pod takes off.
    pub(super) fn start(&mut self, info: Arc<PodInfo>) {
        let news = self.end();
        *self.first_news.entry(news).or_default() += 1;
        self.pods.insert(info.uid.clone(), (news, info));
    }

    /// Notes a new version of the pod; false if it isn't in flight.
    pub(super) fn update(&mut self, info: &Arc<PodInfo>) -> bool {
        let known = self.pods.get_mut(&info.uid);
        known.map(|(_, latest)| *latest = info.clone()).is_some()
    }

    /// The pod's latest version.
    pub(super) fn latest(&self, uid: &str) -> Option<Arc<PodInfo>> {
        self.pods.get(uid).map(|(_, latest)| latest.clone())
    }

    /// What happened since the pod took off.
    pub(super) fn news(&self, uid: &str) -> impl Iterator<Item = &ClusterEvent> {
        let news = self.pods.get(uid).map_or(self.end(), |(news, _)| *news);
        let seen = usize::try_from(news.saturating_sub(self.first_event)).unwrap_or(usize::MAX);
        self.events.iter().skip(seen)
    }

    /// Something happened.
    pub(super) fn remember(&mut self, event: ClusterEvent) {
        if !self.pods.is_empty() {
            self.events.push_back(event);
        }
    }

    /// The pod has landed; false if it wasn't in flight.
    pub(super) fn land(&mut self, uid: &str) -> bool {
        let Some((news, _)) = self.pods.remove(uid) else { return false };
        if let Some(pods) = self.first_news.get_mut(&news) {
            *pods -= 1;
            if *pods == 0 {
                self.first_news.remove(&news);
            }
        }
        let needed = self.first_news.keys().next().copied().unwrap_or(self.end());
        while self.first_event < needed {
            self.events.pop_front();
            self.first_event += 1;
        }
        true
    }
}
