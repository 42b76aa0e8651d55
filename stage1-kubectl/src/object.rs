//! An object: any API object as JSON, whatever its kind.
//!
//! *Step 1 of a pod's journey.* Before: [`crate::manifest`] read the YAML. After: [`crate::client`] sends it.
//!
//! kubectl handles kinds that it has never heard of, so it must not squeeze objects through Rust structs: a struct
//! drops every field that it doesn't know. An [`Object`] is the JSON map itself with accessors for the parts that
//! all objects share (`apiVersion`, `kind`, `metadata`). The API server stores objects in this form too.
//!
//! Code that wants to *decide* something decodes a typed view with [`Object::decode`]; code that wants to *change*
//! something edits the map, so that what it doesn't understand survives.
//!
//! # Invariants
//! 1. The value is always a JSON map.
//! 2. No accessor changes a field that it doesn't name.
//!
//! # In Kubernetes
//! `apimachinery/pkg/apis/meta/v1/unstructured/unstructured.go`. Left out: typed accessors for every metadata field.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::resource::GroupVersionKind;

/// Why a value is not an object, or not the type that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The JSON value is not a map.
    #[error("an object must be a JSON map, not {0}")]
    NotAMap(&'static str),
    /// The JSON does not fit the wanted type.
    #[error("decode {what}")]
    Decode {
        /// Kind and name of the object.
        what: String,
        /// The decoder's complaint.
        #[source]
        source: serde_json::Error,
    },
}

/// How deep lists and maps of an object may be nested. JSON is read down to 127, and a list, and the books about an object's
/// fields, are some levels deeper than the object.
pub const MAX_DEPTH: usize = 100;

/// Whether lists and maps are nested deeper than that.
pub fn deeper_than(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|item| deeper_than(item, levels - 1)),
        Value::Object(fields) => levels == 0 || fields.values().any(|field| deeper_than(field, levels - 1)),
        _ => false,
    }
}

/// Any API object, as JSON; unknown fields survive.
// ANCHOR: object
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct Object(Value);
// ANCHOR_END: object

impl TryFrom<Value> for Object {
    type Error = ObjectError;
    fn try_from(value: Value) -> Result<Self, ObjectError> {
        Object::from_value(value)
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Value {
        object.0
    }
}

impl Default for Object {
    fn default() -> Self {
        Object(Value::Object(Map::new()))
    }
}

impl Object {
    /// An object with `apiVersion`, `kind` and an empty `metadata`.
    pub fn new(gvk: &GroupVersionKind) -> Self {
        let mut object = Object::default();
        object.set_gvk(gvk);
        object.set("/metadata", Value::Object(Map::new()));
        object
    }

    /// Wraps a JSON map.
    ///
    /// # Errors
    /// [`ObjectError::NotAMap`] when the value is anything else.
    pub fn from_value(value: Value) -> Result<Self, ObjectError> {
        match value {
            Value::Object(_) => Ok(Object(value)),
            Value::Null => Err(ObjectError::NotAMap("null")),
            Value::Bool(_) => Err(ObjectError::NotAMap("a boolean")),
            Value::Number(_) => Err(ObjectError::NotAMap("a number")),
            Value::String(_) => Err(ObjectError::NotAMap("a string")),
            Value::Array(_) => Err(ObjectError::NotAMap("a list")),
        }
    }

    /// The JSON map, by value.
    pub fn into_value(self) -> Value {
        self.0
    }

    /// The JSON map.
    pub fn as_value(&self) -> &Value {
        &self.0
    }

    /// The JSON map, for changes. The caller keeps it a map (invariant 1): use [`Object::set`] where that is enough.
    pub fn as_map_mut(&mut self) -> &mut Map<String, Value> {
        self.0.as_object_mut().expect("invariant 1: always a map")
    }

    /// A typed view of the object. Fields unknown to `T` are missing in it.
    ///
    /// # Errors
    /// [`ObjectError::Decode`] when a known field has the wrong type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, ObjectError> {
        T::deserialize(&self.0).map_err(|source| ObjectError::Decode {
            what: format!("{} {}", self.kind(), self.name()),
            source,
        })
    }

    /// The JSON form of a typed object.
    ///
    /// # Errors
    /// When `T` doesn't serialize to a map.
    pub fn encode<T: Serialize>(typed: &T) -> Result<Self, ObjectError> {
        let value = serde_json::to_value(typed)
            .map_err(|source| ObjectError::Decode { what: std::any::type_name::<T>().to_string(), source })?;
        Object::from_value(value)
    }

    /// The value at a JSON pointer (`/spec/replicas`), if there is one.
    pub fn get(&self, pointer: &str) -> Option<&Value> {
        self.0.pointer(pointer)
    }

    /// The text at a JSON pointer, if it is a string.
    pub fn get_str(&self, pointer: &str) -> Option<&str> {
        self.get(pointer).and_then(Value::as_str)
    }

    /// The integer at a JSON pointer, if it is one.
    pub fn get_i64(&self, pointer: &str) -> Option<i64> {
        self.get(pointer).and_then(Value::as_i64)
    }

    /// Sets the value at a JSON pointer. Missing maps on the way are made; a path through a list takes existing indices only.
    pub fn set(&mut self, pointer: &str, value: impl Into<Value>) {
        let mut at = &mut self.0;
        for token in pointer.split('/').skip(1) {
            let token = unescape(token);
            at = match at {
                Value::Array(items) => match token.parse::<usize>().ok().and_then(|i| items.get_mut(i)) {
                    Some(item) => item,
                    None => return,
                },
                other => {
                    if !other.is_object() {
                        *other = Value::Object(Map::new());
                    }
                    let map = other.as_object_mut().expect("made a map just above");
                    map.entry(token).or_insert(Value::Null)
                }
            };
        }
        *at = value.into();
    }

    /// Takes the value at a JSON pointer out; `None` when nothing was there.
    pub fn remove(&mut self, pointer: &str) -> Option<Value> {
        let (parent, last) = pointer.rsplit_once('/')?;
        match self.0.pointer_mut(parent)? {
            Value::Object(map) => map.remove(&unescape(last)),
            Value::Array(items) => {
                let index = last.parse::<usize>().ok().filter(|i| *i < items.len())?;
                Some(items.remove(index))
            }
            _ => None,
        }
    }
}

/// `~1` is `/` and `~0` is `~` in a JSON pointer.
fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// The parts that every object has.
impl Object {
    /// `apiVersion`, empty when missing.
    pub fn api_version(&self) -> &str {
        self.get_str("/apiVersion").unwrap_or_default()
    }

    /// `kind`, empty when missing.
    pub fn kind(&self) -> &str {
        self.get_str("/kind").unwrap_or_default()
    }

    /// Group, version and kind.
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::from_api_version(self.api_version(), self.kind())
    }

    /// `metadata.name`, empty when missing.
    pub fn name(&self) -> &str {
        self.get_str("/metadata/name").unwrap_or_default()
    }

    /// `metadata.generateName`, empty when missing.
    pub fn generate_name(&self) -> &str {
        self.get_str("/metadata/generateName").unwrap_or_default()
    }

    /// `metadata.namespace`; `None` when missing or empty.
    pub fn namespace(&self) -> Option<&str> {
        self.get_str("/metadata/namespace").filter(|ns| !ns.is_empty())
    }

    /// `metadata.uid`, empty when missing.
    pub fn uid(&self) -> &str {
        self.get_str("/metadata/uid").unwrap_or_default()
    }

    /// `metadata.resourceVersion`, empty when missing.
    pub fn resource_version(&self) -> &str {
        self.get_str("/metadata/resourceVersion").unwrap_or_default()
    }

    /// `metadata.generation`, 0 when missing.
    pub fn generation(&self) -> i64 {
        self.get_i64("/metadata/generation").unwrap_or_default()
    }

    /// `metadata.creationTimestamp`.
    pub fn creation_timestamp(&self) -> Option<jiff::Timestamp> {
        self.get_str("/metadata/creationTimestamp")?.parse().ok()
    }

    /// `metadata.deletionTimestamp`; present means: the object is going away.
    pub fn deletion_timestamp(&self) -> Option<jiff::Timestamp> {
        self.get_str("/metadata/deletionTimestamp")?.parse().ok()
    }

    /// `metadata.labels`; entries that are not strings are left out.
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.string_map("/metadata/labels")
    }

    /// One label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.get("/metadata/labels")?.get(key)?.as_str()
    }

    /// `metadata.annotations`; entries that are not strings are left out.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        self.string_map("/metadata/annotations")
    }

    /// One annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.get("/metadata/annotations")?.get(key)?.as_str()
    }

    /// A map of strings at a JSON pointer, empty when missing.
    pub fn string_map(&self, pointer: &str) -> BTreeMap<String, String> {
        let entries = self.get(pointer).and_then(Value::as_object).into_iter().flatten();
        entries.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_string()))).collect()
    }

    /// `metadata.finalizers`.
    pub fn finalizers(&self) -> Vec<&str> {
        let list = self.get("/metadata/finalizers").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// `metadata.ownerReferences`; entries that don't decode are left out.
    pub fn owner_references(&self) -> Vec<OwnerReference> {
        let list = self.get("/metadata/ownerReferences").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(|r| OwnerReference::deserialize(r).ok()).collect()
    }

    /// Sets `apiVersion` and `kind`.
    pub fn set_gvk(&mut self, gvk: &GroupVersionKind) {
        self.set("/apiVersion", gvk.api_version());
        self.set("/kind", gvk.kind.clone());
    }

    /// Sets `metadata.name`.
    pub fn set_name(&mut self, name: &str) {
        self.set("/metadata/name", name);
    }

    /// Sets `metadata.namespace`, or removes it.
    pub fn set_namespace(&mut self, namespace: Option<&str>) {
        self.set_or_remove("/metadata/namespace", namespace);
    }

    /// Sets `metadata.uid`.
    pub fn set_uid(&mut self, uid: &str) {
        self.set("/metadata/uid", uid);
    }

    /// Sets `metadata.resourceVersion`, or removes it when empty.
    pub fn set_resource_version(&mut self, version: &str) {
        self.set_or_remove("/metadata/resourceVersion", Some(version).filter(|v| !v.is_empty()));
    }

    /// Sets `metadata.generation`.
    pub fn set_generation(&mut self, generation: i64) {
        self.set("/metadata/generation", generation);
    }

    /// Sets one label.
    pub fn set_label(&mut self, key: &str, value: &str) {
        self.set(&format!("/metadata/labels/{}", escape(key)), value);
    }

    /// Sets one annotation.
    pub fn set_annotation(&mut self, key: &str, value: &str) {
        self.set(&format!("/metadata/annotations/{}", escape(key)), value);
    }

    /// Sets `metadata.finalizers`, or removes the field when the list is empty.
    pub fn set_finalizers(&mut self, finalizers: &[&str]) {
        if finalizers.is_empty() {
            self.remove("/metadata/finalizers");
        } else {
            self.set("/metadata/finalizers", finalizers.to_vec());
        }
    }

    /// Sets `metadata.ownerReferences`, or removes the field when the list is empty.
    pub fn set_owner_references(&mut self, owners: &[OwnerReference]) {
        if owners.is_empty() {
            self.remove("/metadata/ownerReferences");
        } else {
            let owners = serde_json::to_value(owners).expect("owner references are plain data");
            self.set("/metadata/ownerReferences", owners);
        }
    }

    fn set_or_remove(&mut self, pointer: &str, value: Option<&str>) {
        match value {
            Some(value) => self.set(pointer, value),
            None => drop(self.remove(pointer)),
        }
    }
}

/// The form of a map key inside a JSON pointer: `/` is `~1` and `~` is `~0`.
pub fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests;
