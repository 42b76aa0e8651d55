//! OpenAPI of custom kinds: the schemas of their definitions, as `kubectl explain` and client-side validation want them.
//!
//! A definition's schema says nothing of `apiVersion`, `kind` and `metadata`, which every object has: they are put in. OpenAPI v2 can say
//! less than v3, so what it has no words for (`anyOf`, `nullable`, …) is left out there, together with what would then be wrong.
//!
//! # In Kubernetes
//! `apiextensions-apiserver/pkg/controller/openapi/builder/builder.go`, `…/openapi/v2/conversion.go`. Left out: the kinds of lists.

use serde_json::{Map, Value, json};

use crate::registry::ResourceInfo;

const OBJECT_META: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Which generation of documents a schema is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One document for everything.
    V2,
    /// One a group version.
    V3,
}

/// The name of a kind's definition: `com.example.v1.Widget`.
pub fn name(info: &'static ResourceInfo) -> String {
    let reversed: Vec<&str> = info.group.rsplit('.').collect();
    format!("{}.{}.{}", reversed.join("."), info.version, info.kind)
}

/// The definitions of custom kinds.
pub fn definitions(infos: impl Iterator<Item = &'static ResourceInfo>, form: Form) -> Map<String, Value> {
    infos.filter_map(|info| Some((name(info), definition(info, form)?))).collect()
}

fn definition(info: &'static ResourceInfo, form: Form) -> Option<Value> {
    let kind = info.custom_kind()?;
    let mut schema = kind.published.clone();
    if form == Form::V2 {
        simplify(&mut schema);
        if kind.schema.preserve_unknown_fields || kind.preserves_unknown_fields {
            schema = json!({ "type": "object" });
        }
    }
    if !schema.is_object() {
        schema = json!({ "type": "object" });
    }
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    let text = |description: &str| json!({ "type": "string", "description": description });
    schema["properties"]["apiVersion"] = text(
        "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources",
    );
    schema["properties"]["kind"] = text(
        "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
    );
    schema["properties"]["metadata"] = json!({
        "description": "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
        "allOf": [{ "$ref": OBJECT_META }],
    });
    schema["x-kubernetes-group-version-kind"] =
        json!([{ "group": info.group, "version": info.version, "kind": info.kind }]);
    Some(schema)
}

/// Takes out what v2 can't say.
fn simplify(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    for word in ["allOf", "anyOf", "oneOf", "not"] {
        fields.remove(word);
    }
    if fields.remove("nullable") == Some(Value::Bool(true)) {
        // A null would be refused by a type.
        for word in ["type", "properties", "items", "additionalProperties"] {
            fields.remove(word);
        }
    }
    for (word, value) in fields.iter_mut() {
        match word.as_str() {
            "properties" => {
                value.as_object_mut().into_iter().flatten().for_each(|(_, below)| simplify(below))
            }
            "items" | "additionalProperties" => simplify(value),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v2_leaves_out_what_it_has_no_words_for() {
        let mut schema = json!({
            "type": "object",
            "properties": {
                "a": { "type": "string", "nullable": true },
                "b": { "anyOf": [{ "minimum": 1 }], "x-kubernetes-int-or-string": true },
            },
        });
        simplify(&mut schema);
        assert_eq!(
            schema,
            json!({ "type": "object", "properties": { "a": {}, "b": { "x-kubernetes-int-or-string": true } } })
        );
    }
}
