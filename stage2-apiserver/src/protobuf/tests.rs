//! Tests of the protobuf codec: against the schema, against itself, against noise, and against what Kubernetes wrote.

mod generate;

use proptest::prelude::*;
use serde_json::{Value, json};
use stage1_kubectl::resource::GroupVersionKind;

use super::table::{Kind, messages};
use super::*;
use crate::decode::{FieldValidation, decode_body};
use crate::negotiation::BodyFormat;
use crate::schema::{self, Shape};

/// Encodes and decodes an object, as a server and a client would.
fn there_and_back(object: &Value) -> Value {
    let body = encode_object(object).expect("the object fits its message");
    let envelope = open(&body).expect("an envelope");
    let message = message_of(&envelope.api_version, &envelope.kind).expect("a built-in kind");
    let mut fields = decode_raw(message, envelope.raw).expect("a message");
    fields.insert("apiVersion".into(), json!(envelope.api_version));
    fields.insert("kind".into(), json!(envelope.kind));
    Value::Object(fields)
}

fn fits(kind: &Kind, shape: &Shape) -> bool {
    match (kind, shape) {
        (Kind::String, Shape::String) | (Kind::Bool, Shape::Bool) => true,
        (Kind::Int32, Shape::Int32) | (Kind::Int64, Shape::Int64) => true,
        (Kind::Double, Shape::Float) | (Kind::Bytes, Shape::Bytes) => true,
        (Kind::Time, Shape::Time) | (Kind::MicroTime, Shape::MicroTime) => true,
        (Kind::Quantity, Shape::Quantity) | (Kind::IntOrString, Shape::IntOrString) => true,
        (Kind::Raw, Shape::Any) | (Kind::SchemaOr(_), Shape::StructOr(_)) => true,
        (Kind::Wrapped, Shape::List(item)) => matches!(**item, Shape::String),
        (Kind::Message(index), Shape::Struct(name)) => table::message(*index).name == &**name,
        (Kind::List(kind), Shape::List(shape)) | (Kind::Map(kind), Shape::Map(shape)) => fits(kind, shape),
        _ => false,
    }
}

/// A message's fields with those of its inline messages.
fn flat(message: &'static Message) -> Vec<(&'static str, &'static Kind)> {
    let of_field = |field: &'static table::Field| match field.kind {
        Kind::Inline(inner) => flat(table::message(inner)),
        _ => vec![(field.name, &field.kind)],
    };
    message.fields.iter().flat_map(of_field).collect()
}

#[test]
fn the_table_says_what_the_schema_says() {
    let mut wrong = Vec::new();
    let mut compared = 0;
    for message in messages() {
        let Some(ty) = schema::struct_type(message.name) else { continue };
        let fields = flat(message);
        for (name, field) in ty.fields.iter().filter(|(n, _)| !matches!(n.as_str(), "kind" | "apiVersion")) {
            compared += 1;
            match fields.iter().find(|(known, _)| known == name) {
                None => wrong.push(format!("{}.{name} has no number", message.name)),
                Some((_, kind)) if !fits(kind, &field.shape) => {
                    wrong.push(format!("{}.{name}: {kind:?} for {:?}", message.name, field.shape));
                }
                Some(_) => {}
            }
        }
        for (name, _) in fields.iter().filter(|(name, _)| !ty.fields.contains_key(*name)) {
            wrong.push(format!("{}.{name} is unknown to the schema", message.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 1500, "only {compared} fields were compared");
}

#[test]
fn every_kind_with_a_schema_has_a_message_and_a_list() {
    for root in schema::roots::all() {
        let gvk = GroupVersionKind::new(root.group, root.version, root.kind);
        let message = message_of(&gvk.api_version(), root.kind);
        assert_eq!(message.map(|m| m.name), Some(root.definition.as_str()));
    }
    let list = message_of("apps/v1", "DeploymentList").expect("lists have messages");
    assert_eq!(list.field(LIST_ITEMS).map(|f| f.name), Some("items"));
}

#[test]
fn a_namespace_is_these_bytes() {
    let body = encode_object(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}));
    let expected = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x05\x0a\x03\x0a\x01x\x1a\0\x22\0";
    assert_eq!(body.expect("encodes"), expected);
}

#[test]
fn a_watch_frame_is_length_type_and_envelope() {
    let frame = watch_frame("ADDED", b"object");
    assert_eq!(&frame[..], b"\0\0\0\x11\x0a\x05ADDED\x12\x08\x0a\x06object");
}

#[test]
fn a_schema_may_be_a_bool_a_list_or_strings() {
    let schema = json!({
        "type": "object", "additionalProperties": false, "default": null, "enum": [1, null, "a"],
        "items": [{"type": "string"}, {"type": "integer"}],
        "dependencies": {"a": ["b", "c"], "d": {"type": "string"}},
        "properties": {"p": {"additionalProperties": {"type": "string"}, "items": {"type": "number"}}},
        "minimum": 0.5, "maximum": 3,
    });
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": {"versions": [version]},
    });
    let mut expected = definition.clone();
    // An absent default and a null one are the same.
    expected["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        .as_object_mut()
        .expect("a map")
        .remove("default");
    assert_eq!(there_and_back(&definition), expected);
}

#[test]
fn an_object_within_an_object_may_be_an_envelope() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
    let sealed = encode_object(&pod).expect("encodes");
    let event = watch_frame("ADDED", &sealed);
    let message = message_of("v1", "WatchEvent").expect("a message");
    let decoded = decode_raw(message, &event[4..]).expect("a watch event");
    assert_eq!(Value::Object(decoded), json!({"type": "ADDED", "object": pod}));
}

#[test]
fn refusals_are_bad_requests_in_words_of_go() {
    let gvk = GroupVersionKind::new("", "v1", "Pod");
    let read = |body: &[u8]| {
        decode_body(body, BodyFormat::Protobuf, &gvk, FieldValidation::Strict).expect_err("refused")
    };
    let no_magic = read(b"\x01\x02");
    assert_eq!(no_magic.code, 400);
    assert!(no_magic.message.contains("expected prefix [107 56 115 0]"), "{}", no_magic.message);
    let cut = read(&seal("v1", "Pod", b"\x0a\x7f"));
    assert_eq!(cut.message, "Pod in version \"v1\" cannot be handled as a Pod: unexpected EOF");
    let typed = read(&seal("v1", "Pod", b"\x08\x01"));
    assert!(typed.message.ends_with("proto: wrong wireType = 0 for field metadata"), "{}", typed.message);
    let other = read(&seal("v1", "Namespace", b""));
    assert!(other.message.starts_with("Namespace in version \"v1\" cannot be handled as a Pod"));
    let quantity = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"overhead": {"cpu": "many"}}});
    assert_eq!(read(&encode_object(&quantity).expect("encodes")).code, 400);
}

#[test]
fn nesting_has_an_end() {
    let mut schema = Vec::new();
    for _ in 0..decode::MAX_DEPTH + 10 {
        let mut outer = Vec::new();
        // `not`: a schema in a schema.
        put_bytes(28, &schema, &mut outer);
        schema = outer;
    }
    assert_eq!(decode_raw(table::json_schema(), &schema), Err(DecodeError::TooDeep));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn invariant_1_json_to_protobuf_to_json_is_the_identity(seed in any::<u64>()) {
        let object = generate::object(seed);
        let gvk = GroupVersionKind::from_api_version(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        let body = encode_object(&object).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let decoded = decode_body(&body, BodyFormat::Protobuf, &gvk, FieldValidation::Strict);
        prop_assert_eq!(decoded.map_err(|e| TestCaseError::fail(e.message))?.object.into_value(), object);
    }

    #[test]
    fn invariant_2_noise_is_refused_or_read_but_never_panics(
        noise in proptest::collection::vec(any::<u8>(), 0..200), seed in any::<u64>(), at in any::<usize>(), flip in any::<u8>(),
    ) {
        for (_, _, message) in table::kinds() {
            let _ = decode_raw(message, &noise);
        }
        let object = generate::object(seed);
        let mut body = encode_object(&object).expect("encodes");
        let at = at % body.len();
        body[at] ^= flip;
        let gvk = GroupVersionKind::from_api_version(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        for body in [&body[..], &body[..at]] {
            if let Err(status) = decode_body(body, BodyFormat::Protobuf, &gvk, FieldValidation::Strict) {
                prop_assert_eq!(status.code, 400);
            }
        }
    }
}
