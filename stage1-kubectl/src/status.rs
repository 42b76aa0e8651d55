//! Status: how the API says no, in Kubernetes' words.
//!
//! *Steps 1 and 2 of a pod's journey.* Before: a request reached the API server. After: whoever sent it reads why it was refused.
//!
//! Every refusal is a `Status` object with a code, a machine-readable reason and a sentence for people. Users search the
//! web for that sentence, and programs match on the reason, so both are Kubernetes' own, made by the named constructors
//! here and nowhere else. The server builds them, the client decodes them: one type for both.
//!
//! # Invariants
//! 1. Each reason goes with exactly one code (`NotFound` with 404, `Invalid` with 422, …).
//!
//! # In Kubernetes
//! `apimachinery/pkg/api/errors/errors.go`; [`FieldError`] is `util/validation/field/errors.go`.

use std::fmt;

use serde::{Deserialize, Serialize};

mod field_error;

pub use field_error::{ErrorType, FieldError, GO_SYNTAX, quote};

use crate::resource::GroupVersionKind;

/// What an API server answers when it doesn't answer with an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// Always `v1`.
    pub api_version: String,
    /// Always `Status`.
    pub kind: String,
    /// List metadata; empty but for an expired `continue` token.
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// `Success` or `Failure`.
    pub status: String,
    /// The sentence for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The word for programs: `NotFound`, `Conflict`, …
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What the answer is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
    /// The HTTP status code.
    #[serde(skip_serializing_if = "is_zero")]
    pub code: u16,
}

fn is_zero(code: &u16) -> bool {
    *code == 0
}

impl Default for Status {
    fn default() -> Self {
        Status {
            api_version: "v1".into(),
            kind: "Status".into(),
            metadata: serde_json::Map::new(),
            status: "Failure".into(),
            message: String::new(),
            reason: String::new(),
            details: None,
            code: 0,
        }
    }
}

/// What a [`Status`] is about.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetails {
    /// The object's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource (for `Invalid`: the kind).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The object's uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// One entry a field that is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// When to try again, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
}

/// One reason among several.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusCause {
    /// The kind of complaint, `FieldValueRequired`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The complaint without the field's path.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path, `spec.containers[0].image`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

/// Splits `deployments.apps` into resource and group.
fn split_group_resource(group_resource: &str) -> (&str, &str) {
    group_resource.split_once('.').unwrap_or((group_resource, ""))
}

/// `pods "web"`: what most messages begin with.
fn subject(group_resource: &str, name: &str) -> String {
    format!("{group_resource} {}", quote(name))
}

impl Status {
    /// A failure with nothing but code, reason and message.
    pub fn failure(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Status { code, reason: reason.into(), message: message.into(), ..Status::default() }
    }

    /// `Success`, as `DELETE` answers it.
    pub fn success(details: Option<StatusDetails>) -> Self {
        Status { status: "Success".into(), details, ..Status::default() }
    }

    fn about(mut self, group_resource: &str, name: &str) -> Self {
        let (kind, group) = split_group_resource(group_resource);
        self.details = Some(StatusDetails {
            name: name.into(),
            group: group.into(),
            kind: kind.into(),
            ..StatusDetails::default()
        });
        self
    }

    fn with_cause(mut self, reason: &str, message: &str) -> Self {
        let cause = StatusCause { reason: reason.into(), message: message.into(), field: String::new() };
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// Adds the seconds after which the client may try again.
    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = Some(seconds);
        self
    }

    /// 404: `pods "web" not found`.
    // ANCHOR: status-not-found
    pub fn not_found(group_resource: &str, name: &str) -> Self {
        let message = format!("{} not found", subject(group_resource, name));
        Status::failure(404, "NotFound", message).about(group_resource, name)
    }
    // ANCHOR_END: status-not-found

    /// 404 for a path that no handler serves.
    pub fn generic_not_found() -> Self {
        let mut status = Status::failure(404, "NotFound", "the server could not find the requested resource");
        status.details = Some(StatusDetails::default());
        status
    }

    /// 409: `pods "web" already exists`.
    pub fn already_exists(group_resource: &str, name: &str) -> Self {
        let message = format!("{} already exists", subject(group_resource, name));
        Status::failure(409, "AlreadyExists", message).about(group_resource, name)
    }

    /// 409: `Operation cannot be fulfilled on pods "web": …`.
    pub fn conflict(group_resource: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {}: {why}", subject(group_resource, name));
        Status::failure(409, "Conflict", message).about(group_resource, name)
    }

    /// The conflict of a stale resourceVersion.
    pub fn modified(group_resource: &str, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Status::conflict(group_resource, name, why)
    }

    /// 422: `Pod "web" is invalid: …`; `group_kind` is `Deployment.apps`.
    pub fn invalid(group_kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let mut message = format!("{} is invalid", subject(group_kind, name));
        if !errors.is_empty() {
            message = format!("{message}: {}", field_error::aggregate(errors));
        }
        let mut status = Status::failure(422, "Invalid", message).about(group_kind, name);
        let details = status.details.get_or_insert_default();
        details.causes.extend(errors.iter().map(|e| StatusCause {
            reason: e.kind.reason().into(),
            message: e.body(),
            field: e.field.clone(),
        }));
        status
    }

    /// [`Status::invalid`] for a kind given as a value.
    pub fn invalid_kind(gvk: &GroupVersionKind, name: &str, errors: &[FieldError]) -> Self {
        Status::invalid(&gvk.group_kind(), name, errors)
    }

    /// 403: `pods "web" is forbidden: …`, without the name when it is empty.
    pub fn forbidden(group_resource: &str, name: &str, why: &str) -> Self {
        let message = match (group_resource, name) {
            ("", _) => format!("forbidden: {why}"),
            (resource, "") => format!("{resource} is forbidden: {why}"),
            (resource, name) => format!("{} is forbidden: {why}", subject(resource, name)),
        };
        Status::failure(403, "Forbidden", message).about(group_resource, name)
    }

    /// 401: who are you?
    pub fn unauthorized() -> Self {
        Status::failure(401, "Unauthorized", "Unauthorized")
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Status::failure(400, "BadRequest", message)
    }

    /// 413: the body is over the limit.
    pub fn too_large(why: &str) -> Self {
        let message = format!("Request entity too large: {why}");
        Status::failure(413, "RequestEntityTooLarge", message)
    }

    /// 410 `Expired`: the resourceVersion or `continue` token is older than the history that is kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Status::failure(410, "Expired", message)
    }

    /// 410 `Gone`.
    pub fn gone(message: impl Into<String>) -> Self {
        Status::failure(410, "Gone", message)
    }

    /// 410: `too old resource version: 5 (17)`.
    pub fn too_old_resource_version(asked: u64, oldest: u64) -> Self {
        Status::expired(format!("too old resource version: {asked} ({oldest})"))
    }

    /// 405: `create is not supported on resources of kind "pods"`.
    pub fn method_not_allowed(group_resource: &str, action: &str) -> Self {
        let message = format!("{action} is not supported on resources of kind {}", quote(group_resource));
        Status::failure(405, "MethodNotAllowed", message).about(group_resource, "")
    }

    /// 415: the body's content type is none of `accepted`.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let accepted = accepted.join(", ");
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Status::failure(415, "UnsupportedMediaType", message)
    }

    /// 406: the client accepts none of `offered`.
    pub fn not_acceptable(offered: &[&str]) -> Self {
        let offered = offered.join(", ");
        let message = format!("only the following media types are accepted: {offered}");
        Status::failure(406, "NotAcceptable", message)
    }

    /// 500: `Internal error occurred: …`.
    pub fn internal(why: impl fmt::Display) -> Self {
        let why = why.to_string();
        Status::failure(500, "InternalError", format!("Internal error occurred: {why}")).with_cause("", &why)
    }

    /// 504: `Timeout: …`.
    pub fn timeout(why: &str, retry_after_seconds: u32) -> Self {
        Status::failure(504, "Timeout", format!("Timeout: {why}")).with_retry_after(retry_after_seconds)
    }

    /// 503.
    pub fn service_unavailable(why: impl Into<String>) -> Self {
        Status::failure(503, "ServiceUnavailable", why)
    }

    /// 429 with the server's own words.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Status::failure(429, "TooManyRequests", message).with_retry_after(retry_after_seconds)
    }

    /// Whether this is a `Failure`.
    pub fn is_failure(&self) -> bool {
        self.status == "Failure"
    }

    /// The messages of the causes, or the message: what `kubectl` lists under an `Invalid`.
    pub fn causes(&self) -> &[StatusCause] {
        self.details.as_ref().map(|d| d.causes.as_slice()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
