//! Rolling update: one up, one down.
//!
//! Each decision makes one move. First the new ReplicaSet grows, as far as `maxSurge` lets it. When it cannot, the old ones
//! shrink, as far as `maxUnavailable` lets them, and those of their pods that are broken go first: they
//! count as missing already, so removing them costs nothing.
//!
//! # Invariants
//! 1. Wanted pods of all ReplicaSets ≤ replicas + maxSurge.
//! 2. Available pods are not reduced below replicas − maxUnavailable.
//!
//! # In Kubernetes
//! `pkg/controller/deployment/rolling.go`.

use super::{Rollout, Which, available_of, limits, replicas_of, revision, status};
use crate::indexer::Cached;

/// Makes the next move of a rolling update.
pub(super) fn roll(rollout: &mut Rollout<'_>) {
    if !grow_new(rollout)
        && !shrink_old(rollout)
        && status::is_complete(rollout, &rollout.deployment.status.clone().unwrap_or_default())
    {
        revision::clean_up(rollout);
    }
    status::sync_rollout(rollout);
}

/// How many replicas the new ReplicaSet may have now.
pub(super) fn new_replicas(rollout: &Rollout<'_>, current: i32) -> i32 {
    let total: i32 = rollout.old.iter().map(replicas_of).sum::<i32>() + current;
    let max_total = rollout.replicas() + limits::max_surge(rollout.spec);
    if total >= max_total {
        return current;
    }
    current + (max_total - total).min(rollout.replicas() - current)
}

fn grow_new(rollout: &mut Rollout<'_>) -> bool {
    let Some(current) = rollout.new.as_ref().map(replicas_of) else { return false };
    let wanted = rollout.replicas();
    if current == wanted {
        return false;
    }
    let to = if current > wanted { wanted } else { new_replicas(rollout, current) };
    rollout.scale(Which::New, to)
}

fn shrink_old(rollout: &mut Rollout<'_>) -> bool {
    let old_pods: i32 = rollout.old.iter().map(replicas_of).sum();
    if old_pods == 0 {
        return false;
    }
    let all_pods: i32 = rollout.all().map(replicas_of).sum();
    let min_available = rollout.replicas() - limits::max_unavailable(rollout.spec);
    let new_unavailable = rollout.new.as_ref().map_or(0, |set| replicas_of(set) - available_of(set));
    let max_scaled_down = all_pods - min_available - new_unavailable;
    if max_scaled_down <= 0 {
        return false;
    }
    let mut order: Vec<usize> =
        (0..rollout.old.len()).filter(|index| replicas_of(&rollout.old[*index]) > 0).collect();
    order.sort_by_key(|index| {
        (rollout.old[*index].created().map(|time| time.0), rollout.old[*index].object_name().to_owned())
    });

    let available: i32 = rollout.all().map(available_of).sum();
    let mut moved = false;
    let mut cleaned = 0;
    for index in &order {
        let (replicas, available) = (replicas_of(&rollout.old[*index]), available_of(&rollout.old[*index]));
        // More available than wanted: it is shrinking already, and its status lags behind.
        if cleaned >= max_scaled_down || replicas <= available {
            continue;
        }
        let count = (max_scaled_down - cleaned).min(replicas - available);
        cleaned += count;
        moved |= rollout.scale(Which::Old(*index), replicas - count);
    }
    let mut left = available - min_available;
    for index in &order {
        let replicas = replicas_of(&rollout.old[*index]);
        let count = left.min(replicas);
        if count > 0 {
            left -= count;
            moved |= rollout.scale(Which::Old(*index), replicas - count);
        }
    }
    moved
}
