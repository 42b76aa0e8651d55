//! Controller: the loop that all controllers share.
//!
//! *Step 6 of a pod's journey.* Before: [`crate::workqueue`] holds a key. After: [`crate::executor`] carries out what was decided.
//!
//! A controller is two functions. `observe` collects, from the local copies, all that one decision may depend on (the
//! *world*); `reconcile` looks at that world and says what to do. The rest is the same for all and lives here:
//! wait for the copies to be complete, take a key, wait for the echo of our own last writes, observe, reconcile,
//! execute, and try again later if something failed.
//!
//! `reconcile` is level-triggered: it never asks *what happened*, only *what is*. A change that nobody told it
//! about is repaired by the next look, which is why a crash at any point loses nothing.
//!
//! # Invariants
//! 1. No decision before all copies are complete.
//! 2. One key is decided on by one worker at a time.
//! 3. Same world, same actions.
//!
//! # In Kubernetes
//! Every controller repeats this: `processNextWorkItem` and `Run`, e.g. `pkg/controller/replicaset/replica_set.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock that observe gets as an argument")]

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::action::Action;
use crate::executor::{ExecuteError, Executor};
use crate::expectations::Expectations;
use crate::indexer::NamespacedName;
use crate::informer::Event;
use crate::informer::factory::{InformerFactory, Watched};
use crate::owner::controller_of;
use crate::workqueue::WorkQueue;

// ANCHOR: controller
/// A controller: what it looks at, and what it decides.
pub trait Controller: Send + Sync + 'static {
    /// Name of the controller, as in `--controllers`: `replicaset-controller`.
    const NAME: &'static str;
    /// All that one decision may depend on, time included.
    type World;

    /// Says which changes wake which keys.
    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>);

    /// Collects the world of one key from the local copies; `None`: there is nothing to decide.
    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Option<Self::World>;

    /// Decides. Same world, same actions.
    fn reconcile(world: &Self::World) -> Vec<Action>;

    /// Told what came of the last actions of a key; few controllers put a failure into their objects' status.
    fn executed(&self, _key: &NamespacedName, _failure: Option<&ExecuteError>) {}
}
// ANCHOR_END: controller

/// Ties changes to keys: given to [`Controller::watch`].
pub struct Wakes<'a> {
    factory: &'a InformerFactory,
    queue: WorkQueue<NamespacedName>,
    tasks: &'a mut JoinSet<()>,
    online: bool,
}

impl Wakes<'_> {
    /// A change of a `K` wakes the keys that `keys_of` names. After a gap in the events it is asked about every `K` there is.
    pub fn on<K: Watched>(
        &mut self,
        keys_of: impl Fn(&Event<K>) -> Vec<NamespacedName> + Send + Sync + 'static,
    ) {
        let store = self.factory.store::<K>();
        if !self.online {
            return;
        }
        let queue = self.queue.clone();
        self.tasks.spawn(async move {
            let mut subscription = store.subscribe();
            while let Some(event) = subscription.next().await {
                match event {
                    Event::Resync => {
                        for object in store.list() {
                            keys_of(&Event::Added(object)).into_iter().for_each(|key| queue.add(key));
                        }
                    }
                    event => keys_of(&event).into_iter().for_each(|key| queue.add(key)),
                }
            }
        });
    }

    /// The controller's own objects: a change of one wakes its key.
    pub fn on_own<K: Watched>(&mut self) {
        self.on::<K>(|event| event.object().map(|object| object.key()).into_iter().collect());
    }

    /// A change of a `K` wakes the object of this kind that controls it. What a controller writes before it stops and waits for the
    /// echo must be among these, or the echo reaches nobody.
    pub fn on_owned<K: Watched>(&mut self, owner_kind: &'static str) {
        self.on::<K>(move |event| {
            let owner_of = |object: &Arc<K>| {
                let owner = controller_of(object.meta()).filter(|owner| owner.kind == owner_kind)?;
                Some(NamespacedName::new(object.object_namespace(), &owner.name))
            };
            event.object().and_then(owner_of).into_iter().collect()
        });
    }

    /// A key that needs a first look although no object stands for it.
    pub fn wake(&mut self, key: NamespacedName) {
        self.queue.add(key);
    }

    /// The queue, for shells that wake keys by other means than changes.
    pub fn queue(&self) -> WorkQueue<NamespacedName> {
        self.queue.clone()
    }
}

/// Lets a controller name the stores that it reads, without watching: for simulations.
pub fn register<C: Controller>(controller: &Arc<C>, factory: &InformerFactory) {
    let mut tasks = JoinSet::new();
    controller.watch(&mut Wakes { factory, queue: WorkQueue::new(), tasks: &mut tasks, online: false });
}

struct Loop<C> {
    controller: Arc<C>,
    factory: InformerFactory,
    executor: Executor,
    queue: WorkQueue<NamespacedName>,
    expectations: Mutex<Expectations>,
}

/// Runs a controller with this many workers until `shutdown`.
pub async fn run<C: Controller>(
    controller: Arc<C>,
    factory: InformerFactory,
    executor: Executor,
    workers: usize,
    shutdown: CancellationToken,
) {
    let queue = WorkQueue::new();
    let mut tasks = JoinSet::new();
    controller.watch(&mut Wakes { factory: &factory, queue: queue.clone(), tasks: &mut tasks, online: true });
    factory.wait_for_sync().await;
    info!(controller = C::NAME, "Starting controller");
    let shared = Arc::new(Loop {
        controller,
        factory,
        executor,
        queue: queue.clone(),
        expectations: Mutex::default(),
    });
    let mut running = JoinSet::new();
    for _ in 0..workers.max(1) {
        let shared = shared.clone();
        running.spawn(async move {
            while let Some(token) = shared.queue.get().await {
                shared.process(token.key()).await;
                shared.queue.done(token);
            }
        });
    }
    shutdown.cancelled().await;
    queue.shut_down();
    // What is under way ends in seconds; what hangs must not hold the process.
    let _ =
        tokio::time::timeout(Duration::from_secs(5), async { while running.join_next().await.is_some() {} })
            .await;
    info!(controller = C::NAME, "Shutting down controller");
}

impl<C: Controller> Loop<C> {
    fn since_epoch() -> Duration {
        Duration::from_micros(Timestamp::now().as_microsecond().max(0) as u64)
    }

    async fn process(&self, key: &NamespacedName) {
        let wait = self.expectations.lock().wait_for(key, &self.factory, Self::since_epoch());
        if let Some(wait) = wait {
            return self.queue.add_after(key.clone(), wait);
        }
        let actions = match self.controller.observe(key, Timestamp::now()) {
            Some(world) => C::reconcile(&world),
            None => Vec::new(),
        };
        let outcome = self.executor.execute(actions).await;
        self.controller.executed(key, outcome.failure.as_ref());
        self.expectations.lock().expect(key, outcome.expected, Self::since_epoch());
        match outcome.failure.filter(|failure| !failure.namespace_terminating()) {
            Some(failure) => {
                let after = self.queue.add_rate_limited(key.clone());
                let conflict = failure.source.is_conflict() || failure.source.is_already_exists();
                if conflict {
                    debug!(controller = C::NAME, %key, error = %failure.message(), ?after, "Will look again");
                } else {
                    warn!(controller = C::NAME, %key, error = format!("{failure}: {}", failure.message()), ?after, "Sync failed, will retry");
                }
            }
            None => {
                self.queue.forget(key);
                if let Some(after) = outcome.requeue_after {
                    self.queue.add_after(key.clone(), after);
                }
            }
        }
    }
}
