//! Defaulting: absent fields get the value that the schema names.
//!
//! *Step 3 of a custom object's journey.* Before: [`super::prune`] dropped what isn't known. After: admission sees a whole object.
//!
//! Defaults fill an object that is there; they never make one. `spec.replicas` has a default only where `spec` is. An explicit `null`
//! counts as absent unless the field is nullable: without a default it is dropped when a body is decoded.
//!
//! Defaults are applied again when an object is read, because a definition may have got them after the object was stored.
//!
//! # Invariants
//! 1. A value that is there is never changed, except a `null` that isn't allowed.
//! 2. Defaulting twice is defaulting once.
//!
//! # In Kubernetes
//! `apiextensions-apiserver/pkg/apiserver/schema/defaulting/{algorithm,prune}.go`.

use serde_json::Value;

use super::structural::Schema;

// ANCHOR: apply-defaults
/// Fills what is absent.
pub fn apply(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &schema.properties {
                if let Some(default) = &property.default
                    && fields.get(name).is_none_or(|found| is_absent(found, property))
                {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, found) in fields.iter_mut() {
                let declared = schema.properties.get(name);
                let Some(below) = declared.or_else(|| schema.additional.schema()) else { continue };
                if declared.is_none() && is_absent(found, below) {
                    *found = below.default.clone().unwrap_or_default();
                }
                apply(found, below);
            }
        }
        Value::Array(items) => {
            let Some(below) = schema.items.as_deref() else { return };
            for item in items {
                if is_absent(item, below) {
                    *item = below.default.clone().unwrap_or_default();
                }
                apply(item, below);
            }
        }
        _ => {}
    }
}
// ANCHOR_END: apply-defaults

/// A null where none is allowed.
fn is_absent(value: &Value, schema: &Schema) -> bool {
    value.is_null() && !schema.nullable
}

/// Whether [`apply`] would change something: what is read often is looked at before it is copied.
pub fn would_change(value: &Value, schema: &Schema) -> bool {
    match value {
        Value::Object(fields) => {
            schema.properties.iter().any(|(name, property)| {
                property.default.is_some() && fields.get(name).is_none_or(|found| is_absent(found, property))
            }) || fields
                .iter()
                .any(|(name, found)| schema.field(name).is_some_and(|below| would_change(found, below)))
        }
        Value::Array(items) => {
            schema.items.as_deref().is_some_and(|below| items.iter().any(|item| would_change(item, below)))
        }
        _ => false,
    }
}

/// Drops nulls that are not allowed and have no default.
pub fn drop_nulls(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(fields) => fields.retain(|name, found| {
            let Some(below) = schema.field(name) else { return true };
            if is_absent(found, below) && below.default.is_none() {
                return false;
            }
            drop_nulls(found, below);
            true
        }),
        Value::Array(items) => {
            if let Some(below) = schema.items.as_deref() {
                items.iter_mut().for_each(|item| drop_nulls(item, below));
            }
        }
        _ => {}
    }
}
