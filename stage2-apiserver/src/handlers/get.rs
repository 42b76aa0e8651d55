//! GET: one object.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/handlers/get.go` (`GetResource`).

use http::StatusCode;
use stage1_kubectl::status::Status;

use super::respond::{self, Answer};
use super::{Routed, prepare};
use crate::negotiation::{Format, PROTOBUF, Transform};
use crate::protobuf;
use crate::watch_cache::At;

/// Answers with the object that the path names.
///
/// # Errors
/// 404 when it isn't there.
pub async fn handle(routed: &Routed<'_>) -> Result<Answer, Status> {
    let version = routed.context.query.get("resourceVersion").unwrap_or("");
    let cache = routed.context.server.stores.of(routed.resource).cacher().clone();
    cache.wait_for(At::of_get(version)?).await?;
    let found = cache.peek(&routed.key()).ok_or_else(|| routed.not_found())?;
    let group_version = routed.resource.group_version();
    let plain = routed.negotiated.transform == Transform::Plain;
    if plain && found.object.api_version() == group_version {
        // The common case: bytes that everybody shares.
        if routed.negotiated.format == Format::Json {
            return Ok(respond::bytes(StatusCode::OK, "application/json", found.encoded().clone()));
        }
        if routed.negotiated.format == Format::Protobuf
            && let Some(message) = found.message()
        {
            let sealed = protobuf::seal(&group_version, routed.resource.kind, message);
            return Ok(respond::bytes(StatusCode::OK, PROTOBUF, sealed));
        }
    }
    prepare::served(routed.context, routed.resource, &[&found.object]).await?;
    Ok(routed.answer(StatusCode::OK, &found.object))
}
