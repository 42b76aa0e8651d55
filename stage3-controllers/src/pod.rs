//! Pod: what controllers ask of a pod: is it alive, ready, available.
//!
//! The API's fields are almost all optional. These few functions keep that out of the controllers, so that they read like
//! the rules they follow.
//!
//! # In Kubernetes
//! `pkg/api/v1/pod/util.go`, `pkg/controller/controller_utils.go` (`IsPodActive`).

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::indexer::Cached;

/// Questions that controllers ask of pods.
pub trait PodExt: Cached {
    /// `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`, or empty.
    fn phase(&self) -> &str;
    /// The node that the pod is bound to; empty: none yet.
    fn node_name(&self) -> &str;
    /// The status condition of this type.
    fn condition(&self, kind: &str) -> Option<&PodCondition>;
    /// `Succeeded` or `Failed`: it will never run again.
    fn is_terminal(&self) -> bool {
        matches!(self.phase(), "Succeeded" | "Failed")
    }
    /// Neither at its end nor being deleted.
    fn is_active(&self) -> bool {
        !self.is_terminal() && !self.is_being_deleted()
    }
    /// Its `Ready` condition is true.
    fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|condition| condition.status == "True")
    }
    /// Since when it is ready.
    fn ready_since(&self) -> Option<Timestamp> {
        let condition = self.condition("Ready").filter(|condition| condition.status == "True")?;
        condition.last_transition_time.as_ref().map(|time| time.0)
    }
    /// Ready for at least this long.
    fn is_available(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        if !self.is_ready() {
            return false;
        }
        min_ready_seconds <= 0
            || self.available_in(min_ready_seconds, now).is_some_and(|left| left <= SignedDuration::ZERO)
    }
    /// How long until a ready pod is available.
    fn available_in(&self, min_ready_seconds: i32, now: Timestamp) -> Option<SignedDuration> {
        let since = self.ready_since()?;
        Some(SignedDuration::from_secs(min_ready_seconds.into()) - now.duration_since(since))
    }
}

impl PodExt for Pod {
    fn phase(&self) -> &str {
        self.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
    }
    fn node_name(&self) -> &str {
        self.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
    }
    fn condition(&self, kind: &str) -> Option<&PodCondition> {
        self.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
    }
}

/// A wait that is never negative, as `Duration`.
pub fn positive(duration: SignedDuration) -> std::time::Duration {
    duration.try_into().unwrap_or(std::time::Duration::ZERO)
}
