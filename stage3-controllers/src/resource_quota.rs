//! Resource quota: counting what a namespace uses.
//!
//! *Beside a pod's journey.* Before: somebody made a ResourceQuota. After: the API server's admission refuses what would pass a limit.
//!
//! Two parts keep a quota. Admission refuses, and adds what it lets in to `status.used`, so that two requests at once can't both take
//! the last pod. But admission never sees an object go, and what it counted may fail to be stored. So this controller counts again,
//! from nothing, what is there, and writes down the truth.
//!
//! The subtle thing is *when* it counts. A creation wakes it not, nor does the reservation in the quota's status: admission counted that
//! one, and a count made between the reservation and the arrival of the object in our copy would give the reserved pod away a second
//! time. A deletion wakes it, or a change that frees something (a pod that ended), or a new limit.
//!
//! # Invariants
//! 1. `status.hard` is `spec.hard`; `status.used` has no other names.
//! 2. The status is written with the version that it was computed from; a reservation made meanwhile is a conflict, never lost.
//!
//! # In Kubernetes
//! `pkg/controller/resourcequota/resource_quota_controller.go`, `pkg/quota/v1/evaluator/core`. Left out: `count/…` of kinds beyond
//! [`counters`] (custom ones included; they keep what admission added), resource claims, resizes that are under way.

pub mod scopes;
pub mod usage;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolumeClaim, Pod, ReplicationController, ResourceQuota, ResourceQuotaStatus, Secret,
    Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::jiff::Timestamp;
use stage1_kubectl::quantity::{Format, Quantity};

use crate::action::Action;
use crate::controller::{Controller, Wakes};
use crate::indexer::{Cached, NAMESPACE_INDEX, NamespacedName};
use crate::informer::factory::{InformerFactory, Watched};
use crate::informer::{Event, Store};
use usage::Amounts;

/// Everything is counted again this often, woken or not.
pub const RESYNC_PERIOD: Duration = Duration::from_secs(5 * 60);

/// All that a decision about one quota depends on.
pub struct World {
    /// The quota.
    pub quota: Arc<ResourceQuota>,
    /// The namespace's pods.
    pub pods: Vec<Arc<Pod>>,
    /// Its Services.
    pub services: Vec<Arc<Service>>,
    /// Its claims.
    pub claims: Vec<Arc<PersistentVolumeClaim>>,
    /// How many there are of kinds that are only counted, under each name that a quota may have for them.
    pub counts: Amounts,
    /// Now.
    pub now: Timestamp,
}

/// A kind of which only the number matters.
struct Counter {
    names: Vec<String>,
    count: Box<dyn Fn(&str) -> usize + Send + Sync>,
    watch: fn(&mut Wakes<'_>, Store<ResourceQuota>),
}

/// The controller with the copies that it reads.
pub struct ResourceQuotaController {
    quotas: Store<ResourceQuota>,
    pods: Store<Pod>,
    services: Store<Service>,
    claims: Store<PersistentVolumeClaim>,
    counters: Vec<Counter>,
}

impl ResourceQuotaController {
    /// A controller on these copies.
    pub fn new(factory: &InformerFactory) -> ResourceQuotaController {
        ResourceQuotaController {
            quotas: factory.store(),
            pods: factory.store(),
            services: factory.store(),
            claims: factory.store(),
            counters: counters(factory),
        }
    }
}

fn counter<K: Watched>(factory: &InformerFactory) -> Counter {
    let store = factory.store::<K>();
    let plural = K::URL_PATH_SEGMENT;
    let mut names = match K::GROUP {
        "" => vec![format!("count/{plural}")],
        group => vec![format!("count/{plural}.{group}")],
    };
    // Four kinds had a name before `count/` was invented.
    if K::GROUP.is_empty()
        && matches!(plural, "configmaps" | "secrets" | "replicationcontrollers" | "resourcequotas")
    {
        names.push(plural.to_owned());
    }
    Counter {
        names,
        count: Box::new(move |namespace| store.count(NAMESPACE_INDEX, namespace)),
        watch: |wakes, quotas| wake_when_freed::<K>(wakes, quotas, |_, _| false),
    }
}

/// The kinds that are only counted.
fn counters(factory: &InformerFactory) -> Vec<Counter> {
    vec![
        counter::<ConfigMap>(factory),
        counter::<Secret>(factory),
        counter::<ServiceAccount>(factory),
        counter::<ReplicationController>(factory),
        counter::<ResourceQuota>(factory),
        counter::<Deployment>(factory),
        counter::<ReplicaSet>(factory),
        counter::<StatefulSet>(factory),
        counter::<DaemonSet>(factory),
        counter::<Job>(factory),
        counter::<CronJob>(factory),
        counter::<Ingress>(factory),
        counter::<NetworkPolicy>(factory),
        counter::<PodDisruptionBudget>(factory),
    ]
}

/// Wakes the namespace's quotas when a `K` goes, or changes so that it may use less.
fn wake_when_freed<K: Watched>(
    wakes: &mut Wakes<'_>,
    quotas: Store<ResourceQuota>,
    freed: fn(&K, &K) -> bool,
) {
    wakes.on::<K>(move |event| {
        let namespace = match event {
            Event::Deleted(object) => object.object_namespace(),
            Event::Modified { old, new } if freed(old, new) => new.object_namespace(),
            _ => return Vec::new(),
        };
        quotas.in_namespace(namespace).iter().map(|quota| quota.key()).collect()
    });
}

/// Whether a change of a quota asks for a count: what admission reserves in its status doesn't.
fn asks_for_a_count(event: &Event<ResourceQuota>) -> bool {
    !matches!(event, Event::Modified { old, new } if old.spec == new.spec)
}

impl Controller for ResourceQuotaController {
    const NAME: &'static str = "resourcequota-controller";
    type World = World;

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        wakes.on::<ResourceQuota>(|event| {
            let quota = event.object().filter(|_| asks_for_a_count(event));
            quota.map(|quota| quota.key()).into_iter().collect()
        });
        wake_when_freed::<Pod>(wakes, self.quotas.clone(), |old, new| {
            use crate::pod::PodExt;
            !old.is_terminal() && new.is_terminal()
        });
        wake_when_freed::<Service>(wakes, self.quotas.clone(), |old, new| old.spec != new.spec);
        wake_when_freed::<PersistentVolumeClaim>(wakes, self.quotas.clone(), |old, new| old.spec != new.spec);
        for counter in &self.counters {
            (counter.watch)(wakes, self.quotas.clone());
        }
    }

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Option<World> {
        let quota = self.quotas.get(key)?;
        let mut counts = Amounts::new();
        for counter in &self.counters {
            let number = i64::try_from((counter.count)(&key.namespace)).unwrap_or(i64::MAX);
            let amount = Quantity::from_value(number, Format::DecimalSI);
            counts.extend(counter.names.iter().map(|name| (name.clone(), amount)));
        }
        Some(World {
            quota,
            pods: self.pods.in_namespace(&key.namespace),
            services: self.services.in_namespace(&key.namespace),
            claims: self.claims.in_namespace(&key.namespace),
            counts,
            now,
        })
    }

    fn reconcile(world: &World) -> Vec<Action> {
        reconcile(world)
    }
}

// ANCHOR: reconcile-resource-quota
/// Decides what to write into one quota's status.
pub fn reconcile(world: &World) -> Vec<Action> {
    let quota = world.quota.as_ref();
    let limits = quota.spec.as_ref().and_then(|spec| spec.hard.clone()).unwrap_or_default();
    let hard = usage::amounts(Some(&limits));
    let old = quota.status.clone().unwrap_or_default();
    let known = usage::amounts(old.used.as_ref());
    let found = usage_in_scope(world);
    let used: Amounts = hard
        .keys()
        .filter_map(|name| {
            let amount = if usage::is_counted(name) || world.counts.contains_key(name) {
                Some(found.get(name).copied().unwrap_or_else(Quantity::zero))
            } else {
                known.get(name).copied()
            };
            Some((name.clone(), amount?))
        })
        .collect();
    let new_limit = old.hard.is_none() || usage::amounts(old.hard.as_ref()) != hard;
    let mut actions = Vec::new();
    if new_limit || old.used.is_none() || used != known {
        let used: BTreeMap<_, _> = used.into_iter().map(|(name, amount)| (name, amount.into())).collect();
        let status = ResourceQuotaStatus { hard: Some(limits), used: Some(used) };
        actions.push(Action::update_status(&ResourceQuota { status: Some(status), ..quota.clone() }));
    }
    actions.push(Action::RequeueAfter(RESYNC_PERIOD));
    actions
}
// ANCHOR_END: reconcile-resource-quota

/// What the quota's objects use together.
fn usage_in_scope(world: &World) -> Amounts {
    let mut found = Amounts::new();
    let spec = world.quota.spec.clone().unwrap_or_default();
    for pod in world.pods.iter().filter(|pod| scopes::matches(&spec, pod)) {
        usage::add(&mut found, usage::of_pod(pod, world.now));
    }
    // A quota with scopes is about pods only.
    if !scopes::any(&spec) {
        world.services.iter().for_each(|service| usage::add(&mut found, usage::of_service(service)));
        world.claims.iter().for_each(|claim| usage::add(&mut found, usage::of_claim(claim)));
        usage::add(&mut found, world.counts.clone());
    }
    found
}

#[cfg(test)]
mod tests;
