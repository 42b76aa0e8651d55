//! Respond: how an outcome becomes bytes: the negotiated form, compression, headers.
//!
//! *Step 2 of a pod's journey.* Before: a handler has an object, a list or a refusal. After: the client reads it.
//!
//! Objects come out of the watch cache already encoded; for the plain answer in JSON or protobuf their bytes are sent as they are.
//! Only tables, metadata views, YAML and other versions are rendered per request.
//!
//! # Invariants
//! 1. A refusal is always a `Status` whose code is the HTTP code.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/handlers/responsewriters/writers.go`. Left out: deferred compression of streams.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde::Serialize;
use serde_json::{Value, json};
use stage1_kubectl::status::Status;
use stage1_kubectl::yaml::to_yaml;

use crate::custom_resources::columns::Columns;
use crate::negotiation::{Format, Negotiated, Transform};
use crate::protobuf;
use crate::table::{IncludeObject, TableOptions, render_table};

/// Smaller answers are sent as they are: compressing them costs more than it saves.
pub const GZIP_THRESHOLD_BYTES: usize = 128 * 1024;

/// What can go wrong while a body streams.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// A response body: whole or streaming.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;
/// A response.
pub type Answer = Response<Body>;

/// A body of bytes.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// A response with a content type.
pub fn bytes(code: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(full(body));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Plain text, as health checks and unknown paths answer.
pub fn text(code: StatusCode, body: impl Into<String>) -> Answer {
    bytes(code, "text/plain; charset=utf-8", body.into())
}

/// A JSON document that has lines for everybody.
pub fn indented_document(value: &impl Serialize) -> Answer {
    let body = serde_json::to_vec_pretty(value).expect("a JSON value serialises");
    bytes(StatusCode::OK, "application/json", body)
}

/// A JSON document that is not negotiated.
pub fn json_document(value: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(value).expect("a JSON value serialises");
    bytes(StatusCode::OK, "application/json", body)
}

/// Writes a value in a format. What has no protobuf message is written as JSON: clients read what Content-Type says.
pub fn value(code: StatusCode, format: Format, value: &Value) -> Answer {
    let (format, body) = encode(format, value);
    bytes(code, format.content_type(), body)
}

fn encode(format: Format, value: &Value) -> (Format, Vec<u8>) {
    match format {
        Format::Protobuf => match protobuf::encode_object(value) {
            Ok(body) => (format, body),
            Err(_) => encode(Format::Json, value),
        },
        Format::Json => (format, serde_json::to_vec(value).expect("a JSON value serialises")),
        Format::Yaml => (format, to_yaml(value).into_bytes()),
    }
}

/// A refusal (or a success without an object).
pub fn status(format: Format, status: &Status) -> Answer {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let code = if status.code == 0 { StatusCode::OK } else { code };
    let body = serde_json::to_value(status).expect("a Status serialises");
    let mut response = value(code, format, &body);
    if let Some(seconds) = status.details.as_ref().and_then(|d| d.retry_after_seconds) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

// ANCHOR: render-object
/// One object as the client wants it: plain, as a one-row table, or its metadata.
pub fn object(code: StatusCode, negotiated: &Negotiated, view: &View, object: &Value) -> Answer {
    let rendered;
    let shown = match &negotiated.transform {
        Transform::Plain => object,
        Transform::Table(api_version) => {
            let version = object.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
            let options = view.table_options(api_version, false);
            rendered = render_table(
                view.group,
                view.kind,
                &[object],
                json!({ "resourceVersion": version }),
                &options,
            );
            &rendered
        }
        Transform::PartialObjectMetadata(api_version) | Transform::PartialObjectMetadataList(api_version) => {
            rendered = partial_metadata(api_version, object);
            &rendered
        }
    };
    value(code, negotiated.format, shown)
}
// ANCHOR_END: render-object

/// What a rendering needs to know besides the object.
#[derive(Debug, Clone)]
pub struct View {
    /// Group of the kind.
    pub group: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// What stands beside a table's cells.
    pub include_object: IncludeObject,
    /// The moment of the answer, or of a watch's event.
    pub now: jiff::Timestamp,
    /// The columns of a custom kind.
    pub columns: Option<Arc<Columns>>,
}

impl View {
    /// Options of a table.
    pub fn table_options(&self, api_version: &str, no_headers: bool) -> TableOptions {
        TableOptions {
            api_version: api_version.into(),
            include_object: self.include_object,
            no_headers,
            now: self.now,
            columns: self.columns.clone(),
        }
    }
}

/// An object's metadata, dressed as an object.
pub fn partial_metadata(api_version: &str, object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": api_version,
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

/// Compresses a large whole body when the client can read it.
pub async fn compress(response: Answer, accept_encoding: Option<&str>) -> Answer {
    use http_body::Body as _;
    let wants =
        accept_encoding.is_some_and(|a| a.split(',').any(|e| e.trim().split(';').next() == Some("gzip")));
    let size = response.body().size_hint().exact().unwrap_or(0);
    if !wants
        || size < GZIP_THRESHOLD_BYTES as u64
        || response.headers().contains_key(header::CONTENT_ENCODING)
    {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let Ok(collected) = body.collect().await else { return text(StatusCode::INTERNAL_SERVER_ERROR, "") };
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let plain = collected.to_bytes();
    if std::io::Write::write_all(&mut encoder, &plain).is_err() {
        return Response::from_parts(head, full(plain));
    }
    let packed = encoder.finish().expect("writing to memory doesn't fail");
    head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    Response::from_parts(head, full(packed))
}
