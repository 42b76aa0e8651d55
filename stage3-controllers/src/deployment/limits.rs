//! Limits of a rollout: percentages of the replicas, rounded so that the promise holds.
//!
//! `maxSurge` is rounded up and `maxUnavailable` down: of 3 replicas 25 % may be one too many, and none may be missing. Were both rounded up,
//! one of one replica could be missing, and the service with it. If both come out as 0 nothing could ever move:
//! then one may be missing.
//!
//! # Invariants
//! 1. Never both 0.
//! 2. `maxUnavailable` is at most the number of replicas.
//!
//! # In Kubernetes
//! `pkg/controller/deployment/util/deployment_util.go` (`ResolveFenceposts`, `MaxUnavailable`, `MaxSurge`).

use k8s_openapi::api::apps::v1::DeploymentSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// A number, or a percentage of `total`, rounded up or down. Text that is neither counts as 0.
pub fn scaled_value(value: &IntOrString, total: i32, round_up: bool) -> i32 {
    match value {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let Some(percent) = text.strip_suffix('%').and_then(|number| number.parse::<i64>().ok()) else {
                return 0;
            };
            let product = percent * i64::from(total);
            let scaled = if round_up { (product + 99).div_euclid(100) } else { product.div_euclid(100) };
            i32::try_from(scaled).unwrap_or(i32::MAX)
        }
    }
}

/// Whether old and new pods may run side by side.
pub fn is_rolling(spec: &DeploymentSpec) -> bool {
    spec.strategy
        .as_ref()
        .and_then(|strategy| strategy.type_.as_deref())
        .is_none_or(|kind| kind == "RollingUpdate")
}

/// `(maxSurge, maxUnavailable)` as numbers of pods.
fn fenceposts(spec: &DeploymentSpec) -> (i32, i32) {
    let quarter = IntOrString::String("25%".to_owned());
    let rolling =
        spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.clone()).unwrap_or_default();
    let replicas = spec.replicas.unwrap_or(1);
    let surge = scaled_value(&rolling.max_surge.unwrap_or(quarter.clone()), replicas, true);
    let unavailable = scaled_value(&rolling.max_unavailable.unwrap_or(quarter), replicas, false);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

/// How many pods may exist beyond the wanted number.
pub fn max_surge(spec: &DeploymentSpec) -> i32 {
    if is_rolling(spec) { fenceposts(spec).0 } else { 0 }
}

/// How many of the wanted pods may be missing.
pub fn max_unavailable(spec: &DeploymentSpec) -> i32 {
    let replicas = spec.replicas.unwrap_or(1);
    if !is_rolling(spec) || replicas == 0 {
        return 0;
    }
    fenceposts(spec).1.min(replicas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surge_rounds_up_and_unavailable_rounds_down() {
        for (replicas, most, least) in
            [(1, 2, 1), (2, 3, 2), (3, 4, 3), (4, 5, 3), (5, 7, 4), (6, 8, 5), (10, 13, 8)]
        {
            let spec = DeploymentSpec { replicas: Some(replicas), ..Default::default() };
            assert_eq!(
                (replicas + max_surge(&spec), replicas - max_unavailable(&spec)),
                (most, least),
                "{replicas} replicas"
            );
        }
    }
}
