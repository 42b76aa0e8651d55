//! Special values: what JSON writes in one word and protobuf as a message of its own.
//!
//! A time is RFC 3339 in JSON and seconds in protobuf; a quantity is a string within a message; an IntOrString has a tag; raw
//! JSON is bytes, which in a watch hold another envelope; and four types of CustomResourceDefinitions are a schema or a bool,
//! a list, strings.
//!
//! # Invariants
//! 1. [`encode`] writes the message's inside; number and length are the caller's.
//!
//! # In Kubernetes
//! `apimachinery/pkg/apis/meta/v1/{time,micro_time}_proto.go`, `…/api/resource/quantity_proto.go`, `…/util/intstr/generated.proto`,
//! `…/runtime/generated.proto`, `apiextensions-apiserver/…/v1/generated.proto`.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::decode::{self, DecodeError, Wire, fields, text};
use super::encode::{EncodeError, delimit, message, put_varint};
use super::table::{self, Alternative, Kind};
use super::{MAGIC, open, put_bytes};

/// Whether the kind is read by [`decode`].
pub fn is_special(kind: &Kind) -> bool {
    use Kind::{Bytes, IntOrString, MicroTime, Quantity, Raw, SchemaOr, Time, Wrapped};
    matches!(kind, Bytes | Time | MicroTime | Quantity | IntOrString | Raw | Wrapped | SchemaOr(_))
}

/// Writes the inside of a special value; `false` if it isn't of the kind.
///
/// # Errors
/// A schema within it doesn't fit.
pub fn encode(kind: &Kind, value: &Value, out: &mut Vec<u8>) -> Result<bool, EncodeError> {
    match (kind, value) {
        (Kind::Bytes, Value::String(base64)) => match BASE64_STANDARD.decode(base64) {
            Ok(bytes) => out.extend_from_slice(&bytes),
            Err(_) => return Ok(false),
        },
        // The zero time is an empty message.
        (Kind::Time | Kind::MicroTime, Value::Null) => {}
        (Kind::Time | Kind::MicroTime, Value::String(time)) if time.is_empty() => {}
        (Kind::Time | Kind::MicroTime, Value::String(time)) => {
            let Ok(time) = time.parse::<Timestamp>() else { return Ok(false) };
            let micros = time.as_microsecond();
            put_varint(1, micros.div_euclid(1_000_000).cast_unsigned(), out);
            let nanos = if *kind == Kind::Time { 0 } else { micros.rem_euclid(1_000_000) * 1000 };
            put_varint(2, nanos.cast_unsigned(), out);
        }
        (Kind::Quantity, Value::String(quantity)) => put_bytes(1, quantity.as_bytes(), out),
        (Kind::IntOrString, Value::Number(number)) => {
            put_varint(1, 0, out);
            put_varint(2, number.as_i64().unwrap_or_default().cast_unsigned(), out);
            put_bytes(3, b"", out);
        }
        (Kind::IntOrString, Value::String(text)) => {
            put_varint(1, 1, out);
            put_varint(2, 0, out);
            put_bytes(3, text.as_bytes(), out);
        }
        (Kind::Raw, value) => put_bytes(1, value.to_string().as_bytes(), out),
        (Kind::Wrapped, Value::Array(items)) => {
            items.iter().filter_map(Value::as_str).for_each(|item| put_bytes(1, item.as_bytes(), out));
        }
        (Kind::SchemaOr(alternative), value) => return encode_schema_or(*alternative, value, out),
        _ => return Ok(false),
    }
    Ok(true)
}

fn encode_schema_or(alternative: Alternative, value: &Value, out: &mut Vec<u8>) -> Result<bool, EncodeError> {
    let schema = |number: u32, fields: &Map<String, Value>, out: &mut Vec<u8>| {
        let start = out.len();
        message(table::json_schema(), fields, out)?;
        delimit(number, start, out);
        Ok::<_, EncodeError>(())
    };
    match (alternative, value) {
        (Alternative::Bool, Value::Bool(allows)) => put_varint(1, u64::from(*allows), out),
        (Alternative::Bool, Value::Object(fields)) => {
            put_varint(1, 1, out);
            schema(2, fields, out)?;
        }
        (_, Value::Object(fields)) => schema(1, fields, out)?,
        (Alternative::Schemas, Value::Array(items)) => {
            for fields in items.iter().filter_map(Value::as_object) {
                schema(2, fields, out)?;
            }
        }
        (Alternative::Strings, Value::Array(items)) => {
            items.iter().filter_map(Value::as_str).for_each(|item| put_bytes(2, item.as_bytes(), out));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Reads a special value from its message.
///
/// # Errors
/// The bytes are no such message.
pub fn decode(kind: &Kind, bytes: &[u8], depth: usize) -> Result<Value, DecodeError> {
    match kind {
        Kind::Bytes => Ok(Value::String(BASE64_STANDARD.encode(bytes))),
        Kind::Time => time(bytes, false),
        Kind::MicroTime => time(bytes, true),
        Kind::Quantity => quantity(bytes),
        Kind::IntOrString => int_or_string(bytes),
        Kind::Raw => raw(bytes, depth),
        Kind::Wrapped => strings(bytes, 1),
        Kind::SchemaOr(alternative) => schema_or(*alternative, bytes, depth),
        _ => Ok(Value::Null),
    }
}

fn time(bytes: &[u8], micro: bool) -> Result<Value, DecodeError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    for field in fields(bytes) {
        match field? {
            (1, Wire::Varint(number)) => seconds = number.cast_signed(),
            (2, Wire::Varint(number)) => nanos = number.cast_signed() as i32,
            _ => {}
        }
    }
    let micros = if micro { nanos / 1000 * 1000 } else { 0 };
    let time = Timestamp::new(seconds, micros)
        .map_err(|_| DecodeError::Malformed("time is out of range".to_owned()))?;
    let layout = if micro { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(Value::String(time.strftime(layout).to_string()))
}

fn quantity(bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut quantity = "0".to_owned();
    for field in fields(bytes) {
        if let (1, Wire::Bytes(bytes)) = field?
            && !bytes.is_empty()
        {
            quantity = text(bytes);
        }
    }
    Ok(Value::String(quantity))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, DecodeError> {
    let (mut is_text, mut number, mut word) = (false, 0, String::new());
    for field in fields(bytes) {
        match field? {
            (1, Wire::Varint(tag)) => is_text = tag == 1,
            (2, Wire::Varint(value)) => number = value.cast_signed() as i32,
            (3, Wire::Bytes(bytes)) => word = text(bytes),
            _ => {}
        }
    }
    Ok(if is_text { Value::String(word) } else { Value::from(number) })
}

/// Raw JSON; or, where a component sends an object within an object, another envelope.
fn raw(bytes: &[u8], depth: usize) -> Result<Value, DecodeError> {
    let mut raw: &[u8] = &[];
    for field in fields(bytes) {
        if let (1, Wire::Bytes(bytes)) = field? {
            raw = bytes;
        }
    }
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    if !raw.starts_with(&MAGIC) {
        return serde_json::from_slice(raw).map_err(|e| DecodeError::Json(e.to_string()));
    }
    let envelope = open(raw)?;
    let Some(message) = table::message_of(&envelope.api_version, &envelope.kind) else {
        let what =
            format!("no kind {:?} is registered for version {:?}", envelope.kind, envelope.api_version);
        return Err(DecodeError::Json(what));
    };
    let mut object = decode::message(message, envelope.raw, depth)?;
    object.insert("apiVersion".into(), Value::String(envelope.api_version));
    object.insert("kind".into(), Value::String(envelope.kind));
    Ok(Value::Object(object))
}

fn strings(bytes: &[u8], number: u32) -> Result<Value, DecodeError> {
    let mut items = Vec::new();
    for field in fields(bytes) {
        if let (found, Wire::Bytes(bytes)) = field?
            && found == number
        {
            items.push(Value::String(text(bytes)));
        }
    }
    Ok(Value::Array(items))
}

fn schema_or(alternative: Alternative, bytes: &[u8], depth: usize) -> Result<Value, DecodeError> {
    let schema_number = if alternative == Alternative::Bool { 2 } else { 1 };
    let (mut allows, mut items) = (false, Vec::new());
    for field in fields(bytes) {
        match (alternative, field?) {
            (_, (number, Wire::Bytes(bytes))) if number == schema_number => {
                return Ok(Value::Object(decode::message(table::json_schema(), bytes, depth)?));
            }
            (Alternative::Bool, (1, Wire::Varint(on))) => allows = on != 0,
            (Alternative::Schemas, (2, Wire::Bytes(bytes))) => {
                items.push(Value::Object(decode::message(table::json_schema(), bytes, depth)?));
            }
            (Alternative::Strings, (2, Wire::Bytes(bytes))) => items.push(Value::String(text(bytes))),
            _ => {}
        }
    }
    Ok(if alternative == Alternative::Bool { Value::Bool(allows) } else { Value::Array(items) })
}
