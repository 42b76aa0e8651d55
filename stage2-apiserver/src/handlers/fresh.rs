//! Fresh caches: what admission reads isn't older than what its client has been told.
//!
//! *Step 2 of a pod's journey.* Before: a write came, or was committed. After: the caches by which the gates judge know of it.
//!
//! Admission asks no store: it reads the caches that feed the watches, and those hear of a commit a moment after the client does.
//! A manifest that makes a namespace and then a pod in it must not fail for that moment, and a `LimitRange` that was answered with
//! 201 must hold for the next pod. So a create waits for what it needs and doesn't find, and a write to a kind by which admission
//! judges is answered when it is in force.
//!
//! # In Kubernetes
//! `NamespaceLifecycle` asks the store for a namespace that its informer doesn't know; the other plugins judge by what their
//! informers know, up to a second late. Left out: waiting for several API servers' caches; only this one's has heard.

use stage1_kubectl::status::Status;

use super::write_path::WriteRequest;
use crate::admission::ObjectReader;
use crate::registry;
use crate::watch_cache::{At, CachedObject};

/// Waits for a namespace and its `ServiceAccount` that may have been made a moment ago.
///
/// # Errors
/// Those of a store that can't be asked.
pub async fn settle_caches(request: &WriteRequest<'_>) -> Result<(), Status> {
    let namespace = &request.context.info.namespace;
    if !request.resource.namespaced || namespace.is_empty() {
        return Ok(());
    }
    let stores = &request.context.server.stores;
    let settle = |resource: &'static str| async move {
        let info = registry::find("", "v1", resource).expect("a core resource");
        stores.of(info).cacher().wait_for(At::Consistent).await
    };
    if stores.get("", "namespaces", "", namespace).is_none() {
        settle("namespaces").await?;
    }
    if request.resource.resource == "pods"
        && stores.get("", "serviceaccounts", namespace, "default").is_none()
    {
        settle("serviceaccounts").await?;
    }
    Ok(())
}

/// The kinds by which admission judges.
const READ_BY_ADMISSION: [&str; 10] = [
    "ingressclasses",
    "limitranges",
    "mutatingwebhookconfigurations",
    "namespaces",
    "priorityclasses",
    "runtimeclasses",
    "storageclasses",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
];

/// Who has the answer to such a write finds it in force with the next request. The write stands, whatever becomes of the wait.
pub async fn gates_have_heard(request: &WriteRequest<'_>, written: &CachedObject) {
    if !request.dry_run && READ_BY_ADMISSION.contains(&request.resource.resource) {
        let _ = request.store().cacher().wait_for(At::NotOlderThan(written.revision)).await;
    }
}
