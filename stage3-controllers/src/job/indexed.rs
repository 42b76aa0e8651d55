//! Indexes of an Indexed Job, and how the status writes a set of them: `0,2-4,7`.
//!
//! # In Kubernetes
//! `pkg/controller/job/indexed_job_utils.go`.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

use crate::indexer::Cached;

/// Annotation and label that carry a pod's index.
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Annotation: how often this index failed before this pod.
pub const FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-failure-count";

/// The pod's index.
pub fn index_of(pod: &Pod) -> Option<i32> {
    pod.annotation(COMPLETION_INDEX)?.parse().ok()
}

/// Reads `0,2-4`.
pub fn parse(text: &str) -> BTreeSet<i32> {
    let mut set = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) {
            set.extend(first..=last);
        }
    }
    set
}

/// Writes `0,2-4`; two neighbours are written `2,3`.
pub fn format(set: &BTreeSet<i32>) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut run: Option<(i32, i32)> = None;
    let mut write = |run: Option<(i32, i32)>| match run {
        Some((first, last)) if first == last => parts.push(first.to_string()),
        Some((first, last)) if first + 1 == last => parts.push(format!("{first},{last}")),
        Some((first, last)) => parts.push(format!("{first}-{last}")),
        None => {}
    };
    for index in set {
        run = match run {
            Some((first, last)) if last + 1 == *index => Some((first, *index)),
            before => {
                write(before);
                Some((*index, *index))
            }
        };
    }
    write(run);
    parts.join(",")
}

/// How many indexes a text names.
pub fn count(text: &str) -> i32 {
    parse(text).len() as i32
}
