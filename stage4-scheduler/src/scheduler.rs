//! Scheduler: the running thing. One state, one loop, and the watches that feed it.
//!
//! *The frame of a pod's journey through this stage.* [`run`] starts the watches, waits until all of them are
//! in step with the API server, and runs [`crate::scheduling_cycle`].
//!
//! Pods are placed one after another, on purpose: two placed at the same time could both take the last free
//! memory of a node. What takes long (writing bindings, events, conditions) runs beside the loop.
//!
//! The state is behind one lock that is held for microseconds, never while anything is awaited. The
//! snapshot is the loop's own, so a decision holds no lock at all.
//!
//! # Invariants
//! 1. Nothing is scheduled before every watch has delivered its first list: a scheduler that doesn't know all
//!    pods gives away memory that is taken.
//!
//! # In Kubernetes
//! `pkg/scheduler/scheduler.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as ApiSelector;
use parking_lot::Mutex;
use stage1_kubectl::client::Client;
use stage1_kubectl::selector::LabelSelector;
use stage3_controllers::indexer::Cached;
use stage3_controllers::informer::factory::{InformerFactory, Watched};
use stage3_controllers::informer::{Event, Store};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::event_handlers::State;
use crate::events::Recorder;
use crate::extender::Extender;
use crate::listers::{Listers, set};
use crate::metrics::Metrics;
use crate::profiles::Profiles;
use crate::throttle::Throttle;
use crate::waiting_pods::WaitingPods;

/// How often pods that slept too long are looked for.
const FLUSH_PERIOD: Duration = Duration::from_secs(30);

/// What all tasks of the scheduler share.
pub struct Scheduler {
    /// What is known; locked briefly, never across an await.
    pub state: Mutex<State>,
    /// Wakes the loop.
    pub news: Notify,
    /// Who places which pods.
    pub profiles: Arc<Profiles>,
    /// The API server.
    pub client: Client,
    /// Tells people.
    pub recorder: Recorder,
    /// Counts.
    pub metrics: Metrics,
    /// Webhooks that have a say.
    pub extenders: Vec<Extender>,
    /// Placed, but not allowed to be bound yet.
    pub waiting_pods: WaitingPods,
    /// Slows writers down, if asked for.
    pub throttle: Arc<Throttle>,
    started: Instant,
}

/// What a scheduler has besides its profiles.
#[derive(Default)]
pub struct Options {
    /// Webhooks that have a say.
    pub extenders: Vec<Extender>,
    /// Where plugins answer that made a pod wait.
    pub waiting_pods: WaitingPods,
    /// Requests a second and at once.
    pub rate: Option<(f64, u32)>,
}

impl Scheduler {
    /// A scheduler that knows nothing yet. `host` names it in events.
    pub fn new(client: Client, profiles: Arc<Profiles>, host: &str, metrics: Metrics) -> Arc<Self> {
        Self::with_options(client, profiles, host, metrics, Options::default())
    }

    /// As [`Scheduler::new`], with extenders, limits and pods that wait.
    pub fn with_options(
        client: Client,
        profiles: Arc<Profiles>,
        host: &str,
        metrics: Metrics,
        options: Options,
    ) -> Arc<Self> {
        let throttle = Arc::new(Throttle::new(options.rate));
        Arc::new(Scheduler {
            state: Mutex::new(State::new(profiles.clone())),
            news: Notify::new(),
            recorder: Recorder::new(client.clone(), host, throttle.clone()),
            profiles,
            client,
            metrics,
            extenders: options.extenders,
            waiting_pods: options.waiting_pods,
            throttle,
            started: Instant::now(),
        })
    }

    /// Time since the start; a clock that jumps doesn't change it.
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Changes the state and wakes the loop.
    pub fn change<T>(&self, change: impl FnOnce(&mut State, Duration) -> T) -> T {
        let result = change(&mut self.state.lock(), self.now());
        self.news.notify_one();
        result
    }
}

/// Starts the watches of everything that scheduling depends on.
pub fn start_watches(factory: &InformerFactory) {
    drop((factory.store::<Node>(), factory.store::<Pod>(), factory.store::<Namespace>()));
    drop((factory.store::<Service>(), factory.store::<PersistentVolumeClaim>()));
    drop((factory.store::<PersistentVolume>(), factory.store::<StorageClass>(), factory.store::<CSINode>()));
    drop((factory.store::<CSIDriver>(), factory.store::<CSIStorageCapacity>()));
    drop((factory.store::<PodDisruptionBudget>(), factory.store::<ReplicaSet>()));
    drop((factory.store::<StatefulSet>(), factory.store::<ReplicationController>()));
}

/// Runs until `shutdown`.
pub async fn run(scheduler: Arc<Scheduler>, factory: InformerFactory, shutdown: CancellationToken) {
    let followers = follow_all(&scheduler, &factory);
    let mut synced = Vec::new();
    let mut tasks = tokio::task::JoinSet::new();
    for (ready, follower) in followers {
        synced.push(ready);
        tasks.spawn(follower);
    }
    for ready in synced {
        tokio::select! {
            // A sender that is gone means that its task ended: then so do we, at the select below.
            _ = ready => {}
            () = shutdown.cancelled() => return,
        }
    }
    tracing::info!("Caches are synced, starting to schedule");
    tasks.spawn(house_keeping(scheduler.clone()));
    tokio::select! {
        () = crate::scheduling_cycle::run(scheduler, &factory) => {}
        () = shutdown.cancelled() => {}
    }
    tasks.shutdown().await;
}

async fn house_keeping(scheduler: Arc<Scheduler>) {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    let mut flushed = Duration::ZERO;
    loop {
        second.tick().await;
        let (pending, incoming, refusals, cache) = scheduler.change(|state, now| {
            for lost in state.cache.expire(now) {
                tracing::warn!(pod = %lost.key, "Pod expired");
            }
            if now.saturating_sub(flushed) >= FLUSH_PERIOD {
                flushed = now;
                state.queue.flush_sleeping(now);
            }
            let cache = (state.cache.sizes(), state.cache.assumed());
            (state.queue.pending(), state.queue.take_incoming(), state.queue.refusals(), cache)
        });
        scheduler.metrics.set_pending(pending);
        scheduler.metrics.add_incoming(incoming);
        scheduler.metrics.set_refusals(refusals);
        scheduler.metrics.set_cache(cache.0.0, cache.0.1, cache.1);
    }
}

type Follower = (tokio::sync::oneshot::Receiver<()>, std::pin::Pin<Box<dyn Future<Output = ()> + Send>>);

/// Brings every change of one kind into the state. `apply` gets the object and whether it exists.
fn follow<K: Watched>(
    scheduler: &Arc<Scheduler>,
    factory: &InformerFactory,
    apply: impl Fn(&mut State, &Arc<K>, bool, Duration) + Send + Sync + 'static,
) -> Follower {
    let (store, scheduler) = (factory.store::<K>(), scheduler.clone());
    let (ready, synced) = tokio::sync::oneshot::channel();
    let follower = async move {
        store.synced().await;
        let mut changes = store.subscribe();
        let mut known = HashMap::new();
        resync(&scheduler, &store, &mut known, &apply);
        // Nobody waits any more: the scheduler is being stopped.
        let _ = ready.send(());
        while let Some(event) = changes.next().await {
            match event {
                Event::Added(object) | Event::Modified { new: object, .. } => {
                    apply_if_new(&scheduler, object, &mut known, &apply);
                }
                Event::Deleted(object) => {
                    known.remove(&object.key());
                    scheduler.change(|state, now| apply(state, &object, false, now));
                }
                Event::Resync => resync(&scheduler, &store, &mut known, &apply),
            }
        }
    };
    (synced, Box::pin(follower))
}

type Known<K> = HashMap<stage3_controllers::indexer::NamespacedName, Arc<K>>;

fn apply_if_new<K: Watched>(
    scheduler: &Scheduler,
    object: Arc<K>,
    known: &mut Known<K>,
    apply: &impl Fn(&mut State, &Arc<K>, bool, Duration),
) {
    let before = known.insert(object.key(), object.clone());
    let same = before.as_ref().is_some_and(|before| {
        before.uid() == object.uid() && before.meta().resource_version == object.meta().resource_version
    });
    if same {
        return;
    }
    scheduler.change(|state, now| {
        // The same name for another object: the first one is gone.
        if let Some(before) = before.filter(|before| before.uid() != object.uid()) {
            apply(state, &before, false, now);
        }
        apply(state, &object, true, now);
    });
}

/// Compares with the whole list: at the start, and after changes were missed.
fn resync<K: Watched>(
    scheduler: &Scheduler,
    store: &Store<K>,
    known: &mut Known<K>,
    apply: &impl Fn(&mut State, &Arc<K>, bool, Duration),
) {
    let gone: Vec<_> = known.keys().filter(|key| store.get(key).is_none()).cloned().collect();
    for object in gone.iter().filter_map(|key| known.remove(key)) {
        scheduler.change(|state, now| apply(state, &object, false, now));
    }
    for object in store.list() {
        apply_if_new(scheduler, object, known, apply);
    }
}

/// Follows a kind that plugins look up; `note` sets (`Some`) or removes an object of this key.
fn follow_lookup<K: Watched>(
    scheduler: &Arc<Scheduler>,
    factory: &InformerFactory,
    kind: &'static str,
    note: impl Fn(&mut Listers, &str, Option<&Arc<K>>) + Send + Sync + 'static,
) -> Follower {
    follow::<K>(scheduler, factory, move |state, object, exists, now| {
        let (namespace, name) = (object.object_namespace(), object.object_name());
        let key = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
        note(Arc::make_mut(&mut state.cache.listers), &key, Some(object).filter(|_| exists));
        state.object_changed(kind, key, now);
    })
}

/// One follower for each kind that scheduling depends on.
fn follow_all(to: &Arc<Scheduler>, by: &InformerFactory) -> Vec<Follower> {
    let mut followers = follow_workloads(to, by);
    followers.extend([
        follow::<Node>(to, by, |state, node, exists, now| {
            if exists {
                state.set_node(node.clone(), now)
            } else {
                state.remove_node(node.object_name(), now)
            }
        }),
        follow::<Pod>(to, by, |state, pod, exists, now| {
            if exists { state.set_pod(pod.clone(), now) } else { state.remove_pod(pod.uid(), now) }
        }),
        follow_lookup::<Namespace>(to, by, "Namespace", |listers, key, object| {
            let labels = object.map(|object| Arc::new(object.metadata.labels.clone().unwrap_or_default()));
            set(&mut listers.namespaces, key, labels);
        }),
        follow_lookup::<Service>(to, by, "Service", |listers, key, object| {
            let selector = object.and_then(|object| object.spec.as_ref()?.selector.clone());
            let (namespace, name) = key.split_once('/').unwrap_or(("", key));
            listers.set_service(namespace, name, selector);
        }),
        follow_lookup::<PersistentVolumeClaim>(to, by, "PersistentVolumeClaim", |listers, key, object| {
            set(&mut listers.claims, key, object.cloned());
        }),
        follow_lookup::<PersistentVolume>(to, by, "PersistentVolume", |listers, key, object| {
            set(&mut listers.volumes, key, object.cloned());
        }),
        follow_lookup::<StorageClass>(to, by, "StorageClass", |listers, key, object| {
            set(&mut listers.storage_classes, key, object.cloned());
        }),
        follow_lookup::<CSINode>(to, by, "CSINode", |listers, key, object| {
            set(&mut listers.csi_nodes, key, object.cloned());
        }),
        follow_lookup::<CSIDriver>(to, by, "CSIDriver", |listers, key, object| {
            set(&mut listers.csi_drivers, key, object.cloned());
        }),
        follow_lookup::<CSIStorageCapacity>(to, by, "CSIStorageCapacity", |listers, key, object| {
            set(&mut listers.capacities, key, object.cloned());
        }),
        follow_lookup::<PodDisruptionBudget>(to, by, "PodDisruptionBudget", |listers, key, object| {
            listers.set_budget(key, object.cloned());
        }),
    ]);
    followers
}

fn follow_workloads(to: &Arc<Scheduler>, by: &InformerFactory) -> Vec<Follower> {
    vec![
        follow::<ReplicaSet>(to, by, |state, object, exists, _| {
            let selector = object.spec.as_ref().map(|spec| &spec.selector);
            set_workload(state, "ReplicaSet", &object.key().to_string(), selector.filter(|_| exists));
        }),
        follow::<StatefulSet>(to, by, |state, object, exists, _| {
            let selector = object.spec.as_ref().map(|spec| &spec.selector);
            set_workload(state, "StatefulSet", &object.key().to_string(), selector.filter(|_| exists));
        }),
        follow::<ReplicationController>(to, by, |state, object, exists, _| {
            let labels = object.spec.as_ref().and_then(|spec| spec.selector.clone()).filter(|_| exists);
            let selector =
                labels.map(|labels| ApiSelector { match_labels: Some(labels), ..ApiSelector::default() });
            set_workload(state, "ReplicationController", &object.key().to_string(), selector.as_ref());
        }),
    ]
}

/// Workloads only decide which pods are spread together; no pod waits for one.
pub(crate) fn set_workload(state: &mut State, kind: &str, key: &str, selector: Option<&ApiSelector>) {
    let parsed = selector.and_then(|selector| LabelSelector::from_match(selector).ok());
    set(&mut Arc::make_mut(&mut state.cache.listers).workloads, &format!("{kind}/{key}"), parsed);
}
