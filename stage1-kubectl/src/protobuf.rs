//! Protobuf: the second language of the API, spoken by default by the components and, for some bodies, by kubectl.
//!
//! *Steps 1 and 2 of a pod's journey.* Before: a generator of [`crate::commands::create`] made an object, or stage 2 found
//! `application/vnd.kubernetes.protobuf` in a header. After: the bytes of a request or of an answer; or an object again.
//!
//! Kubernetes compiles a struct and its codec for every kind. Here objects are JSON values, and so one small interpreter is enough:
//! [`table`] says which JSON field is which number, and [`mod@decode`] and [`mod@encode`] walk a message along it. What JSON writes
//! otherwise than protobuf (times, quantities, raw JSON) is in [`special`].
//!
//! A body is no bare message: nothing in a protobuf message tells its kind. It is the magic bytes `k8s\0` and an envelope
//! (`runtime.Unknown`) with apiVersion, kind and the object's message. A watch sends frames: four bytes of length, then a
//! `WatchEvent`, whose object is again such an envelope.
//!
//! The subtle thing: Go writes every field that is no pointer, even when it is empty, and reads an absent one as empty. So what was
//! decoded goes through stage 2's schema like JSON does, which drops the empty values that Go's JSON would drop; and what kubectl sends
//! goes through [`zeros`], which puts them in.
//!
//! # Invariants
//! 1. JSON → protobuf → JSON is the identity for every object of a built-in kind.
//! 2. No input makes the decoder panic or recurse deeper than its limit.
//!
//! # In Kubernetes
//! `apimachinery/pkg/runtime/serializer/protobuf/protobuf.go`, `…/runtime/generated.proto`, `…/util/framer/framer.go`. Left out:
//! content encodings inside the envelope (nobody sends one), CBOR.

pub mod table; // which field is which number
pub mod decode; // bytes become JSON
pub mod encode; // JSON becomes bytes
pub mod special; // times, quantities, raw JSON
pub mod zeros; // what Go writes although it is empty

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::{Map, Value};

pub use decode::DecodeError;
pub use encode::EncodeError;
pub use table::{Message, message_of};

/// What every body begins with.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// The number of `items` in every list.
pub const LIST_ITEMS: u32 = 2;

/// An opened envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// `apps/v1`; may be empty.
    pub api_version: String,
    /// `Deployment`; may be empty.
    pub kind: String,
    /// The object's message.
    pub raw: &'a [u8],
}

// ANCHOR: protobuf-envelope
/// Takes a body out of its envelope.
///
/// # Errors
/// It doesn't begin like one, or isn't one.
pub fn open(body: &[u8]) -> Result<Envelope<'_>, DecodeError> {
    let unknown = body.strip_prefix(&MAGIC).ok_or(DecodeError::NoMagic)?;
    let mut envelope = Envelope { api_version: String::new(), kind: String::new(), raw: &[] };
    for field in decode::fields(unknown) {
        match field? {
            (1, decode::Wire::Bytes(type_meta)) => {
                for field in decode::fields(type_meta) {
                    match field? {
                        (1, decode::Wire::Bytes(text)) => envelope.api_version = decode::text(text),
                        (2, decode::Wire::Bytes(text)) => envelope.kind = decode::text(text),
                        _ => {}
                    }
                }
            }
            (2, decode::Wire::Bytes(raw)) => envelope.raw = raw,
            _ => {}
        }
    }
    Ok(envelope)
}

/// Puts an object's message into an envelope.
pub fn seal(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut type_meta = Vec::with_capacity(api_version.len() + kind.len() + 4);
    put_bytes(1, api_version.as_bytes(), &mut type_meta);
    put_bytes(2, kind.as_bytes(), &mut type_meta);
    let mut out = Vec::with_capacity(raw.len() + type_meta.len() + 20);
    out.extend_from_slice(&MAGIC);
    put_bytes(1, &type_meta, &mut out);
    put_bytes(2, raw, &mut out);
    // The content's encoding and type, which are always empty and always written.
    put_bytes(3, b"", &mut out);
    put_bytes(4, b"", &mut out);
    out
}
// ANCHOR_END: protobuf-envelope

/// A field of bytes: number, length, bytes.
pub fn put_bytes(number: u32, bytes: &[u8], out: &mut impl BufMut) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.put_slice(bytes);
}

/// Writes an object as a whole body; its apiVersion and kind choose the message.
///
/// # Errors
/// The kind has no message, or a field doesn't fit it.
pub fn encode_object(object: &Value) -> Result<Vec<u8>, EncodeError> {
    let word = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or("");
    let (mut api_version, kind) = (word("apiVersion"), word("kind"));
    if api_version.is_empty() {
        // The core group's discovery documents don't say it in JSON.
        api_version = "v1";
    }
    Ok(seal(api_version, kind, &encode_raw(api_version, kind, object)?))
}

/// Writes an object as client-go does, empty values and all.
///
/// # Errors
/// As [`encode_object`].
pub fn encode_as_go(object: &Value) -> Result<Vec<u8>, EncodeError> {
    let mut object = object.clone();
    let word = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or("");
    let message = message_of(word("apiVersion"), word("kind"));
    if let (Some(message), Value::Object(fields)) = (message, &mut object) {
        zeros::fill(message, fields);
    }
    encode_object(&object)
}

/// Writes an object's message without an envelope.
///
/// # Errors
/// As [`encode_object`].
pub fn encode_raw(api_version: &str, kind: &str, object: &Value) -> Result<Vec<u8>, EncodeError> {
    let unknown = || EncodeError::NoMessage(format!("{api_version}, Kind={kind}"));
    let message = message_of(api_version, kind).ok_or_else(unknown)?;
    let mut out = Vec::with_capacity(512);
    if let Some(fields) = object.as_object() {
        encode::message(message, fields, &mut out)?;
    }
    Ok(out)
}

/// Reads an object's message; apiVersion and kind are not part of it.
///
/// # Errors
/// The bytes are no such message.
pub fn decode_raw(message: &'static Message, raw: &[u8]) -> Result<Map<String, Value>, DecodeError> {
    decode::message(message, raw, 0)
}

/// One frame of a watch around an object that is sealed already.
pub fn watch_frame(event: &str, sealed: &[u8]) -> Bytes {
    let mut extension = Vec::with_capacity(sealed.len() + 8);
    put_bytes(1, sealed, &mut extension);
    let mut frame = BytesMut::with_capacity(extension.len() + event.len() + 16);
    frame.put_u32(0);
    put_bytes(1, event.as_bytes(), &mut frame);
    put_bytes(2, &extension, &mut frame);
    let length = u32::try_from(frame.len() - 4).expect("an object is smaller than 4 GiB");
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame.freeze()
}
