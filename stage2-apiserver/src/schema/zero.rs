//! Zero values: what a Go struct writes for fields that nobody set, and what it leaves out.
//!
//! # In Kubernetes
//! Go's `omitempty` and its absence; see [`super::go_types`] for the fields where the schema doesn't tell.

use serde_json::{Map, Value};

use super::{Absent, Field, Schema, Shape, StructType, struct_type};

/// The zero value of a shape, as Go encodes it.
pub fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::String | Shape::Bytes => Value::String(String::new()),
        Shape::Bool => Value::Bool(false),
        Shape::Int32 | Shape::Int64 | Shape::IntOrString => Value::from(0),
        Shape::Float => Value::from(0),
        Shape::Quantity => Value::String("0".to_owned()),
        Shape::Struct(name) => {
            let mut object = Map::new();
            if let Some(ty) = struct_type(name) {
                fill_absent(&mut object, ty);
            }
            Value::Object(object)
        }
        _ => Value::Null,
    }
}

/// What a field of a root holds when nobody set it: `Some(None)` if it is left out, `None` if the kind has no such field.
pub fn zero_field(schema: &Schema, name: &str) -> Option<Option<Value>> {
    let field = schema.root().fields.get(name)?;
    Some((field.absent == Absent::Zero).then(|| zero(&field.shape)))
}

/// Adds what Go writes although nobody set it, and drops what `omitempty` drops.
pub fn fill_absent(object: &mut Map<String, Value>, ty: &StructType) {
    for (name, field) in &ty.fields {
        if object.contains_key(name) {
            continue;
        }
        match field.absent {
            Absent::Omitted => {}
            Absent::Null => drop(object.insert(name.clone(), Value::Null)),
            Absent::Zero => drop(object.insert(name.clone(), zero(&field.shape))),
        }
    }
}

fn is_zero(value: &Value, shape: &Shape) -> bool {
    match (value, shape) {
        (Value::Null, _) => true,
        // intstr and Quantity are structs in Go: `omitempty` never drops them.
        (_, Shape::IntOrString | Shape::Quantity) => false,
        // Raw JSON is a pointer there: a schema's `default: false` is one.
        (_, Shape::Any | Shape::StructOr(_)) => false,
        (Value::String(text), _) => text.is_empty(),
        (Value::Bool(on), _) => !on,
        (Value::Number(number), _) => number.as_f64() == Some(0.0),
        (Value::Array(items), Shape::List(_)) => items.is_empty(),
        (Value::Object(entries), Shape::Map(_)) => entries.is_empty(),
        _ => false,
    }
}

/// Puts a decoded field into its struct.
pub fn keep(object: &mut Map<String, Value>, key: String, value: Option<Value>, field: &Field) {
    match value {
        Some(value) if field.pointer || !is_zero(&value, &field.shape) => match (object.get_mut(&key), value)
        {
            // A map that is written twice is filled twice.
            (Some(Value::Object(before)), Value::Object(more)) => before.extend(more),
            (_, value) => drop(object.insert(key, value)),
        },
        // A later null or zero overwrites an earlier value of the same key.
        _ => drop(object.remove(&key)),
    }
}

/// The kind's empty object, as Go writes it: what a new object is compared with.
pub fn zero_object(schema: &Schema) -> Value {
    let mut object = zero(&Shape::Struct(schema.definition.clone()));
    object["apiVersion"] = Value::from(schema.gvk.api_version());
    object["kind"] = Value::from(schema.gvk.kind.as_str());
    object
}
