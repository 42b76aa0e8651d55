//! Validation: is this object allowed to exist?
//!
//! *Step 4 of a pod's journey through the API server.* Before: [`crate::strategies`] prepared the object. After: it is stored.
//!
//! Every rule is a function from a value and its path to field errors, and nothing stops at the first mistake: one answer names all of
//! them, in Kubernetes' order and words, because both are what people paste into a search box. Rules for parts that many kinds share
//! (metadata, label selectors, pod templates) are shared; a kind's own file reads like the list of what it demands.
//!
//! The subtle thing is the value in a message. Kubernetes prints strings and numbers plainly, and everything else as Go source
//! (`v1.LabelSelector{MatchLabels:…}`); [`go_syntax`] prints those few types that appear in messages.
//!
//! # Invariants
//! 1. Validation never changes an object, and asks nobody: it is a function of the object (and its predecessor) alone.
//! 2. A valid object stays valid when it is written again unchanged.
//!
//! # In Kubernetes
//! `pkg/apis/*/validation/validation.go`. Left out: ratcheting for alpha fields, declarative validation.

pub mod admission;
pub mod apps;
pub mod batch;
pub mod cron;
pub mod custom_resource_definition;
pub mod discovery;
pub mod extension;
pub mod flow_control;
pub mod fields;
pub mod go_regex;
pub mod go_syntax;
pub mod metadata;
pub mod names;
pub mod net;
pub mod node;
pub mod pod;
pub mod policy;
pub mod quota;
pub mod rbac;
pub mod secret;
pub mod selector;
pub mod service;
pub mod storage;
pub mod values;

pub use stage1_kubectl::status::FieldError;

/// What is wrong with an object; empty if nothing is.
pub type Errors = Vec<FieldError>;

/// `parent.name`, or `name` at the root.
pub fn field(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

/// `parent[3]`.
pub fn index(parent: &str, at: usize) -> String {
    format!("{parent}[{at}]")
}

/// `parent[key]`.
pub fn key(parent: &str, key: &str) -> String {
    format!("{parent}[{key}]")
}

/// One `Invalid value` for each message.
pub fn invalid_each(errors: &mut Errors, path: &str, value: &str, messages: Vec<String>) {
    errors.extend(messages.into_iter().map(|message| FieldError::invalid(path, value, message)));
}

/// A field that may not change: `field is immutable`.
pub fn immutable(errors: &mut Errors, new: &serde_json::Value, old: &serde_json::Value, path: &str) {
    if new != old {
        errors.push(FieldError::invalid(path, new.clone(), IMMUTABLE));
    }
}

/// The detail of an immutable field.
pub const IMMUTABLE: &str = "field is immutable";
