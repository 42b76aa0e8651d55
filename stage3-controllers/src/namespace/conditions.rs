//! Conditions of a namespace that is being emptied: what is left, and why.
//!
//! `kubectl describe namespace` of a namespace that will not go shows these five sentences; the one about finalizers names the
//! culprit. They are rewritten in each round.
//!
//! # In Kubernetes
//! `pkg/controller/namespace/deletion/status_condition_utils.go`, same texts.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use crate::discovery::Deletable;

/// What one round left over.
#[derive(Debug, Default)]
pub struct Remaining {
    /// Objects left, by `resource.group`.
    pub counts: BTreeMap<String, usize>,
    /// Objects left that carry this finalizer.
    pub finalizers: BTreeMap<String, usize>,
    /// What the server said to requests that failed.
    pub failures: Vec<String>,
    /// Group versions whose kinds could not be read.
    pub undiscovered: Vec<String>,
    /// How long the rest may take.
    pub estimate: Duration,
}

impl Remaining {
    /// Notes the objects of a kind that are left, by their finalizers.
    pub fn note(&mut self, kind: &Deletable, left: &[Vec<String>], estimate: Duration) {
        self.counts.insert(kind.group_resource(), left.len());
        for finalizer in left.iter().flatten() {
            *self.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
        self.estimate = self.estimate.max(estimate);
    }
}

/// The five conditions after a round; the time of one changes only with its status.
pub fn compute(namespace: &Namespace, remaining: &Remaining, now: Timestamp) -> Vec<NamespaceCondition> {
    let counted = |map: &BTreeMap<String, usize>, verb: &str| {
        let parts: Vec<String> =
            map.iter().map(|(name, count)| format!("{name} {verb} {count} resource instances")).collect();
        parts.join(", ")
    };
    let failures = format!(
        "Failed to delete all resource types, {} remaining: {}",
        remaining.failures.len(),
        remaining.failures.join(", ")
    );
    let left = format!("Some resources are remaining: {}", counted(&remaining.counts, "has"));
    let held = format!(
        "Some content in the namespace has finalizers remaining: {}",
        counted(&remaining.finalizers, "in")
    );
    let undiscovered = format!(
        "Discovery failed for some groups, {} failing: {}",
        remaining.undiscovered.len(),
        remaining.undiscovered.join(", ")
    );
    let rows = [
        (
            "NamespaceDeletionDiscoveryFailure",
            !remaining.undiscovered.is_empty(),
            "DiscoveryFailed",
            undiscovered,
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            "GroupVersionParsingFailed",
            String::new(),
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            !remaining.failures.is_empty(),
            "ContentDeletionFailed",
            failures,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            !remaining.counts.is_empty(),
            "SomeResourcesRemain",
            left,
            "ContentRemoved",
            "All content successfully removed",
        ),
        (
            "NamespaceFinalizersRemaining",
            !remaining.finalizers.is_empty(),
            "SomeFinalizersRemain",
            held,
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    ];
    let old = namespace.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    rows.into_iter()
        .map(|(kind, bad, bad_reason, bad_message, good_reason, good_message)| {
            let status = if bad { "True" } else { "False" };
            let since = old.iter().find(|condition| condition.type_ == kind && condition.status == status);
            NamespaceCondition {
                type_: kind.to_owned(),
                status: status.to_owned(),
                reason: Some(if bad { bad_reason } else { good_reason }.to_owned()),
                message: Some(if bad { bad_message } else { good_message.to_owned() }),
                last_transition_time: since
                    .and_then(|condition| condition.last_transition_time.clone())
                    .or(Some(Time(now))),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conditions_name_what_is_left_and_what_holds_it() {
        let kind = Deletable {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            resource: "configmaps".into(),
            namespaced: true,
            delete_collection: true,
        };
        let mut remaining = Remaining::default();
        remaining.note(&kind, &[vec!["example.com/hold".into()]], Duration::from_secs(15));
        let conditions = compute(&Namespace::default(), &remaining, Timestamp::UNIX_EPOCH);
        let message = |index: usize| conditions[index].message.as_deref().unwrap();
        assert_eq!(message(3), "Some resources are remaining: configmaps. has 1 resource instances");
        assert_eq!(
            message(4),
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        );
        assert_eq!(
            conditions.iter().map(|condition| condition.status.as_str()).collect::<Vec<_>>(),
            ["False", "False", "False", "True", "True"]
        );
    }
}
