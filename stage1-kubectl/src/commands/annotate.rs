//! `kubectl annotate`: as `label`, for annotations.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/annotate/annotate.go`.

use super::label::{self, LabelArgs, What};
use crate::context::Context;
use crate::failure::Failure;

/// Runs `kubectl annotate`.
///
/// # Errors
/// What couldn't be annotated.
pub async fn run(ctx: &Context, args: LabelArgs) -> Result<(), Failure> {
    label::change(ctx, args, What::Annotation).await
}
