//! Encoding: a JSON map along a message of the table.
//!
//! Fields are written in the order of their numbers and map entries in the order of their keys, so that the same object is always the
//! same bytes. A field that the object hasn't got is not written; one that the table hasn't got can't be.
//!
//! The length of a nested message stands before it and is known after it: it is put in when the message is done.
//!
//! # In Kubernetes
//! The `MarshalToSizedBuffer` of every generated.pb.go, which for the same reason write from the end to the beginning.
//! Empty values of fields that are no pointers, which Go writes and reads as
//! absent, are filled in by [`super::zeros`] where the bytes shall be Go's.

use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::{Map, Value};

use super::table::{self, Kind, Message};
use super::{put_bytes, special};

/// What can't be written.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// Only built-in kinds have messages.
    #[error("no protobuf message is known for {0}")]
    NoMessage(String),
    /// A field holds what its type can't.
    #[error("field {field} of {message} is no {wanted}")]
    Mismatch {
        /// The message.
        message: &'static str,
        /// The field's JSON name.
        field: &'static str,
        /// What it should hold.
        wanted: String,
    },
}

// ANCHOR: protobuf-encode
/// Writes the fields of a map.
///
/// # Errors
/// A field doesn't fit the message.
pub fn message(message: &Message, object: &Map<String, Value>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    for field in &message.fields {
        if let Kind::Inline(inner) = field.kind {
            let start = out.len();
            self::message(table::message(inner), object, out)?;
            if out.len() > start || field.always {
                delimit(field.number, start, out);
            }
            continue;
        }
        let Some(value) = object.get(field.name).filter(|v| !v.is_null()) else { continue };
        let fits = match (&field.kind, value) {
            (Kind::List(item), Value::Array(items)) => {
                items.iter().try_fold(true, |fits, each| Ok(fits && one(field.number, item, each, out)?))?
            }
            (Kind::Map(item), Value::Object(entries)) => entries
                .iter()
                .try_fold(true, |fits, (key, each)| Ok(fits && entry(field.number, key, item, each, out)?))?,
            (kind, value) => one(field.number, kind, value, out)?,
        };
        if !fits {
            let wanted = format!("{:?}", field.kind);
            return Err(EncodeError::Mismatch { message: message.name, field: field.name, wanted });
        }
    }
    Ok(())
}
// ANCHOR_END: protobuf-encode

/// An entry of a map: a message of key and value.
fn entry(number: u32, key: &str, kind: &Kind, value: &Value, out: &mut Vec<u8>) -> Result<bool, EncodeError> {
    let start = out.len();
    put_bytes(1, key.as_bytes(), out);
    let fits = one(2, kind, value, out)?;
    delimit(number, start, out);
    Ok(fits)
}

/// Writes one value; `false` if it isn't of the kind.
pub(super) fn one(number: u32, kind: &Kind, value: &Value, out: &mut Vec<u8>) -> Result<bool, EncodeError> {
    match (kind, value) {
        (Kind::String, Value::String(text)) => put_bytes(number, text.as_bytes(), out),
        (Kind::Bool, Value::Bool(on)) => put_varint(number, u64::from(*on), out),
        (Kind::Int32 | Kind::Int64, Value::Number(n)) => match n.as_i64() {
            // Two's complement: a negative number takes ten bytes, of int32 too.
            Some(n) => put_varint(number, n.cast_unsigned(), out),
            None => return Ok(false),
        },
        (Kind::Double, Value::Number(n)) => {
            encode_key(number, WireType::SixtyFourBit, out);
            out.extend_from_slice(&n.as_f64().unwrap_or_default().to_le_bytes());
        }
        (Kind::Message(inner), Value::Object(fields)) => {
            let start = out.len();
            message(table::message(*inner), fields, out)?;
            delimit(number, start, out);
        }
        (kind, value) => {
            let start = out.len();
            if !special::encode(kind, value, out)? {
                return Ok(false);
            }
            delimit(number, start, out);
        }
    }
    Ok(true)
}

/// A number: field, then value.
pub(super) fn put_varint(number: u32, value: u64, out: &mut Vec<u8>) {
    encode_key(number, WireType::Varint, out);
    encode_varint(value, out);
}

/// Puts number and length before what was written since `start`.
pub(super) fn delimit(number: u32, start: usize, out: &mut Vec<u8>) {
    let mut head = Vec::with_capacity(8);
    encode_key(number, WireType::LengthDelimited, &mut head);
    encode_varint((out.len() - start) as u64, &mut head);
    out.splice(start..start, head);
}
