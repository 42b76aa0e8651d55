//! Patches: change part of an object without sending the rest.
//!
//! *Steps 1 and 2 of a pod's journey.* `kubectl apply` computes a patch, the API server applies it.
//!
//! Three languages: a list of operations (RFC 6902, [`json`]), the changed part with `null` for "remove" (RFC 7386,
//! [`merge`]), and Kubernetes' strategic merge patch ([`strategic`]), which is a merge patch that knows which lists are
//! really maps: a container is found by its `name`, not by its place. Which list merges by which key is data
//! ([`merge_keys`]), because it comes from the types, not from the patch.
//!
//! [`three_way`] computes what `kubectl apply` sends: the difference between the live object and the manifest, and the
//! deletion of what the *last* manifest had and this one hasn't. Fields that somebody else set are left alone.
//!
//! # Invariants
//! 1. Applying a patch is a pure function of the object and the patch.
//! 2. An empty strategic or merge patch changes nothing.
//!
//! # In Kubernetes
//! `apimachinery/pkg/util/strategicpatch/patch.go`, `pkg/util/jsonmergepatch`, `github.com/evanphx/json-patch`.

use serde_json::Value;

use crate::request::PatchType;
use crate::resource::GroupVersionKind;

/// RFC 6902: a list of operations.
pub mod json;
/// RFC 7386: the changed part.
pub mod merge;
/// Which lists merge by which key.
pub mod merge_keys;
/// The changed part, where lists merge by key.
pub mod strategic;
/// What `kubectl apply` sends.
pub mod three_way;

pub use json::apply_json_patch;
pub use merge::apply_merge_patch;
pub use strategic::apply_strategic;
pub use three_way::{refuse_conflicts, three_way, three_way_merge};

/// Why a patch can't be applied or computed. The texts are Kubernetes'.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch has the wrong form.
    #[error("{0}")]
    Bad(String),
    /// A `test` operation said no.
    #[error("testing value {0} failed: test failed")]
    TestFailed(String),
    /// An operation's path leads nowhere.
    #[error("{0}: missing value")]
    Missing(String),
    /// An element of a merging list lacks the key.
    #[error("map: {map} does not contain declared merge key: {key}")]
    NoMergeKey {
        /// The element, as Go prints it.
        map: String,
        /// The key.
        key: String,
    },
    /// Somebody else changed the same fields otherwise.
    #[error("patch:\n{patch}\nconflicts with changes made from original to current:\n{changed}")]
    Conflict {
        /// Ours, as YAML.
        patch: String,
        /// Theirs, as YAML.
        changed: String,
    },
    /// The kind's lists have no known merge keys.
    #[error("strategic merge patch is not supported for {0}")]
    Unsupported(GroupVersionKind),
}

/// The patch that makes `modified` out of `current` and deletes what only `original` had, in the language that the kind is patched in:
/// strategic for kinds whose lists have known merge keys, a merge patch for all others.
///
/// # Errors
/// As [`three_way()`].
pub fn difference(
    original: &Value,
    modified: &Value,
    current: &Value,
    gvk: &GroupVersionKind,
) -> Result<(Value, PatchType), PatchError> {
    Ok(match merge_keys::is_built_in(gvk) {
        true => (three_way(original, modified, current, gvk)?, PatchType::Strategic),
        false => (three_way_merge(original, modified, current), PatchType::Merge),
    })
}

/// A value as Go's `%#v` prints it: `map[string]interface {}{"a":1}`.
pub fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let entries: Vec<String> = map.iter().map(|(k, v)| format!("{k:?}:{}", go_syntax(v))).collect();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// A value as Go's `%v` prints it: `map[a:1 b:[x y]]`. Error texts have it.
pub fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_value).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let entries: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{}", go_value(v))).collect();
            format!("map[{}]", entries.join(" "))
        }
        other => other.to_string(),
    }
}
