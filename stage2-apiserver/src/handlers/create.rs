//! POST: a new object.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/handlers/create.go`.

use bytes::Bytes;
use http::StatusCode;
use stage1_kubectl::status::Status;

use super::Routed;
use super::options::WriteOptions;
use super::respond::Answer;
use super::write_path::{self, WriteRequest};
use crate::decode::decode_for;
use crate::negotiation::body_format;

/// Reads, admits, validates and stores the object in the body.
///
/// # Errors
/// Whatever a gate refuses.
pub async fn handle(routed: &Routed<'_>, body: &Bytes) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&routed.context.query, "CreateOptions", false)?;
    let format = body_format(routed.content_type())?;
    let decoded = decode_for(routed.resource, body, format, options.field_validation)?;
    routed.context.warn(decoded.warnings);
    let mut request = WriteRequest {
        context: routed.context,
        resource: routed.resource,
        name: decoded.object.name().to_owned(),
        subresource: "",
        dry_run: options.dry_run,
    };
    if decoded.object.name().is_empty() && decoded.object.generate_name().is_empty() {
        // Validation will say so in its words; there is nothing to look up meanwhile.
        request.name = String::new();
    }
    let created = write_path::create(&mut request, decoded.object).await?;
    Ok(routed.answer(StatusCode::CREATED, &created))
}
