//! Cleanup: a definition is deleted in two steps, because its objects must go first.
//!
//! *After a custom object's journey.* Before: somebody deleted the definition. After: its objects are gone, then the definition, then
//! its kinds.
//!
//! DELETE only marks a definition: a deletion time, a finalizer, and a condition that it is terminating. From then on nothing new is
//! created of its kinds. Its objects are deleted like by any client; those with finalizers of their own are waited for, as long as it
//! takes. When the last one is gone, the finalizer is taken off, and the definition goes.
//!
//! A definition that never got its names has no objects: those under its names are somebody else's.
//!
//! # Invariants
//! 1. A definition isn't gone before its last object is.
//!
//! # In Kubernetes
//! `apiextensions-apiserver/pkg/controller/finalizer/crd_finalizer.go`, `…/registry/customresourcedefinition/etcd.go` (`Delete`).
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock")]

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use super::controller::with_status;
use super::names::{condition, set};
use super::{CustomResources, definition};
use crate::registry::ResourceInfo;
use crate::store::deletion::{DeleteRequest, check_preconditions};
use crate::store::{Deleted, Store, Updated};
use crate::watch_cache::{At, CachedObject, WatchOptions, WatchStart};

/// The finalizer that holds a definition while it has objects.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
const RETRY: Duration = Duration::from_millis(500);

/// Marks a definition.
///
/// # Errors
/// 404, 409 for preconditions, what `admit` refuses with.
pub async fn begin_deletion<F, Fut>(
    store: &Store,
    name: &str,
    asked: &DeleteRequest,
    admit: F,
) -> Result<Deleted, Status>
where
    F: Fn(Arc<CachedObject>) -> Fut + Send + Sync,
    Fut: Future<Output = Result<(), Status>> + Send,
{
    let admit = &admit;
    let marked = store.update(None, name, asked.dry_run, |cached| async move {
        admit(cached.clone()).await?;
        check_preconditions(&cached.object, asked, "CustomResourceDefinition")?;
        Ok(terminating(&cached.object, asked.now))
    });
    Ok(match marked.await? {
        Updated::Kept(definition) => Deleted::Pending(definition),
        Updated::Removed(last) => Deleted::Removed(last),
    })
}

fn terminating(definition: &Object, now: Timestamp) -> Object {
    let mut marked = definition.clone();
    if marked.deletion_timestamp().is_some() {
        return marked;
    }
    marked.set("/metadata/deletionTimestamp", now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let mut finalizers = definition.finalizers();
    if !finalizers.contains(&FINALIZER) {
        finalizers.push(FINALIZER);
    }
    marked.set_finalizers(&finalizers);
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(&mut marked, true, "InstanceDeletionPending", message, now);
    marked
}

fn set_condition(definition: &mut Object, holds: bool, reason: &str, message: &str, now: Timestamp) {
    let mut status = definition.get("/status").cloned().unwrap_or_default();
    set(&mut status, condition("Terminating", holds, reason, message), now);
    definition.set("/status", status);
}

/// Deletes the objects of a definition, waits for the last of them and lets the definition go.
pub async fn run(customs: Arc<CustomResources>, definition: Object) {
    let name = definition.name().to_owned();
    loop {
        match clean(&customs, &definition).await {
            Ok(()) => return,
            Err(status) if status.code == 404 => return,
            Err(status) => {
                tracing::warn!(%status, definition = name, "Custom resources could not be deleted, trying again")
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn clean(customs: &CustomResources, definition: &Object) -> Result<(), Status> {
    if !definition.finalizers().contains(&FINALIZER) {
        return Ok(());
    }
    if definition::is_true(definition, "Established") {
        let message = "CustomResource deletion is in progress";
        say(customs, definition, true, "InstanceDeletionInProgress", message, false).await?;
        if let Some(info) = definition::stored_entry(definition, &|names| customs.entry(names)) {
            delete_all(customs, info).await?;
        }
    }
    say(customs, definition, false, "InstanceDeletionCompleted", "removed all instances", true).await
}

/// Writes the condition, and takes the finalizer off when all is done.
async fn say(
    customs: &CustomResources,
    definition: &Object,
    holds: bool,
    reason: &str,
    message: &str,
    done: bool,
) -> Result<(), Status> {
    let change = |current: Arc<CachedObject>| {
        let new = with_status(&current.object, |new| {
            set_condition(new, holds, reason, message, Timestamp::now());
            if done {
                let others: Vec<String> = current
                    .object
                    .finalizers()
                    .into_iter()
                    .filter(|f| *f != FINALIZER)
                    .map(str::to_owned)
                    .collect();
                new.set_finalizers(&others.iter().map(String::as_str).collect::<Vec<_>>());
            }
        });
        let is_same = current.object.uid() == definition.uid();
        std::future::ready(if is_same { Ok(new) } else { Err(Status::generic_not_found()) })
    };
    customs.definitions.update(None, definition.name(), false, change).await.map(drop)
}

/// Deletes all objects of a resource, and returns when there is none left.
async fn delete_all(customs: &CustomResources, info: &'static ResourceInfo) -> Result<(), Status> {
    let store = customs.stores.of(info);
    let scope = info.key_prefix(None);
    loop {
        store.cacher().wait_for(At::Consistent).await?;
        let options = WatchOptions {
            scope: scope.clone(),
            selector: None,
            start: WatchStart::After(store.cacher().revision()),
            bookmarks: false,
            send_initial_events: false,
        };
        let mut changes = store.cacher().watch(options).await?;
        let present = store.cacher().present(&scope);
        if present.is_empty() {
            return Ok(());
        }
        for object in present.iter().map(|cached| &cached.object).filter(|o| o.deletion_timestamp().is_none())
        {
            let namespace = if info.namespaced { object.namespace() } else { None };
            let request = DeleteRequest::at(Timestamp::now());
            let deleted = store
                .delete(namespace, object.name(), &request, &Default::default(), |_| {
                    std::future::ready(Ok(()))
                })
                .await;
            if let Err(status) = deleted.map(drop)
                && status.code != 404
            {
                return Err(status);
            }
        }
        // Those with finalizers go when whoever put them there is done.
        changes.next().await;
    }
}
