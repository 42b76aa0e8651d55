//! PUT: a whole new state of an object, or of its status.
//!
//! The path decides what is written: through `/status` only the status, through the object itself everything else. Some
//! kinds (leases, roles, endpoints) are created by a PUT when they aren't there.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/handlers/update.go`.

use bytes::Bytes;
use http::StatusCode;
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use super::options::WriteOptions;
use super::respond::Answer;
use super::write_path::{self, WriteRequest};
use super::{Routed, pods};
use crate::decode::decode_for;
use crate::negotiation::body_format;
use crate::strategies;

/// Replaces the object (or status) that the path names.
///
/// # Errors
/// Whatever a gate refuses.
pub async fn handle(routed: &Routed<'_>, body: &Bytes) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&routed.context.query, "UpdateOptions", false)?;
    let format = body_format(routed.content_type())?;
    let decoded = decode_for(routed.resource, body, format, options.field_validation)?;
    routed.context.warn(decoded.warnings);
    let mut sent = decoded.object;
    check_identity(routed, &mut sent)?;
    let subresource = routed.context.info.subresource.as_str();
    let mut request = WriteRequest {
        context: routed.context,
        resource: routed.resource,
        name: routed.context.info.name.clone(),
        subresource,
        dry_run: options.dry_run,
    };
    let change = |current: &Object| Ok(pods::subresource_view(subresource, &sent, current));
    match write_path::update(&request, &change).await {
        Err(status) if status.code == 404 && subresource.is_empty() && creates(routed) => {
            let created = write_path::create(&mut request, sent).await?;
            Ok(routed.answer(StatusCode::CREATED, &created))
        }
        updated => Ok(routed.answer(StatusCode::OK, &updated?)),
    }
}

fn creates(routed: &Routed<'_>) -> bool {
    strategies::of(routed.resource).allow_create_on_update()
}

/// Name and namespace of the body must be those of the path; what the body doesn't say is taken from there.
///
/// # Errors
/// 400 naming both.
pub fn check_identity(routed: &Routed<'_>, sent: &mut Object) -> Result<(), Status> {
    let name = routed.context.info.name.as_str();
    if sent.name().is_empty() {
        sent.set_name(name);
    }
    if sent.name() != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({name})",
            sent.name()
        )));
    }
    let namespace = if routed.resource.namespaced { routed.context.namespace() } else { None };
    strategies::create::ensure_namespace(sent, namespace)
}
