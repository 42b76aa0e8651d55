//! Schemas: what each built-in kind may contain.
//!
//! *Step 1 of a pod's journey through the API server.* Before: `negotiation` chose a format. After: [`crate::defaults`] fills what the
//! client left out.
//!
//! Kubernetes' server decodes a request into a Go struct, and much of what users see comes from that step alone: fields that are unknown
//! or written twice, `json: cannot unmarshal string into Go struct field …`, zero values that vanish, empty structs that appear. We keep
//! objects as JSON, so this module holds the shape of every Go struct as data and [`decode()`] walks a request along it.
//!
//! The shapes come from the JSON Schemas of the `k8s-openapi` types; what a JSON Schema can't say (is this integer a pointer in Go, so
//! that an explicit `0` is kept?) stands in the small tables of [`go_types`].
//!
//! # Invariants
//! 1. Decoding a decoded object changes nothing.
//! 2. A field that is not in the schema is never stored for a built-in kind.
//!
//! # In Kubernetes
//! `staging/src/k8s.io/api/*/types.go` (the structs), `sigs.k8s.io/json` (the strict decoder). Left out: protobuf.

pub mod compile;
pub mod decode;
pub mod go_json;
pub mod go_time;
pub mod go_types;
pub mod list_types;
pub mod roots;
#[cfg(test)]
mod tests;
pub mod zero;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};
use stage1_kubectl::resource::GroupVersionKind;

pub use decode::{Decoded, decode_slice, decode_value};

// ANCHOR: shape
/// The shape of one JSON value, as the Go type behind it reads it.
#[derive(Clone, Debug)]
pub enum Shape {
    /// A Go `string` or a named string type.
    String,
    /// A Go `bool`.
    Bool,
    /// A Go `int32`.
    Int32,
    /// A Go `int64`.
    Int64,
    /// A Go `float64`.
    Float,
    /// `[]byte`: base64 in JSON.
    Bytes,
    /// `metav1.Time`, whole seconds.
    Time,
    /// `metav1.MicroTime`.
    MicroTime,
    /// `resource.Quantity`: read from a string or a number, written canonically.
    Quantity,
    /// `intstr.IntOrString`.
    IntOrString,
    /// A slice.
    List(Box<Shape>),
    /// A map with string keys.
    Map(Box<Shape>),
    /// A struct, named by its definition (`io.k8s.api.core.v1.Pod`).
    Struct(Arc<str>),
    /// `JSONSchemaPropsOrBool` and its kin: a struct, or a list of it, or anything else as it is.
    StructOr(Arc<str>),
    /// Raw JSON, kept as it is.
    Any,
}
// ANCHOR_END: shape

/// One field of a struct.
#[derive(Clone, Debug)]
pub struct Field {
    /// What it holds.
    pub shape: Shape,
    /// What stands in the encoded object when the client gave nothing (or a zero value).
    pub absent: Absent,
    /// An explicit zero value is kept (the Go field is a pointer).
    pub pointer: bool,
}

/// What an absent field looks like after encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// The field is left out (`omitempty`).
    Omitted,
    /// The zero value is written: `""`, `0`, `false`, `{}` with its own zero values.
    Zero,
    /// `null` is written (slices, maps and times without `omitempty`).
    Null,
}

/// A Go struct: its fields by JSON name.
#[derive(Clone, Debug)]
pub struct StructType {
    /// `ContainerPort`.
    pub go_name: String,
    /// `v1.ContainerPort`.
    pub qualified: String,
    /// Fields by their JSON name.
    pub fields: BTreeMap<String, Field>,
}

/// The schema of one kind: its root struct.
#[derive(Clone, Debug)]
pub struct Schema {
    /// The kind.
    pub gvk: GroupVersionKind,
    /// `io.k8s.api.core.v1.Pod`.
    pub definition: Arc<str>,
}

impl Schema {
    /// The root struct.
    pub fn root(&self) -> &'static StructType {
        struct_type(&self.definition).expect("every root was compiled into the table")
    }
}

/// All structs and the kinds that are roots.
pub struct Table {
    structs: HashMap<Arc<str>, StructType>,
    roots: HashMap<(String, String, String), Schema>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| compile::table(&definitions()));

/// The schema of a built-in kind; `None` for a kind that we don't know.
pub fn schema_for(gvk: &GroupVersionKind) -> Option<&'static Schema> {
    let key = (gvk.group.to_string(), gvk.version.to_string(), gvk.kind.to_string());
    TABLE.roots.get(&key)
}

/// A struct by its definition name.
pub fn struct_type(definition: &str) -> Option<&'static StructType> {
    TABLE.structs.get(definition)
}

/// All definitions as JSON Schema (`io.k8s.api.core.v1.Pod` → schema, references as `#/components/schemas/…`).
/// Made anew at each call, because the descriptions are large and only `/openapi` wants them.
pub fn definitions() -> Map<String, Value> {
    roots::definitions()
}
