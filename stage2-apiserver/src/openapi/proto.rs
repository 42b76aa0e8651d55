//! OpenAPI v2 as protobuf: gnostic's `openapi.v2.Document`, the part of it that kubectl reads.
//!
//! kubectl up to 1.26 asks for the schema in this form only. The messages are written by hand, with gnostic's field
//! numbers; extensions such as `x-kubernetes-group-version-kind` travel as YAML text.
//!
//! # Invariants
//! 1. Field numbers are those of `OpenAPIv2.proto`.
//!
//! # In Kubernetes
//! `google/gnostic-models/openapiv2/OpenAPIv2.proto`. Left out: what kubectl doesn't read (responses' schemas, security, …).

use prost::Message;
use serde_json::{Map, Value};

#[derive(Clone, PartialEq, Message)]
struct Document {
    #[prost(string, tag = "1")]
    swagger: String,
    #[prost(message, optional, tag = "2")]
    info: Option<Info>,
    #[prost(message, optional, tag = "8")]
    paths: Option<Paths>,
    #[prost(message, optional, tag = "9")]
    definitions: Option<NamedSchemas>,
}

#[derive(Clone, PartialEq, Message)]
struct Info {
    #[prost(string, tag = "1")]
    title: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct Paths {
    #[prost(message, repeated, tag = "2")]
    path: Vec<NamedPathItem>,
}

#[derive(Clone, PartialEq, Message)]
struct NamedPathItem {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<PathItem>,
}

#[derive(Clone, PartialEq, Message)]
struct PathItem {
    #[prost(message, optional, tag = "2")]
    get: Option<Operation>,
    #[prost(message, optional, tag = "3")]
    put: Option<Operation>,
    #[prost(message, optional, tag = "4")]
    post: Option<Operation>,
    #[prost(message, optional, tag = "5")]
    delete: Option<Operation>,
    #[prost(message, optional, tag = "8")]
    patch: Option<Operation>,
}

#[derive(Clone, PartialEq, Message)]
struct Operation {
    #[prost(string, tag = "5")]
    operation_id: String,
    #[prost(message, repeated, tag = "8")]
    parameters: Vec<ParametersItem>,
    #[prost(message, repeated, tag = "13")]
    vendor_extension: Vec<NamedAny>,
}

#[derive(Clone, PartialEq, Message)]
struct ParametersItem {
    #[prost(message, optional, tag = "1")]
    parameter: Option<Parameter>,
}

#[derive(Clone, PartialEq, Message)]
struct Parameter {
    #[prost(message, optional, tag = "2")]
    non_body_parameter: Option<NonBodyParameter>,
}

#[derive(Clone, PartialEq, Message)]
struct NonBodyParameter {
    #[prost(message, optional, tag = "3")]
    query: Option<QueryParameter>,
}

#[derive(Clone, PartialEq, Message)]
struct QueryParameter {
    #[prost(string, tag = "2")]
    location: String,
    #[prost(string, tag = "3")]
    description: String,
    #[prost(string, tag = "4")]
    name: String,
    #[prost(string, tag = "6")]
    kind: String,
}

#[derive(Clone, PartialEq, Message)]
struct NamedSchemas {
    #[prost(message, repeated, tag = "1")]
    additional_properties: Vec<NamedSchema>,
}

#[derive(Clone, PartialEq, Message)]
struct NamedSchema {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Schema>,
}

#[derive(Clone, PartialEq, Message)]
struct Schema {
    #[prost(string, tag = "1")]
    reference: String,
    #[prost(string, tag = "2")]
    format: String,
    #[prost(string, tag = "4")]
    description: String,
    #[prost(string, repeated, tag = "19")]
    required: Vec<String>,
    #[prost(message, optional, boxed, tag = "21")]
    additional_properties: Option<Box<AdditionalProperties>>,
    #[prost(message, optional, tag = "22")]
    kind: Option<TypeItem>,
    #[prost(message, optional, tag = "23")]
    items: Option<Items>,
    #[prost(message, optional, tag = "25")]
    properties: Option<NamedSchemas>,
    #[prost(message, repeated, tag = "31")]
    vendor_extension: Vec<NamedAny>,
}

#[derive(Clone, PartialEq, Message)]
struct AdditionalProperties {
    #[prost(message, optional, boxed, tag = "1")]
    schema: Option<Box<Schema>>,
}

#[derive(Clone, PartialEq, Message)]
struct TypeItem {
    #[prost(string, repeated, tag = "1")]
    value: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Items {
    #[prost(message, repeated, tag = "1")]
    schema: Vec<Schema>,
}

#[derive(Clone, PartialEq, Message)]
struct NamedAny {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Any>,
}

#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "2")]
    yaml: String,
}

/// Encodes a v2 document.
pub fn encode(document: &Value) -> Vec<u8> {
    let info = Info { title: text(&document["info"], "title"), version: text(&document["info"], "version") };
    let message = Document {
        swagger: text(document, "swagger"),
        info: Some(info),
        paths: Some(Paths {
            path: document["paths"].as_object().into_iter().flatten().map(path_item).collect(),
        }),
        definitions: Some(schemas(document["definitions"].as_object())),
    };
    message.encode_to_vec()
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or("").to_owned()
}

fn path_item((name, item): (&String, &Value)) -> NamedPathItem {
    let operation = |method: &str| item.get(method).map(operation);
    let value = PathItem {
        get: operation("get"),
        put: operation("put"),
        post: operation("post"),
        delete: operation("delete"),
        patch: operation("patch"),
    };
    NamedPathItem { name: name.clone(), value: Some(value) }
}

fn operation(operation: &Value) -> Operation {
    let parameters = operation["parameters"].as_array().into_iter().flatten().map(parameter).collect();
    Operation {
        operation_id: text(operation, "operationId"),
        parameters,
        vendor_extension: extensions(operation.as_object()),
    }
}

fn parameter(parameter: &Value) -> ParametersItem {
    let query = QueryParameter {
        location: text(parameter, "in"),
        description: text(parameter, "description"),
        name: text(parameter, "name"),
        kind: text(parameter, "type"),
    };
    let non_body_parameter = Some(NonBodyParameter { query: Some(query) });
    ParametersItem { parameter: Some(Parameter { non_body_parameter }) }
}

fn schemas(map: Option<&Map<String, Value>>) -> NamedSchemas {
    let named =
        |(name, value): (&String, &Value)| NamedSchema { name: name.clone(), value: Some(schema(value)) };
    NamedSchemas { additional_properties: map.into_iter().flatten().map(named).collect() }
}

fn schema(value: &Value) -> Schema {
    let strings = |value: Option<&Value>| match value {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let types = strings(value.get("type"));
    let additional = value
        .get("additionalProperties")
        .filter(|a| a.is_object())
        .map(|a| Box::new(AdditionalProperties { schema: Some(Box::new(schema(a))) }));
    Schema {
        reference: text(value, "$ref"),
        format: text(value, "format"),
        description: text(value, "description"),
        required: strings(value.get("required")),
        additional_properties: additional,
        kind: (!types.is_empty()).then_some(TypeItem { value: types }),
        items: value.get("items").map(|items| Items { schema: vec![schema(items)] }),
        properties: value.get("properties").map(|p| schemas(p.as_object())),
        vendor_extension: extensions(value.as_object()),
    }
}

/// JSON is YAML, and so the extension's JSON text is its YAML text.
fn extensions(map: Option<&Map<String, Value>>) -> Vec<NamedAny> {
    let own = map.into_iter().flatten().filter(|(name, _)| name.starts_with("x-"));
    own.map(|(name, value)| NamedAny { name: name.clone(), value: Some(Any { yaml: value.to_string() }) })
        .collect()
}
