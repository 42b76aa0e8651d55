//! Strategies: what a kind does with an object before it is stored.
//!
//! *Step 3 of a pod's journey through the API server.* Before: [`crate::admission`] changed what policy wanted changed. After:
//! [`crate::validation`] has the last word, then the object is stored.
//!
//! Clients send whole objects, but not every field is theirs: the status belongs to controllers, the spec doesn't change through `/status`,
//! the generation counts changes of the spec. A strategy puts the fields that the request may not touch back to what they were.
//! What is the same for every kind (metadata, order of the steps) is in [`create`] and [`update`]; a kind states only its own
//! rules, as one [`Rules`] entry in [`table`]. A kind without an entry gets the generic rules, so it works from the first day.
//!
//! # Invariants
//! 1. A write to an object never changes its status, a write to `/status` never its spec.
//! 2. The generation grows by one exactly when something other than metadata and status changed.
//! 3. UID, creation time and deletion time are the server's.
//!
//! # In Kubernetes
//! `pkg/registry/*/*/strategy.go`, `apiserver/pkg/registry/rest/{create,update}.go`. Left out:
//! dropping of fields whose feature gate is off.

pub mod batch;
pub mod core;
pub mod create;
pub mod pod;
pub mod qos;
pub mod service;
pub mod table;
#[cfg(test)]
mod tests;
pub mod update;
pub mod warnings;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use stage1_kubectl::object::Object;
use stage1_kubectl::resource::GroupVersionKind;

use crate::custom_resources::CustomKind;
use crate::registry::ResourceInfo;
use crate::schema;
use crate::store::DeletionPolicy;
use crate::validation::names::{self, NameRule};
use crate::validation::{Errors, fields};

/// Who sends the request, as far as objects record it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requester {
    /// User name.
    pub name: String,
    /// The user's UID, often empty.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Further attributes (`authentication.kubernetes.io/credential-id`).
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What a strategy may depend on besides the object.
#[derive(Clone, Debug)]
pub struct Context {
    /// Who sends the request.
    pub user: Requester,
    /// The time of the request.
    pub now: Timestamp,
}

// ANCHOR: strategy
/// A kind's rules for writes.
pub trait Strategy: Send + Sync {
    /// The group and kind that it is for.
    fn group_kind(&self) -> (&str, &str);
    /// Objects live in namespaces.
    fn namespaced(&self) -> bool;
    /// Fills what the client left out.
    fn default(&self, object: &mut Object);
    /// Takes away what a client may not set on create.
    fn prepare_for_create(&self, object: &mut Object, context: &Context);
    /// Puts back what an update may not change.
    fn prepare_for_update(&self, new: &mut Object, old: &Object, context: &Context);
    /// Puts back what an update of `/status` may not change.
    fn prepare_for_status_update(&self, new: &mut Object, old: &Object, context: &Context);
    /// What is wrong with a new object.
    fn validate(&self, object: &Object) -> Errors;
    /// What is wrong with a change.
    fn validate_update(&self, new: &Object, old: &Object) -> Errors;
    /// What is wrong with a change of the status.
    fn validate_status_update(&self, new: &Object, old: &Object) -> Errors;
    /// What works but should be told: `Warning` headers.
    fn warnings(&self, new: &Object, old: Option<&Object>) -> Vec<String>;
    /// What deleting an object of the kind means.
    fn deletion_policy(&self) -> DeletionPolicy;
    /// PUT of an object that doesn't exist creates it.
    fn allow_create_on_update(&self) -> bool;
}
// ANCHOR_END: strategy

/// When the generation grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The kind has none.
    Absent,
    /// 1, for ever.
    Fixed,
    /// With changes outside of metadata and status.
    Spec,
    /// With those, and with changes of the annotations (Deployments).
    SpecAndAnnotations,
}

/// The rules of one kind as data and functions; what a kind doesn't say is [`Rules::new`]'s.
#[derive(Clone, Copy)]
pub struct Rules {
    /// API group.
    pub group: &'static str,
    /// Kind; empty in the generic rules.
    pub kind: &'static str,
    /// Lives in namespaces.
    pub namespaced: bool,
    /// Form of the name.
    pub name_rule: NameRule,
    /// When the generation grows.
    pub generation: Generation,
    /// Clients can't write the status except through `/status`.
    pub status: bool,
    /// A new object starts with an empty status (not Nodes: the kubelet registers its node with one).
    pub resets_status_on_create: bool,
    /// PUT creates.
    pub create_on_update: bool,
    /// Deletion.
    pub deletion: DeletionPolicy,
    /// The kind's part of preparing a new object; status and generation are done.
    pub create: fn(&mut Value, &Context),
    /// The kind's part of preparing an update; runs before the generation is counted.
    pub update: fn(&mut Value, &Value, &Context),
    /// The kind's part of preparing a status update.
    pub status_update: fn(&mut Value, &Value, &Context),
    /// Rules for a new object, metadata aside.
    pub validate: fn(&Value) -> Errors,
    /// Rules for a change, metadata aside.
    pub validate_update: fn(&Value, &Value) -> Errors,
    /// Rules for a change of the status, metadata aside.
    pub validate_status: fn(&Value, &Value) -> Errors,
    /// Warnings.
    pub warnings: fn(&Value, Option<&Value>) -> Vec<String>,
}

impl Rules {
    /// The generic rules: a DNS subdomain as name, a status if the schema has one, no demands.
    pub const fn new(group: &'static str, kind: &'static str) -> Self {
        Rules {
            group,
            kind,
            namespaced: true,
            name_rule: names::subdomain_name,
            generation: Generation::Absent,
            status: true,
            resets_status_on_create: true,
            create_on_update: false,
            deletion: DeletionPolicy { graceful: false, orphan_by_default: false },
            create: |_, _| {},
            update: |_, _, _| {},
            status_update: |_, _, _| {},
            validate: |_| Errors::new(),
            validate_update: |_, _| Errors::new(),
            validate_status: |_, _| Errors::new(),
            warnings: |_, _| Vec::new(),
        }
    }

    /// The same for objects outside of namespaces.
    pub const fn cluster(group: &'static str, kind: &'static str) -> Self {
        let mut rules = Rules::new(group, kind);
        rules.namespaced = false;
        rules
    }
}

/// The strategy of a served kind: a built-in one, or a custom kind itself.
pub enum Chosen {
    /// Written here.
    BuiltIn(&'static dyn Strategy),
    /// Defined by a user.
    Custom(Arc<CustomKind>),
}

impl std::ops::Deref for Chosen {
    type Target = dyn Strategy;

    fn deref(&self) -> &Self::Target {
        match self {
            Chosen::BuiltIn(strategy) => *strategy,
            Chosen::Custom(kind) => &**kind,
        }
    }
}

/// The strategy of a resource.
pub fn of(resource: &'static ResourceInfo) -> Chosen {
    match resource.custom_kind() {
        Some(kind) => Chosen::Custom(kind),
        None => Chosen::BuiltIn(for_kind(&resource.gvk(), resource.namespaced)),
    }
}

/// The strategy of a built-in kind; the generic one for kinds without rules of their own.
pub fn for_kind(gvk: &GroupVersionKind, namespaced: bool) -> &'static dyn Strategy {
    static GENERIC: Rules = Rules::new("", "");
    static GENERIC_CLUSTER: Rules = Rules::cluster("", "");
    let generic: &dyn Strategy = if namespaced { &GENERIC } else { &GENERIC_CLUSTER };
    table::TABLE
        .iter()
        .find(|rules| rules.group == gvk.group && rules.kind == gvk.kind)
        .map_or(generic, |rules| rules)
}

impl Strategy for Rules {
    fn group_kind(&self) -> (&str, &str) {
        (self.group, self.kind)
    }

    fn namespaced(&self) -> bool {
        self.namespaced
    }

    fn default(&self, object: &mut Object) {
        let gvk = object.gvk();
        crate::defaults::apply(object, &gvk);
    }

    fn prepare_for_create(&self, object: &mut Object, context: &Context) {
        if self.status && self.resets_status_on_create {
            reset_status(object);
        }
        match self.generation {
            Generation::Absent => {}
            _ => object.set_generation(1),
        }
        edit(object, |value| (self.create)(value, context));
    }

    fn prepare_for_update(&self, new: &mut Object, old: &Object, context: &Context) {
        if self.status {
            copy(new, old, "/status");
        }
        edit(new, |value| (self.update)(value, old.as_value(), context));
        let annotations = "/metadata/annotations";
        let changed = match self.generation {
            Generation::Absent | Generation::Fixed => false,
            Generation::Spec => content(new) != content(old),
            Generation::SpecAndAnnotations => {
                content(new) != content(old) || new.get(annotations) != old.get(annotations)
            }
        };
        if changed {
            new.set_generation(old.generation() + 1);
        }
    }

    fn prepare_for_status_update(&self, new: &mut Object, old: &Object, context: &Context) {
        let keep: Vec<String> =
            old.as_value().as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        for name in keep.iter().filter(|name| !matches!(name.as_str(), "status" | "metadata")) {
            copy(new, old, &format!("/{name}"));
        }
        edit(new, |value| (self.status_update)(value, old.as_value(), context));
    }

    fn validate(&self, object: &Object) -> Errors {
        let meta = fields::child(object.as_value(), "metadata");
        let mut errors =
            crate::validation::metadata::object_meta(meta, self.namespaced, self.name_rule, "metadata");
        errors.extend((self.validate)(object.as_value()));
        errors
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Errors {
        (self.validate_update)(new.as_value(), old.as_value())
    }

    fn validate_status_update(&self, new: &Object, old: &Object) -> Errors {
        (self.validate_status)(new.as_value(), old.as_value())
    }

    fn warnings(&self, new: &Object, old: Option<&Object>) -> Vec<String> {
        (self.warnings)(new.as_value(), old.map(Object::as_value))
    }

    fn deletion_policy(&self) -> DeletionPolicy {
        self.deletion
    }

    fn allow_create_on_update(&self) -> bool {
        self.create_on_update
    }
}

/// Everything but metadata and status.
fn content(object: &Object) -> impl PartialEq {
    let fields = object.as_value().as_object().into_iter().flatten();
    fields.filter(|(name, _)| !matches!(name.as_str(), "metadata" | "status")).collect::<Vec<_>>()
}

/// Gives a new object the status that Go's zero value would have.
fn reset_status(object: &mut Object) {
    let status =
        schema::schema_for(&object.gvk()).and_then(|schema| schema::zero::zero_field(schema, "status"));
    match status {
        Some(Some(zero)) => object.set("/status", zero),
        Some(None) => drop(object.remove("/status")),
        None => {}
    }
}

/// Puts a part back to what it was.
fn copy(new: &mut Object, old: &Object, pointer: &str) {
    match old.get(pointer) {
        Some(value) => new.set(pointer, value.clone()),
        None => drop(new.remove(pointer)),
    }
}

/// Runs a function over the JSON of an object.
pub fn edit(object: &mut Object, change: impl FnOnce(&mut Value)) {
    let mut value = std::mem::take(object).into_value();
    change(&mut value);
    *object = Object::from_value(value).expect("a change keeps a map a map");
}
