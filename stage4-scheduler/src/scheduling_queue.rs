//! Scheduling queue: which pod is next, and which may sleep.
//!
//! *Step 16 of a pod's journey through this stage.* Before: [`crate::event_handlers`] brings pods and news.
//! After: [`crate::scheduling_cycle`] takes the most important pod.
//!
//! A pod that fits nowhere must not be tried again and again: with 1,000 of them there would be time for
//! nothing else. But when something happens that could help, it must be tried soon, or it is lost. So there
//! are four places, and a pod is in exactly one:
//!
//! ```text
//!            add                     pop                 refused
//!  (gated) ───────▶ active ─────────────────▶ in flight ─────────▶ unschedulable
//!     ▲  gates gone    ▲      by priority,        │ error              │
//!     └────────────    │      then by time        ▼     event that     │
//!                      └──────────────────── back-off ◀────────────────┘
//!                        1 s, 2 s, 4 s … 10 s            could help
//! ```
//!
//! "Could help" is asked of the plugins that refused the pod ([`crate::framework::Plugin::hint`]): a new label
//! on a node helps a pod that a selector kept away, not one that needs memory.
//!
//! The subtle thing is news that arrives *while* a pod is in flight. The cycle works on an older snapshot; if
//! the news were only applied to pods that sleep already, the pod would fall asleep just after its event and
//! never wake. So events are kept as long as a pod is in flight that hasn't seen them, and are
//! asked about when it is refused.
//!
//! # Invariants
//! 1. A pod is in at most one place.
//! 2. `pop` gives the highest priority; among equals who has waited longest.
//! 3. No lost wake-up: an event after a pod was popped counts for it when it is refused.
//! 4. A pod waits at most five minutes without a try, whatever the hints say.
//!
//! # In Kubernetes
//! `pkg/scheduler/backend/queue/{scheduling_queue,active_queue,backoff_queue}.go`. Left out: `Activate` (plugins that wake pods
//! by themselves).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::framework::{ClusterEvent, Hint};
use crate::pod_info::PodInfo;
use crate::profiles::Profiles;

mod in_flight;
mod incoming;
mod nominator;
mod refusals;
#[cfg(test)]
mod tests;

use in_flight::InFlight;
use incoming::Incoming;
pub use incoming::{Counts, Why};
pub use nominator::Nominator;

/// First pause after a failed try. With 0 a pod that fails for a bug would occupy the scheduler.
pub const POD_INITIAL_BACKOFF: Duration = Duration::from_secs(1);
/// Longest pause. Longer, and a pod starts late although there is room.
pub const POD_MAX_BACKOFF: Duration = Duration::from_secs(10);
/// A pod that no event woke is tried anyway: insurance against a hint that is wrong.
pub const POD_MAX_IN_UNSCHEDULABLE: Duration = Duration::from_secs(5 * 60);

/// A pod in the queue. Times are since the start of the process, so that a clock that jumps does no harm.
#[derive(Clone, Debug)]
pub struct QueuedPod {
    /// The pod.
    pub info: Arc<PodInfo>,
    /// When it was put where it is.
    pub since: Duration,
    /// When it was seen first.
    pub first_seen: Duration,
    /// How often it was tried.
    pub attempts: u32,
    /// Plugins that refused it at the last try.
    pub rejectors: BTreeSet<&'static str>,
    /// The last try ended in an error, not in a refusal.
    pub failed: bool,
}

/// Position in the active queue.
type Rank = (Reverse<i32>, Duration, u64);

#[derive(Clone, Copy, Debug)]
enum Place {
    Active(Rank),
    BackOff(Duration, u64),
    Unschedulable,
    Gated,
    InFlight,
}

/// How many pods are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Ready to be tried.
    pub active: usize,
    /// Pausing.
    pub backoff: usize,
    /// Waiting for an event.
    pub unschedulable: usize,
    /// Held back by gates.
    pub gated: usize,
}

/// The queue: a state machine without clock, threads or I/O.
pub struct SchedulingQueue {
    profiles: Arc<Profiles>,
    active: BTreeMap<Rank, QueuedPod>,
    backoff: BTreeMap<(Duration, u64), QueuedPod>,
    sleeping: HashMap<Arc<str>, QueuedPod>,
    /// Those of them that a binding could help.
    awaiting_bindings: HashSet<Arc<str>>,
    places: HashMap<Arc<str>, Place>,
    in_flight: InFlight,
    incoming: Incoming,
    sequence: u64,
    /// Pods that preemption made room for.
    pub nominator: Nominator,
}

impl SchedulingQueue {
    /// An empty queue for pods of these profiles.
    pub fn new(profiles: Arc<Profiles>) -> Self {
        SchedulingQueue {
            profiles,
            active: BTreeMap::new(),
            backoff: BTreeMap::new(),
            sleeping: HashMap::new(),
            awaiting_bindings: HashSet::new(),
            places: HashMap::new(),
            in_flight: InFlight::default(),
            incoming: Incoming::default(),
            sequence: 0,
            nominator: Nominator::default(),
        }
    }

    /// A pod without a node is new or has changed.
    pub fn set(&mut self, info: Arc<PodInfo>, now: Duration) {
        self.nominator.set(&info, None);
        if self.in_flight.update(&info) {
            return self.in_flight.remember(ClusterEvent::PodUpdated(info));
        }
        let Some(mut pod) = self.take(&info.uid) else {
            let pod = QueuedPod {
                info,
                since: now,
                first_seen: now,
                attempts: 0,
                rejectors: BTreeSet::new(),
                failed: false,
            };
            return self.put_ready(pod, incoming::POD_ADD, now);
        };
        let old = std::mem::replace(&mut pod.info, info);
        let event = ClusterEvent::PodUpdated(pod.info.clone());
        match pod_place(&old, &pod, &self.profiles) {
            // Its spec is as it was: only somebody else's status update.
            Stay::Same if !self.profiles.gated(&pod.info) => self.put_back(pod, now),
            _ if pod.rejectors.is_empty() || self.helps(&pod, &event) => {
                let why = incoming::pod_update(&old, &pod.info);
                self.put_ready(pod, why, now)
            }
            _ => self.put_back(pod, now),
        }
    }

    /// The pod is gone, has a node or has ended.
    pub fn delete(&mut self, uid: &str) {
        self.nominator.remove(uid);
        self.take(uid);
        self.done(uid);
    }

    // ANCHOR: queue-pop
    /// The next pod to try. It is in flight until [`SchedulingQueue::done`] or one of the returns.
    pub fn pop(&mut self, now: Duration) -> Option<QueuedPod> {
        self.wake(now);
        let (_, mut pod) = match self.active.pop_first() {
            Some(first) => first,
            // Nothing else to do: whoever only pauses may as well be tried. Errors keep their pause.
            None => {
                let early = *self.backoff.iter().find(|(_, pod)| !pod.failed)?.0;
                let pod = self.backoff.remove(&early)?;
                self.incoming.count("active", incoming::POP_FROM_BACKOFF);
                ((Reverse(0), now, 0), pod)
            }
        };
        pod.attempts += 1;
        self.places.insert(pod.info.uid.clone(), Place::InFlight);
        self.in_flight.start(pod.info.clone());
        Some(pod)
    }
    // ANCHOR_END: queue-pop

    /// The pod was refused by these plugins: it sleeps until something could help, or has helped meanwhile.
    pub fn return_refused(&mut self, mut pod: QueuedPod, rejectors: BTreeSet<&'static str>, now: Duration) {
        let Some(latest) = self.in_flight.latest(&pod.info.uid) else { return };
        pod.info = latest;
        // Refused by nobody: not a refusal but an error, whose pause is kept.
        let failed = rejectors.is_empty();
        (pod.rejectors, pod.failed, pod.since) = (rejectors, failed, now);
        let helped = self.in_flight.news(&pod.info.uid).any(|event| self.helps(&pod, event));
        self.done(&pod.info.uid.clone());
        if helped || pod.rejectors.is_empty() {
            self.put_ready(pod, incoming::SCHEDULE_ATTEMPT_FAILURE, now);
        } else {
            self.incoming.count("unschedulable", incoming::SCHEDULE_ATTEMPT_FAILURE);
            self.put_sleeping(pod);
        }
    }

    /// The try ended in an error: again, after a pause.
    pub fn return_failed(&mut self, mut pod: QueuedPod, now: Duration) {
        let Some(latest) = self.in_flight.latest(&pod.info.uid) else { return };
        pod.info = latest;
        (pod.rejectors, pod.failed, pod.since) = (BTreeSet::new(), true, now);
        self.done(&pod.info.uid.clone());
        self.put_ready(pod, incoming::SCHEDULE_ATTEMPT_FAILURE, now);
    }

    /// The pod is in flight no more.
    pub fn done(&mut self, uid: &str) {
        if self.in_flight.land(uid) {
            self.places.remove(uid);
        }
    }

    // ANCHOR: queue-event
    /// Something happened: wakes the pods that it could help.
    pub fn on_event(&mut self, event: ClusterEvent, now: Duration) {
        let binding = matches!(event, ClusterEvent::AssignedPodAdded(_));
        let wakes = |uid: &&Arc<str>| {
            let asleep = matches!(self.places.get(*uid), Some(Place::Unschedulable));
            asleep && self.sleeping.get(*uid).is_some_and(|pod| self.helps(pod, &event))
        };
        let helped: Vec<Arc<str>> = if binding {
            self.awaiting_bindings.iter().filter(wakes).cloned().collect()
        } else {
            self.sleeping.keys().filter(wakes).cloned().collect()
        };
        for uid in helped {
            if let Some(pod) = self.take(&uid) {
                self.put_ready(pod, incoming::why(&event), now);
            }
        }
        self.in_flight.remember(event);
    }
    // ANCHOR_END: queue-event

    /// Moves pods whose pause is over, and those that have slept too long.
    pub fn wake(&mut self, now: Duration) {
        while let Some(entry) = self.backoff.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let pod = entry.remove();
            self.put_active(pod, incoming::BACKOFF_COMPLETE);
        }
    }

    /// Tries pods that have slept for [`POD_MAX_IN_UNSCHEDULABLE`]. Called every 30 s.
    pub fn flush_sleeping(&mut self, now: Duration) {
        let late = |pod: &QueuedPod| now.saturating_sub(pod.since) > POD_MAX_IN_UNSCHEDULABLE;
        let uids: Vec<_> =
            self.sleeping.iter().filter(|(_, pod)| late(pod)).map(|(uid, _)| uid.clone()).collect();
        for uid in uids {
            if matches!(self.places.get(&uid), Some(Place::Unschedulable))
                && let Some(pod) = self.take(&uid)
            {
                self.put_ready(pod, incoming::UNSCHEDULABLE_TIMEOUT, now);
            }
        }
    }

    /// When the next pause ends.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.backoff.keys().next().map(|(deadline, _)| *deadline)
    }

    /// How many pods are where.
    pub fn pending(&self) -> Pending {
        let gated =
            self.sleeping.keys().filter(|uid| matches!(self.places.get(*uid), Some(Place::Gated))).count();
        Pending {
            active: self.active.len(),
            backoff: self.backoff.len(),
            unschedulable: self.sleeping.len() - gated,
            gated,
        }
    }

    /// How many pods came into which queue since the last call, and why.
    pub fn take_incoming(&mut self) -> Counts {
        self.incoming.take()
    }

    /// Is the pod known here, in any place?
    pub fn contains(&self, uid: &str) -> bool {
        self.places.contains_key(uid)
    }

    /// UIDs of all pods here.
    pub fn uids(&self) -> Vec<Arc<str>> {
        self.places.keys().cloned().collect()
    }

    fn helps(&self, pod: &QueuedPod, event: &ClusterEvent) -> bool {
        matches!(event, ClusterEvent::Anything)
            || pod.rejectors.iter().any(|plugin| self.profiles.hint(plugin, &pod.info, event) == Hint::Queue)
    }

    /// To the active queue, by way of the gates and the pause.
    fn put_ready(&mut self, mut pod: QueuedPod, why: Why, now: Duration) {
        if self.profiles.gated(&pod.info) {
            let uid = pod.info.uid.clone();
            self.places.insert(uid.clone(), Place::Gated);
            pod.rejectors = BTreeSet::from(["SchedulingGates"]);
            self.incoming.count("gated", why);
            self.sleeping.insert(uid, pod);
            return;
        }
        // What refused it was then; nobody has refused it now.
        pod.rejectors.clear();
        let until = pod.since + pause(pod.attempts, self.profiles.backoff);
        if until > now {
            self.sequence += 1;
            self.incoming.count("backoff", why);
            self.places.insert(pod.info.uid.clone(), Place::BackOff(until, self.sequence));
            self.backoff.insert((until, self.sequence), pod);
        } else {
            pod.since = now;
            self.put_active(pod, why);
        }
    }

    fn put_active(&mut self, pod: QueuedPod, why: Why) {
        self.sequence += 1;
        self.incoming.count("active", why);
        let rank = (Reverse(pod.info.priority), pod.since, self.sequence);
        self.places.insert(pod.info.uid.clone(), Place::Active(rank));
        self.active.insert(rank, pod);
    }

    fn put_sleeping(&mut self, pod: QueuedPod) {
        self.places.insert(pod.info.uid.clone(), Place::Unschedulable);
        if pod.rejectors.iter().any(|plugin| self.profiles.waits_for_bindings(plugin, &pod.info)) {
            self.awaiting_bindings.insert(pod.info.uid.clone());
        }
        self.sleeping.insert(pod.info.uid.clone(), pod);
    }

    /// Where it came from: asleep if it was refused, else ready.
    fn put_back(&mut self, pod: QueuedPod, now: Duration) {
        if pod.rejectors.is_empty() {
            self.put_ready(pod, incoming::POD_UPDATE, now)
        } else {
            self.put_sleeping(pod)
        }
    }

    fn take(&mut self, uid: &str) -> Option<QueuedPod> {
        let pod = match self.places.get(uid)? {
            Place::Active(rank) => self.active.remove(rank),
            Place::BackOff(until, sequence) => self.backoff.remove(&(*until, *sequence)),
            Place::Unschedulable | Place::Gated => {
                self.awaiting_bindings.remove(uid);
                self.sleeping.remove(uid)
            }
            Place::InFlight => return None,
        };
        self.places.remove(uid);
        pod
    }
}

/// Does an update change anything for scheduling?
enum Stay {
    Same,
    Changed,
}

fn pod_place(old: &PodInfo, pod: &QueuedPod, profiles: &Profiles) -> Stay {
    let new = &pod.info;
    let same = old.spec() == new.spec()
        && old.labels() == new.labels()
        && profiles.gated(old) == profiles.gated(new);
    if same { Stay::Same } else { Stay::Changed }
}

/// The pause after so many tries: doubles each time, up to the maximum.
pub fn pause(attempts: u32, (initial, max): (Duration, Duration)) -> Duration {
    match attempts {
        0 => Duration::ZERO,
        tries => initial.saturating_mul(1 << (tries - 1).min(20)).min(max),
    }
}
