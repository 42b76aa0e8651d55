//! Proportional scaling: a change of `replicas` in the middle of a rollout is shared by all ReplicaSets.
//!
//! Suppose half of 10 pods are of the new template when somebody asks for 20. Giving all 10 to the new one would bet on a version
//! that may be broken; giving none would starve it. Each ReplicaSet gets its share, in proportion to its size, and what rounding
//! leaves over goes to the largest.
//!
//! How large a ReplicaSet "was" is measured against the maximum at the time it was scaled last, which stands in its annotation
//! `deployment.kubernetes.io/max-replicas`. That the wanted number changed is seen by the annotation `desired-replicas` being behind.
//!
//! # Invariants
//! 1. After it, the sum of all is replicas + maxSurge, or 0 when no replicas are wanted.
//!
//! # In Kubernetes
//! `pkg/controller/deployment/sync.go` (`scale`, `isScalingEvent`), `util/deployment_util.go` (`GetReplicaSetProportion`).

use std::cmp::Reverse;

use k8s_openapi::api::apps::v1::ReplicaSet;

use super::revision::{DESIRED_REPLICAS, MAX_REPLICAS};
use super::{Rollout, Which, available_of, limits, replicas_of};
use crate::indexer::Cached;

fn number(set: &ReplicaSet, annotation: &str) -> Option<i32> {
    set.annotation(annotation)?.parse().ok()
}

/// Whether an active ReplicaSet was scaled for another number of replicas than is wanted now.
pub(super) fn is_scaling_event(rollout: &Rollout<'_>) -> bool {
    let wanted = rollout.replicas();
    rollout
        .all()
        .filter(|set| replicas_of(set) > 0)
        .any(|set| number(set, DESIRED_REPLICAS).is_some_and(|desired| desired != wanted))
}

/// Brings the ReplicaSets to the wanted number without rolling anything out.
pub(super) fn scale(rollout: &mut Rollout<'_>) {
    let wanted = rollout.replicas();
    if let Some(only) = active_or_latest(rollout) {
        if get(rollout, only).map(replicas_of) != Some(wanted) {
            rollout.scale(only, wanted);
        }
        return;
    }
    if is_saturated(rollout) {
        for index in 0..rollout.old.len() {
            if replicas_of(&rollout.old[index]) > 0 {
                rollout.scale(Which::Old(index), 0);
            }
        }
        return;
    }
    if limits::is_rolling(rollout.spec) {
        share(rollout);
    }
}

fn get<'a>(rollout: &'a Rollout<'_>, which: Which) -> Option<&'a ReplicaSet> {
    match which {
        Which::New => rollout.new.as_ref(),
        Which::Old(index) => rollout.old.get(index),
    }
}

fn active(rollout: &Rollout<'_>) -> Vec<Which> {
    let old = (0..rollout.old.len()).map(Which::Old);
    old.chain(std::iter::once(Which::New))
        .filter(|which| get(rollout, *which).is_some_and(|set| replicas_of(set) > 0))
        .collect()
}

/// The only active ReplicaSet; if none is active, the new one or the latest old one; `None` if several are active.
fn active_or_latest(rollout: &Rollout<'_>) -> Option<Which> {
    match active(rollout).as_slice() {
        [] if rollout.new.is_some() => Some(Which::New),
        [] => (0..rollout.old.len())
            .max_by_key(|index| rollout.old[*index].created().map(|time| time.0))
            .map(Which::Old),
        [only] => Some(*only),
        _ => None,
    }
}

/// Whether the new ReplicaSet has all replicas, all available.
fn is_saturated(rollout: &Rollout<'_>) -> bool {
    let wanted = rollout.replicas();
    rollout.new.as_ref().is_some_and(|set| {
        replicas_of(set) == wanted
            && number(set, DESIRED_REPLICAS) == Some(wanted)
            && available_of(set) == wanted
    })
}

// ANCHOR: proportional-scaling
/// Shares the difference between the allowed and the present number among the active ReplicaSets.
fn share(rollout: &mut Rollout<'_>) {
    let wanted = rollout.replicas();
    let mut sets = active(rollout);
    let present: i32 = sets.iter().filter_map(|which| get(rollout, *which)).map(replicas_of).sum();
    let allowed = if wanted > 0 { wanted + limits::max_surge(rollout.spec) } else { 0 };
    let to_add = allowed - present;
    let age = |which: &Which| get(rollout, *which).and_then(|set| set.created().map(|time| time.0));
    let size = |which: &Which| get(rollout, *which).map_or(0, replicas_of);
    // Growing favours newer ReplicaSets among equals, shrinking older ones.
    if to_add > 0 {
        sets.sort_by_key(|which| (Reverse(size(which)), Reverse(age(which))));
    } else {
        sets.sort_by_key(|which| (Reverse(size(which)), age(which)));
    }
    let mut added = 0;
    let mut sizes = Vec::new();
    for which in &sets {
        let share = proportion(rollout, *which, to_add, added);
        added += share;
        sizes.push(size(which) + share);
    }
    if let Some(largest) = sizes.first_mut() {
        *largest = (*largest + to_add - added).max(0);
    }
    for (which, size) in sets.into_iter().zip(sizes) {
        rollout.scale(which, size);
    }
}

/// The share of one ReplicaSet, at most what is left.
fn proportion(rollout: &Rollout<'_>, which: Which, to_add: i32, added: i32) -> i32 {
    let Some(set) = get(rollout, which) else { return 0 };
    if to_add == 0 || to_add == added {
        return 0;
    }
    let fraction = fraction(rollout, set);
    let left = to_add - added;
    if to_add > 0 { fraction.min(left) } else { fraction.max(left) }
}
// ANCHOR_END: proportional-scaling

fn fraction(rollout: &Rollout<'_>, set: &ReplicaSet) -> i32 {
    let (wanted, size) = (rollout.replicas(), replicas_of(set));
    if wanted == 0 {
        return -size;
    }
    let max = f64::from(wanted + limits::max_surge(rollout.spec));
    let status_replicas = rollout.deployment.status.as_ref().and_then(|status| status.replicas).unwrap_or(0);
    let before = number(set, MAX_REPLICAS).filter(|max| *max != 0).unwrap_or(status_replicas);
    if before == 0 {
        return 0;
    }
    let scaled = f64::from(size) * max / f64::from(before);
    scaled.round() as i32 - size
}
