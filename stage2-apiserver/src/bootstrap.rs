//! Bootstrap: what a new cluster holds before anybody asked for anything.
//!
//! *Step 2 of a pod's journey.* Before: an empty store. After: namespaces to create in, roles to be allowed by, and the Service
//! `kubernetes` by which pods find this very server.
//!
//! All of it is *reconciled* at each start, not created once: what is missing is made, what lost a rule gets it back
//! (unless its annotation `rbac.authorization.kubernetes.io/autoupdate` says `false`), what was added is left alone.
//! The objects are values made by pure functions ([`defaults`], [`rbac`], [`kubernetes_service`]); only [`run`] writes.
//!
//! The ServiceAccount `default` is the controller manager's work, and admission refuses pods without it. Stage 2 must be usable
//! alone, so bootstrap makes the one in the namespace `default`; the controller finds it there.
//!
//! # Invariants
//! 1. Running it twice changes nothing.
//!
//! # In Kubernetes
//! `pkg/controlplane/controller/*`, `pkg/registry/rbac/rest/storage_rbac.go`, `pkg/registry/scheduling/rest`. Added: the ClusterRole `six-stages:controllers` (see [`rbac`]).

#![expect(clippy::disallowed_methods, reason = "shell: gives new objects their time and uid")]

use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use crate::handlers::field_manager;
use crate::registry::{self, ResourceInfo};
use crate::store::{Store, Stores};
use crate::watch_cache::CachedObject;

pub mod api_services;
pub mod defaults;
pub mod flow_control;
pub mod identity_lease;
pub mod kubernetes_service;
pub mod rbac;
pub mod reconcile;

/// Writes that are on their way at once (the store groups them).
const CONCURRENCY: usize = 32;

/// What the objects of a cluster depend on.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the server can be reached from nodes and pods.
    pub server: kubernetes_service::Server,
    /// The CA of client certificates, for `extension-apiserver-authentication`.
    pub client_ca_pem: String,
    /// The CA of the certificate that other API servers know this one by, for the same.
    pub front_proxy_ca_pem: String,
}

/// Makes or repairs everything.
///
/// # Errors
/// The store can't be read or written.
pub async fn run(stores: &Stores, config: &Config) -> Result<(), Status> {
    // Namespaces first: everything else may live in one.
    apply_all(stores, defaults::namespaces()).await?;
    let now = Timestamp::now();
    let today = now.strftime("%Y-%m-%d").to_string();
    let mut objects = defaults::cluster_objects(&config.client_ca_pem, &config.front_proxy_ca_pem, &today);
    objects.extend(api_services::api_services(&now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()));
    objects.extend(flow_control::objects());
    objects.extend(rbac::cluster_roles());
    objects.extend(rbac::namespaced_roles());
    objects.extend(rbac::bindings());
    apply_all(stores, objects).await?;
    apply_all(stores, kubernetes_service::objects(&config.server)).await
}

/// Makes or repairs objects.
///
/// # Errors
/// The store can't be read or written.
pub async fn apply_all(stores: &Stores, objects: Vec<Object>) -> Result<(), Status> {
    let applied = objects.into_iter().map(|object| apply(stores, object));
    futures::stream::iter(applied).buffer_unordered(CONCURRENCY).try_collect().await
}

async fn apply(stores: &Stores, expected: Object) -> Result<(), Status> {
    let gvk = expected.gvk();
    let info = registry::find_kind(&gvk.group, &gvk.version, &gvk.kind)
        .ok_or_else(|| Status::internal(format!("{} isn't registered", gvk.group_kind())))?;
    let store = stores.of(info);
    match update(info, &store, &expected).await {
        Err(status) if status.code == 404 => {}
        done => return done,
    }
    let mut new = expected.clone();
    field_manager::record_own(info, manager_of(info), Timestamp::now(), None, &mut new);
    new.set_uid(&uuid::Uuid::new_v4().to_string());
    new.set("/metadata/creationTimestamp", Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    match store.create(new, false).await {
        // Another server was faster.
        Err(status) if status.reason == "AlreadyExists" => update(info, &store, &expected).await,
        created => created.map(drop),
    }
}

/// In whose name the server writes of its own accord.
fn manager_of(info: &ResourceInfo) -> &'static str {
    match info.group {
        "flowcontrol.apiserver.k8s.io" => "api-priority-and-fairness-config-producer-v1",
        _ => "kube-apiserver",
    }
}

async fn update(info: &'static ResourceInfo, store: &Store, expected: &Object) -> Result<(), Status> {
    let change = |current: std::sync::Arc<CachedObject>| {
        let object = match reconcile::repaired(&current.object, expected) {
            Some(mut repaired) => {
                let old = Some(&current.object);
                field_manager::record_own(info, manager_of(info), Timestamp::now(), old, &mut repaired);
                repaired
            }
            None => current.object.clone(),
        };
        std::future::ready(Ok(object))
    };
    store.update(expected.namespace(), expected.name(), false, change).await.map(drop)
}

#[cfg(test)]
mod tests;
