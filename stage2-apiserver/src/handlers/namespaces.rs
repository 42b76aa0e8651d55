//! Namespaces: deleted in two steps, because everything in them must go first.
//!
//! DELETE only marks a namespace: `Terminating`, with a deletion time. Its finalizer `kubernetes` (in the spec, not in the
//! metadata) holds it while the namespace controller deletes its contents; then the controller PUTs `/finalize` with an
//! empty list, and the namespace is gone.
//!
//! # In Kubernetes
//! `pkg/registry/core/namespace/storage/storage.go`.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::json;
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use super::Routed;
use super::options::WriteOptions;
use super::respond::Answer;
use super::update::check_identity;
use super::write_path::{self, WriteRequest};
use crate::decode::decode_body;
use crate::negotiation::body_format;
use crate::store::deletion::{DeleteRequest, check_preconditions};
use crate::store::{Deleted, Store, Updated};
use crate::watch_cache::{At, CachedObject};

/// Marks a namespace that still has finalizers of either sort; `None` when nothing holds it back.
///
/// # Errors
/// 404, 409 for preconditions, what `admit` refuses with.
pub async fn begin_deletion<F, Fut>(
    request: &WriteRequest<'_>,
    store: &Store,
    asked: &DeleteRequest,
    admit: F,
) -> Result<Option<Deleted>, Status>
where
    F: Fn(Arc<CachedObject>) -> Fut + Send + Sync,
    Fut: Future<Output = Result<(), Status>> + Send,
{
    let admit = &admit;
    let marked = store.update(None, &request.name, request.dry_run, |cached| async move {
        admit(cached.clone()).await?;
        check_preconditions(&cached.object, asked, "Namespace")?;
        Ok(terminating(&cached.object, asked.now))
    });
    Ok(match marked.await? {
        Updated::Kept(namespace) if is_held(&namespace.object) => {
            // Who has this answer makes nothing more in the namespace: admission must have heard of it. It is marked, whatever
            // becomes of the waiting.
            let _ = store.cacher().wait_for(At::NotOlderThan(namespace.revision)).await;
            Some(Deleted::Pending(namespace))
        }
        Updated::Kept(_) => None,
        Updated::Removed(last) => Some(Deleted::Removed(last)),
    })
}

fn is_held(namespace: &Object) -> bool {
    let in_spec = namespace.get("/spec/finalizers").and_then(|f| f.as_array()).is_some_and(|f| !f.is_empty());
    in_spec || !namespace.finalizers().is_empty()
}

/// A namespace has no grace period, only a time at which it was asked to go.
fn terminating(namespace: &Object, now: Timestamp) -> Object {
    let mut marked = namespace.clone();
    if marked.deletion_timestamp().is_none() && is_held(namespace) {
        marked.set("/metadata/deletionTimestamp", now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        marked.set("/status/phase", json!("Terminating"));
    }
    marked
}

/// PUT `/finalize`: takes finalizers off the spec; the last one takes the namespace away.
///
/// # Errors
/// Whatever a gate refuses.
pub async fn finalize(routed: &Routed<'_>, body: &Bytes) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&routed.context.query, "UpdateOptions", false)?;
    let format = body_format(routed.content_type())?;
    let decoded = decode_body(body, format, &routed.resource.gvk(), options.field_validation)?;
    let mut sent = decoded.object;
    check_identity(routed, &mut sent)?;
    let request = WriteRequest {
        context: routed.context,
        resource: routed.resource,
        name: routed.context.info.name.clone(),
        subresource: "finalize",
        dry_run: options.dry_run,
    };
    let finalizers = sent.get("/spec/finalizers").cloned().unwrap_or_else(|| json!([]));
    let change = |current: &Object| {
        let mut new = current.clone();
        new.set("/spec/finalizers", finalizers.clone());
        new.set_resource_version(sent.resource_version());
        Ok(new)
    };
    let finalized = write_path::update_unchecked(&request, &change).await?;
    Ok(routed.answer(StatusCode::OK, &finalized))
}
