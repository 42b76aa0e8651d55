//! The strategy of custom kinds: what a write may change, and what is wrong with an object.
//!
//! *Step 4 of a custom object's journey.* Before: the body was pruned and defaulted. After: it is stored.
//!
//! All custom kinds have the same rules; what differs is in their definitions. With a `/status` subresource, writes of the object leave
//! the status alone and the other way round, and the generation counts changes of anything but metadata.
//!
//! # Invariants
//! 1. An update through `/status` changes nothing but the status.
//! 2. Rules in CEL are only asked about objects whose form is right.
//!
//! # In Kubernetes
//! `apiextensions-apiserver/pkg/registry/customresource/{strategy,status_strategy,validator}.go`.

use serde_json::Value;
use stage1_kubectl::object::Object;
use stage1_kubectl::status::{ErrorType, FieldError};

use super::openapi_validation::At;
use super::{CustomKind, defaulting, list_types, openapi_validation, rules, simple_path};
use crate::store::DeletionPolicy;
use crate::strategies::{Context, Strategy};
use crate::validation::fields::{child, text};
use crate::validation::{Errors, field, index, metadata, names};

impl Strategy for CustomKind {
    fn group_kind(&self) -> (&str, &str) {
        (self.info.group, self.info.kind)
    }

    fn namespaced(&self) -> bool {
        self.info.namespaced
    }

    fn default(&self, object: &mut Object) {
        if !self.has_defaults {
            return;
        }
        let mut value = std::mem::take(object).into_value();
        defaulting::apply(&mut value, &self.schema);
        *object = Object::from_value(value).expect("defaults keep a map a map");
    }

    fn prepare_for_create(&self, object: &mut Object, _: &Context) {
        if self.has_status {
            object.remove("/status");
        }
        object.set_generation(1);
    }

    fn prepare_for_update(&self, new: &mut Object, old: &Object, _: &Context) {
        if self.has_status {
            match old.get("/status") {
                Some(status) => new.set("/status", status.clone()),
                None => drop(new.remove("/status")),
            }
        }
        if content(new) != content(old) {
            new.set_generation(old.generation() + 1);
        }
    }

    fn prepare_for_status_update(&self, new: &mut Object, old: &Object, _: &Context) {
        let status = new.get("/status").cloned();
        let books = new.get("/metadata/managedFields").cloned();
        let version = new.resource_version().to_owned();
        *new = old.clone();
        match status {
            Some(status) => new.set("/status", status),
            None => drop(new.remove("/status")),
        }
        match books {
            Some(books) => new.set("/metadata/managedFields", books),
            None => drop(new.remove("/metadata/managedFields")),
        }
        new.set_resource_version(&version);
    }

    fn validate(&self, object: &Object) -> Errors {
        let mut errors = self.type_meta(object);
        if !errors.is_empty() {
            return errors;
        }
        let meta = child(object.as_value(), "metadata");
        errors.extend(metadata::object_meta(meta, self.info.namespaced, names::subdomain_name, "metadata"));
        self.content(&mut errors, object, None);
        errors
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Errors {
        let mut errors = self.type_meta(new);
        if errors.is_empty() {
            self.content(&mut errors, new, Some(old));
        }
        errors
    }

    fn validate_status_update(&self, new: &Object, old: &Object) -> Errors {
        let mut errors = self.type_meta(new);
        if !errors.is_empty() {
            return errors;
        }
        if let (Some(status), Some(schema)) = (new.get("/status"), self.schema.properties.get("status")) {
            let at = At { path: "", root: "status" };
            errors.extend(openapi_validation::validate(status, old.get("/status"), schema, &at));
        }
        self.scale_numbers(&mut errors, new, &["status"]);
        self.beyond_form(&mut errors, new, Some(old));
        errors
    }

    fn warnings(&self, _: &Object, _: Option<&Object>) -> Vec<String> {
        Vec::new()
    }

    fn deletion_policy(&self) -> DeletionPolicy {
        DeletionPolicy::default()
    }

    fn allow_create_on_update(&self) -> bool {
        false
    }
}

/// Everything but metadata.
fn content(object: &Object) -> impl PartialEq {
    object
        .as_value()
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name != "metadata")
        .collect::<Vec<_>>()
}

impl CustomKind {
    /// A body may say another kind than its path: nothing was converted on the way.
    fn type_meta(&self, object: &Object) -> Errors {
        let mut errors = Errors::new();
        if object.kind() != self.info.kind {
            let why = format!("must be {}", self.info.kind);
            errors.push(FieldError::invalid("kind", object.kind(), why));
        }
        let group_version = self.info.group_version();
        if object.api_version() != group_version {
            let why = format!("must be {group_version}");
            errors.push(FieldError::invalid("apiVersion", object.api_version(), why));
        }
        errors
    }

    fn content(&self, errors: &mut Errors, new: &Object, old: Option<&Object>) {
        let at = At { path: "", root: "" };
        let before = old.map(Object::as_value);
        errors.extend(openapi_validation::validate(new.as_value(), before, &self.schema, &at));
        self.scale_numbers(errors, new, &["spec", "status"]);
        self.beyond_form(errors, new, old);
    }

    /// What a schema can't say: embedded objects, sets and maps, and rules.
    fn beyond_form(&self, errors: &mut Errors, new: &Object, old: Option<&Object>) {
        let before = old.map(Object::as_value);
        embedded(errors, new.as_value(), &self.schema, "");
        errors.extend(list_types::validate(new.as_value(), before, &self.schema));
        if !self.schema.any_rules {
            return;
        }
        // Rules may count on what the schema promises.
        if errors.iter().any(blocks_rules) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            errors.push(FieldError::invalid("<nil>", "null", why));
            return;
        }
        errors.extend(rules::validate(new.as_value(), before, &self.schema));
    }

    /// A Scale's numbers are numbers of replicas.
    fn scale_numbers(&self, errors: &mut Errors, object: &Object, parts: &[&str]) {
        let Some(scale) = &self.scale else { return };
        for (part, path) in [("spec", &scale.spec_replicas), ("status", &scale.status_replicas)] {
            let found = simple_path::get(object.as_value(), path).and_then(Value::as_i64);
            let Some(replicas) = found.filter(|_| parts.contains(&part)) else { continue };
            let field = path.trim_start_matches('.');
            if replicas < 0 {
                errors.push(FieldError::invalid(field, replicas, "should be a non-negative integer"));
            } else if replicas > i64::from(i32::MAX) {
                let why = format!("should be less than or equal to {}", i32::MAX);
                errors.push(FieldError::invalid(field, replicas, why));
            }
        }
    }
}

fn blocks_rules(error: &FieldError) -> bool {
    use ErrorType::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
    matches!(error.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid)
}

/// Objects in the object have a kind and an apiVersion, and metadata like every object.
fn embedded(errors: &mut Errors, value: &Value, schema: &super::structural::Schema, path: &str) {
    match value {
        Value::Object(fields) => {
            for (name, found) in fields {
                let Some(below) = schema.field(name) else { continue };
                let path = field(path, name);
                if below.embedded_resource && found.is_object() {
                    embedded_object(errors, found, &path);
                }
                embedded(errors, found, below, &path);
            }
        }
        Value::Array(items) => {
            let Some(below) = schema.items.as_deref() else { return };
            for (at, item) in items.iter().enumerate() {
                let path = index(path, at);
                if below.embedded_resource && item.is_object() {
                    embedded_object(errors, item, &path);
                }
                embedded(errors, item, below, &path);
            }
        }
        _ => {}
    }
}

fn embedded_object(errors: &mut Errors, object: &Value, path: &str) {
    for name in ["apiVersion", "kind"] {
        if child(object, name).is_null() {
            errors.push(FieldError::required(field(path, name), "must not be empty"));
        } else if text(object, name).is_empty() {
            errors.push(FieldError::invalid(field(path, name), text(object, name), "must not be empty"));
        }
    }
    let kind = text(object, "kind");
    let messages = names::dns1035_label(&kind.to_lowercase());
    if !kind.is_empty() && !messages.is_empty() {
        let why = format!("may have mixed case, but should otherwise match: {}", messages.join(","));
        errors.push(FieldError::invalid(field(path, "kind"), kind, why));
    }
    let meta = child(object, "metadata");
    if meta.is_object() {
        let path = field(path, "metadata");
        errors.extend(metadata::labels(child(meta, "labels"), &field(&path, "labels")));
        errors.extend(metadata::annotations(child(meta, "annotations"), &field(&path, "annotations")));
        let name = text(meta, "name");
        crate::validation::invalid_each(
            errors,
            &field(&path, "name"),
            name,
            match name {
                "" => Vec::new(),
                name => names::subdomain_name(name, false),
            },
        );
    }
}
