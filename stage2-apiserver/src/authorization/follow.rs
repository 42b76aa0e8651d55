//! Following: the authorizer's indices keep up with the watch caches.
//!
//! *Step 2 of a pod's journey.* Before: a binding or a pod changed. After: the next decision knows.
//!
//! # Invariants
//! 1. [`start`] returns after all five caches were read once: no request is decided on half an index.
//! 2. When a watch ends, what came meanwhile arrives with the next one's initial events, and what isn't among them is removed.
//!
//! # In Kubernetes
//! The shared informers behind `rbac.New` and `node.AddGraphEventHandlers`.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt;
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::ClusterAuthorizer;
use crate::registry;
use crate::watch_cache::{At, CacheEvent, CachedObject, Cacher, Caches, EventType, WatchOptions, WatchStart};

const FOLLOWED: [(&str, &str); 5] = [
    ("rbac.authorization.k8s.io", "roles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("", "pods"),
];
/// How many of them are RBAC's.
const RBAC_KINDS: usize = 4;

/// Starts to follow, and waits until the indices are complete.
pub async fn start(caches: &Caches, stop: &CancellationToken) -> Arc<ClusterAuthorizer> {
    let authorizer = Arc::new(ClusterAuthorizer::default());
    let mut synced = Vec::new();
    for (group, resource) in FOLLOWED {
        let info = registry::find_group_resource(group, resource).expect("built-in resources are registered");
        let prefix = info.key_prefix(None);
        let cacher = caches.of(&prefix);
        let (done, ready) = watch::channel(false);
        let task = follow(cacher, prefix, authorizer.clone(), done);
        let stop = stop.clone();
        tokio::spawn(async move { stop.run_until_cancelled(task).await });
        synced.push(ready);
    }
    for mut ready in synced {
        // The sender only goes away when we are being stopped.
        let _ = ready.wait_for(|ready| *ready).await;
    }
    authorizer
}

/// The RBAC index as the store has it now, for a question whose answer must not be a moment old.
///
/// # Errors
/// 504 when the caches don't get there in time.
pub async fn read_now(caches: &Caches) -> Result<ClusterAuthorizer, Status> {
    let authorizer = ClusterAuthorizer::default();
    for (group, resource) in &FOLLOWED[..RBAC_KINDS] {
        let info = registry::find_group_resource(group, resource).expect("built-in resources are registered");
        let prefix = info.key_prefix(None);
        let cacher = caches.of(&prefix);
        cacher.wait_for(At::Consistent).await?;
        cacher.present(&prefix).iter().for_each(|cached| authorizer.learn(&cached.object));
    }
    Ok(authorizer)
}

async fn follow(
    cacher: Arc<Cacher>,
    scope: String,
    authorizer: Arc<ClusterAuthorizer>,
    done: watch::Sender<bool>,
) {
    let mut known: HashMap<Arc<str>, Arc<CachedObject>> = HashMap::new();
    loop {
        let options = WatchOptions {
            scope: scope.clone(),
            selector: None,
            start: WatchStart::Initial(At::Any),
            bookmarks: false,
            send_initial_events: true,
        };
        let mut stream = match cacher.watch(options).await {
            Ok(stream) => stream,
            Err(status) => {
                tracing::warn!(%status, scope, "Authorizer can't follow, trying again");
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                continue;
            }
        };
        let mut stale = known.clone();
        while let Some(event) = stream.next().await {
            match event {
                CacheEvent::Object(EventType::Deleted, gone) => {
                    known.remove(&gone.key);
                    authorizer.forget(&gone.object);
                }
                CacheEvent::Object(_, now) => {
                    stale.remove(&now.key);
                    authorizer.learn(&now.object);
                    known.insert(now.key.clone(), now);
                }
                CacheEvent::Bookmark { .. } => {
                    for (key, gone) in stale.drain() {
                        known.remove(&key);
                        authorizer.forget(&gone.object);
                    }
                    done.send_replace(true);
                }
            }
        }
    }
}

impl ClusterAuthorizer {
    /// Takes in an RBAC object or a pod.
    pub fn learn(&self, object: &Object) {
        match object.kind() {
            "Pod" => self.nodes.write().put(object),
            _ => self.rbac.write().put(object),
        }
    }

    /// Forgets an RBAC object or a pod.
    pub fn forget(&self, object: &Object) {
        match object.kind() {
            "Pod" => self.nodes.write().remove(object),
            _ => self.rbac.write().remove(object),
        }
    }
}
