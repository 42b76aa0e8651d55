//! Properties of pruning and defaulting, and the words of validation.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::openapi_validation::{At, validate};
use super::structural::Schema;
use super::{defaulting, list_types, prune};

fn texts(value: &Value, old: Option<&Value>, schema: &Value) -> Vec<String> {
    let schema = Schema::parse(schema);
    let mut errors = validate(value, old, &schema, &At { path: "", root: "" });
    errors.extend(list_types::validate(value, old, &schema));
    errors.iter().map(ToString::to_string).collect()
}

/// A schema with a field of each sort.
fn schema_of_all() -> Value {
    json!({
        "type": "object", "required": ["spec"],
        "properties": { "spec": {
            "type": "object", "required": ["must"], "maxProperties": 9,
            "properties": {
                "n": { "type": "integer", "minimum": 1, "maximum": 3 },
                "f": { "type": "number", "multipleOf": 0.5, "exclusiveMaximum": true, "maximum": 2 },
                "s": { "type": "string", "minLength": 2, "maxLength": 3, "pattern": "^a" },
                "e": { "type": "string", "enum": ["red", "blue"] },
                "t": { "type": "string", "format": "date-time" },
                "l": { "type": "array", "maxItems": 1, "items": { "type": "string" } },
                "p": { "x-kubernetes-int-or-string": true },
                "o": { "type": "object", "oneOf": [{ "required": ["a"] }, { "required": ["b"] }],
                       "properties": { "a": { "type": "string" }, "b": { "type": "string" } } },
                "set": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
            },
        }},
    })
}

#[test]
fn values_are_judged_in_the_words_of_kubernetes() {
    let schema = schema_of_all();
    let judge = |spec: Value| texts(&json!({ "spec": spec }), None, &schema);
    let must = |mut spec: Value| {
        spec["must"] = json!(1);
        judge(spec)
    };
    assert_eq!(texts(&json!({}), None, &schema), ["spec: Required value"]);
    assert_eq!(judge(json!({})), ["spec.must: Required value"]);
    assert_eq!(
        must(json!({ "n": 4 })),
        ["spec.n: Invalid value: 4: spec.n in body should be less than or equal to 3"]
    );
    assert_eq!(
        must(json!({ "n": "4" })),
        ["spec.n: Invalid value: \"string\": spec.n in body must be of type integer: \"string\""]
    );
    assert_eq!(must(json!({ "n": 2.0, "p": "50%" })), Vec::<String>::new());
    assert_eq!(
        must(json!({ "f": 2.25 })),
        [
            "spec.f: Invalid value: 2.25: spec.f in body should be a multiple of 0.5",
            "spec.f: Invalid value: 2.25: spec.f in body should be less than 2"
        ]
    );
    assert_eq!(
        must(json!({ "s": "bcde" })),
        [
            "spec.s: Too long: may not be more than 3 bytes",
            "spec.s: Invalid value: \"bcde\": spec.s in body should match '^a'"
        ]
    );
    assert_eq!(
        must(json!({ "s": "a" })),
        ["spec.s: Invalid value: \"a\": spec.s in body should be at least 2 chars long"]
    );
    assert_eq!(
        must(json!({ "e": null })),
        [
            "spec.e: Invalid value: \"null\": spec.e in body must be of type string: \"null\"",
            "spec.e: Unsupported value: \"null\": supported values: \"red\", \"blue\""
        ]
    );
    assert_eq!(
        must(json!({ "t": "soon" })),
        ["spec.t: Invalid value: \"soon\": spec.t in body must be of type date-time: \"soon\""]
    );
    assert_eq!(must(json!({ "l": ["a", "b"] })), ["spec.l: Too many: 2: must have at most 1 item"]);
    assert_eq!(
        must(json!({ "l": [1] })),
        ["spec.l[0]: Invalid value: \"integer\": spec.l[0] in body must be of type string: \"integer\""]
    );
    assert_eq!(
        must(json!({ "o": {} })),
        [
            "<nil>: Invalid value: \"\": \"spec.o\" must validate one and only one schema (oneOf). Found none valid",
            "spec.o.a: Required value"
        ]
    );
    assert_eq!(must(json!({ "set": ["a", "b", "a"] })), ["spec.set[2]: Duplicate value: \"a\""]);
}

#[test]
fn an_update_is_not_refused_for_what_it_leaves() {
    let schema = json!({ "type": "object", "properties": {
        "a": { "type": "integer", "maximum": 3 },
        "l": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
            "type": "object", "properties": { "k": { "type": "string" }, "v": { "type": "integer", "maximum": 3 } } } },
    }});
    let old = json!({ "a": 9, "l": [{ "k": "x", "v": 9 }] });
    let new = json!({ "a": 9, "l": [{ "k": "y", "v": 1 }, { "k": "x", "v": 9 }] });
    assert_eq!(texts(&new, Some(&old), &schema), Vec::<String>::new());
    let worse = json!({ "a": 8, "l": [{ "k": "x", "v": 8 }] });
    assert_eq!(texts(&worse, Some(&old), &schema).len(), 2);
}

#[test]
fn unknown_fields_go_and_are_named() {
    let schema = Schema::parse(&json!({ "type": "object", "properties": {
        "spec": { "type": "object", "properties": {
            "n": { "type": "integer" },
            "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                      "properties": { "known": { "type": "object", "properties": { "a": { "type": "string" } } } } },
            "items": { "type": "array", "items": { "type": "object", "properties": { "a": { "type": "string" } } } },
            "map": { "type": "object", "additionalProperties": { "type": "object" } },
        }},
    }}));
    let mut object = json!({
        "apiVersion": "a/v1", "kind": "K", "metadata": { "name": "x" }, "zz": 1,
        "spec": { "n": 1, "m": 2, "free": { "x": { "y": 1 }, "known": { "a": "1", "b": 2 } }, "items": [{ "a": "1", "b": 1 }], "map": { "k": { "v": 1 } } },
    });
    let unknown = prune::prune(&mut object, &schema);
    assert_eq!(unknown, ["spec.free.known.b", "spec.items[0].b", "spec.m", "spec.map.k.v", "zz"]);
    assert_eq!(
        object["spec"],
        json!({ "n": 1, "free": { "x": { "y": 1 }, "known": { "a": "1" } }, "items": [{ "a": "1" }], "map": { "k": {} } })
    );
}

#[test]
fn defaults_fill_what_is_there() {
    let schema = Schema::parse(&json!({ "type": "object", "properties": {
        "spec": { "type": "object", "properties": {
            "replicas": { "type": "integer", "default": 1 },
            "inner": { "type": "object", "default": {}, "properties": { "x": { "type": "string", "default": "y" } } },
            "nullable": { "type": "string", "nullable": true, "default": "d" },
        }},
        "status": { "type": "object", "properties": { "a": { "type": "string", "default": "b" } } },
    }}));
    let mut object = json!({ "spec": { "replicas": null, "nullable": null } });
    defaulting::apply(&mut object, &schema);
    assert_eq!(object, json!({ "spec": { "replicas": 1, "inner": { "x": "y" }, "nullable": null } }));
}

/// Schemas of some depth, and values that more or less fit them.
fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({ "type": "string" })),
        Just(json!({ "type": "string", "default": "d" })),
        Just(json!({ "type": "integer", "default": 1, "nullable": true })),
        Just(json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| json!({ "type": "object", "properties": { "a": a, "b": b } })),
            inner.clone().prop_map(|items| json!({ "type": "array", "items": items })),
            inner.prop_map(|more| json!({ "type": "object", "additionalProperties": more, "default": {} })),
        ]
    })
}

fn values() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![Just(Value::Null), Just(json!(1)), Just(json!("x")), Just(json!({})), Just(json!([]))];
    leaf.prop_recursive(4, 32, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::btree_map("[abc]", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn pruning_and_defaulting_twice_is_once(schema in schemas(), value in values()) {
        let schema = Schema::parse(&json!({ "type": "object", "properties": { "a": schema } }));
        let mut once = json!({ "a": value });
        prune::prune(&mut once, &schema);
        defaulting::drop_nulls(&mut once, &schema);
        defaulting::apply(&mut once, &schema);
        let mut twice = once.clone();
        prop_assert_eq!(prune::prune(&mut twice, &schema), Vec::<String>::new());
        defaulting::drop_nulls(&mut twice, &schema);
        prop_assert!(!defaulting::would_change(&twice, &schema));
        defaulting::apply(&mut twice, &schema);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn an_unchanged_value_is_never_refused(schema in schemas(), value in values()) {
        let schema = Schema::parse(&schema);
        let errors = validate(&value, Some(&value), &schema, &At { path: "", root: "" });
        prop_assert!(errors.is_empty());
    }
}
