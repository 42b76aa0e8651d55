//! Decode: a request's body becomes an object of the kind that the path asks for.
//!
//! *Step 2 of a pod's journey.* Before: [`crate::negotiation`] chose how to read it. After:
//! [`crate::handlers::write_path`] defaults, admits and validates it.
//!
//! Three things can be wrong with a body, and users meet each of them weekly: it isn't JSON at all, it is an object of
//! another kind, or it has fields that nobody knows (a typo, or a manifest for a newer version). The last is
//! no error unless the client asks for strictness; `kubectl` does, and prints the answer word for word. Protobuf bodies have numbers
//! instead of names, and in them the last can't be told from a message of a later version.
//!
//! The subtle thing: unknown fields are dropped even when they are ignored. What is stored is what the schema knows, so a
//! field that a later version gives a meaning can't lie in wait in old objects.
//!
//! # Invariants
//! 1. A decoded object has the apiVersion and kind of the path.
//! 2. Strict refuses exactly what Warn warns about.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/handlers/create.go`, `rest.go` (`transformDecodeError`), `fieldvalidation`.

use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::resource::GroupVersionKind;
use stage1_kubectl::status::Status;

use crate::custom_resources;
use crate::negotiation::{BodyFormat, MEDIA_TYPES};
use crate::protobuf;
use crate::registry::ResourceInfo;
use crate::schema::{self, go_json};

/// What happens to fields that the schema doesn't know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValidation {
    /// Dropped in silence.
    Ignore,
    /// Dropped with a warning each (the default).
    Warn,
    /// The request is refused.
    Strict,
}

/// A body that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodedBody {
    /// The object, with the kind that was asked for.
    pub object: Object,
    /// Warnings for the client, one an unknown or duplicate field.
    pub warnings: Vec<String>,
}

// ANCHOR: decode-body
/// Reads a body as one object of `gvk`.
///
/// # Errors
/// 400 with Kubernetes' words for what is wrong, 415 for protobuf of a kind that has no message.
pub fn decode_body(
    body: &[u8],
    format: BodyFormat,
    gvk: &GroupVersionKind,
    validation: FieldValidation,
) -> Result<DecodedBody, Status> {
    let json = match format {
        BodyFormat::Json => body.to_vec(),
        BodyFormat::Yaml => yaml_to_json(body).map_err(|e| unrecognized(gvk, &e, body))?,
        BodyFormat::Protobuf => return decode_protobuf(body, gvk),
    };
    let meta = go_json::interpret(&json).map_err(|e| unrecognized(gvk, &e, &json))?;
    let sent = sent_kind(&meta.api_version, &meta.kind, gvk);
    check_kind(&sent, gvk)?;
    let Some(schema) = schema::schema_for(gvk) else { return decode_free(&json, gvk) };
    let decoded =
        schema::decode_slice(&json, schema).map_err(|e| unrecognized(gvk, &e.to_string(), &json))?;
    if let Some(error) = decoded.error {
        return Err(cannot_be_handled(&sent, gvk, &error));
    }
    let warnings = field_findings(decoded.strict, validation, |joined| {
        cannot_be_handled(&sent, gvk, &format!("strict decoding error: {joined}"))
    })?;
    let mut object = Object::from_value(decoded.value).map_err(|e| Status::bad_request(e.to_string()))?;
    object.set_gvk(gvk);
    Ok(DecodedBody { object, warnings })
}
// ANCHOR_END: decode-body

/// Reads a body as one object of a resource, built-in or custom.
///
/// # Errors
/// As [`decode_body`].
pub fn decode_for(
    resource: &ResourceInfo,
    body: &[u8],
    format: BodyFormat,
    validation: FieldValidation,
) -> Result<DecodedBody, Status> {
    let mut decoded = match resource.custom_kind() {
        Some(kind) => custom_resources::decode::decode_body(body, format, &kind, validation)?,
        None => decode_body(body, format, &resource.gvk(), validation)?,
    };
    if empties_books(body, format, &decoded.object) {
        decoded.object.set("/metadata/managedFields", json!([{}]));
    }
    Ok(decoded)
}

/// Decoding drops an empty list like any zero value; this one means something: the books are to be emptied.
fn empties_books(body: &[u8], format: BodyFormat, object: &Object) -> bool {
    let has_none =
        object.get("/metadata/managedFields").and_then(Value::as_array).is_none_or(|books| books.is_empty());
    let name = b"managedFields";
    if !has_none || format == BodyFormat::Protobuf || !body.windows(name.len()).any(|part| part == name) {
        return false;
    }
    let json = if format == BodyFormat::Yaml { yaml_to_json(body).ok() } else { Some(body.to_vec()) };
    let sent: Option<Value> = json.and_then(|json| serde_json::from_slice(&json).ok());
    sent.as_ref().and_then(|sent| sent.pointer("/metadata/managedFields")) == Some(&json!([]))
}

/// Reads a protobuf body. Unknown numbers are skipped: there is nothing to be strict about.
fn decode_protobuf(body: &[u8], gvk: &GroupVersionKind) -> Result<DecodedBody, Status> {
    let envelope = protobuf::open(body).map_err(|e| unrecognized(gvk, &e.to_string(), body))?;
    let sent = sent_kind(&envelope.api_version, &envelope.kind, gvk);
    check_kind(&sent, gvk)?;
    let message = protobuf::message_of(&gvk.api_version(), &gvk.kind)
        .ok_or_else(|| Status::unsupported_media_type(&MEDIA_TYPES[..2]))?;
    let fields = protobuf::decode_raw(message, envelope.raw)
        .map_err(|e| cannot_be_handled(&sent, gvk, &e.to_string()))?;
    let mut value = Value::Object(fields);
    if let Some(schema) = schema::schema_for(gvk) {
        let decoded = schema::decode_value(value, schema);
        if let Some(error) = decoded.error {
            return Err(cannot_be_handled(&sent, gvk, &error));
        }
        value = decoded.value;
    }
    let mut object = Object::from_value(value).map_err(|e| Status::bad_request(e.to_string()))?;
    object.set_gvk(gvk);
    Ok(DecodedBody { object, warnings: Vec::new() })
}

/// Turns findings into a refusal, warnings or nothing.
///
/// # Errors
/// What `refuse` makes of the joined findings, under Strict.
pub fn field_findings(
    findings: Vec<String>,
    validation: FieldValidation,
    refuse: impl FnOnce(String) -> Status,
) -> Result<Vec<String>, Status> {
    match validation {
        _ if findings.is_empty() => Ok(findings),
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(findings),
        FieldValidation::Strict => Err(refuse(findings.join(", "))),
    }
}

/// A kind without a schema is kept as it was sent.
fn decode_free(json: &[u8], gvk: &GroupVersionKind) -> Result<DecodedBody, Status> {
    let value: Value = serde_json::from_slice(json).map_err(|e| unrecognized(gvk, &e.to_string(), json))?;
    let mut object = Object::from_value(value).map_err(|e| Status::bad_request(e.to_string()))?;
    object.set_gvk(gvk);
    Ok(DecodedBody { object, warnings: Vec::new() })
}

/// What was sent; what wasn't said is taken from the path.
fn sent_kind(api_version: &str, kind: &str, gvk: &GroupVersionKind) -> GroupVersionKind {
    let mut sent = match api_version {
        "" => gvk.clone(),
        api_version => GroupVersionKind::from_api_version(api_version, kind),
    };
    sent.kind = if kind.is_empty() { gvk.kind.clone() } else { kind.into() };
    sent
}

/// Refuses an object of another kind, in the words of the conversion that can't be done.
fn check_kind(sent: &GroupVersionKind, wanted: &GroupVersionKind) -> Result<(), Status> {
    if sent == wanted {
        return Ok(());
    }
    let known = schema::schema_for(sent).is_some() || sent.kind.ends_with("List");
    if sent.kind == wanted.kind && !known {
        let message = format!(
            "no kind {:?} is registered for version {:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
            sent.kind,
            sent.api_version()
        );
        return Err(cannot_be_handled(sent, wanted, &message));
    }
    if sent.kind == wanted.kind {
        return Err(Status::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({})",
            sent.api_version(),
            wanted.api_version()
        )));
    }
    let message = match known {
        true => format!(
            "converting ({}.{}) to ({}.{}): unknown conversion",
            sent.version,
            sent.kind,
            internal_package(&wanted.group),
            wanted.kind
        ),
        false => format!(
            "no kind {:?} is registered for version {:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
            sent.kind,
            sent.api_version()
        ),
    };
    Err(cannot_be_handled(sent, wanted, &message))
}

/// The Go package of a group's internal types: `core`, `apps`, `rbac`.
fn internal_package(group: &str) -> &str {
    match group {
        "" => "core",
        group => group.split('.').next().unwrap_or(group),
    }
}

/// 400 for a body that is the right kind and yet can't be read.
pub(crate) fn cannot_be_handled(sent: &GroupVersionKind, wanted: &GroupVersionKind, why: &str) -> Status {
    let version = sent.api_version();
    let version = version.rsplit('/').next().unwrap_or("");
    Status::bad_request(format!(
        "{} in version {version:?} cannot be handled as a {}: {why}",
        sent.kind, wanted.kind
    ))
}

/// 400 for a body that can't be told to be anything.
pub(crate) fn unrecognized(gvk: &GroupVersionKind, why: &str, body: &[u8]) -> Status {
    // What begins like an object is shown as text, everything else as hexadecimal digits.
    let json_like = body.first() == Some(&b'{');
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {why} ({})",
        gvk.kind,
        go_json::shown_bytes(body, json_like)
    ))
}

/// Reads what somebody else's server answered: any kind, JSON or YAML, as Kubernetes' client library does.
///
/// # Errors
/// In Go's words.
pub fn any_object(body: &[u8]) -> Result<Value, String> {
    let json = match body.trim_ascii_start().first() {
        Some(b'{') => body.to_vec(),
        _ => yaml_to_json(body)?,
    };
    go_json::interpret(&json)?;
    serde_json::from_slice(&json).map_err(|error| error.to_string())
}

/// YAML bodies take the way that Kubernetes takes: to JSON first.
pub(crate) fn yaml_to_json(body: &[u8]) -> Result<Vec<u8>, String> {
    let text = std::str::from_utf8(body).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    let value: Value = serde_yaml::from_str(text)
        .map_err(|e| format!("error converting YAML to JSON: yaml: {}", first_line(&e.to_string())))?;
    serde_json::to_vec(&value).map_err(|e| e.to_string())
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("")
}

#[cfg(test)]
mod tests;
