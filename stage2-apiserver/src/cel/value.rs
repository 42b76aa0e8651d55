//! Values of CEL, and how objects become values: part by part, when a rule looks at them.
//!
//! An object isn't converted as a whole: a rule that looks at `self.spec.replicas` of a large object copies one number. What a number or
//! text *is* comes from the schema: `1` is an integer or a double, `"1h"` a text or a duration. Without a schema (an object of a policy)
//! a whole number is an integer.
//!
//! # In Kubernetes
//! `apiserver/pkg/cel/common/values.go` (`UnstructuredToVal`), `cel-go/common/types`.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value as Json;
use stage1_kubectl::quantity::Quantity;

use super::authorizer::Asked;
use crate::custom_resources::structural::Schema;

/// A value of an expression.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A double.
    Double(f64),
    /// A text.
    Text(Cow<'a, str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A list made by an expression.
    List(Arc<Vec<Value<'a>>>),
    /// A map made by an expression.
    Map(Arc<Vec<(Value<'a>, Value<'a>)>>),
    /// A list or map of an object, not looked into yet.
    Data(&'a Json, Option<&'a Schema>),
    /// A span of time.
    Duration(SignedDuration),
    /// A moment.
    Timestamp(Timestamp),
    /// A type as a value.
    Type(&'static str),
    /// Maybe a value.
    Optional(Option<Box<Value<'a>>>),
    /// A Kubernetes quantity.
    Quantity(Quantity),
    /// A URL, taken apart.
    Url(Arc<Url>),
    /// An address.
    Ip(IpAddr),
    /// A network.
    Cidr(IpAddr, u8),
    /// A question to the authorizers.
    Asked(Arc<Asked<'a>>),
}

/// A URL, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// `https`.
    pub scheme: String,
    /// `example.com:443`.
    pub host: String,
    /// `/a%20b`.
    pub path: String,
    /// The query's names and values.
    pub query: Vec<(String, Vec<String>)>,
}

impl<'a> Value<'a> {
    /// A part of an object, as its schema says.
    pub fn of(json: &'a Json, schema: Option<&'a Schema>) -> Value<'a> {
        match json {
            Json::Null => Value::Null,
            Json::Bool(on) => Value::Bool(*on),
            Json::Number(number) => {
                let is_double = schema.is_some_and(|schema| schema.kind == "number");
                match number.as_i64() {
                    Some(whole) if !is_double => Value::Int(whole),
                    _ => Value::of_float(number.as_f64().unwrap_or_default(), schema),
                }
            }
            Json::String(text) => {
                Value::of_text(text, schema.map_or("", |schema| schema.checks.format.as_str()))
            }
            Json::Array(_) | Json::Object(_) => Value::Data(json, schema),
        }
    }

    fn of_float(float: f64, schema: Option<&Schema>) -> Value<'a> {
        let is_integer = schema.is_some_and(|schema| schema.kind == "integer");
        #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
        match is_integer && float.fract() == 0.0 && float.abs() < 9e15 {
            true => Value::Int(float as i64),
            false => Value::Double(float),
        }
    }

    fn of_text(text: &'a str, format: &str) -> Value<'a> {
        let plain = || Value::Text(Cow::Borrowed(text));
        match format {
            "duration" => parse_duration(text).map_or_else(plain, Value::Duration),
            "date-time" => text.parse().map_or_else(|_| plain(), Value::Timestamp),
            "date" => format!("{text}T00:00:00Z").parse().map_or_else(|_| plain(), Value::Timestamp),
            "byte" => base64::engine::general_purpose::STANDARD
                .decode(text)
                .map_or_else(|_| plain(), |bytes| Value::Bytes(bytes.into())),
            _ => plain(),
        }
    }

    /// A text of its own.
    pub fn text(text: impl Into<String>) -> Value<'a> {
        Value::Text(Cow::Owned(text.into()))
    }

    /// A list.
    pub fn list(items: Vec<Value<'a>>) -> Value<'a> {
        Value::List(Arc::new(items))
    }

    /// The name of the type, as messages and `type()` have it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::Text(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::List(_) | Value::Data(Json::Array(_), _) => "list",
            Value::Map(_) | Value::Data(..) => "map",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::Type(_) => "type",
            Value::Optional(_) => "optional_type",
            Value::Quantity(_) => "kubernetes.Quantity",
            Value::Url(_) => "kubernetes.URL",
            Value::Ip(_) => "net.IP",
            Value::Cidr(..) => "net.CIDR",
            Value::Asked(asked) => asked.type_name(),
        }
    }

    /// The items of a list.
    pub fn items(&self) -> Option<Vec<Value<'a>>> {
        match self {
            Value::List(items) => Some(items.to_vec()),
            Value::Data(Json::Array(items), schema) => {
                let below = schema.and_then(|schema| schema.items.as_deref());
                Some(items.iter().map(|item| Value::of(item, below)).collect())
            }
            _ => None,
        }
    }

    /// The entries of a map.
    pub fn entries(&self) -> Option<Vec<(Value<'a>, Value<'a>)>> {
        match self {
            Value::Map(entries) => Some(entries.to_vec()),
            Value::Data(Json::Object(fields), schema) => {
                let below = |name: &str| schema.and_then(|schema| schema.field(name));
                let entry = |(name, value): (&'a String, &'a Json)| {
                    (Value::Text(Cow::Borrowed(name.as_str())), Value::of(value, below(name)))
                };
                Some(fields.iter().map(entry).collect())
            }
            _ => None,
        }
    }

    /// How many items, entries or characters; what a walk over the value costs.
    pub fn size(&self) -> Option<usize> {
        match self {
            Value::Text(text) => Some(text.chars().count()),
            Value::Bytes(bytes) => Some(bytes.len()),
            Value::List(items) => Some(items.len()),
            Value::Map(entries) => Some(entries.len()),
            Value::Data(Json::Array(items), _) => Some(items.len()),
            Value::Data(Json::Object(fields), _) => Some(fields.len()),
            _ => None,
        }
    }

    /// How much there is within, in all depths; counting ends at a limit.
    pub fn deep_size(&self, limit: usize) -> usize {
        let (mut data, mut values, mut total) = (Vec::new(), vec![self], 0_usize);
        while let Some(value) = values.pop().filter(|_| total < limit) {
            total += value.size().unwrap_or(1).max(1);
            match value {
                Value::List(items) => values.extend(items.iter()),
                Value::Map(entries) => values.extend(entries.iter().flat_map(|(key, value)| [key, value])),
                Value::Optional(Some(inner)) => values.push(inner),
                Value::Data(json, _) => data.push(*json),
                _ => {}
            }
        }
        while let Some(json) = data.pop().filter(|_| total < limit) {
            total += match json {
                Json::String(text) => text.len().max(1),
                _ => 1,
            };
            match json {
                Json::Array(items) => data.extend(items),
                Json::Object(fields) => {
                    total += fields.keys().map(String::len).sum::<usize>();
                    data.extend(fields.values());
                }
                _ => {}
            }
        }
        total.min(limit)
    }

    /// A field or entry by its name.
    pub fn field(&self, name: &str) -> Option<Value<'a>> {
        match self {
            Value::Data(Json::Object(fields), schema) => {
                let value = fields.get(name)?;
                Some(Value::of(value, schema.and_then(|schema| schema.field(name))))
            }
            Value::Map(entries) => {
                let is_it = |key: &Value<'a>| matches!(key, Value::Text(text) if text == name);
                entries.iter().find(|(key, _)| is_it(key)).map(|(_, value)| value.clone())
            }
            _ => None,
        }
    }

    /// Equality across numbers, lists and maps, however they came to be.
    pub fn equals(&self, other: &Value<'a>) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Text(a), Value::Text(b)) => a == b,
            (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::Duration(a), Value::Duration(b)) => a == b,
            (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
            (Value::Type(a), Value::Type(b)) => a == b,
            (Value::Url(a), Value::Url(b)) => a == b,
            (Value::Ip(a), Value::Ip(b)) => a == b,
            (Value::Cidr(a, n), Value::Cidr(b, m)) => a == b && n == m,
            (Value::Quantity(a), Value::Quantity(b)) => a == b,
            (Value::Optional(a), Value::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => a.equals(b),
                (a, b) => a.is_none() && b.is_none(),
            },
            (Value::Data(a, _), Value::Data(b, _)) if a == b => true,
            _ => {
                if let (Some(a), Some(b)) = (self.items(), other.items()) {
                    return self.lists_equal(&a, &b);
                }
                if let (Some(a), Some(b)) = (self.entries(), other.entries()) {
                    let same = |(key, value): &(Value<'a>, Value<'a>)| {
                        b.iter().any(|(other, theirs)| other.equals(key) && theirs.equals(value))
                    };
                    return a.len() == b.len() && a.iter().all(same);
                }
                self.compare(other) == Some(Ordering::Equal)
            }
        }
    }

    /// Sets and maps are equal in any order.
    fn lists_equal(&self, a: &[Value<'a>], b: &[Value<'a>]) -> bool {
        let is_unordered = matches!(self, Value::Data(_, Some(schema)) if matches!(schema.list_type.as_str(), "set" | "map"));
        a.len() == b.len()
            && match is_unordered {
                true => a.iter().all(|item| b.iter().any(|other| other.equals(item))),
                false => a.iter().zip(b).all(|(a, b)| a.equals(b)),
            }
    }

    /// The order of two values, if they have one.
    pub fn compare(&self, other: &Value<'a>) -> Option<Ordering> {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
            (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
            (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
            (Value::Double(a), b) => a.partial_cmp(&b.as_double()?),
            (a, Value::Double(b)) => a.as_double()?.partial_cmp(b),
            (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
            (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
            (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
            (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
            (Value::Quantity(a), Value::Quantity(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    /// A number as a double.
    #[expect(clippy::cast_precision_loss, reason = "CEL compares numbers as doubles, too")]
    pub fn as_double(&self) -> Option<f64> {
        match self {
            Value::Int(n) => Some(*n as f64),
            Value::Uint(n) => Some(*n as f64),
            Value::Double(n) => Some(*n),
            _ => None,
        }
    }

    /// The value as JSON, for messages.
    pub fn to_json(&self) -> Json {
        match self {
            Value::Null => Json::Null,
            Value::Bool(on) => (*on).into(),
            Value::Int(n) => (*n).into(),
            Value::Uint(n) => (*n).into(),
            Value::Double(n) => (*n).into(),
            Value::Data(json, _) => (*json).clone(),
            Value::Text(text) => text.as_ref().into(),
            Value::Optional(inner) => inner.as_ref().map_or(Json::Null, |inner| inner.to_json()),
            other => match (other.items(), other.entries()) {
                (Some(items), _) => items.iter().map(Value::to_json).collect(),
                (_, Some(entries)) => entries
                    .iter()
                    .map(|(key, value)| {
                        let key = key.to_json();
                        (key.as_str().map_or_else(|| key.to_string(), str::to_owned), value.to_json())
                    })
                    .collect::<serde_json::Map<String, Json>>()
                    .into(),
                _ => super::functions::to_text(other).unwrap_or_default().into(),
            },
        }
    }
}

/// Go's durations: `1h30m`, `-1.5s`, `100ms`.
pub fn parse_duration(text: &str) -> Option<SignedDuration> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut nanos: f64 = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        nanos += number
            * match &rest[..end] {
                "ns" => 1.0,
                "us" | "µs" | "μs" => 1e3,
                "ms" => 1e6,
                "s" => 1e9,
                "m" => 60e9,
                "h" => 3600e9,
                _ => return None,
            };
        rest = &rest[end..];
    }
    if nanos > 9.2e18 {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked to fit")]
    let nanos = nanos as i64;
    Some(SignedDuration::from_nanos(if negative { -nanos } else { nanos }))
}
