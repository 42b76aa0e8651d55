//! PATCH: a change instead of a state.
//!
//! *Step 2 of a pod's journey.* Before: `kubectl apply`, `scale`, `label` or a controller sends what should change.
//! After: the changed object went through the same gates as a PUT.
//!
//! Four formats, told apart by Content-Type: JSON patch (a list of operations), merge patch (an object whose nulls
//! delete), strategic merge patch (a merge that knows which lists are keyed), and apply, which has a file of its own
//! ([`super::apply`]). The patch is applied to the current object, and again to a newer one when somebody else was faster.
//!
//! # Invariants
//! 1. A patch without a resourceVersion never conflicts with a change of other fields.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/handlers/patch.go`.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::patch::{apply_json_patch, apply_merge_patch, apply_strategic};
use stage1_kubectl::status::{FieldError, Status};

use super::options::WriteOptions;
use super::respond::Answer;
use super::write_path::{self, WriteRequest};
use super::{Routed, apply, pods};
use crate::custom_resources;
use crate::decode::{FieldValidation, field_findings};
use crate::negotiation::media_type;
use crate::registry::ResourceInfo;
use crate::schema::{self, go_json};

/// The patch formats apart from apply, in the order in which a refusal lists them.
pub const PATCH_TYPES: [&str; 3] =
    ["application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"];
/// More operations than this are an attack.
const MAX_JSON_PATCH_OPERATIONS: usize = 10_000;

/// A patch whose format is known.
#[derive(Debug, Clone, PartialEq)]
pub enum PatchBody {
    /// A list of operations.
    Json(Vec<Value>),
    /// An object whose nulls delete.
    Merge(Value),
    /// A merge that knows which lists are keyed.
    Strategic(Value),
}

/// Patches the object (or status) that the path names.
///
/// # Errors
/// 415 for other formats, 400 and 422 for what can't be applied, and whatever a gate refuses.
pub async fn handle(routed: &Routed<'_>, body: &Bytes) -> Result<Answer, Status> {
    let kind = media_type(routed.content_type().unwrap_or(""));
    if kind == apply::MEDIA_TYPE {
        return apply::handle(routed, body).await;
    }
    let options = WriteOptions::parse(&routed.context.query, "PatchOptions", false)?;
    let patch = parse_patch(&kind, body)?;
    let subresource = routed.context.info.subresource.as_str();
    let request = WriteRequest {
        context: routed.context,
        resource: routed.resource,
        name: routed.context.info.name.clone(),
        subresource,
        dry_run: options.dry_run,
    };
    let context = routed.context;
    let change = |current: &Object| {
        let (patched, warnings) = apply_patch(routed.resource, &patch, current, options.field_validation)?;
        context.warn(warnings);
        check_unmoved(&patched, current, routed)?;
        Ok(pods::subresource_view(subresource, &patched, current))
    };
    let patched = write_path::update(&request, &change).await?;
    Ok(routed.answer(StatusCode::OK, &patched))
}

/// Reads a patch.
///
/// # Errors
/// 415 for unknown formats, 400 for what isn't JSON.
pub fn parse_patch(kind: &str, body: &[u8]) -> Result<PatchBody, Status> {
    if !PATCH_TYPES.contains(&kind) {
        return Err(unsupported_media_type());
    }
    let value: Value = serde_json::from_slice(body).map_err(|e| undecodable(body, &e.to_string()))?;
    if kind == PATCH_TYPES[0] {
        let Value::Array(operations) = value else {
            let found = json_kind(&value);
            let text = format!("json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp");
            return Err(Status::bad_request(format!("error decoding patch: {text}")));
        };
        if operations.len() > MAX_JSON_PATCH_OPERATIONS {
            let text = format!(
                "The allowed maximum operations in a JSON patch is {MAX_JSON_PATCH_OPERATIONS}, got {}",
                operations.len()
            );
            return Err(Status::too_large(&text));
        }
        return Ok(PatchBody::Json(operations));
    }
    if !value.is_object() {
        let found = json_kind(&value);
        let text = format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}");
        return Err(Status::bad_request(format!("error decoding patch: {text}")));
    }
    Ok(if kind == PATCH_TYPES[1] { PatchBody::Merge(value) } else { PatchBody::Strategic(value) })
}

fn unsupported_media_type() -> Status {
    let mut status = Status::failure(415, "UnsupportedMediaType", "415: Unsupported Media Type");
    status.details = Some(Default::default());
    status
}

fn undecodable(body: &[u8], fallback: &str) -> Status {
    let why = go_json::syntax_error(body).unwrap_or_else(|| fallback.to_owned());
    Status::bad_request(format!("error decoding patch: {why}"))
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::Null => "null",
    }
}

// ANCHOR: apply-patch
/// Applies a patch to the current object and reads the outcome as the kind that it must still be.
///
/// # Errors
/// 422 for operations that don't fit, 500 for bad strategic directives (as Kubernetes has it).
pub fn apply_patch(
    resource: &ResourceInfo,
    patch: &PatchBody,
    current: &Object,
    validation: FieldValidation,
) -> Result<(Object, Vec<String>), Status> {
    let gvk = resource.gvk();
    let mut patched = current.as_value().clone();
    match patch {
        PatchBody::Json(operations) => {
            apply_json_patch(&mut patched, &Value::Array(operations.clone()))
                .map_err(|_| generic_invalid())?;
        }
        PatchBody::Merge(patch) => apply_merge_patch(&mut patched, patch),
        PatchBody::Strategic(_) if resource.custom.is_some() => return Err(unsupported_media_type()),
        PatchBody::Strategic(patch) => {
            apply_strategic(&mut patched, patch, &gvk)
                .map_err(|e| Status::failure(500, "", e.to_string()))?;
        }
    }
    read_patched(resource, patched, validation)
}
// ANCHOR_END: apply-patch

/// 422 without saying what: JSON patch errors go through the generic client error there.
fn generic_invalid() -> Status {
    let message = "the server rejected our request due to an error in our request";
    let mut status = Status::failure(422, "Invalid", message);
    status.details = Some(Default::default());
    status
}

fn read_patched(
    resource: &ResourceInfo,
    patched: Value,
    validation: FieldValidation,
) -> Result<(Object, Vec<String>), Status> {
    let shown = patched.to_string();
    let invalid = |why: &str| {
        let error = FieldError::invalid("patch", shown.clone(), why);
        Status::invalid("", "", &[error])
    };
    let mut warnings = Vec::new();
    let empties_books = patched
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .is_some_and(|books| books.is_empty());
    let gvk = resource.gvk();
    let mut value = patched;
    if let Some(kind) = resource.custom_kind() {
        let (object, findings) = custom_resources::decode::coerce(value, &kind).map_err(|e| invalid(&e))?;
        warnings = field_findings(findings, validation, |joined| {
            invalid(&format!("strict decoding error: {joined}"))
        })?;
        value = object.into_value();
    } else if let Some(schema) = schema::schema_for(&gvk) {
        let decoded = schema::decode_value(value, schema);
        if let Some(error) = decoded.error {
            return Err(invalid(&error));
        }
        warnings = field_findings(decoded.strict, validation, |joined| {
            invalid(&format!("strict decoding error: {joined}"))
        })?;
        value = decoded.value;
    }
    let mut object = Object::from_value(value).map_err(|e| Status::bad_request(e.to_string()))?;
    if resource.custom.is_none() {
        object.set_gvk(&gvk);
    }
    if empties_books {
        // Decoding drops an empty list; this one means something.
        object.set("/metadata/managedFields", json!([{}]));
    }
    Ok((object, warnings))
}

/// A patch can't rename or move an object.
fn check_unmoved(patched: &Object, current: &Object, routed: &Routed<'_>) -> Result<(), Status> {
    if patched.name() != current.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            patched.name(),
            routed.context.info.name
        )));
    }
    if patched.namespace() != current.namespace() {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(message));
    }
    Ok(())
}
