//! Create: the steps before a new object is stored.
//!
//! The server gives the object its identity first (UID, time, name), because strategies and admission plugins already use it: a Job
//! selects its pods by its own UID. Then come preparation, validation and warnings.
//!
//! # In Kubernetes
//! `apiserver/pkg/registry/rest/{create,meta}.go`, `apiserver/pkg/storage/names/generate.go`.

use jiff::Timestamp;
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use super::{Context, Strategy};
use crate::validation::{Errors, fields, metadata, names};

/// Letters of generated names: no vowels, so that no words appear, and nothing that is easily confused.
const ALPHANUMS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Length of the generated part.
const RANDOM_LENGTH: u32 = 5;
/// Longest prefix of a generated name.
const MAX_GENERATED_NAME_LENGTH: usize = 63 - RANDOM_LENGTH as usize;

/// Five letters from a random number.
pub fn random_suffix(mut random: u64) -> String {
    let letters = ALPHANUMS.len() as u64;
    let pick = |_| {
        let letter = ALPHANUMS[usize::try_from(random % letters).expect("an index below 27")];
        random /= letters;
        char::from(letter)
    };
    (0..RANDOM_LENGTH).map(pick).collect()
}

/// Takes away what only the server says of an object; no client owns it by sending it.
pub fn wipe_object_meta_system_fields(object: &mut Object) {
    for server_owned in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        object.remove(&format!("/metadata/{server_owned}"));
    }
}

/// Gives a new object its identity. `random` makes the end of a generated name.
pub fn fill_object_meta_system_fields(object: &mut Object, uid: &str, now: Timestamp, random: u64) {
    wipe_object_meta_system_fields(object);
    object.set("/metadata/creationTimestamp", now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    object.set_uid(uid);
    let prefix = object.generate_name();
    if object.name().is_empty() && !prefix.is_empty() {
        let mut end = prefix.len().min(MAX_GENERATED_NAME_LENGTH);
        while !prefix.is_char_boundary(end) {
            end -= 1;
        }
        let name = format!("{}{}", &prefix[..end], random_suffix(random));
        object.set_name(&name);
    }
}

/// Puts the namespace of the URL into the object.
///
/// # Errors
/// 400 if the object names another one.
pub fn ensure_namespace(object: &mut Object, request_namespace: Option<&str>) -> Result<(), Status> {
    match (object.namespace(), request_namespace) {
        (None, Some(namespace)) => {
            let namespace = namespace.to_owned();
            object.set_namespace(Some(&namespace));
            Ok(())
        }
        (None, None) => Ok(()),
        (Some(given), Some(wanted)) if given == wanted => Ok(()),
        (Some(_), _) => Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
    }
}

/// Prepares and validates a new object; the answer is the warnings.
///
/// # Errors
/// 422 with everything that is wrong.
pub fn before_create(
    strategy: &dyn Strategy,
    object: &mut Object,
    context: &Context,
) -> Result<Vec<String>, Status> {
    before_create_with(strategy, object, context, &mut |_| Ok(()))
}

/// The same with a step of the caller after validation: a Service gets its address only once it is known to be valid.
///
/// # Errors
/// 422 with everything that is wrong, or what the step says.
pub fn before_create_with(
    strategy: &dyn Strategy,
    object: &mut Object,
    context: &Context,
    allocate: &mut dyn FnMut(&mut Object) -> Result<(), Status>,
) -> Result<Vec<String>, Status> {
    strategy.prepare_for_create(object, context);
    let mut errors = strategy.validate(object);
    if errors.is_empty() {
        errors = path_segments(object, strategy.namespaced());
    }
    if !errors.is_empty() {
        return Err(Status::invalid_kind(&object.gvk(), object.name(), &errors));
    }
    let warnings = strategy.warnings(object, None);
    allocate(object)?;
    // What reading the stored form would add.
    strategy.default(object);
    Ok(warnings)
}

/// What must hold whatever the kind says: the name fits into a URL.
fn path_segments(object: &Object, namespaced: bool) -> Errors {
    let meta = fields::child(object.as_value(), "metadata");
    metadata::object_meta_of(meta, namespaced, names::path_segment_name, "metadata")
}
