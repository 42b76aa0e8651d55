//! OpenAPI: the schema of everything, as clients ask for it.
//!
//! *Step 2 of a pod's journey.* Before: `kubectl apply` wants to know whether the server checks fields itself, or which
//! lists have merge keys. After: it read it here.
//!
//! Two generations again. `/openapi/v3` is an index and a document a group version; kubectl since 1.27 looks there for the
//! `fieldValidation` parameter of PATCH, and `kubectl explain` for descriptions. `/openapi/v2` is one large
//! document; kubectl 1.20 accepts it only as protobuf ([`proto`]) and refuses to apply anything without it.
//!
//! Documents are made on request and not kept: they are large, and asked for rarely.
//!
//! # Invariants
//! 1. Every `$ref` of a document has its definition in it.
//!
//! # In Kubernetes
//! `kube-openapi/pkg/{builder,builder3,handler,handler3}`. Left out: response schemas of lists, security definitions.

pub mod custom;
pub mod proto;
pub mod v2;
pub mod v3;

use std::collections::HashMap;

use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use stage1_kubectl::patch::merge_keys::{self, MergeStrategy};

use crate::handlers::apply;
use crate::handlers::patch::PATCH_TYPES;
use crate::handlers::respond::{self, Answer};
use crate::negotiation::parse_accept;
use crate::registry::{Catalog, ResourceInfo};

/// The media type in which kubectl up to 1.26 asks for v2.
/// (a media type may not have an `@`, so the answer calls itself by another name than the request did).
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Answers `/openapi/…`; `None` for what isn't there.
pub fn handle(catalog: &Catalog, rest: &[&str], accept: Option<&str>) -> Option<Answer> {
    match rest {
        ["v2"] => Some(v2_answer(catalog, accept)),
        ["v3"] => Some(respond::json_document(&index(catalog))),
        ["v3", "api", version] => v3::document(catalog, "", version).map(|d| document(&d)),
        ["v3", "apis", group, version] => v3::document(catalog, group, version).map(|d| document(&d)),
        _ => None,
    }
}

fn document(value: &Value) -> Answer {
    let body = serde_json::to_vec(value).expect("a JSON value serialises");
    let mut answer = respond::bytes(StatusCode::OK, "application/json", body.clone());
    let tag = format!("\"{}\"", hash(&body));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        answer.headers_mut().insert(header::ETAG, tag);
    }
    answer
}

fn v2_answer(catalog: &Catalog, accept: Option<&str>) -> Answer {
    let wishes = parse_accept(accept.unwrap_or(""));
    // The media type has an `@` and a version in it; parameters of it are none of our business.
    let wants_protobuf =
        wishes.first().is_some_and(|w| w.media_type.contains("openapi.spec.v2@v1.0+protobuf"));
    let value = v2::document(catalog);
    match wants_protobuf {
        true => respond::bytes(StatusCode::OK, V2_PROTOBUF, proto::encode(&value)),
        false => document(&value),
    }
}

/// The index of `/openapi/v3`: a path a group version, with a hash that changes with the server's version, and with the schemas
/// of custom kinds.
fn index(catalog: &Catalog) -> Value {
    let mut paths = serde_json::Map::new();
    let mut schemas: HashMap<String, String> = HashMap::new();
    for info in catalog.customs() {
        let published = info.custom_kind().map(|kind| kind.published.to_string()).unwrap_or_default();
        schemas.entry(info.group_version()).or_default().push_str(&published);
    }
    for info in catalog.all() {
        let path = match info.group {
            "" => format!("api/{}", info.version),
            group => format!("apis/{group}/{}", info.version),
        };
        let schema = schemas.get(&info.group_version()).map_or("", String::as_str);
        let tag = hash(format!("{}{path}{schema}", crate::version::GIT_VERSION).as_bytes());
        let url = format!("/openapi/v3/{path}?hash={tag}");
        paths.insert(path, json!({ "serverRelativeURL": url }));
    }
    json!({ "paths": paths })
}

fn hash(bytes: &[u8]) -> String {
    data_hex(&Sha256::digest(bytes)[..16])
}

fn data_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02X}")).collect()
}

/// Paths of a set of resources with the operations that clients look for.
fn paths<'a>(
    resources: impl Iterator<Item = &'a ResourceInfo>,
    version: u8,
) -> serde_json::Map<String, Value> {
    let mut paths = serde_json::Map::new();
    for info in resources {
        let root = match info.group {
            "" => format!("/api/{}", info.version),
            group => format!("/apis/{group}/{}", info.version),
        };
        let collection = match info.namespaced {
            true => format!("{root}/namespaces/{{namespace}}/{}", info.resource),
            false => format!("{root}/{}", info.resource),
        };
        let methods = |verbs: &[(&str, &str)]| {
            let mut item = serde_json::Map::new();
            for (verb, method) in verbs.iter().filter(|(verb, _)| info.verbs.contains(verb)) {
                item.insert((*method).to_owned(), operation(info, verb, version));
            }
            Value::Object(item)
        };
        let on_collection = [("list", "get"), ("create", "post"), ("deletecollection", "delete")];
        let on_item = [("get", "get"), ("update", "put"), ("patch", "patch"), ("delete", "delete")];
        paths.insert(collection.clone(), methods(&on_collection));
        if info.storage.is_some() {
            paths.insert(format!("{collection}/{{name}}"), methods(&on_item));
        }
    }
    paths
}

fn operation(info: &ResourceInfo, verb: &str, version: u8) -> Value {
    let parameter = |name: &str, description: &str| {
        let mut value = json!({ "name": name, "in": "query", "description": description });
        match version {
            2 => value["type"] = json!("string"),
            _ => value["schema"] = json!({ "type": "string", "uniqueItems": true }),
        }
        value
    };
    let mut parameters = Vec::new();
    if matches!(verb, "create" | "update" | "patch" | "delete" | "deletecollection") {
        parameters
            .push(parameter("dryRun", "When present, indicates that modifications should not be persisted."));
    }
    if matches!(verb, "create" | "update" | "patch") {
        parameters.push(parameter(
            "fieldManager",
            "fieldManager is a name associated with the actor or entity that is making these changes.",
        ));
        parameters.push(parameter("fieldValidation", "fieldValidation instructs the server on how to handle objects in the request (POST/PUT/PATCH) containing unknown or duplicate fields."));
    }
    if verb == "patch" {
        parameters.push(parameter("force", "Force is going to \"force\" Apply requests. It means user will re-acquire conflicting fields owned by other people."));
    }
    let action = match verb {
        "create" => "post",
        "update" => "put",
        verb => verb,
    };
    let title: String = info.group.split('.').next().map_or(String::new(), capitalize);
    let title = if title.is_empty() { "Core".to_owned() } else { title };
    let scope = if info.namespaced { "Namespaced" } else { "" };
    let mut operation = json!({
        "operationId": format!("{verb}{title}{}{scope}{}", capitalize(info.version), info.kind),
        "parameters": parameters,
        "responses": { "200": { "description": "OK" } },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": { "group": info.group, "version": info.version, "kind": info.kind },
    });
    if verb == "patch" {
        let is_custom = info.custom.is_some();
        let known = PATCH_TYPES.iter().filter(|media_type| !is_custom || !media_type.contains("strategic"));
        let media_types = known.chain([&apply::MEDIA_TYPE]);
        match version {
            2 => operation["consumes"] = media_types.copied().collect(),
            _ => {
                let content =
                    |media_type: &&str| ((*media_type).to_owned(), json!({ "schema": { "type": "object" } }));
                let content: serde_json::Map<String, Value> = media_types.map(content).collect();
                operation["requestBody"] = json!({ "content": content, "required": true });
            }
        }
    }
    operation
}

fn capitalize(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Marks the lists that merge by key or as sets: kubectl computes its patches by these marks.
fn mark_merge_keys(definitions: &mut serde_json::Map<String, Value>) {
    for (name, definition) in definitions.iter_mut() {
        let type_name = name.rsplit('.').next().unwrap_or(name).to_owned();
        let Some(properties) = definition.get_mut("properties").and_then(Value::as_object_mut) else {
            continue;
        };
        for (field, property) in properties.iter_mut() {
            // The three fields that lead on; none of them is special itself.
            if matches!(field.as_str(), "metadata" | "spec" | "status") {
                continue;
            }
            let rule = merge_keys::Schema::Kind(&type_name).field(field).0;
            let (strategy, key) = match rule.strategy {
                MergeStrategy::Default => ("", ""),
                MergeStrategy::Replace => ("replace", ""),
                MergeStrategy::MergeBy(key) => ("merge", key),
                MergeStrategy::MergeSet => ("merge", ""),
            };
            let strategy = match (strategy, rule.retain_keys) {
                ("", true) => "retainKeys".to_owned(),
                (strategy, true) => format!("{strategy},retainKeys"),
                (strategy, false) => strategy.to_owned(),
            };
            if !strategy.is_empty() {
                property["x-kubernetes-patch-strategy"] = json!(strategy);
            }
            if !key.is_empty() {
                property["x-kubernetes-patch-merge-key"] = json!(key);
            }
        }
    }
}

/// JSON in a schema may be any JSON: its definition says nothing of types.
fn leave_json_open(definitions: &mut serde_json::Map<String, Value>) {
    for name in ["JSON", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray"] {
        let name = format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.{name}");
        if let Some(definition) = definitions.get_mut(&name) {
            *definition = json!({ "description": definition["description"] });
        }
    }
}

/// Marks the definitions that are kinds.
fn mark_kinds(catalog: &Catalog, definitions: &mut serde_json::Map<String, Value>) {
    for info in catalog.all() {
        let Some(schema) = crate::schema::schema_for(&info.gvk()) else { continue };
        if let Some(definition) = definitions.get_mut(schema.definition.as_ref()) {
            let mark = json!({ "group": info.group, "version": info.version, "kind": info.kind });
            definition["x-kubernetes-group-version-kind"] = json!([mark]);
        }
    }
}

#[cfg(test)]
mod tests;
