//! Quantities as plain numbers.
//!
//! *Beside the journey.* Before: `500m`, `64Mi` in a spec. After: milli-cores and bytes for arithmetic.
//!
//! # Invariants
//! 1. Rounding is up, as Kubernetes does it; text that is no quantity counts as nothing.
//!
//! # In Kubernetes
//! `apimachinery/pkg/api/resource/quantity.go`; ours is [`stage1_kubectl::quantity`].

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Thousandths, rounded up.
pub fn milli_value(q: &Quantity) -> i64 {
    parse(q).map_or(0, |q| q.milli_value())
}

/// Units, rounded up.
pub fn value(q: &Quantity) -> i64 {
    parse(q).map_or(0, |q| q.value())
}

fn parse(q: &Quantity) -> Option<stage1_kubectl::quantity::Quantity> {
    stage1_kubectl::quantity::Quantity::parse(&q.0).ok()
}
