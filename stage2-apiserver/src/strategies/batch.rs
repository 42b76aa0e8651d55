//! Jobs: a selector of their own.
//!
//! Unless the author insists (`manualSelector`), a Job selects its pods by its own UID, so that two Jobs never fight over pods.
//!
//! # In Kubernetes
//! `pkg/registry/batch/job/strategy.go` (`generateSelector`).

use serde_json::Value;

use super::Context;
use crate::validation::fields::{child, child_mut, default_to, flag, text};

/// Label with the Job's UID.
pub const CONTROLLER_UID_LABEL: &str = "batch.kubernetes.io/controller-uid";
/// Label with the Job's name.
pub const JOB_NAME_LABEL: &str = "batch.kubernetes.io/job-name";

/// A new Job.
pub fn create(job: &mut Value, _: &Context) {
    if flag(child(job, "spec"), "manualSelector") {
        return;
    }
    let meta = child(job, "metadata");
    let (name, uid) = (text(meta, "name").to_owned(), text(meta, "uid").to_owned());
    let spec = child_mut(job, "spec");
    let labels = child_mut(child_mut(child_mut(spec, "template"), "metadata"), "labels");
    for (label, value) in
        [("job-name", &name), (JOB_NAME_LABEL, &name), ("controller-uid", &uid), (CONTROLLER_UID_LABEL, &uid)]
    {
        default_to(labels, label, value.clone());
    }
    let selector = child_mut(child_mut(spec, "selector"), "matchLabels");
    default_to(selector, CONTROLLER_UID_LABEL, uid);
}
