//! Metadata: the rules that hold for every object.
//!
//! # In Kubernetes
//! `apimachinery/pkg/api/validation/objectmeta.go`, and the finalizer check of `pkg/apis/core/validation/validation.go`. The paths
//! of owner references have no index there, so ours have none. Left out: managedFields
//! (entries that can't be read are replaced before validation, as there).

use serde_json::Value;

use super::fields::{child, flag, has, int, list, text, texts};
use super::names::{self, NameRule};
use super::{Errors, FieldError, IMMUTABLE, field, go_syntax, immutable, index, invalid_each};

/// All annotations together, keys and values.
const TOTAL_ANNOTATION_SIZE_LIMIT_BYTES: usize = 256 * 1024;

/// Metadata of an object that is to be created.
pub fn object_meta(meta: &Value, namespaced: bool, rule: NameRule, path: &str) -> Errors {
    let mut errors = object_meta_of(meta, namespaced, rule, path);
    for (at, finalizer) in texts(meta, "finalizers").into_iter().enumerate() {
        errors.extend(kube_finalizer(finalizer, &index(&field(path, "finalizers"), at)));
    }
    errors
}

/// The same without the finalizer names that only Kubernetes' own kinds check.
pub fn object_meta_of(meta: &Value, namespaced: bool, rule: NameRule, path: &str) -> Errors {
    let mut errors = Errors::new();
    let generate_name = text(meta, "generateName");
    if !generate_name.is_empty() {
        invalid_each(&mut errors, &field(path, "generateName"), generate_name, rule(generate_name, true));
    }
    match text(meta, "name") {
        "" => errors.push(FieldError::required(field(path, "name"), "name or generateName is required")),
        name => invalid_each(&mut errors, &field(path, "name"), name, rule(name, false)),
    }
    match (namespaced, text(meta, "namespace")) {
        (true, "") => errors.push(FieldError::required(field(path, "namespace"), "")),
        (true, namespace) => {
            invalid_each(
                &mut errors,
                &field(path, "namespace"),
                namespace,
                names::label_name(namespace, false),
            );
        }
        (false, "") => {}
        (false, _) => {
            errors.push(FieldError::forbidden(field(path, "namespace"), "not allowed on this type"))
        }
    }
    if int(meta, "generation") < 0 {
        errors.push(FieldError::invalid(field(path, "generation"), int(meta, "generation"), NON_NEGATIVE));
    }
    errors.extend(common(meta, path));
    for finalizer in texts(meta, "finalizers") {
        invalid_each(&mut errors, &field(path, "finalizers"), finalizer, names::qualified_name(finalizer));
    }
    errors
}

/// `must be greater than or equal to 0`.
pub const NON_NEGATIVE: &str = "must be greater than or equal to 0";

fn common(meta: &Value, path: &str) -> Errors {
    let mut errors = labels(child(meta, "labels"), &field(path, "labels"));
    errors.extend(annotations(child(meta, "annotations"), &field(path, "annotations")));
    errors.extend(owner_references(list(meta, "ownerReferences"), &field(path, "ownerReferences")));
    errors
}

/// Labels. The path of a bad key or value is that of the whole map.
pub fn labels(labels: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    for (key, value) in labels.as_object().into_iter().flatten() {
        invalid_each(&mut errors, path, key, names::qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        invalid_each(&mut errors, path, value, names::label_value(value));
    }
    errors
}

/// Annotations: keys like labels (in any case), values of any form, 256 KiB in all.
pub fn annotations(annotations: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    let mut total = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        invalid_each(&mut errors, path, key, names::qualified_name(&key.to_lowercase()));
        total += key.len() + value.as_str().unwrap_or_default().len();
    }
    if total > TOTAL_ANNOTATION_SIZE_LIMIT_BYTES {
        errors.push(FieldError::too_long(path, TOTAL_ANNOTATION_SIZE_LIMIT_BYTES));
    }
    errors
}

fn owner_references(references: &[Value], path: &str) -> Errors {
    let mut errors = Errors::new();
    let mut controller: Option<&str> = None;
    for reference in references {
        errors.extend(owner_reference(reference, path));
        if flag(reference, "controller") {
            let name = text(reference, "name");
            if let Some(first) = controller {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                );
                let shown: Vec<String> = references.iter().map(go_syntax::owner_reference).collect();
                let value = go_syntax::raw(format!("[]v1.OwnerReference{{{}}}", shown.join(", ")));
                errors.push(FieldError::invalid(path, value, detail));
            } else {
                controller = Some(name);
            }
        }
    }
    errors
}

fn owner_reference(reference: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    let (api_version, kind) = (text(reference, "apiVersion"), text(reference, "kind"));
    if api_version.is_empty() {
        errors.push(FieldError::invalid(field(path, "apiVersion"), api_version, "version must not be empty"));
    }
    for name in ["kind", "name", "uid"] {
        if text(reference, name).is_empty() {
            errors.push(FieldError::invalid(field(path, name), "", format!("{name} must not be empty")));
        }
    }
    if api_version == "v1" && kind == "Event" {
        let value = go_syntax::raw(go_syntax::owner_reference(reference));
        errors.push(FieldError::invalid(path, value, "/v1, Kind=Event is disallowed from being an owner"));
    }
    errors
}

fn kube_finalizer(finalizer: &str, path: &str) -> Option<FieldError> {
    let standard = matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion");
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    (!finalizer.contains('/') && !standard).then(|| FieldError::invalid(path, finalizer, detail))
}

/// A namespace's `spec.finalizers`.
pub fn finalizer_name(finalizer: &str, path: &str) -> Errors {
    let mut errors = Errors::new();
    invalid_each(&mut errors, path, finalizer, names::qualified_name(finalizer));
    errors.extend(kube_finalizer(finalizer, path));
    errors
}

/// Metadata of an update.
pub fn object_meta_update(new: &Value, old: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    if has(old, "deletionTimestamp") {
        let known = texts(old, "finalizers");
        let added: Vec<&str> = texts(new, "finalizers").into_iter().filter(|f| !known.contains(f)).collect();
        if !added.is_empty() {
            let shown = go_syntax::strings("[]string", &added);
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers {shown}"
            );
            errors.push(FieldError::forbidden(field(path, "finalizers"), detail));
        }
    }
    if text(new, "resourceVersion").is_empty() {
        errors.push(FieldError::invalid(
            field(path, "resourceVersion"),
            "",
            "must be specified for an update",
        ));
    }
    let generation = int(new, "generation");
    if generation < int(old, "generation") {
        errors.push(FieldError::invalid(field(path, "generation"), generation, "must not be decremented"));
    }
    for name in ["name", "namespace", "uid"] {
        if text(new, name) != text(old, name) {
            errors.push(FieldError::invalid(field(path, name), text(new, name), IMMUTABLE));
        }
    }
    for name in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        immutable(&mut errors, child(new, name), child(old, name), &field(path, name));
    }
    errors.extend(common(new, path));
    errors
}
