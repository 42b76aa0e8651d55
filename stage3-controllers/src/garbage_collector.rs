//! Garbage collector: what belongs to something that is gone goes, too.
//!
//! *After the last step of a pod's journey.* Deleting a Deployment deletes one object. Its ReplicaSets name it as owner, its pods name them; this
//! controller notices that the owner is gone and follows the chain, one level at a time.
//!
//! Three ways to delete: *background* (the owner goes, the rest follows), *foreground* (the owner stays, marked, until what blocks it is gone),
//! *orphan* (dependents lose their reference and stay). The last two work by finalizers on the owner, which this controller removes when its part is done.
//!
//! The [`graph`] hears all changes and says who is worth a look; [`attempt`] decides. This file is the shell between them: it looks
//! the object and its owners up on the server before anything is deleted, because the graph may lag behind.
//!
//! # Invariants
//! 1. Nothing is deleted because of the graph alone: a look at the server has confirmed that the owner is missing.
//! 2. Work starts when every kind's first list is in.
//!
//! # In Kubernetes
//! `pkg/controller/garbagecollector/`. Left out: breaking of circles of foreground deletion, `OwnerRefInvalidNamespace` events.

pub mod attempt;
pub mod graph;
pub mod metadata;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use parking_lot::Mutex;
use stage1_kubectl::client::ClientError;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::action::{Action, Target};
use crate::discovery::{Deletable, Kinds, deletable_kinds};
use crate::executor::{ExecuteError, Executor, message_of};
use crate::indexer::{Cached, NamespacedName};
use crate::informer::{Event, Store, list_watch};
use crate::workqueue::WorkQueue;
use attempt::{Decision, OwnerState, decide, finalizer_patch, orphan_patch};
use graph::{FOREGROUND, Graph, Identity, Node, ORPHAN, Work};
use metadata::PartialObjectMetadata;

/// Owners known to be missing that are remembered, so that a thousand dependents ask once.
const ABSENT_OWNERS: usize = 500;

#[derive(Debug, thiserror::Error)]
enum CollectError {
    #[error("no kind {kind} in {api_version}")]
    UnknownKind { api_version: String, kind: String },
    #[error("read from the API server")]
    Read(#[source] ClientError),
    #[error(transparent)]
    Write(#[from] ExecuteError),
}

impl CollectError {
    fn message(&self) -> String {
        match self {
            CollectError::Read(error) => message_of(error),
            CollectError::Write(error) => format!("{error}: {}", error.message()),
            CollectError::UnknownKind { .. } => self.to_string(),
        }
    }
}

struct Collector {
    executor: Executor,
    graph: Mutex<Graph>,
    kinds: Mutex<Arc<Kinds>>,
    absent: Mutex<VecDeque<String>>,
    queue: WorkQueue<Work>,
}

/// Runs the collector with this many workers until `shutdown`. `rediscover` wakes it when custom kinds come or go.
pub async fn run(
    executor: Executor,
    workers: usize,
    rediscover: Arc<tokio::sync::Notify>,
    shutdown: CancellationToken,
) {
    let collector = Arc::new(Collector {
        executor,
        graph: Mutex::default(),
        kinds: Mutex::default(),
        absent: Mutex::default(),
        queue: WorkQueue::new(),
    });
    let mut monitors: HashMap<Deletable, (CancellationToken, Store<PartialObjectMetadata>)> = HashMap::new();
    let mut tasks = JoinSet::new();
    let mut working = false;
    while !shutdown.is_cancelled() {
        match deletable_kinds(collector.executor.client()).await {
            Ok(kinds) => sync_monitors(&collector, kinds, &mut monitors, &shutdown),
            Err(error) => {
                warn!(error = %message_of(&error), "Unable to discover resources, will retry");
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_secs(2)) => continue,
                    () = shutdown.cancelled() => return,
                }
            }
        }
        if !working {
            for (_, store) in monitors.values() {
                tokio::select! {
                    () = store.synced() => {}
                    () = shutdown.cancelled() => return,
                    // A kind that cannot be listed must not stop the collection of all others.
                    () = tokio::time::sleep(Duration::from_secs(30)) => break,
                }
            }
            info!(kinds = monitors.len(), "Garbage collector: all resource monitors have synced");
            working = true;
            for _ in 0..workers.max(1) {
                tasks.spawn(work(collector.clone()));
            }
        }
        tokio::select! {
            () = rediscover.notified() => tokio::time::sleep(Duration::from_secs(1)).await,
            () = shutdown.cancelled() => {}
        }
    }
    collector.queue.shut_down();
    let _ =
        tokio::time::timeout(Duration::from_secs(5), async { while tasks.join_next().await.is_some() {} })
            .await;
}

/// Starts a monitor for each new kind and stops those of kinds that are gone.
fn sync_monitors(
    collector: &Arc<Collector>,
    kinds: Kinds,
    monitors: &mut HashMap<Deletable, (CancellationToken, Store<PartialObjectMetadata>)>,
    shutdown: &CancellationToken,
) {
    // Events own nothing and are owned by nobody, and there are many of them.
    let wanted: Vec<Deletable> = kinds.all.iter().filter(|kind| kind.resource != "events").cloned().collect();
    monitors.retain(|kind, (stop, _)| {
        let keep = wanted.contains(kind);
        if !keep {
            stop.cancel();
        }
        keep
    });
    for kind in wanted {
        if monitors.contains_key(&kind) {
            continue;
        }
        let (stop, store) = (shutdown.child_token(), Store::<PartialObjectMetadata>::new());
        let client = collector.executor.client().clone();
        tokio::spawn(list_watch::run(
            client,
            kind.collection_path(""),
            String::new(),
            store.clone(),
            stop.clone(),
        ));
        tokio::spawn(feed(collector.clone(), kind.clone(), store.clone(), stop.clone()));
        monitors.insert(kind, (stop, store));
    }
    *collector.kinds.lock() = Arc::new(kinds);
}

/// Carries the changes of one kind into the graph.
async fn feed(
    collector: Arc<Collector>,
    kind: Deletable,
    store: Store<PartialObjectMetadata>,
    stop: CancellationToken,
) {
    let mut subscription = store.subscribe();
    loop {
        let event = tokio::select! {
            event = subscription.next() => event,
            () = stop.cancelled() => return,
        };
        let upsert = |object: &PartialObjectMetadata| {
            collector.graph.lock().upsert(&kind.api_version, &kind.kind, &object.metadata)
        };
        let work = match event {
            None => return,
            Some(Event::Added(object)) => upsert(&object),
            Some(Event::Modified { old, new }) => {
                let facts = |object: &PartialObjectMetadata| ObjectMeta {
                    resource_version: None,
                    ..object.metadata.clone()
                };
                if facts(&old) == facts(&new) { Vec::new() } else { upsert(&new) }
            }
            Some(Event::Deleted(object)) => collector.graph.lock().remove(object.uid()),
            Some(Event::Resync) => store.list().iter().flat_map(|object| upsert(object)).collect(),
        };
        work.into_iter().for_each(|work| collector.queue.add(work));
    }
}

async fn work(collector: Arc<Collector>) {
    while let Some(token) = collector.queue.get().await {
        let done = match token.key() {
            Work::AttemptToDelete(uid) => collector.attempt_to_delete(uid).await,
            Work::AttemptToOrphan(uid) => collector.attempt_to_orphan(uid).await,
        };
        match done {
            Ok(()) => collector.queue.forget(token.key()),
            Err(error) => {
                debug!(work = ?token.key(), error = %error.message(), "Garbage collector will look again");
                collector.queue.add_rate_limited(token.key().clone());
            }
        }
        collector.queue.done(token);
    }
}

impl Collector {
    async fn attempt_to_delete(&self, uid: &str) -> Result<(), CollectError> {
        let Some(node) = self.graph.lock().get(uid).cloned() else { return Ok(()) };
        if node.deleting && !node.deleting_dependents {
            return Ok(());
        }
        let latest = match self.look_up(&node.identity).await? {
            Some(latest) if latest.uid() == uid => latest,
            _ => {
                self.forget(uid);
                return Ok(());
            }
        };
        if node.deleting_dependents {
            return self.go_on_deleting(uid, &node, &latest).await;
        }
        if node.is_virtual {
            // It exists; its monitor will bring the rest.
            return Ok(());
        }
        let mut owners = Vec::new();
        for owner in latest.metadata.owner_references.iter().flatten() {
            owners.push((owner.clone(), self.state_of(owner, &node.identity.namespace).await?));
        }
        let target = self.target(&node.identity, uid)?;
        let why = format!("the owner of {} {} is gone", node.identity.kind, node.identity.name);
        match decide(&latest.metadata, &owners, !node.dependents.is_empty()) {
            Decision::Keep => Ok(()),
            Decision::Patch(patch) => {
                self.execute(Action::Patch { target, subresource: "", patch, why, announce: None }).await
            }
            Decision::Delete(propagation) => {
                self.execute(Action::Delete {
                    target,
                    propagation: Some(propagation),
                    grace_period_seconds: None,
                    why,
                    announce: None,
                })
                .await
            }
        }
    }

    /// A foreground deletion goes on when nothing blocks it any more.
    async fn go_on_deleting(
        &self,
        uid: &str,
        node: &Node,
        latest: &PartialObjectMetadata,
    ) -> Result<(), CollectError> {
        let blocking = self.graph.lock().blocking_dependents(uid);
        if blocking.is_empty() {
            let Some(patch) = finalizer_patch(&latest.metadata, FOREGROUND) else { return Ok(()) };
            let target = self.target(&node.identity, uid)?;
            return self
                .execute(Action::Patch {
                    target,
                    subresource: "",
                    patch,
                    why: "nothing blocks its deletion any more".into(),
                    announce: None,
                })
                .await;
        }
        for dependent in blocking {
            let waits_itself = self.graph.lock().get(&dependent).is_some_and(|node| node.deleting_dependents);
            if !waits_itself {
                self.queue.add(Work::AttemptToDelete(dependent));
            }
        }
        Ok(())
    }

    async fn attempt_to_orphan(&self, uid: &str) -> Result<(), CollectError> {
        let Some(owner) = self.graph.lock().get(uid).cloned() else { return Ok(()) };
        for dependent in &owner.dependents {
            let Some(node) = self.graph.lock().get(dependent).cloned() else { continue };
            let Some(latest) = self.look_up(&node.identity).await?.filter(|latest| latest.uid() == dependent)
            else {
                continue;
            };
            let Some(patch) = orphan_patch(&latest.metadata, uid) else { continue };
            let target = self.target(&node.identity, dependent)?;
            self.execute(Action::Patch {
                target,
                subresource: "",
                patch,
                why: "its owner is deleted and lets it live".into(),
                announce: None,
            })
            .await?;
        }
        let Some(latest) = self.look_up(&owner.identity).await?.filter(|latest| latest.uid() == uid) else {
            return Ok(());
        };
        let Some(patch) = finalizer_patch(&latest.metadata, ORPHAN) else { return Ok(()) };
        let target = self.target(&owner.identity, uid)?;
        self.execute(Action::Patch {
            target,
            subresource: "",
            patch,
            why: "its dependents were set free".into(),
            announce: None,
        })
        .await
    }

    async fn state_of(&self, owner: &OwnerReference, namespace: &str) -> Result<OwnerState, CollectError> {
        if self.absent.lock().contains(&owner.uid) {
            return Ok(OwnerState::Dangling);
        }
        if let Some(node) = self.graph.lock().get(&owner.uid).filter(|node| !node.is_virtual) {
            // What the graph shows may be gone by now; then its deletion brings us here again.
            return Ok(if node.deleting_dependents { OwnerState::Waiting } else { OwnerState::Solid });
        }
        let identity = Identity {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            namespace: namespace.to_owned(),
            name: owner.name.clone(),
        };
        let found = self.look_up(&identity).await?.filter(|found| found.uid() == owner.uid);
        let Some(found) = found else {
            let mut absent = self.absent.lock();
            absent.push_back(owner.uid.clone());
            if absent.len() > ABSENT_OWNERS {
                absent.pop_front();
            }
            return Ok(OwnerState::Dangling);
        };
        let waits = found.is_being_deleted()
            && found.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FOREGROUND);
        Ok(if waits { OwnerState::Waiting } else { OwnerState::Solid })
    }

    /// The object as the server has it now.
    async fn look_up(&self, identity: &Identity) -> Result<Option<PartialObjectMetadata>, CollectError> {
        let path = self.target(identity, "")?.path();
        let request = http::Request::get(path)
            .header("accept", "application/json")
            .body(Bytes::new())
            .expect("a path made of names is a valid URI");
        match self.executor.client().request(request).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(CollectError::Read(error)),
        }
    }

    fn target(&self, identity: &Identity, uid: &str) -> Result<Target, CollectError> {
        let kinds = self.kinds.lock().clone();
        let kind =
            kinds.find(&identity.api_version, &identity.kind).ok_or_else(|| CollectError::UnknownKind {
                api_version: identity.api_version.clone(),
                kind: identity.kind.clone(),
            })?;
        let namespace = if kind.namespaced { identity.namespace.clone() } else { String::new() };
        Ok(Target {
            api_version: kind.api_version.clone(),
            kind: kind.kind.clone(),
            resource: kind.resource.clone(),
            key: NamespacedName::new(namespace, &identity.name),
            uid: Some(uid.to_owned()).filter(|uid| !uid.is_empty()),
        })
    }

    async fn execute(&self, action: Action) -> Result<(), CollectError> {
        match self.executor.execute(vec![action]).await.failure {
            // Somebody else was faster: the echo of that change brings us here again.
            Some(failure) if failure.source.is_not_found() => Ok(()),
            Some(failure) => Err(failure.into()),
            None => Ok(()),
        }
    }

    fn forget(&self, uid: &str) {
        self.graph.lock().remove(uid).into_iter().for_each(|work| self.queue.add(work));
    }
}
