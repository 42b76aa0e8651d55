//! Delete: does the object go now, later, or when its finalizers are done?
//!
//! A pod on a node is not deleted, it is asked to end: the server writes `deletionTimestamp` and a grace period, the kubelet stops the
//! containers and then deletes for good with grace 0. An object with finalizers waits until the last one is taken off.
//!
//! # Invariants
//! 1. The deletion time never moves later.
//! 2. An object with finalizers is never removed.
//!
//! # In Kubernetes
//! `apiserver/pkg/registry/rest/delete.go` (`BeforeDelete`), `…/registry/generic/registry/store.go` (`deletionFinalizersForGarbageCollection`).

use jiff::{SignedDuration, Timestamp};
use stage1_kubectl::object::Object;

use super::Strategy;

/// What happens with the dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They stay.
    Orphan,
    /// They go after the owner.
    Background,
    /// They go before the owner.
    Foreground,
}

/// What a delete request does to the object.
#[derive(Clone, Debug, PartialEq)]
pub enum Deletion {
    /// It is removed from the store.
    Now,
    /// It is written with a deletion time, grace period or finalizers, and stays.
    Marked(Box<Object>),
    /// It is being deleted already, and the request changes nothing.
    Pending,
}

/// Decides. `propagation` is what the request says, if it says anything.
pub fn before_delete(
    strategy: &dyn Strategy,
    object: &Object,
    grace_period_seconds: Option<i64>,
    propagation: Option<Propagation>,
    now: Timestamp,
) -> Deletion {
    let mut marked = object.clone();
    set_propagation_finalizers(strategy, &mut marked, propagation);
    let grace = strategy.graceful_deletion(object, grace_period_seconds);
    let waits_for_finalizers = !marked.finalizers().is_empty();
    let wanted = match grace {
        Some(seconds) if seconds > 0 => seconds,
        _ if waits_for_finalizers => 0,
        _ => return Deletion::Now,
    };
    match object.deletion_timestamp() {
        Some(_) => {
            let current = object.get_i64("/metadata/deletionGracePeriodSeconds");
            // A shorter grace period takes effect, a longer one doesn't.
            if current.is_some_and(|current| wanted < current) {
                mark(&mut marked, wanted, now);
            }
        }
        None => mark(&mut marked, wanted, now),
    }
    if marked == *object { Deletion::Pending } else { Deletion::Marked(Box::new(marked)) }
}

fn mark(object: &mut Object, grace_period_seconds: i64, now: Timestamp) {
    let at = now.checked_add(SignedDuration::from_secs(grace_period_seconds)).unwrap_or(now);
    object.set("/metadata/deletionTimestamp", at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    object.set("/metadata/deletionGracePeriodSeconds", grace_period_seconds);
    // Deletion is a change that controllers wait for.
    if object.generation() > 0 {
        let next = object.generation() + 1;
        object.set_generation(next);
    }
}

/// `orphan` and `foregroundDeletion` are finalizers that the garbage collector takes off.
fn set_propagation_finalizers(
    strategy: &dyn Strategy,
    object: &mut Object,
    propagation: Option<Propagation>,
) {
    let had: Vec<String> = object.finalizers().into_iter().map(str::to_owned).collect();
    let has = |name: &str| had.iter().any(|finalizer| finalizer == name);
    let (orphan, foreground) = match propagation {
        Some(Propagation::Orphan) => (true, false),
        Some(Propagation::Foreground) => (false, true),
        Some(Propagation::Background) => (false, false),
        None if has("orphan") || has("foregroundDeletion") => (has("orphan"), has("foregroundDeletion")),
        None => (strategy.orphans_by_default(), false),
    };
    let mut finalizers: Vec<&str> = had
        .iter()
        .map(String::as_str)
        .filter(|name| !matches!(*name, "orphan" | "foregroundDeletion"))
        .collect();
    if orphan {
        finalizers.push("orphan");
    }
    if foreground {
        finalizers.push("foregroundDeletion");
    }
    if finalizers != had.iter().map(String::as_str).collect::<Vec<_>>() {
        object.set_finalizers(&finalizers);
    }
}
