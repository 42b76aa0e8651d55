//! Managed fields: who set which field, so that several can share an object.
//!
//! *Step 2 of a pod's journey.* Before: [`crate::handlers`] knows what the object was and what it shall be. After: the object
//! says whose each field is, and [`crate::admission`] goes on with it.
//!
//! An autoscaler sets `replicas`, a person the image, a controller the status. If each writes whole objects, each must take
//! care of all that the others wrote. With *server-side apply* each sends only what it wants, and the server keeps the
//! books: an entry a manager in `metadata.managedFields`, with the fields that it set. A second applier that wants
//! another value gets a conflict instead of a quiet fight, and a field that its only owner no longer names is removed.
//!
//! Every other write is booked too, or the books would lie: what it changed becomes its writer's. That is a comparison of
//! the old object with the new one, along the types of the kind ([`field_types`]), and it is done before admission: what a
//! plugin adds is nobody's.
//!
//! # Invariants
//! 1. A write that changes nothing leaves the books as they are, times included.
//! 2. The books are about the fields that a request can change: not `status` on the object itself, not `spec` on `/status`,
//!    nor names, versions and times that the server sets.
//! 3. An object whose books were emptied (`managedFields: [{}]`) has none until it is applied again.
//!
//! # In Kubernetes
//! `apimachinery/pkg/util/managedfields/internal/*.go`, `sigs.k8s.io/structured-merge-diff`. Left out:
//! a check of the books after admission webhooks.

pub mod conflict;
pub mod field_set;
pub mod field_types;
pub mod last_applied;
pub mod managers;
pub mod merge;
pub mod path_element;
#[cfg(test)]
mod tests;
pub mod updater;
pub mod validate;
pub mod walk;

use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Value, json};
use stage1_kubectl::resource::GroupVersionKind;
use stage1_kubectl::status::Status;

use field_set::FieldSet;
use managers::{Entry, Managers, Operation, Source};
use updater::{Rules, Versions};

/// The owner of what an object had before it was first applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The manager of a client that says nothing of itself.
const UNKNOWN_MANAGER: &str = "unknown";
/// Longest manager that is made of a user agent.
const MANAGER_MAX_LENGTH: usize = 128;

/// What the server sets in every object; nobody owns it.
static STRIPPED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::from_fields_v1(&json!({
        "f:apiVersion": {}, "f:kind": {},
        "f:metadata": {
            ".": {}, "f:name": {}, "f:namespace": {}, "f:creationTimestamp": {}, "f:selfLink": {}, "f:uid": {},
            "f:clusterName": {}, "f:generation": {}, "f:managedFields": {}, "f:resourceVersion": {},
        },
    }))
});

/// The manager of a client that names none: the first part of its user agent.
pub fn manager_of_user_agent(user_agent: &str) -> String {
    let mut manager = String::new();
    for letter in user_agent.split('/').next().unwrap_or_default().chars().filter(|c| !c.is_control()) {
        if manager.len() + letter.len_utf8() > MANAGER_MAX_LENGTH {
            break;
        }
        manager.push(letter);
    }
    manager
}

/// Who writes, through what, and when.
#[derive(Clone, Copy)]
pub struct Writer<'a> {
    /// The manager's name.
    pub manager: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The time of the request.
    pub now: Timestamp,
    /// The versions of the kind.
    pub versions: &'a dyn Versions,
    /// Parts of the object that the request can't change.
    pub ignored: &'a [&'a [&'a str]],
}

impl Writer<'_> {
    fn rules(&self) -> Rules<'_> {
        Rules { versions: self.versions, ignored: self.ignored }
    }

    fn entry(&self, manager: &str, operation: Operation) -> Entry {
        Entry {
            manager: if manager.is_empty() { UNKNOWN_MANAGER } else { manager }.to_owned(),
            operation,
            api_version: self.versions.api_version(),
            time: Some(self.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
            subresource: self.subresource.to_owned(),
            fields: FieldSet::default(),
        }
    }

    // ANCHOR: record-update
    /// Books a write that isn't an apply: `new` gets its managed fields. A new object's `old` is its kind's empty object.
    pub fn record_update(&self, old: &Value, new: &mut Value) {
        // Through a subresource nobody writes the books themselves.
        let sent = take_books(new).filter(|_| self.subresource.is_empty());
        if sent.as_ref().is_some_and(is_reset) {
            return;
        }
        let sent = sent.filter(|sent| Some(sent) != books(old));
        let comparison = self.rules().compare(old, new);
        if comparison.is_empty() && sent.is_none() {
            // The common case of a write that changes nothing, or nothing that is booked.
            return put_books(new, books(old).cloned());
        }
        let sent = sent.and_then(|sent| Managers::read(Some(sent), Source::Request));
        let managers = match sent.filter(|sent| !sent.0.is_empty()) {
            Some(sent) => sent,
            None => Managers::read(books(old).cloned(), Source::Store).unwrap_or_default(),
        };
        let is_create = old.pointer("/metadata/uid").is_none();
        if is_create || !managers.0.is_empty() {
            put_books(new, self.booked(managers, comparison, (old, new), self.manager).write());
        }
    }
    // ANCHOR_END: record-update

    /// The books after a change by an updater.
    fn booked(
        &self,
        mut managers: Managers,
        comparison: walk::Comparison,
        objects: (&Value, &Value),
        manager: &str,
    ) -> Managers {
        let forced = self.rules().take_from_others(&mut managers, &comparison, objects, None, true);
        forced.expect("a forced change meets no conflicts");
        let mut entry = self.entry(manager, Operation::Update);
        entry.fields = comparison.added;
        entry.fields.union(&comparison.modified);
        entry.fields.difference(&STRIPPED);
        if !entry.fields.is_empty() {
            managers.add(entry);
        }
        managers.cap();
        managers
    }

    /// Applies an object to the live one. `empty` is the kind's empty object, and the live one when there is none yet.
    ///
    /// # Errors
    /// 400 for another kind, 409 with the conflicts, 500 for what doesn't fit the schema (as Kubernetes has it).
    pub fn apply(&self, live: &Value, empty: &Value, applied: &Value, force: bool) -> Result<Value, Status> {
        self.check_applied(applied, empty)?;
        let api_version = self.versions.api_version();
        let object_type =
            self.versions.object_type(&api_version).unwrap_or_else(field_types::ObjectType::deduced);
        let mut live = live.clone();
        let mut managers = Managers::read(take_books(&mut live), Source::Store).unwrap_or_default();
        if managers.0.is_empty() {
            let comparison = self.rules().compare(empty, &live);
            managers = self.booked(managers, comparison, (empty, &live), BEFORE_FIRST_APPLY);
        }
        if let Some(misfit) = validate::validate(&object_type, applied) {
            let text = format!("failed to create typed patch object ({}): {misfit}", shown_object(applied));
            return Err(Status::failure(500, "", text));
        }
        let rules = self.rules();
        let applier = self.entry(self.manager, Operation::Apply);
        let mut try_apply = |force| {
            let mut applier = applier.clone();
            // A first apply that finds everything as it wants it has no time, as there.
            applier.time = managers.same(&applier).and_then(|known| known.time.clone());
            rules.apply(&live, applied, &mut managers, applier, force)
        };
        let mut outcome = try_apply(force);
        if let (Err(conflicts), true) = (&outcome, self.manager == last_applied::KUBECTL) {
            let rest = last_applied::remaining(conflicts.clone(), &live, &api_version, &object_type);
            outcome = if rest.is_empty() { try_apply(true) } else { Err(rest) };
        }
        let changed = outcome.map_err(conflict::refusal)?;
        if let Some(own) = managers.same(&applier) {
            own.fields.difference(&STRIPPED);
            if changed.is_some() {
                own.time = applier.time;
            }
        }
        let mut object = changed.unwrap_or(live);
        if self.manager == last_applied::KUBECTL {
            last_applied::renew(&mut object, applied);
        }
        put_books(&mut object, managers.write());
        Ok(object)
    }

    fn check_applied(&self, applied: &Value, empty: &Value) -> Result<(), Status> {
        let text = |name: &str| applied[name].as_str().unwrap_or_default();
        if text("apiVersion") != self.versions.api_version() || applied["kind"] != empty["kind"] {
            let gvk = GroupVersionKind::from_api_version(text("apiVersion"), text("kind"));
            return Err(Status::bad_request(format!("invalid object type: {}", shown_kind(&gvk))));
        }
        match books(applied) {
            None | Some(Value::Null) => Ok(()),
            Some(_) => Err(Status::bad_request("metadata.managedFields must be nil")),
        }
    }
}

/// A kind as messages show it: `apps/v1, Kind=Deployment`.
fn shown_kind(gvk: &GroupVersionKind) -> String {
    format!("{}/{}, Kind={}", gvk.group, gvk.version, gvk.kind)
}

/// An object as messages show it: `default/web; apps/v1, Kind=Deployment`.
pub fn shown_object(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let gvk = GroupVersionKind::from_api_version(text("/apiVersion"), text("/kind"));
    format!("{}/{}; {}", text("/metadata/namespace"), text("/metadata/name"), shown_kind(&gvk))
}

/// An object's managed fields.
fn books(object: &Value) -> Option<&Value> {
    object.pointer("/metadata/managedFields")
}

fn take_books(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

fn put_books(object: &mut Value, written: Option<Value>) {
    if let (Some(written), Some(metadata)) =
        (written, object.get_mut("metadata").and_then(Value::as_object_mut))
    {
        metadata.insert("managedFields".into(), written);
    }
}

/// `[]` and `[{}]` empty the books.
fn is_reset(sent: &Value) -> bool {
    match sent.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([one]) => one.as_object().is_some_and(|entry| {
            entry.iter().all(|(name, value)| value.is_null() || (name == "operation" && value == ""))
        }),
        _ => false,
    }
}

/// Puts the old books back if the new ones differ from them in nothing but times, and the objects in nothing else.
pub fn keep_times(old: &Value, new: &mut Value) {
    let timeless = |value: Option<&Value>| -> Option<Managers> {
        let mut managers = Managers::read(value.cloned(), Source::Store)?;
        managers.0.iter_mut().for_each(|entry| entry.time = None);
        managers.0.sort_by(|a, b| (&a.manager, &a.api_version).cmp(&(&b.manager, &b.api_version)));
        Some(managers)
    };
    let same = match (books(old), books(new)) {
        (Some(before), Some(after)) => before != after && timeless(Some(before)) == timeless(Some(after)),
        _ => false,
    };
    if !same {
        return;
    }
    let written = take_books(new);
    let mut unbooked = old.clone();
    let before = take_books(&mut unbooked);
    let kept = if *new == unbooked { before } else { written };
    put_books(new, kept);
}
