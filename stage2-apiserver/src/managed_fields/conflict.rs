//! Conflicts: an applier wants a value for a field that somebody else owns, and it isn't the value that is there.
//!
//! # In Kubernetes
//! `apimachinery/pkg/util/managedfields/internal/conflict.go`; the texts are its.

use stage1_kubectl::status::{Status, StatusCause};

use super::field_set::FieldSet;
use super::managers::{Entry, Operation};
use super::path_element;

/// What one other manager owns of what an applier would change.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// The other.
    pub owner: Entry,
    /// The fields.
    pub fields: FieldSet,
}

/// How a message names a manager.
fn shown(owner: &Entry) -> String {
    let mut text = format!("{:?}", owner.manager);
    if !owner.subresource.is_empty() {
        text += &format!(" with subresource {:?}", owner.subresource);
    }
    if owner.operation == Operation::Update {
        text += &format!(" using {}", owner.api_version);
    }
    text
}

/// The refusal: 409 with a cause a field.
pub fn refusal(mut conflicts: Vec<Conflict>) -> Status {
    conflicts.sort_by(|a, b| {
        let key = |e: &Entry| (e.manager.clone(), e.operation, e.api_version.clone(), e.subresource.clone());
        key(&a.owner).cmp(&key(&b.owner))
    });
    let paths = |conflict: &Conflict| -> Vec<String> {
        let paths = conflict.fields.paths();
        paths.iter().map(|path| path_element::shown_path(path.iter().map(String::as_str))).collect()
    };
    let found: Vec<(String, Vec<String>)> =
        conflicts.iter().map(|conflict| (shown(&conflict.owner), paths(conflict))).collect();
    let count: usize = found.iter().map(|(_, paths)| paths.len()).sum();
    let message = match found.as_slice() {
        [(owner, paths)] if paths.len() == 1 => {
            format!("Apply failed with 1 conflict: conflict with {owner}: {}", paths[0])
        }
        _ => {
            let part = |(owner, paths): &(String, Vec<String>)| {
                let lines: String = paths.iter().map(|path| format!("\n- {path}")).collect();
                format!("conflicts with {owner}:{lines}")
            };
            let parts: Vec<String> = found.iter().map(part).collect();
            format!("Apply failed with {count} conflicts: {}", parts.join("\n"))
        }
    };
    let mut status = Status::failure(409, "Conflict", message);
    let causes = found.into_iter().flat_map(|(owner, paths)| {
        paths.into_iter().map(move |field| StatusCause {
            reason: "FieldManagerConflict".into(),
            message: format!("conflict with {owner}"),
            field,
        })
    });
    status.details.get_or_insert_default().causes = causes.collect();
    status
}
