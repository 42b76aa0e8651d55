//! Server-side apply: PATCH with what the client wants of an object, and nothing else.
//!
//! *Step 2 of a pod's journey.* Before: `kubectl apply --server-side` sends a manifest as it is. After: the object has what the
//! manifest says, what others said stays, and what the same manager said last time and no longer says is gone.
//!
//! There is no difference between a first and a later apply for the client: an object that isn't there is created, if the
//! client may create it. Two first applies at once end as one create and one update.
//!
//! # Invariants
//! 1. The body is read once and checked against the schema; what it doesn't name isn't defaulted before it is merged.
//! 2. An apply without changes leaves the resourceVersion.
//!
//! # In Kubernetes
//! `applyPatcher` in `apiserver/pkg/endpoints/handlers/patch.go`. Left out: CBOR.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use stage1_kubectl::manifest;
use stage1_kubectl::object::Object;
use stage1_kubectl::resource::GroupVersionKind;
use stage1_kubectl::status::Status;

use super::options::WriteOptions;
use super::respond::Answer;
use super::write_path::{self, WriteRequest};
use super::{Routed, field_manager, pods};
use crate::authorization::Authorizer;
use crate::decode::FieldValidation;
use crate::filters;
use crate::managed_fields::field_types::built_in;
use crate::managed_fields::{shown_object, validate};

/// The body's media type.
pub const MEDIA_TYPE: &str = "application/apply-patch+yaml";
/// Rounds of "isn't there" and "is there already" after which others may have it.
const MAX_ROUNDS: usize = 5;

// ANCHOR: server-side-apply
/// Applies the object in the body.
///
/// # Errors
/// 409 with the conflicts, and whatever a gate refuses.
pub async fn handle(routed: &Routed<'_>, body: &Bytes) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&routed.context.query, "PatchOptions", true)?;
    let applied = read(body)?;
    let subresource = routed.context.info.subresource.as_str();
    let mut request = WriteRequest {
        context: routed.context,
        resource: routed.resource,
        name: routed.context.info.name.clone(),
        subresource,
        dry_run: options.dry_run,
    };
    let warnings = duplicate_keys(body, options.field_validation);
    for _ in 0..MAX_ROUNDS {
        let change = |current: &Object| {
            let new = field_manager::apply(&request, Some(current), &applied, options.force)?;
            warnings.clone()?;
            check_name(&new, routed)?;
            Ok(pods::subresource_view(subresource, &new, current))
        };
        match write_path::update_applied(&request, &change).await {
            Err(status) if status.code == 404 && subresource.is_empty() => {}
            updated => {
                routed.context.warn(warnings?);
                return Ok(routed.answer(StatusCode::OK, &updated?));
            }
        }
        let new = field_manager::apply(&request, None, &applied, options.force)?;
        check_new(&new, routed)?;
        match write_path::create_applied(&mut request, new).await {
            Err(status) if status.reason == "AlreadyExists" => {}
            created => {
                routed.context.warn(warnings?);
                return Ok(routed.answer(StatusCode::CREATED, &created?));
            }
        }
    }
    Err(Status::modified(&routed.group_resource(), &routed.context.info.name))
}
// ANCHOR_END: server-side-apply

/// Reads the body: YAML, of which JSON is a part.
///
/// # Errors
/// 400 for what is neither.
pub fn read(body: &[u8]) -> Result<Value, Status> {
    let undecodable = |why: &str| Status::bad_request(format!("error decoding YAML: {why}"));
    let text = std::str::from_utf8(body)
        .map_err(|_| undecodable("error converting YAML to JSON: yaml: invalid leading UTF-8 octet"))?;
    let value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(_) => manifest::read_yaml(text)
            .map_err(|why| undecodable(&format!("error converting YAML to JSON: {why}")))?,
    };
    match value {
        Value::Object(_) => Ok(value),
        Value::Null => Ok(json!({})),
        other => {
            let found = if other.is_array() { "array" } else { "string" };
            let go = "Go value of type map[string]interface {}";
            Err(undecodable(&format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into {go}"
            )))
        }
    }
}

/// Keys that are there twice: refused, warned of, or nobody's business.
fn duplicate_keys(body: &[u8], validation: FieldValidation) -> Result<Vec<String>, Status> {
    if validation == FieldValidation::Ignore {
        return Ok(Vec::new());
    }
    let Some(why) = std::str::from_utf8(body).ok().and_then(manifest::duplicate_key) else {
        return Ok(Vec::new());
    };
    match validation {
        FieldValidation::Strict => Err(Status::bad_request(format!(
            "error strict decoding YAML: error converting YAML to JSON: {why}"
        ))),
        // A header has one line: the findings without their heading.
        _ => Ok(why.lines().skip(1).map(|line| line.trim().to_owned()).collect()),
    }
}

fn check_name(new: &Object, routed: &Routed<'_>) -> Result<(), Status> {
    let wanted = routed.context.info.name.as_str();
    match new.name() {
        "" => Err(Status::bad_request(format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        ))),
        name if name != wanted => Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({wanted})"
        ))),
        _ => Ok(()),
    }
}

/// A new object must be the one of the path, no known one that has gone, and one that the user may create.
fn check_new(new: &Object, routed: &Routed<'_>) -> Result<(), Status> {
    let context = routed.context;
    if !new.uid().is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {}, and no existing object was found",
            new.uid()
        );
        return Err(Status::conflict(&routed.group_resource(), &context.info.name, &why));
    }
    check_name(new, routed)?;
    let mut info = context.info.clone();
    info.verb = "create".to_owned();
    let attributes = filters::attributes_of(&context.user, &info, &context.query);
    let decision = context.server.authorizer.authorize(&attributes);
    match decision.is_allowed() {
        true => Ok(()),
        false => Err(attributes.forbidden(decision.reason())),
    }
}

/// The part of a Scale that its object has: who owns the replicas is booked there.
///
/// # Errors
/// 400 for another kind, 500 for what doesn't fit a Scale.
pub fn scale_of_applied(applied: &Value, current: &Object, replicas_path: &str) -> Result<Value, Status> {
    let gvk = GroupVersionKind::new("autoscaling", "v1", "Scale");
    let text = |name: &str| applied[name].as_str().unwrap_or_default();
    if text("apiVersion") != gvk.api_version() || text("kind") != gvk.kind {
        let shown = GroupVersionKind::from_api_version(text("apiVersion"), text("kind"));
        let (group, version, kind) = (shown.group, shown.version, shown.kind);
        return Err(Status::bad_request(format!("invalid object type: {group}/{version}, Kind={kind}")));
    }
    if let Some(misfit) = validate::validate(&built_in::object_type(&gvk), applied) {
        let text = format!("failed to create typed patch object ({}): {misfit}", shown_object(applied));
        return Err(Status::failure(500, "", text));
    }
    let part = json!({ "apiVersion": current.api_version(), "kind": current.kind(), "spec": {} });
    let mut part = Object::from_value(part).expect("a map");
    part.set("/metadata", applied["metadata"].clone());
    if let Some(replicas) = applied.pointer("/spec/replicas") {
        part.set(replicas_path, replicas.clone());
    }
    Ok(part.into_value())
}
