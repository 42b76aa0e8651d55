//! TTL after finished: finished Jobs go away by themselves.
//!
//! *After the last step of a pod's journey.* A Job with `ttlSecondsAfterFinished` is deleted, pods and all, that long after it finished.
//!
//! # Invariants
//! 1. A Job that is not finished, or has no TTL, is never deleted.
//!
//! # In Kubernetes
//! `pkg/controller/ttlafterfinished/ttlafterfinished_controller.go`. Left out: the live read before the deletion (the UID precondition stands for it).

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::action::{Action, Propagation};
use crate::controller::{Controller, Wakes};
use crate::indexer::{Cached, NamespacedName};
use crate::informer::Store;
use crate::informer::factory::InformerFactory;
use crate::pod::positive;

/// The controller with the copy that it reads.
pub struct TtlAfterFinished {
    jobs: Store<Job>,
}

impl TtlAfterFinished {
    /// A controller on this copy.
    pub fn new(factory: &InformerFactory) -> Self {
        TtlAfterFinished { jobs: factory.store() }
    }
}

/// When a Job finished, if it did.
pub fn finished_at(job: &Job) -> Option<Timestamp> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let end = conditions.iter().find(|condition| {
        (condition.type_ == "Complete" || condition.type_ == "Failed") && condition.status == "True"
    })?;
    end.last_transition_time.as_ref().map(|time| time.0)
}

impl Controller for TtlAfterFinished {
    const NAME: &'static str = "ttl-after-finished-controller";
    type World = (Arc<Job>, Timestamp);

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        wakes.on::<Job>(|event| {
            let job = event.object().filter(|job| {
                job.spec.as_ref().is_some_and(|spec| spec.ttl_seconds_after_finished.is_some())
            });
            job.filter(|job| finished_at(job).is_some()).map(|job| job.key()).into_iter().collect()
        });
    }

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Option<Self::World> {
        Some((self.jobs.get(key)?, now))
    }

    fn reconcile((job, now): &Self::World) -> Vec<Action> {
        let ttl = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished);
        let (Some(ttl), Some(finished)) = (ttl, finished_at(job)) else { return Vec::new() };
        let left = SignedDuration::from_secs(ttl.into()) - now.duration_since(finished);
        if job.is_being_deleted() {
            Vec::new()
        } else if left > SignedDuration::ZERO {
            vec![Action::RequeueAfter(positive(left))]
        } else {
            vec![
                Action::delete(job.as_ref(), format!("it finished {ttl} s ago"))
                    .with_propagation(Propagation::Foreground),
            ]
        }
    }
}
