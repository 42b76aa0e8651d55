//! Update: the steps before a changed object is stored.
//!
//! An update is a whole object, and most of its metadata is not the client's to change. What the client left out (the UID) is filled from the
//! old object; what it changed and mustn't is refused, except times, which are put back in silence.
//!
//! # In Kubernetes
//! `apiserver/pkg/registry/rest/update.go` (`BeforeUpdate`).

use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use super::{Context, Strategy};
use crate::validation::{Errors, fields, metadata, names, pod};

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The object.
    Main,
    /// `/status`.
    Status,
    /// `/ephemeralcontainers` of a pod: the caller changed nothing but their list.
    EphemeralContainers,
}

/// Prepares and validates a change; the answer is the warnings. `new` has a resourceVersion (the caller fills in the stored one when
/// the client sent none).
///
/// # Errors
/// 422 with everything that is wrong.
pub fn before_update(
    strategy: &dyn Strategy,
    part: Part,
    new: &mut Object,
    old: &Object,
    context: &Context,
) -> Result<Vec<String>, Status> {
    before_update_with(strategy, part, new, old, context, &mut |_| Ok(()))
}

/// The same with a step of the caller after validation: a Service that becomes a NodePort gets its ports.
///
/// # Errors
/// 422 with everything that is wrong, or what the step says.
pub fn before_update_with(
    strategy: &dyn Strategy,
    part: Part,
    new: &mut Object,
    old: &Object,
    context: &Context,
    allocate: &mut dyn FnMut(&mut Object) -> Result<(), Status>,
) -> Result<Vec<String>, Status> {
    match old.get("/metadata/generation") {
        Some(_) => new.set_generation(old.generation()),
        None => drop(new.remove("/metadata/generation")),
    }
    match part {
        Part::Main | Part::EphemeralContainers => strategy.prepare_for_update(new, old, context),
        Part::Status => strategy.prepare_for_status_update(new, old, context),
    }
    keep_server_metadata(new, old);
    let mut errors = common(new, old, strategy.namespaced());
    errors.extend(match part {
        Part::Main => strategy.validate_update(new, old),
        Part::Status => strategy.validate_status_update(new, old),
        Part::EphemeralContainers => pod::pod_ephemeral_containers_update(new.as_value(), old.as_value()),
    });
    if !errors.is_empty() {
        return Err(Status::invalid_kind(&new.gvk(), new.name(), &errors));
    }
    let warnings = if part == Part::Main { strategy.warnings(new, Some(old)) } else { Vec::new() };
    if part == Part::Main {
        allocate(new)?;
    }
    strategy.default(new);
    Ok(warnings)
}

fn keep_server_metadata(new: &mut Object, old: &Object) {
    if new.uid().is_empty() {
        new.set_uid(old.uid());
    }
    for name in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let pointer = format!("/metadata/{name}");
        match old.get(&pointer) {
            Some(value) => new.set(&pointer, value.clone()),
            None => drop(new.remove(&pointer)),
        }
    }
    new.remove("/metadata/selfLink");
}

fn common(new: &Object, old: &Object, namespaced: bool) -> Errors {
    let (new, old) = (fields::child(new.as_value(), "metadata"), fields::child(old.as_value(), "metadata"));
    let mut errors = metadata::object_meta_of(new, namespaced, names::path_segment_name, "metadata");
    for error in metadata::object_meta_update(new, old, "metadata") {
        if !errors.contains(&error) {
            errors.push(error);
        }
    }
    errors
}
