//! Review: what a webhook is sent, and what its answer means.
//!
//! The object is in the version of the rule that matched; `requestKind` and `requestResource` say what the client really sent. An answer
//! is believed only when it repeats the uid of the question: otherwise a webhook could be fed old answers.
//!
//! # In Kubernetes
//! `apiserver/pkg/admission/plugin/webhook/request/admissionreview.go`, `…/errors/statuserror.go`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::resource::{GroupVersionKind, GroupVersionResource};
use stage1_kubectl::status::Status;

use super::Sort;
use super::matcher::{Invocation, Objects, operation_name};
use crate::admission::Attributes;
use crate::custom_resources::conversion::known::Prepared;
use crate::handlers::convert;
use crate::registry;
use crate::strategies::Requester;

const API_VERSION: &str = "admission.k8s.io/v1";

/// What a webhook answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Whether the request may go on.
    pub allowed: bool,
    /// Why not.
    pub result: Option<Status>,
    /// JSON patch operations; empty: nothing changes.
    pub patch: Vec<u8>,
    /// For the audit log.
    pub audit_annotations: BTreeMap<String, String>,
    /// For the client.
    pub warnings: Vec<String>,
}

/// The object in another version of its resource.
pub fn in_version<'a>(object: &'a Object, from: &GroupVersionResource, to: &Invocation) -> Cow<'a, Object> {
    let info = |gvr: &GroupVersionResource| registry::find(&gvr.group, &gvr.version, &gvr.resource);
    match (info(from), info(&to.resource)) {
        (Some(source), Some(target)) if source.gvr() != target.gvr() && object.kind() == source.kind => {
            // Only built-in kinds are found by the registry: no program converts them.
            let none = Prepared::default();
            let stored = convert::to_stored(source, object.clone(), &none);
            Cow::Owned(convert::to_served(target, &stored, &none).into_owned())
        }
        _ => Cow::Borrowed(object),
    }
}

/// The question to a webhook.
pub fn request(
    attributes: &Attributes,
    invocation: &Invocation,
    objects: Objects<'_>,
    options: &Value,
    uid: &str,
) -> Value {
    let shown = |object: Option<&Object>| match object {
        None => Value::Null,
        Some(object) => in_version(object, &attributes.resource, invocation).as_value().clone(),
    };
    let mut request = json!({
        "uid": uid,
        "kind": kind(&invocation.kind),
        "resource": resource(&invocation.resource),
        "requestKind": kind(&attributes.kind),
        "requestResource": resource(&attributes.resource),
        "operation": operation_name(attributes.operation),
        "userInfo": user_info(&attributes.user),
        "object": shown(objects.new),
        "oldObject": shown(objects.old),
        "dryRun": attributes.dry_run,
        "options": options,
    });
    if !attributes.subresource.is_empty() {
        request["subResource"] = json!(attributes.subresource);
        request["requestSubResource"] = json!(attributes.subresource);
    }
    for (key, value) in [("name", &attributes.name), ("namespace", &attributes.namespace)] {
        if !value.is_empty() {
            request[key] = json!(value);
        }
    }
    request
}

/// The question in its envelope.
pub fn envelope(request: Value) -> Value {
    json!({ "kind": "AdmissionReview", "apiVersion": API_VERSION, "request": request })
}

fn kind(gvk: &GroupVersionKind) -> Value {
    json!({ "group": gvk.group, "version": gvk.version, "kind": gvk.kind })
}

fn resource(gvr: &GroupVersionResource) -> Value {
    json!({ "group": gvr.group, "version": gvr.version, "resource": gvr.resource })
}

fn user_info(user: &Requester) -> Value {
    let mut info = json!({});
    if !user.name.is_empty() {
        info["username"] = json!(user.name);
    }
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    if !user.groups.is_empty() {
        info["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

/// Reads an answer.
///
/// # Errors
/// What is wrong with it, in Kubernetes' words.
pub fn verify(uid: &str, sort: Sort, answer: &Value) -> Result<Verdict, String> {
    let response = answer.get("response").filter(|r| r.is_object()).ok_or("webhook response was absent")?;
    let text = |name: &str| response.get(name).and_then(Value::as_str);
    let got = text("uid").unwrap_or("");
    if got != uid {
        return Err(format!("expected response.uid={uid:?}, got {got:?}"));
    }
    let of = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or("");
    if (of("apiVersion"), of("kind")) != (API_VERSION, "AdmissionReview") {
        let got = match of("apiVersion").split_once('/') {
            Some((group, version)) => format!("{group}/{version}, Kind={}", of("kind")),
            None => format!("/{}, Kind={}", of("apiVersion"), of("kind")),
        };
        return Err(format!("expected webhook response of {API_VERSION}, Kind=AdmissionReview, got {got}"));
    }
    let patch = match text("patch") {
        None => Vec::new(),
        Some(encoded) => STANDARD.decode(encoded).map_err(|error| error.to_string())?,
    };
    let patch_type = response.get("patchType").and_then(Value::as_str);
    check_patch(sort, &patch, patch_type)?;
    let map = response.get("auditAnnotations").cloned().unwrap_or_default();
    let warnings = response.get("warnings").cloned().unwrap_or_default();
    Ok(Verdict {
        allowed: response.get("allowed").and_then(Value::as_bool).unwrap_or(false),
        result: response.get("status").filter(|s| s.is_object()).map(read_status),
        patch,
        audit_annotations: serde_json::from_value(map).unwrap_or_default(),
        warnings: serde_json::from_value(warnings).unwrap_or_default(),
    })
}

fn check_patch(sort: Sort, patch: &[u8], patch_type: Option<&str>) -> Result<(), String> {
    match (sort, patch.is_empty(), patch_type) {
        (Sort::Validating, false, _) => Err("validating webhook may not return response.patch".into()),
        (Sort::Validating, _, Some(_)) => Err("validating webhook may not return response.patchType".into()),
        (Sort::Mutating, false, None) => {
            Err("webhook returned response.patch but not response.patchType".into())
        }
        (Sort::Mutating, true, Some(_)) => {
            Err("webhook returned response.patchType but not response.patch".into())
        }
        (Sort::Mutating, false, Some("")) => {
            Err("webhook returned invalid response.patchType of \"\"".into())
        }
        (Sort::Mutating, false, Some(other)) if other != "JSONPatch" => {
            Err(format!("unsupported patch type {other:?}"))
        }
        _ => Ok(()),
    }
}

/// A webhook's status may leave out whatever it likes.
fn read_status(status: &Value) -> Status {
    let mut whole = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "", "code": 0 });
    for (key, value) in status.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        whole[key] = value.clone();
    }
    // The answer to the client is a v1 Status, whatever the webhook called it.
    whole["kind"] = json!("Status");
    whole["apiVersion"] = json!("v1");
    serde_json::from_value(whole).unwrap_or_else(|_| Status::failure(0, "", ""))
}

/// The refusal that the client gets.
pub fn refusal(webhook: &str, result: Option<Status>) -> Status {
    let mut status = result.unwrap_or_else(|| Status::failure(0, "", ""));
    let denied = format!("admission webhook {webhook:?} denied the request");
    if status.code < 400 {
        status.code = 400;
    }
    if status.status.is_empty() || status.status == "Success" {
        status.status = "Failure".into();
    }
    status.message = match (status.message.as_str(), status.reason.as_str()) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    status
}
