//! DELETE: one object or a collection; now, later, or when its finalizers are done.
//!
//! *Step 2 of a pod's journey.* Before: `kubectl delete pod web`. After: the pod has a deletion time and the kubelet stops
//! its containers, or (when nobody needs to be waited for) it is gone.
//!
//! What a request does is decided and carried out by [`crate::store::deletion`]; here the request is read and the answer
//! chosen. Options come in the body or in the query, not in both: the body wins.
//!
//! # Invariants
//! 1. An object with finalizers is never removed.
//! 2. A precondition that doesn't hold changes nothing.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/handlers/delete.go`, `…/registry/generic/registry/store.go`.

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use http::StatusCode;
use serde_json::{Value, json};
use stage1_kubectl::journey::{Stage, object_name};
use stage1_kubectl::journey_step;
use stage1_kubectl::object::Object;
use stage1_kubectl::status::{Status, StatusDetails};

use super::options::{self, DeleteOptions, ListOptions};
use super::respond::{self, Answer};
use super::selectors::check_field_selector;
use super::write_path::WriteRequest;
use super::{Routed, admit, list, namespaces, prepare};
use crate::admission::{Attributes, Operation};
use crate::custom_resources::{cleanup, definitions_info};
use crate::negotiation::body_format;
use crate::registry::ResourceInfo;
use crate::store::Deleted;
use crate::strategies;
use crate::watch_cache::CachedObject;

/// Objects of a collection that are deleted at a time.
const COLLECTION_WORKERS: usize = 8;

/// Deletes the object that the path names.
///
/// # Errors
/// 404, 409 for preconditions, and whatever admission refuses.
pub async fn handle(routed: &Routed<'_>, body: &Bytes) -> Result<Answer, Status> {
    let options = read_options(routed, body)?;
    let outcome = delete(routed, &routed.context.info.name, &options).await?;
    prepare::served(routed.context, routed.resource, &[&outcome.object().object]).await?;
    Ok(match outcome {
        Deleted::Removed(last) if returns_object(routed.resource) => {
            routed.answer(StatusCode::OK, &last.object)
        }
        Deleted::Removed(last) => respond::status(routed.negotiated.format, &gone(routed, &last.object)),
        Deleted::Pending(marked) => routed.answer(StatusCode::OK, &marked.object),
    })
}

/// Deletes what the selectors of the query match.
///
/// # Errors
/// As [`handle`]; objects that went meanwhile are no error.
pub async fn handle_collection(routed: &Routed<'_>, body: &Bytes) -> Result<Answer, Status> {
    let options = read_options(routed, body)?;
    let chosen = ListOptions::parse(&routed.context.query, false)?;
    check_field_selector(routed.resource, &chosen.field_selector)?;
    let listed = list::list(routed, &chosen).await?;
    let revision = listed.revision;
    let deleted: Vec<Option<Value>> = stream::iter(listed.items)
        .map(|item| {
            let options = &options;
            async move {
                match delete(routed, item.object.name(), options).await {
                    Ok(deleted) => {
                        let object = &deleted.object().object;
                        prepare::served(routed.context, routed.resource, &[object]).await?;
                        Ok(Some(routed.served(object).into_owned().into_value()))
                    }
                    Err(status) if status.code == 404 => Ok(None),
                    Err(status) => Err(status),
                }
            }
        })
        .buffered(COLLECTION_WORKERS)
        .try_collect()
        .await?;
    let items: Vec<Value> = deleted.into_iter().flatten().collect();
    let list = json!({
        "kind": routed.resource.list_kind(),
        "apiVersion": routed.resource.group_version(),
        "metadata": { "resourceVersion": revision.to_string() },
        "items": items,
    });
    Ok(respond::value(StatusCode::OK, routed.negotiated.format, &list))
}

fn read_options(routed: &Routed<'_>, body: &Bytes) -> Result<DeleteOptions, Status> {
    if body.is_empty() {
        return DeleteOptions::parse(&routed.context.query, None);
    }
    let format = body_format(routed.content_type())?;
    let value = options::read_delete_options(body, format)?;
    DeleteOptions::parse(&routed.context.query, Some(&value))
}

/// Deletes an object with options that came in another body (an eviction's).
///
/// # Errors
/// As [`handle`].
pub async fn delete_named(routed: &Routed<'_>, name: &str, options: &Value) -> Result<(), Status> {
    let options = DeleteOptions::parse(&routed.context.query, Some(options))?;
    delete(routed, name, &options).await.map(drop)
}

/// Webhooks see the objects in the version of the request.
async fn admitted(
    routed: &Routed<'_>,
    attributes: &Attributes,
    current: &CachedObject,
    options: &DeleteOptions,
) -> Result<(), Status> {
    prepare::served(routed.context, routed.resource, &[&current.object]).await?;
    let served = routed.served(&current.object);
    admit::delete(routed.context, attributes, &served, &options.to_value()).await
}

// ANCHOR: delete-path
/// Deletes one object.
async fn delete(routed: &Routed<'_>, name: &str, options: &DeleteOptions) -> Result<Deleted, Status> {
    let resource = routed.resource;
    let request = WriteRequest {
        context: routed.context,
        resource,
        name: name.to_owned(),
        subresource: "",
        dry_run: options.dry_run,
    };
    let server = &routed.context.server;
    let namespace = if resource.namespaced { routed.context.namespace() } else { None };
    let attributes = request.attributes(Operation::Delete, resource.gvk());
    let attributes = &attributes;
    let admit =
        |current: Arc<CachedObject>| async move { admitted(routed, attributes, &current, options).await };
    let asked = options.request(routed.context.now);
    let policy = strategies::of(resource).deletion_policy();
    let store = server.stores.of(resource);
    if resource.group.is_empty()
        && resource.resource == "namespaces"
        && let Some(waiting) = namespaces::begin_deletion(&request, &store, &asked, admit).await?
    {
        return Ok(waiting);
    }
    if std::ptr::eq(resource, definitions_info()) {
        return cleanup::begin_deletion(&store, name, &asked, admit).await;
    }
    let deleted = store.delete(namespace, name, &asked, &policy, admit).await?;
    if let (Deleted::Removed(last), "services", false) = (&deleted, resource.resource, options.dry_run) {
        server.allocators.lock().release(&last.object);
    }
    let shown = object_name(resource.kind, namespace, name);
    let decided = if matches!(deleted, Deleted::Removed(_)) { "deleted" } else { "marked for deletion" };
    journey_step!(Stage::ApiServer, shown, decided, format!("{} asked for it", routed.context.user.name));
    Ok(deleted)
}
// ANCHOR_END: delete-path

/// Kinds whose DELETE answers with the object even when it is gone.
fn returns_object(resource: &ResourceInfo) -> bool {
    matches!(
        (resource.group, resource.resource),
        (
            "",
            "pods"
                | "persistentvolumes"
                | "persistentvolumeclaims"
                | "podtemplates"
                | "resourcequotas"
                | "serviceaccounts"
                | "services"
        ) | ("storage.k8s.io", "storageclasses" | "csidrivers" | "csinodes" | "volumeattachments")
            | ("policy", "poddisruptionbudgets")
    )
}

fn gone(routed: &Routed<'_>, object: &Object) -> Status {
    Status::success(Some(StatusDetails {
        name: object.name().to_owned(),
        group: routed.resource.group.to_owned(),
        kind: routed.resource.resource.to_owned(),
        uid: object.uid().to_owned(),
        ..StatusDetails::default()
    }))
}
