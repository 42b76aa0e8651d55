//! The decoder: JSON (or an already parsed value) along a schema.
//!
//! *Step 1 of a pod's journey through the API server.* Before: a body whose kind is known. After: an object as Go would hold it.
//!
//! One walk does what Kubernetes' strict decoder does: it drops and reports unknown fields, reports fields written twice, keeps the first
//! type mismatch in Go's words, drops zero values that `omitempty` would drop, adds the empty structs that Go can't leave out, and writes
//! quantities and times in their canonical form. Reports come in the order of the document, so the walk is a `DeserializeSeed`
//! over the bytes and not a pass over a sorted map; a value that is already parsed (a patched object) goes the same way.
//!
//! The subtle thing is the two paths. Unknown fields carry indices (`spec.containers[0].foo`), type mismatches don't
//! (`ContainerPort.spec.containers.ports.containerPort`), and map keys are in the first but not in the second.
//!
//! # Invariants
//! 1. `decode(decode(x)) == decode(x)`.
//! 2. Only the first mismatch is reported, all unknown and duplicate fields are.
//!
//! # In Kubernetes
//! `sigs.k8s.io/json`, `encoding/json/decode.go` (`saveError`, `addErrorContext`). Left out: the limit of 100 strict errors.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::zero::{fill_absent, keep, zero};
use super::{Schema, Shape, StructType, go_json, go_time, go_types, struct_type};

/// The result of decoding.
#[derive(Clone, Debug, Default)]
pub struct Decoded {
    /// The object, pruned and canonical. Meaningless if `error` is set.
    pub value: Value,
    /// `unknown field "spec.foo"`, `duplicate field "spec.replicas"`, in document order. They join to a strict decoding error
    /// (`fieldValidation=Strict`), or are warnings one by one (`Warn`).
    pub strict: Vec<String>,
    /// The first mismatch: `json: cannot unmarshal …`.
    pub error: Option<String>,
}

/// Decodes a JSON body.
///
/// # Errors
/// The body is not JSON.
pub fn decode_slice(body: &[u8], schema: &Schema) -> Result<Decoded, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let decoded = decode(&mut deserializer, schema)?;
    deserializer.end()?;
    Ok(decoded)
}

/// Decodes a value that is parsed already (a YAML body, a patched object). Duplicates can't be seen any more.
pub fn decode_value(value: Value, schema: &Schema) -> Decoded {
    decode(value, schema)
        .unwrap_or_else(|error| Decoded { error: Some(error.to_string()), ..Decoded::default() })
}

fn decode<'de, D: Deserializer<'de>>(deserializer: D, schema: &Schema) -> Result<Decoded, D::Error> {
    let walk = RefCell::new(Walk::default());
    let shape = Shape::Struct(schema.definition.clone());
    let value = Node { shape: &shape, walk: &walk }.deserialize(deserializer)?;
    let walk = walk.into_inner();
    let mut value = value.unwrap_or_else(|| Value::Object(Map::new()));
    if let Value::Object(object) = &mut value {
        // TypeMeta is written only when set; the server sets both from the kind that it decoded into.
        object.retain(|key, value| {
            !(matches!(key.as_str(), "kind" | "apiVersion") && value.as_str() == Some(""))
        });
    }
    Ok(Decoded { value, strict: walk.strict, error: walk.error })
}

/// Where the walk is, and what it has found.
#[derive(Default)]
struct Walk {
    /// `spec.containers[0]`, for strict errors.
    path: String,
    /// `spec`, `containers`: for type mismatches.
    go_path: Vec<String>,
    /// `Container`: the innermost struct.
    go_struct: String,
    strict: Vec<String>,
    error: Option<String>,
}

impl Walk {
    /// Keeps the first error, as Go's `saveError`.
    fn save(&mut self, error: String) {
        self.error.get_or_insert(error);
    }

    fn mismatch(&mut self, found: &str, shape: &Shape) {
        let wanted = self.go_type(shape);
        let message = if self.go_path.is_empty() {
            format!("json: cannot unmarshal {found} into Go value of type {wanted}")
        } else {
            let field = self.go_path.join(".");
            format!(
                "json: cannot unmarshal {found} into Go struct field {}.{field} of type {wanted}",
                self.go_struct
            )
        };
        self.save(message);
    }

    fn go_type(&self, shape: &Shape) -> String {
        match shape {
            Shape::String => {
                let field = self.go_path.last().map(String::as_str).unwrap_or_default();
                go_types::named_string(&format!("{}.{field}", self.go_struct)).unwrap_or("string").to_owned()
            }
            // Their own UnmarshalJSON reads a string.
            Shape::Time | Shape::MicroTime | Shape::Quantity => "string".to_owned(),
            Shape::Bool => "bool".to_owned(),
            Shape::Int32 | Shape::IntOrString => "int32".to_owned(),
            Shape::Int64 => "int64".to_owned(),
            Shape::Float => "float64".to_owned(),
            Shape::Bytes => "[]uint8".to_owned(),
            Shape::List(item) => format!("[]{}", self.item_type(item)),
            Shape::Map(item) if matches!(**item, Shape::Quantity) => "v1.ResourceList".to_owned(),
            Shape::Map(item) => format!("map[string]{}", self.item_type(item)),
            Shape::Struct(name) | Shape::StructOr(name) => {
                struct_type(name).map_or_else(|| name.to_string(), |ty| ty.qualified.clone())
            }
            Shape::Any => "interface {}".to_owned(),
        }
    }

    fn item_type(&self, shape: &Shape) -> String {
        self.go_type(shape)
    }
}

#[derive(Clone, Copy)]
struct Node<'a> {
    shape: &'a Shape,
    walk: &'a RefCell<Walk>,
}

impl Node<'_> {
    fn mismatch(&self, found: &str) -> Option<Value> {
        self.walk.borrow_mut().mismatch(found, self.shape);
        None
    }

    fn fail(&self, message: String) -> Option<Value> {
        self.walk.borrow_mut().save(message);
        None
    }

    fn number(&self, number: Number) -> Option<Value> {
        match self.shape {
            Shape::Float | Shape::Any | Shape::StructOr(_) => Some(Value::Number(number)),
            Shape::Quantity => self.quantity(&number.to_string()),
            Shape::Int32 | Shape::IntOrString
                if number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) =>
            {
                Some(Value::Number(number))
            }
            Shape::Int64 if number.is_i64() => Some(Value::Number(number)),
            Shape::Int32 | Shape::Int64 | Shape::IntOrString => self.mismatch(&format!("number {number}")),
            _ => self.mismatch("number"),
        }
    }

    fn string(&self, text: String) -> Option<Value> {
        match self.shape {
            Shape::String | Shape::Any | Shape::IntOrString => Some(Value::String(text)),
            Shape::StructOr(_) => Some(Value::String(text)),
            Shape::Quantity => self.quantity(text.trim()),
            Shape::Time => match go_time::canonical_time(&text) {
                Ok(time) => Some(Value::String(time)),
                Err(message) => self.fail(message),
            },
            Shape::MicroTime => match go_time::canonical_micro_time(&text) {
                Ok(time) => Some(Value::String(time)),
                Err(message) => self.fail(message),
            },
            Shape::Bytes => match go_json::base64_corrupt_at(&text) {
                None => Some(Value::String(text.replace(['\r', '\n'], ""))),
                Some(at) => self.fail(format!("illegal base64 data at input byte {at}")),
            },
            _ => self.mismatch("string"),
        }
    }

    fn quantity(&self, text: &str) -> Option<Value> {
        match stage1_kubectl::quantity::Quantity::parse(text) {
            Ok(quantity) => Some(Value::String(quantity.to_string())),
            Err(error) => self.fail(error.to_string()),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    /// `None`: nothing was given (null), or it did not fit.
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(if matches!(self.shape, Shape::Any) { Some(Value::Null) } else { None })
    }

    fn visit_bool<E>(self, on: bool) -> Result<Self::Value, E> {
        Ok(match self.shape {
            Shape::Bool | Shape::Any | Shape::StructOr(_) => Some(Value::Bool(on)),
            Shape::Quantity => self.quantity(if on { "true" } else { "false" }),
            _ => self.mismatch("bool"),
        })
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(self.number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(self.number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Number::from_f64(number).and_then(|number| self.number(number)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(self.string(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(self.string(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let any = Shape::Any;
        let nested;
        let item = match self.shape {
            Shape::List(item) => item,
            Shape::StructOr(name) => {
                nested = Shape::StructOr(name.clone());
                &nested
            }
            Shape::Any => &any,
            _ => {
                self.mismatch("array");
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(None);
            }
        };
        let length = self.walk.borrow().path.len();
        let mut items = Vec::new();
        loop {
            self.walk.borrow_mut().path.push_str(&format!("[{}]", items.len()));
            let next = seq.next_element_seed(Node { shape: item, walk: self.walk });
            self.walk.borrow_mut().path.truncate(length);
            match next? {
                Some(value) => items.push(value.unwrap_or_else(|| zero(item))),
                None => return Ok(Some(Value::Array(items))),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        match self.shape {
            Shape::Struct(name) | Shape::StructOr(name) => match struct_type(name) {
                Some(ty) => self.visit_struct(ty, map),
                None => self.visit_entries(&Shape::Any, map),
            },
            Shape::Map(item) => self.visit_entries(item, map),
            Shape::Any => self.visit_entries(&Shape::Any, map),
            _ => {
                self.mismatch("object");
                let mut map = map;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(None)
            }
        }
    }
}

impl Node<'_> {
    fn enter(&self, key: &str) -> usize {
        let path = &mut self.walk.borrow_mut().path;
        let length = path.len();
        if length > 0 {
            path.push('.');
        }
        path.push_str(key);
        length
    }

    fn report(&self, what: &str) {
        let mut walk = self.walk.borrow_mut();
        let message = format!("{what} field \"{}\"", walk.path);
        walk.strict.push(message);
    }

    fn visit_struct<'de, A: MapAccess<'de>>(
        self,
        ty: &StructType,
        mut map: A,
    ) -> Result<Option<Value>, A::Error> {
        let outer = std::mem::replace(&mut self.walk.borrow_mut().go_struct, ty.go_name.clone());
        let mut object = Map::new();
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let length = self.enter(&key);
            match ty.fields.get(&key) {
                None => {
                    self.report("unknown");
                    map.next_value::<IgnoredAny>()?;
                }
                Some(field) => {
                    if !seen.insert(key.clone()) {
                        self.report("duplicate");
                    }
                    self.walk.borrow_mut().go_path.push(key.clone());
                    let value = map.next_value_seed(Node { shape: &field.shape, walk: self.walk })?;
                    self.walk.borrow_mut().go_path.pop();
                    keep(&mut object, key, value, field);
                }
            }
            self.walk.borrow_mut().path.truncate(length);
        }
        fill_absent(&mut object, ty);
        self.walk.borrow_mut().go_struct = outer;
        Ok(Some(Value::Object(object)))
    }

    fn visit_entries<'de, A: MapAccess<'de>>(
        self,
        shape: &Shape,
        mut map: A,
    ) -> Result<Option<Value>, A::Error> {
        let mut entries = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let length = self.enter(&key);
            if entries.contains_key(&key) && !matches!(self.shape, Shape::Any) {
                self.report("duplicate");
            }
            let value = map.next_value_seed(Node { shape, walk: self.walk })?;
            self.walk.borrow_mut().path.truncate(length);
            entries.insert(key, value.unwrap_or_else(|| zero(shape)));
        }
        Ok(Some(Value::Object(entries)))
    }
}
