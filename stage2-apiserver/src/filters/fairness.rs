//! Priority and fairness: who waits when there is too much to do.
//!
//! *Step 2 of a pod's journey.* Before: the user is known. After: the request has a seat, or was told to come back in a second.
//!
//! A server that takes on everything at once answers nobody. So requests have seats, and the seats are divided: a `FlowSchema` says what a request
//! is ("the kubelets about their own node", "anybody else") and so to which priority level it belongs; a level has its share of all seats. A
//! program that lists everything in a loop can fill its own level, but not that of the kubelets' heartbeats.
//!
//! Inside a level everybody is equal: who finds no seat waits in the queue of their flow (a user, or a namespace, as the schema says), and
//! flows take turns ([`queues`]). Watches and connections last too long to have seats, and level `exempt` needs none: an overloaded server must
//! be repairable.
//!
//! # Invariants
//! 1. A level never runs more requests than it has seats.
//! 2. No flow waits behind more than one request of each other flow for each of its own.
//!
//! # In Kubernetes
//! `apiserver/pkg/util/flowcontrol`. Left out: borrowing seats of idle levels, requests that take several seats, shuffle sharding (a flow has
//! a queue of its own here, instead of a few of many that it shares), the status of the objects.

pub mod classify;
pub mod queues;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use stage1_kubectl::status::Status;
use tokio::sync::oneshot;

use crate::authentication::UserInfo;
use crate::metrics::flow::{FlowLabels, FlowMetrics};
use crate::registry;
use crate::request_info::RequestInfo;
use crate::storage::Revision;
use crate::store::Stores;
use classify::{Config, LevelConfig, Limit};
use queues::Queues;

/// Longest wait for a seat.
const MAX_WAIT: Duration = Duration::from_secs(15);
const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// The seats of all levels.
pub struct Fairness {
    seats: usize,
    metrics: Arc<FlowMetrics>,
    config: Mutex<Known>,
    levels: Mutex<Levels>,
}

/// What the objects said when they were read last.
#[derive(Default)]
struct Known {
    /// How far the two caches were.
    at: [Revision; 2],
    revisions: Vec<Revision>,
    config: Arc<Config>,
}

/// The levels that were needed so far, and how many seats each has now.
#[derive(Default)]
struct Levels {
    seats: HashMap<String, usize>,
    made: HashMap<String, Arc<Level>>,
}

/// One level: its seats and who waits for them.
struct Level {
    metrics: Arc<FlowMetrics>,
    queues: Mutex<Queues<Waiter>>,
}

struct Waiter {
    labels: FlowLabels,
    seat: oneshot::Sender<Seat>,
}

/// A seat; dropping it gives it to whoever is next.
pub struct Seat {
    level: Option<Arc<Level>>,
    labels: FlowLabels,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(level) = self.level.take() {
            level.metrics.executing(&self.labels).dec();
            level.leave();
        }
    }
}

/// How a request was classified, for its headers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Classified {
    /// uid of the FlowSchema.
    pub flow_schema: String,
    /// uid of the PriorityLevelConfiguration.
    pub priority_level: String,
}

impl Level {
    fn take(self: &Arc<Self>, labels: FlowLabels) -> Seat {
        self.metrics.executing(&labels).inc();
        self.metrics.dispatched(&labels);
        Seat { level: Some(self.clone()), labels }
    }

    /// Somebody left: the next waiting flow gets the seat.
    fn leave(self: &Arc<Self>) {
        let mut queues = self.queues.lock();
        queues.leave();
        self.seat_waiting(&mut queues);
    }

    /// Another number of seats: if there are more, those who wait get them.
    fn set_seats(self: &Arc<Self>, seats: usize) {
        let mut queues = self.queues.lock();
        queues.set_seats(seats);
        self.seat_waiting(&mut queues);
    }

    fn seat_waiting(self: &Arc<Self>, queues: &mut Queues<Waiter>) {
        while let Some(Waiter { labels, seat }) = queues.seat_next() {
            self.metrics.waiting(&labels).dec();
            if seat.is_closed() {
                queues.leave();
                continue;
            }
            if let Err(mut unwanted) = seat.send(self.take(labels)) {
                // Whoever waited is gone. Not dropped as a seat: that would come back here, under the lock.
                self.metrics.executing(&unwanted.labels).dec();
                unwanted.level = None;
                queues.leave();
            }
        }
    }
}

impl Fairness {
    /// So many seats for all levels together.
    pub fn new(seats: usize, metrics: Arc<FlowMetrics>) -> Self {
        Fairness { seats, metrics, config: Mutex::default(), levels: Mutex::default() }
    }

    /// Waits for a seat; `None`: this request needs none.
    ///
    /// # Errors
    /// 429 when the flow's queue is full, or no seat came in time.
    pub async fn enter(
        &self,
        user: &UserInfo,
        info: &RequestInfo,
        stores: &Stores,
    ) -> Result<(Option<Seat>, Classified), Status> {
        let config = self.config(stores);
        let Some(flow) = config.classify(user, info) else { return Ok((None, Classified::default())) };
        let classified =
            Classified { flow_schema: flow.schema_uid.clone(), priority_level: flow.level.uid.clone() };
        let Limit::Seats { queue_length, .. } = flow.level.limit else { return Ok((None, classified)) };
        let labels = FlowLabels { priority_level: flow.level.name.clone(), flow_schema: flow.schema.clone() };
        let level = self.level(flow.level);
        let waiting = {
            let mut queues = level.queues.lock();
            if queues.enter() {
                drop(queues);
                return Ok((Some(level.take(labels)), classified));
            }
            let (seat, waiting) = oneshot::channel();
            let waiter = Waiter { labels: labels.clone(), seat };
            let is_gone = |waiter: &Waiter| {
                let is_gone = waiter.seat.is_closed();
                if is_gone {
                    self.metrics.waiting(&waiter.labels).dec();
                }
                is_gone
            };
            if !queues.wait(&flow.distinguisher, waiter, queue_length, is_gone) {
                let reason = if queue_length == 0 { "concurrency-limit" } else { "queue-full" };
                return Err(self.refuse(&labels, reason));
            }
            self.metrics.waiting(&labels).inc();
            waiting
        };
        match tokio::time::timeout(MAX_WAIT, waiting).await {
            Ok(Ok(seat)) => Ok((Some(seat), classified)),
            _ => Err(self.refuse(&labels, "time-out")),
        }
    }

    fn refuse(&self, labels: &FlowLabels, reason: &str) -> Status {
        self.metrics.reject(labels, reason);
        Status::too_many_requests("Too many requests, please try again later.", 1)
    }

    fn level(&self, config: &LevelConfig) -> Arc<Level> {
        let mut levels = self.levels.lock();
        if let Some(level) = levels.made.get(&config.name) {
            return level.clone();
        }
        // The request may have been classified by objects that have changed since.
        let seats = levels.seats.get(&config.name).copied().unwrap_or(config.seats);
        let level = Arc::new(Level { metrics: self.metrics.clone(), queues: Mutex::new(Queues::new(seats)) });
        levels.made.insert(config.name.clone(), level.clone());
        level
    }

    /// What the objects say, read again when they changed.
    fn config(&self, stores: &Stores) -> Arc<Config> {
        let caches = ["flowschemas", "prioritylevelconfigurations"].map(|resource| {
            let info = registry::find_group_resource(GROUP, resource).expect("a built-in resource");
            let prefix = info.key_prefix(None);
            (stores.caches().of(&prefix), prefix)
        });
        let mut known = self.config.lock();
        let at = [caches[0].0.revision(), caches[1].0.revision()];
        if known.at == at {
            return known.config.clone();
        }
        let [schemas, levels] = caches.map(|(cache, prefix)| cache.present(&prefix));
        let revisions: Vec<Revision> = schemas.iter().chain(&levels).map(|cached| cached.revision).collect();
        known.at = at;
        if known.revisions != revisions {
            let schemas: Vec<_> = schemas.iter().map(|cached| &cached.object).collect();
            let levels: Vec<_> = levels.iter().map(|cached| &cached.object).collect();
            known.revisions = revisions;
            known.config = Arc::new(Config::read(&schemas, &levels, self.seats));
            self.changed(&known.config);
        }
        known.config.clone()
    }

    /// Gives every level its new number of seats.
    fn changed(&self, config: &Config) {
        let mut levels = self.levels.lock();
        levels.seats = config.levels.iter().map(|said| (said.name.clone(), said.seats)).collect();
        for said in &config.levels {
            self.metrics.seats(&said.name, said.seats);
            if let Some(level) = levels.made.get(&said.name) {
                level.set_seats(said.seats);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    fn level(seats: usize) -> LevelConfig {
        let limit = Limit::Seats { shares: 1, queue_length: 5 };
        LevelConfig { name: "l".into(), uid: "u".into(), limit, seats }
    }

    #[test]
    fn a_level_that_is_needed_late_has_the_seats_of_now() {
        let fairness = Fairness::new(10, Metrics::default().flow.clone());
        let mut config = Config::default();
        config.levels.push(level(1));
        fairness.changed(&config);
        // Classified before the change.
        let late = fairness.level(&level(3));
        assert!(late.queues.lock().enter());
        assert!(!late.queues.lock().enter(), "there is one seat now");
    }

    #[test]
    fn new_seats_go_to_those_who_wait() {
        let fairness = Fairness::new(10, Metrics::default().flow.clone());
        let labels = FlowLabels { priority_level: "l".into(), flow_schema: "s".into() };
        let first = fairness.level(&level(1));
        assert!(first.queues.lock().enter());
        let (seat, mut waiting) = oneshot::channel();
        assert!(first.queues.lock().wait("f", Waiter { labels, seat }, 5, |_| false));
        assert!(waiting.try_recv().is_err());
        let mut config = Config::default();
        config.levels.push(level(2));
        fairness.changed(&config);
        assert!(waiting.try_recv().is_ok(), "the second seat is theirs");
    }
}
