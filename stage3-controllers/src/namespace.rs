//! Namespace controller: emptying a namespace before it goes.
//!
//! *After the last step of a pod's journey.* A namespace that is deleted stays, as `Terminating`, until everything in it is gone. This controller deletes
//! all objects of all kinds in it, says in the namespace's conditions what is left and why, and at last removes the finalizer `kubernetes`, which lets the API server remove it.
//!
//! The subtle thing is that deleted is not gone: pods take their grace period, objects with finalizers wait for somebody. So the
//! controller counts what remains and comes back.
//!
//! # Invariants
//! 1. The finalizer is removed only after a complete look at every kind found nothing left.
//! 2. Only namespaces that are being deleted are emptied.
//!
//! # In Kubernetes
//! `pkg/controller/namespace/`. Left out: kinds whose deletion is ordered (`OrderedNamespaceDeletion`, pods first) beyond pods going first.
#![expect(clippy::disallowed_methods, reason = "shell: lists and deletes what is in a namespace")]

pub mod conditions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use stage1_kubectl::client::{Client, ClientError};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::action::Action;
use crate::discovery::{Deletable, deletable_kinds};
use crate::executor::{Executor, message_of};
use crate::indexer::{Cached, NamespacedName};
use crate::informer::Event;
use crate::informer::factory::InformerFactory;
use crate::workqueue::WorkQueue;
use conditions::Remaining;

/// Objects with finalizers are looked at again after this time.
const FINALIZER_ESTIMATE: Duration = Duration::from_secs(15);
const FINALIZER: &str = "kubernetes";

struct Emptier {
    executor: Executor,
    factory: InformerFactory,
    queue: WorkQueue<NamespacedName>,
}

/// Runs the controller with this many workers until `shutdown`.
pub async fn run(factory: InformerFactory, executor: Executor, workers: usize, shutdown: CancellationToken) {
    let namespaces = factory.store::<Namespace>();
    factory.wait_for_sync().await;
    let emptier = Arc::new(Emptier { executor, factory, queue: WorkQueue::new() });
    let mut tasks = JoinSet::new();
    for _ in 0..workers.max(1) {
        let emptier = emptier.clone();
        tasks.spawn(async move {
            while let Some(token) = emptier.queue.get().await {
                emptier.process(token.key()).await;
                emptier.queue.done(token);
            }
        });
    }
    let mut subscription = namespaces.subscribe();
    loop {
        let event = tokio::select! {
            event = subscription.next() => event,
            () = shutdown.cancelled() => break,
        };
        match event {
            None => break,
            Some(Event::Resync) => namespaces
                .list()
                .iter()
                .filter(|one| one.is_being_deleted())
                .for_each(|one| emptier.queue.add(one.key())),
            Some(Event::Added(one) | Event::Modified { new: one, .. }) if one.is_being_deleted() => {
                emptier.queue.add(one.key())
            }
            Some(_) => {}
        }
    }
    emptier.queue.shut_down();
    let _ =
        tokio::time::timeout(Duration::from_secs(5), async { while tasks.join_next().await.is_some() {} })
            .await;
}

impl Emptier {
    async fn process(&self, key: &NamespacedName) {
        match self.sync(&key.name).await {
            Ok(None) => self.queue.forget(key),
            Ok(Some(estimate)) => {
                // Most pods end sooner than they may: look early at first, then at the estimate.
                let tries = self.queue.num_requeues(key);
                let after = self.queue.add_rate_limited(key.clone());
                let early = Duration::from_millis(500) * 2_u32.saturating_pow(tries.min(10));
                self.queue
                    .add_after(key.clone(), early.min(estimate / 2 + Duration::from_secs(1)).max(after));
            }
            Err(error) => {
                warn!(namespace = %key.name, error = %message_of(&error), "Unable to empty namespace, will retry");
                self.queue.add_rate_limited(key.clone());
            }
        }
    }

    /// One round. `None`: nothing is left to do; otherwise when something may be.
    async fn sync(&self, name: &str) -> Result<Option<Duration>, ClientError> {
        let Some(namespace) = self.factory.store::<Namespace>().get(&NamespacedName::cluster(name)) else {
            return Ok(None);
        };
        let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.clone()).unwrap_or_default();
        if !namespace.is_being_deleted() || !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(None);
        }
        let remaining = self.delete_all(name).await?;
        let conditions = conditions::compute(&namespace, &remaining, Timestamp::now());
        let current = namespace.status.clone().unwrap_or_default();
        if current.conditions.as_ref() != Some(&conditions) || current.phase.as_deref() != Some("Terminating")
        {
            let patch = json!({"status": {"phase": "Terminating", "conditions": conditions}});
            let outcome =
                self.executor.execute(vec![Action::patch_status(namespace.as_ref(), patch, "")]).await;
            if let Some(failure) = outcome.failure.filter(|failure| !failure.source.is_not_found()) {
                return Err(failure.source);
            }
        }
        if remaining.counts.is_empty() && remaining.failures.is_empty() {
            self.finalize(&namespace).await?;
            info!(namespace = %name, "Namespace is empty");
            return Ok(None);
        }
        Ok(Some(remaining.estimate))
    }

    /// Deletes everything that can be deleted, pods first, and counts what is left.
    async fn delete_all(&self, namespace: &str) -> Result<Remaining, ClientError> {
        let client = self.executor.client();
        let kinds = deletable_kinds(client).await?;
        let mut remaining = Remaining { undiscovered: kinds.failed.clone(), ..Remaining::default() };
        let mut namespaced: Vec<&Deletable> = kinds.all.iter().filter(|kind| kind.namespaced).collect();
        namespaced.sort_by_key(|kind| {
            (
                kind.resource != "pods" || kind.api_version != "v1",
                kind.api_version.clone(),
                kind.resource.clone(),
            )
        });
        let pods = self.factory.store::<Pod>().in_namespace(namespace);
        let grace = |pod: &Arc<Pod>| {
            pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30).max(0)
                as u64
        };
        let pod_estimate = Duration::from_secs(pods.iter().map(grace).max().unwrap_or(0));
        for kind in namespaced {
            match delete_kind(client, kind, namespace).await {
                Ok(left) if left.is_empty() => {}
                Ok(left) => {
                    let is_pods = kind.resource == "pods";
                    let estimate = if is_pods { pod_estimate } else { FINALIZER_ESTIMATE };
                    remaining.note(kind, &left, estimate);
                    if is_pods {
                        // Pods may still need their Secrets and ConfigMaps to end well.
                        return Ok(remaining);
                    }
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => remaining.failures.push(message_of(&error)),
            }
        }
        Ok(remaining)
    }

    /// Takes the finalizer out, which lets the API server remove the namespace.
    async fn finalize(&self, namespace: &Namespace) -> Result<(), ClientError> {
        let client = self.executor.client();
        let path = format!("/api/v1/namespaces/{}", namespace.object_name());
        let mut latest: Value = match client.request(request(http::Method::GET, &path, None)).await {
            Ok(latest) => latest,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        };
        if let Some(finalizers) = latest.pointer_mut("/spec/finalizers").and_then(Value::as_array_mut) {
            finalizers.retain(|finalizer| finalizer.as_str() != Some(FINALIZER));
        }
        match client.send(request(http::Method::PUT, &format!("{path}/finalize"), Some(&latest))).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}

/// Deletes all objects of a kind in a namespace; returns the finalizers of what is left, one list an object.
async fn delete_kind(
    client: &Client,
    kind: &Deletable,
    namespace: &str,
) -> Result<Vec<Vec<String>>, ClientError> {
    let path = kind.collection_path(namespace);
    let objects = list(client, &path).await?;
    if objects.is_empty() {
        return Ok(Vec::new());
    }
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
    if kind.delete_collection {
        client.send(request(http::Method::DELETE, &path, Some(&options))).await?;
    } else {
        for name in objects.keys() {
            match client.send(request(http::Method::DELETE, &format!("{path}/{name}"), Some(&options))).await
            {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
    }
    Ok(list(client, &path).await?.into_values().collect())
}

/// Names of the objects at a path, with their finalizers.
async fn list(client: &Client, path: &str) -> Result<BTreeMap<String, Vec<String>>, ClientError> {
    let list: Value = client.request(request(http::Method::GET, path, None)).await?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let entry = |item: &Value| {
        let finalizers = item["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let finalizers =
            finalizers.iter().filter_map(|finalizer| finalizer.as_str().map(str::to_owned)).collect();
        Some((item["metadata"]["name"].as_str()?.to_owned(), finalizers))
    };
    Ok(items.iter().filter_map(entry).collect())
}

fn request(method: http::Method, path: &str, body: Option<&Value>) -> http::Request<Bytes> {
    let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
    http::Request::builder()
        .method(method)
        .uri(path)
        .header("accept", "application/json")
        .header("content-type", "application/json")
        .body(body)
        .expect("a path made of names is a valid URI")
}
