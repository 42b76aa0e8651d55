//! Decoding: bytes along a message of the table become a JSON map.
//!
//! The bytes come from outside: every length is checked against what is left, nesting ends at [`MAX_DEPTH`], and nothing is set aside
//! for a length that is only claimed. Unknown fields are skipped, as every protobuf reader does: a client of a later version may send
//! them. Text that isn't UTF-8 gets replacement characters, as it would on its way through Go's JSON.
//!
//! # Invariants
//! 1. No input panics.
//!
//! # In Kubernetes
//! The `Unmarshal` of every generated.pb.go. Left out: its names of Go fields in errors.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use serde_json::{Map, Number, Value};

use super::special;
use super::table::{self, Field, Kind, Message};

/// Messages may lie this deep in each other; the deepest built-in kind needs 15, a schema in a CRD may need more.
pub const MAX_DEPTH: usize = 200;

/// What is wrong with bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The body doesn't begin with the magic bytes.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoMagic,
    /// A length says more than there is.
    #[error("unexpected EOF")]
    UnexpectedEof,
    /// A key or number that can't be.
    #[error("proto: {0}")]
    Malformed(String),
    /// A field's bytes are of another type.
    #[error("proto: wrong wireType = {found} for field {field}")]
    WrongWireType {
        /// Protobuf's number of the type.
        found: u8,
        /// The field's JSON name.
        field: String,
    },
    /// More than [`MAX_DEPTH`] messages in each other.
    #[error("proto: exceeded the maximum depth of nested messages")]
    TooDeep,
    /// Bytes that should be JSON aren't.
    #[error("{0}")]
    Json(String),
}

/// One value on the wire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wire<'a> {
    /// A number.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Bytes, text, a message.
    Bytes(&'a [u8]),
    /// What no field of Kubernetes uses.
    Skipped(u8),
}

/// The fields of a message as they come: number and value.
pub fn fields(bytes: &[u8]) -> Fields<'_> {
    Fields { rest: bytes }
}

/// Reads fields one after the other; ends at the first error.
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Wire<'a>), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn read(&mut self) -> Result<(u32, Wire<'a>), DecodeError> {
        let malformed = |e: prost::DecodeError| DecodeError::Malformed(e.to_string());
        let (number, wire_type) = decode_key(&mut self.rest).map_err(malformed)?;
        let wire = match wire_type {
            WireType::Varint => Wire::Varint(decode_varint(&mut self.rest).map_err(malformed)?),
            WireType::SixtyFourBit => {
                let bytes = self.take(8)?.try_into().expect("eight bytes were taken");
                Wire::Fixed64(u64::from_le_bytes(bytes))
            }
            WireType::LengthDelimited => {
                let length = decode_varint(&mut self.rest).map_err(malformed)?;
                Wire::Bytes(self.take(length)?)
            }
            other => {
                skip_field(other, number, &mut self.rest, DecodeContext::default()).map_err(malformed)?;
                Wire::Skipped(other as u8)
            }
        };
        Ok((number, wire))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], DecodeError> {
        let length = usize::try_from(length).map_err(|_| DecodeError::UnexpectedEof)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::UnexpectedEof)?;
        self.rest = rest;
        Ok(taken)
    }
}

// ANCHOR: protobuf-decode
/// Reads a message.
///
/// # Errors
/// The bytes are no such message.
pub fn message(message: &Message, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, DecodeError> {
    let mut object = Map::new();
    into(message, bytes, depth, &mut object)?;
    Ok(object)
}

/// Reads a message's fields into a map that may have some already.
fn into(
    message: &Message,
    bytes: &[u8],
    depth: usize,
    object: &mut Map<String, Value>,
) -> Result<(), DecodeError> {
    if depth >= MAX_DEPTH {
        return Err(DecodeError::TooDeep);
    }
    for read in fields(bytes) {
        let (number, wire) = read?;
        let Some(field) = message.field(number) else { continue };
        match (&field.kind, wire) {
            (Kind::Inline(inner), Wire::Bytes(bytes)) => {
                into(table::message(*inner), bytes, depth + 1, object)?;
            }
            (Kind::List(item), wire) => list(field, item, wire, depth, object)?,
            (Kind::Map(item), Wire::Bytes(bytes)) => {
                let (key, value) = entry(field, item, bytes, depth)?;
                if let Value::Object(entries) = slot(object, field, Value::Object(Map::new())) {
                    entries.insert(key, value);
                }
            }
            (Kind::Message(inner), Wire::Bytes(bytes)) => {
                // A message that comes in two parts is one.
                if let Value::Object(fields) = slot(object, field, Value::Object(Map::new())) {
                    into(table::message(*inner), bytes, depth + 1, fields)?;
                }
            }
            (kind, wire) => {
                object.insert(field.name.to_owned(), one(field, kind, wire, depth)?);
            }
        }
    }
    Ok(())
}
// ANCHOR_END: protobuf-decode

/// The place of a field in its map, filled with `empty` at first.
fn slot<'a>(object: &'a mut Map<String, Value>, field: &Field, empty: Value) -> &'a mut Value {
    object.entry(field.name).or_insert(empty)
}

fn list(
    field: &Field,
    item: &Kind,
    wire: Wire<'_>,
    depth: usize,
    object: &mut Map<String, Value>,
) -> Result<(), DecodeError> {
    let mut read = Vec::new();
    match (item, wire) {
        // Numbers may come packed: one field, all numbers.
        (Kind::Int32 | Kind::Int64, Wire::Bytes(mut packed)) => {
            while !packed.is_empty() {
                let number = decode_varint(&mut packed).map_err(|e| DecodeError::Malformed(e.to_string()))?;
                read.push(one(field, item, Wire::Varint(number), depth)?);
            }
        }
        (item, wire) => read.push(one(field, item, wire, depth)?),
    }
    if let Value::Array(items) = slot(object, field, Value::Array(Vec::new())) {
        items.append(&mut read);
    }
    Ok(())
}

/// An entry of a map; a key or value that is missing is empty.
fn entry(field: &Field, kind: &Kind, bytes: &[u8], depth: usize) -> Result<(String, Value), DecodeError> {
    let (mut key, mut value) = (String::new(), None);
    for read in fields(bytes) {
        match read? {
            (1, Wire::Bytes(bytes)) => key = text(bytes),
            (2, wire) => value = Some(one(field, kind, wire, depth)?),
            _ => {}
        }
    }
    let value = match (value, kind) {
        (Some(value), _) => value,
        (None, Kind::Bool) => Value::Bool(false),
        (None, Kind::Int32 | Kind::Int64 | Kind::Double) => Value::from(0),
        (None, kind) => one(field, kind, Wire::Bytes(&[]), depth)?,
    };
    Ok((key, value))
}

/// Reads one value.
fn one(field: &Field, kind: &Kind, wire: Wire<'_>, depth: usize) -> Result<Value, DecodeError> {
    Ok(match (kind, wire) {
        (Kind::String, Wire::Bytes(bytes)) => Value::String(text(bytes)),
        (Kind::Bool, Wire::Varint(number)) => Value::Bool(number != 0),
        (Kind::Int32, Wire::Varint(number)) => Value::from(number.cast_signed() as i32),
        (Kind::Int64, Wire::Varint(number)) => Value::from(number.cast_signed()),
        (Kind::Double, Wire::Fixed64(bits)) => double(f64::from_bits(bits))?,
        (Kind::Message(inner), Wire::Bytes(bytes)) => {
            Value::Object(message(table::message(*inner), bytes, depth + 1)?)
        }
        (kind, Wire::Bytes(bytes)) if special::is_special(kind) => special::decode(kind, bytes, depth + 1)?,
        (_, wire) => {
            let found = match wire {
                Wire::Varint(_) => 0,
                Wire::Fixed64(_) => 1,
                Wire::Bytes(_) => 2,
                Wire::Skipped(number) => number,
            };
            return Err(DecodeError::WrongWireType { found, field: field.name.to_owned() });
        }
    })
}

/// Go writes a float without a fraction as an integer.
fn double(number: f64) -> Result<Value, DecodeError> {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        return Ok(Value::from(number as i64));
    }
    let not_json = || DecodeError::Json(format!("json: unsupported value: {number}"));
    Number::from_f64(number).map(Value::Number).ok_or_else(not_json)
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
