//! The updater: who owns what after a write, and what an apply makes of an object.
//!
//! A field has as many owners as set it to the value that it has. A write that changes it takes it from all others; an apply
//! asks first (that is the conflict), and only forces when told to. An applier that no longer names a field gives it up, and
//! if nobody else owns it the field goes: this is how a line that is deleted from a manifest is deleted from the object.
//!
//! Managers may speak different versions of a kind. What an entry owns is compared in the entry's version, so both objects are
//! converted to it; an entry of a version that is no longer served is dropped.
//!
//! # Invariants
//! 1. A field that an applier gave up stays as long as anybody else owns it.
//! 2. A field that nobody owns is never removed by an apply of somebody who never owned it.
//! 3. Without `force`, an apply that fails changes nothing.
//!
//! # In Kubernetes
//! `structured-merge-diff/merge/update.go`. Left out: entries written when a list had another type (`reconcile…SchemaChanges`).

use std::borrow::Cow;

use serde_json::Value;

use super::conflict::Conflict;
use super::field_set::FieldSet;
use super::field_types::ObjectType;
use super::managers::{Entry, Managers};
use super::merge::merge;
use super::walk::{Comparison, compare, fields_of, without};

/// The versions of a kind.
pub trait Versions {
    /// The version of the request.
    fn api_version(&self) -> String;
    /// The type of the kind in a version; `None` if it isn't served.
    fn object_type(&self, api_version: &str) -> Option<ObjectType>;
    /// The object in another version; `None` if it isn't served.
    fn convert(&self, object: &Value, api_version: &str) -> Option<Value>;
}

/// What a write is judged by.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// The versions of the kind.
    pub versions: &'a dyn Versions,
    /// Parts of the object that the request can't change.
    pub ignored: &'a [&'a [&'a str]],
}

impl Rules<'_> {
    fn own_type(&self) -> ObjectType {
        let own = self.versions.api_version();
        self.versions.object_type(&own).unwrap_or_else(ObjectType::deduced)
    }

    /// The object in a version, without a copy when it is the request's.
    fn converted<'v>(&self, object: &'v Value, api_version: &str) -> Option<Cow<'v, Value>> {
        match object["apiVersion"] == api_version {
            true => Some(Cow::Borrowed(object)),
            false => self.versions.convert(object, api_version).map(Cow::Owned),
        }
    }

    /// What a write changes of what can be changed.
    pub fn compare(&self, old: &Value, new: &Value) -> Comparison {
        self.compare_as(&self.own_type(), old, new)
    }

    fn compare_as(&self, object_type: &ObjectType, old: &Value, new: &Value) -> Comparison {
        let mut comparison = compare(object_type, old, new);
        comparison.ignore(&["metadata", "managedFields"]);
        self.ignored.iter().for_each(|path| comparison.ignore(path));
        comparison
    }

    // ANCHOR: take-from-others
    /// Takes what a write changed from everybody, or from everybody but one applier.
    ///
    /// # Errors
    /// The conflicts, unless the write is forced; then `managers` is as it was.
    pub fn take_from_others(
        &self,
        managers: &mut Managers,
        comparison: &Comparison,
        (old, new): (&Value, &Value),
        applier: Option<&Entry>,
        force: bool,
    ) -> Result<(), Vec<Conflict>> {
        let in_others = self.compare_in_others(managers, old, new);
        let own_version = self.versions.api_version();
        let is_applier = |entry: &Entry| applier.is_some_and(|applier| applier.is_same(entry));
        let in_version_of = |entry: &Entry| match entry.api_version == own_version {
            true => Some(comparison),
            false => in_others.iter().find(|(version, _)| *version == entry.api_version).map(|(_, c)| c),
        };
        if !force {
            let contested = |entry: &Entry| {
                let comparison = in_version_of(entry)?;
                let mut fields = entry.fields.intersection(&comparison.modified);
                fields.union(&entry.fields.intersection(&comparison.added));
                (!fields.is_empty()).then(|| Conflict { owner: entry.clone(), fields })
            };
            let conflicts: Vec<Conflict> =
                managers.0.iter().filter(|entry| !is_applier(entry)).filter_map(contested).collect();
            if !conflicts.is_empty() {
                return Err(conflicts);
            }
        }
        managers.0.retain_mut(|entry| {
            if is_applier(entry) {
                return true;
            }
            // A version that is no longer served has no fields that could be compared.
            let Some(comparison) = in_version_of(entry) else { return false };
            entry.fields.difference(&comparison.modified);
            entry.fields.difference(&comparison.added);
            entry.fields.difference(&comparison.removed);
            !entry.fields.is_empty()
        });
        Ok(())
    }
    // ANCHOR_END: take-from-others

    /// The comparison in every other version that a manager speaks.
    fn compare_in_others(&self, managers: &Managers, old: &Value, new: &Value) -> Vec<(String, Comparison)> {
        let own_version = self.versions.api_version();
        let mut found: Vec<(String, Comparison)> = Vec::new();
        for entry in managers.0.iter().filter(|entry| entry.api_version != own_version) {
            if !found.iter().any(|(version, _)| *version == entry.api_version)
                && let Some(comparison) = self.compare_in(&entry.api_version, old, new)
            {
                found.push((entry.api_version.clone(), comparison));
            }
        }
        found
    }

    fn compare_in(&self, api_version: &str, old: &Value, new: &Value) -> Option<Comparison> {
        let object_type = self.versions.object_type(api_version)?;
        let (old, new) = (self.converted(old, api_version)?, self.converted(new, api_version)?);
        Some(self.compare_as(&object_type, &old, &new))
    }

    // ANCHOR: apply
    /// Lays an applied object over the live one and takes away what its applier gave up. `applier` says who it is; its fields
    /// are set here. The object is `None` when nothing changes.
    ///
    /// # Errors
    /// The conflicts, unless forced.
    pub fn apply(
        &self,
        live: &Value,
        applied: &Value,
        managers: &mut Managers,
        mut applier: Entry,
        force: bool,
    ) -> Result<Option<Value>, Vec<Conflict>> {
        let own_type = self.own_type();
        let merged = merge(&own_type, live, applied);
        applier.fields = fields_of(&own_type, applied);
        self.ignored.iter().for_each(|path| applier.fields.remove_tree(path));
        let mut changed = managers.clone();
        let last = changed.same(&applier).cloned();
        changed.0.retain(|entry| !entry.is_same(&applier));
        changed.0.push(applier.clone());
        let new = match last {
            Some(last) => self.pruned(merged, &changed, &last),
            None => merged,
        };
        let comparison = self.compare_as(&own_type, live, &new);
        self.take_from_others(&mut changed, &comparison, (live, &new), Some(&applier), force)?;
        *managers = changed;
        Ok((new != *live).then_some(new))
    }
    // ANCHOR_END: apply

    /// The merged object without what the applier set last time and nobody owns now.
    fn pruned(&self, merged: Value, managers: &Managers, last: &Entry) -> Value {
        self.try_prune(&merged, managers, last).unwrap_or(merged)
    }

    fn try_prune(&self, merged: &Value, managers: &Managers, last: &Entry) -> Option<Value> {
        let mut given_up = last.fields.clone();
        managers
            .0
            .iter()
            .filter(|entry| entry.api_version == last.api_version)
            .for_each(|entry| given_up.difference(&entry.fields));
        if given_up.is_empty() {
            return None;
        }
        let version = last.api_version.as_str();
        let object_type = self.versions.object_type(version)?;
        let merged = self.converted(merged, version)?;
        let last_fields = last.fields.with_named_fields(&object_type);
        let mut pruned = without(&object_type, &merged, &last_fields);
        let mut versions: Vec<&str> = managers.0.iter().map(|entry| entry.api_version.as_str()).collect();
        versions.sort_by_key(|other| (*other != version, *other));
        versions.dedup();
        for version in versions {
            pruned = self.with_owned(&merged, pruned, version, managers);
        }
        let pruned = self.converted(&pruned, version)?.into_owned();
        let mut gone = fields_of(&object_type, &merged).with_named_fields(&object_type);
        gone.difference(&fields_of(&object_type, &pruned).with_named_fields(&object_type));
        let pruned = without(&object_type, &merged, &gone.intersection(&last_fields));
        self.converted(&pruned, &self.versions.api_version()).map(Cow::into_owned)
    }

    /// The pruned object with everything that the managers of a version own.
    fn with_owned(&self, merged: &Value, pruned: Value, version: &str, managers: &Managers) -> Value {
        let Some(object_type) = self.versions.object_type(version) else { return pruned };
        let (Some(merged), Some(left)) = (self.converted(merged, version), self.converted(&pruned, version))
        else {
            return pruned;
        };
        let mut owned = FieldSet::default();
        managers
            .0
            .iter()
            .filter(|entry| entry.api_version == version)
            .for_each(|entry| owned.union(&entry.fields));
        let mut gone = fields_of(&object_type, &merged).with_named_fields(&object_type);
        gone.difference(&fields_of(&object_type, &left).with_named_fields(&object_type));
        gone.difference(&owned.with_named_fields(&object_type));
        without(&object_type, &merged, &gone)
    }
}
