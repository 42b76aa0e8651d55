//! Decode: a body becomes an object of a custom kind.
//!
//! *Step 1 of a custom object's journey.* Before: the path named a custom resource. After: the object is pruned and defaulted.
//!
//! There is no Go struct behind a custom kind, and so less is fixed: any JSON is read, then `metadata` is read as every object's
//! metadata is, and everything else is pruned by the schema. What was dropped is a warning, or under `fieldValidation=Strict` a
//! refusal, as it is for built-in kinds; so is a key that is there twice, which only the text can tell.
//!
//! # Invariants
//! 1. A decoded object has no field that its schema doesn't know.
//! 2. Decoding a decoded object changes nothing.
//!
//! # In Kubernetes
//! `schemaCoercingDecoder` in `apiextensions-apiserver/pkg/apiserver/customresource_handler.go`.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use stage1_kubectl::object::{MAX_DEPTH, Object, deeper_than};
use stage1_kubectl::resource::GroupVersionKind;
use stage1_kubectl::status::Status;

use super::structural::Schema as Structural;
use super::{CustomKind, defaulting, prune};
use crate::decode::{self, DecodedBody, FieldValidation, field_findings};
use crate::negotiation::{BodyFormat, MEDIA_TYPES};
use crate::schema::{self, Schema};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

// ANCHOR: decode-custom
/// Reads a body as an object of a custom kind.
///
/// # Errors
/// 400 with Kubernetes' words for what is wrong, 415 for protobuf.
pub fn decode_body(
    body: &[u8],
    format: BodyFormat,
    kind: &CustomKind,
    validation: FieldValidation,
) -> Result<DecodedBody, Status> {
    let gvk = kind.info.gvk();
    let json = match format {
        BodyFormat::Json => body.to_vec(),
        BodyFormat::Yaml => decode::yaml_to_json(body).map_err(|e| decode::unrecognized(&gvk, &e, body))?,
        BodyFormat::Protobuf => return Err(Status::unsupported_media_type(&MEDIA_TYPES[..2])),
    };
    let (value, duplicates) = read(&json).map_err(|e| decode::unrecognized(&gvk, &e.to_string(), &json))?;
    check_version(&value, &json, &gvk)?;
    let (object, unknown) = coerce(value, kind).map_err(|why| decode::cannot_be_handled(&gvk, &gvk, &why))?;
    let warnings = field_findings([duplicates, unknown].concat(), validation, |joined| {
        decode::cannot_be_handled(&gvk, &gvk, &format!("strict decoding error: {joined}"))
    })?;
    Ok(DecodedBody { object, warnings })
}
// ANCHOR_END: decode-custom

/// Prunes and defaults an object that is JSON already (a patched one); the findings are unknown fields.
///
/// # Errors
/// Metadata that isn't metadata; nesting that no reader of a list would follow.
pub fn coerce(mut value: Value, kind: &CustomKind) -> Result<(Object, Vec<String>), String> {
    if deeper_than(&value, MAX_DEPTH) {
        return Err("exceeded max depth".to_owned());
    }
    let mut unknown = Vec::new();
    coerce_metadata(&mut value, "metadata", &mut unknown)?;
    if !kind.preserves_unknown_fields {
        unknown.extend(prune::prune(&mut value, &kind.schema));
        defaulting::drop_nulls(&mut value, &kind.schema);
    }
    coerce_embedded(&mut value, &kind.schema, "", &mut unknown)?;
    defaulting::apply(&mut value, &kind.schema);
    let findings = unknown.into_iter().map(|path| format!("unknown field \"{path}\"")).collect();
    Ok((Object::from_value(value).map_err(|e| e.to_string())?, findings))
}

/// Without kind or version there is nothing to go by; another group version is another resource.
fn check_version(value: &Value, json: &[u8], wanted: &GroupVersionKind) -> Result<(), Status> {
    let said = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or("");
    for (name, called) in [("kind", "Kind"), ("apiVersion", "apiVersion")] {
        if said(name).is_empty() {
            let why = format!("Object '{called}' is missing in '{}'", String::from_utf8_lossy(json));
            return Err(decode::unrecognized(wanted, &why, json));
        }
    }
    if said("apiVersion") != wanted.api_version() {
        return Err(Status::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({})",
            said("apiVersion"),
            wanted.api_version()
        )));
    }
    Ok(())
}

/// Reads `metadata` as Go's ObjectMeta.
fn coerce_metadata(object: &mut Value, path: &str, unknown: &mut Vec<String>) -> Result<(), String> {
    let Some(metadata) = object.get_mut("metadata") else { return Ok(()) };
    let schema = Schema { gvk: GroupVersionKind::default(), definition: OBJECT_META.into() };
    let decoded = schema::decode_value(std::mem::take(metadata), &schema);
    if let Some(error) = decoded.error {
        return Err(error);
    }
    // The decoder's findings are whole sentences; the path is what stands in quotes.
    let paths = decoded.strict.iter().filter_map(|finding| finding.split('"').nth(1));
    unknown.extend(paths.map(|found| format!("{path}.{found}")));
    *metadata = decoded.value;
    Ok(())
}

/// Reads the metadata of objects within the object.
fn coerce_embedded(
    value: &mut Value,
    schema: &Structural,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    match value {
        Value::Object(fields) => {
            for (name, found) in fields.iter_mut() {
                let Some(below) = schema.field(name) else { continue };
                let path = crate::validation::field(path, name);
                if below.embedded_resource && found.is_object() {
                    coerce_metadata(found, &format!("{path}.metadata"), unknown)?;
                }
                coerce_embedded(found, below, &path, unknown)?;
            }
        }
        Value::Array(items) => {
            let Some(below) = schema.items.as_deref() else { return Ok(()) };
            for (at, item) in items.iter_mut().enumerate() {
                let path = crate::validation::index(path, at);
                if below.embedded_resource && item.is_object() {
                    coerce_metadata(item, &format!("{path}.metadata"), unknown)?;
                }
                coerce_embedded(item, below, &path, unknown)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Any JSON, and the fields that were in it twice.
fn read(json: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let walk = RefCell::new(Walk::default());
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let value = Node(&walk).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, walk.into_inner().duplicates))
}

#[derive(Default)]
struct Walk {
    path: String,
    duplicates: Vec<String>,
}

#[derive(Clone, Copy)]
struct Node<'a>(&'a RefCell<Walk>);

impl Node<'_> {
    fn enter(self, part: &str) -> usize {
        let path = &mut self.0.borrow_mut().path;
        let length = path.len();
        if length > 0 && !part.starts_with('[') {
            path.push('.');
        }
        path.push_str(part);
        length
    }

    fn leave(self, length: usize) {
        self.0.borrow_mut().path.truncate(length);
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, on: bool) -> Result<Value, E> {
        Ok(Value::Bool(on))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let length = self.enter(&format!("[{}]", items.len()));
            let next = seq.next_element_seed(self);
            self.leave(length);
            match next? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        let mut seen = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            let length = self.enter(&name);
            if !seen.insert(name.clone()) {
                let mut walk = self.0.borrow_mut();
                let finding = format!("duplicate field \"{}\"", walk.path);
                walk.duplicates.push(finding);
            }
            let value = map.next_value_seed(self)?;
            self.leave(length);
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}
