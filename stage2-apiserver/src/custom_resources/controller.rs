//! The controller of definitions: names are accepted, kinds become served, deleted definitions take their objects with them.
//!
//! *Before a custom object's journey.* Before: a CustomResourceDefinition was written. After: its status says whether it is established,
//! and its kinds are served.
//!
//! It runs inside the API server, since nobody else may write a definition's status, and without it nothing custom is served. Each
//! change of any definition is a reason to look at all of them: a name that one gives up is another's gain. What their status should be
//! is a function ([`super::names`]); only what differs is written.
//!
//! # Invariants
//! 1. A definition that is being deleted keeps its names until it is gone.
//! 2. An APIService of ours exists for exactly the group versions that are served.
//!
//! # In Kubernetes
//! `apiextensions-apiserver/pkg/controller/*`, `kube-aggregator/pkg/controllers/autoregister` and `pkg/controlplane/controller/crdregistration`.
//! Left out: the five seconds that Kubernetes waits before it establishes (a server that doesn't know a kind asks the store).
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use serde_json::json;
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;
use tokio_util::sync::CancellationToken;

use super::{CustomResources, cleanup, definitions_info, names};
use crate::bootstrap;
use crate::handlers::field_manager;
use crate::registry;
use crate::store::DeleteRequest;
use crate::watch_cache::{At, CacheEvent, CachedObject, WatchOptions, WatchStart};

/// In whose name a definition's status is written.
pub const MANAGER: &str = "kube-apiserver";
/// The label of APIServices that come and go with definitions.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
const RETRY: Duration = Duration::from_millis(200);
/// How custom groups stand among all groups: last.
const GROUP_PRIORITY: i64 = 1000;
const VERSION_PRIORITY: i64 = 100;

/// Follows definitions until the server stops.
pub async fn run(customs: Arc<CustomResources>, shutdown: CancellationToken) {
    let mut cleaning: BTreeSet<String> = BTreeSet::new();
    loop {
        let options = WatchOptions {
            scope: definitions_info().key_prefix(None),
            selector: None,
            start: WatchStart::Initial(At::Any),
            bookmarks: false,
            send_initial_events: true,
        };
        match customs.definitions.cacher().watch(options).await {
            Ok(stream) => {
                // Many definitions are often applied at once: what came together is looked at together.
                let mut events = stream.ready_chunks(64);
                while let Some(chunk) = events.next().await {
                    if chunk
                        .iter()
                        .all(|event| matches!(event, CacheEvent::Bookmark { initial_events_end: false, .. }))
                    {
                        continue;
                    }
                    customs.refresh();
                    if let Err(status) = reconcile(&customs, &mut cleaning, &shutdown).await {
                        tracing::warn!(%status, "Custom resource definitions could not be reconciled");
                    }
                }
            }
            Err(status) => {
                tracing::warn!(%status, "Custom resource definitions can't be followed, trying again")
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn reconcile(
    customs: &Arc<CustomResources>,
    cleaning: &mut BTreeSet<String>,
    shutdown: &CancellationToken,
) -> Result<(), Status> {
    let present = customs.definitions.cacher().present(&definitions_info().key_prefix(None));
    for definition in &present {
        if definition.object.deletion_timestamp().is_some() {
            if cleaning.insert(definition.object.uid().to_owned()) {
                let task = cleanup::run(customs.clone(), definition.object.clone());
                let shutdown = shutdown.clone();
                tokio::spawn(async move { shutdown.run_until_cancelled(task).await });
            }
            continue;
        }
        let all: Vec<&Object> = present.iter().map(|other| &other.object).collect();
        let status = names::status(&definition.object, &all, Timestamp::now());
        if definition.object.get("/status") != Some(&status) {
            write_status(customs, definition.object.name()).await?;
        }
    }
    api_services(customs).await
}

/// Writes what a definition's status should be by what is known now.
async fn write_status(customs: &CustomResources, name: &str) -> Result<(), Status> {
    let change = |current: Arc<CachedObject>| {
        let present = customs.definitions.cacher().present(&definitions_info().key_prefix(None));
        let all: Vec<&Object> = present.iter().map(|other| &other.object).collect();
        let status = names::status(&current.object, &all, Timestamp::now());
        std::future::ready(Ok(with_status(&current.object, |new| new.set("/status", status))))
    };
    match customs.definitions.update(None, name, false, change).await {
        Err(status) if status.code == 404 => Ok(()),
        written => written.map(drop),
    }
}

/// A definition with another status, booked to the server.
pub fn with_status(current: &Object, change: impl FnOnce(&mut Object)) -> Object {
    let mut new = current.clone();
    change(&mut new);
    if new != *current {
        field_manager::record_own_status(definitions_info(), MANAGER, Timestamp::now(), current, &mut new);
    }
    new
}

/// One APIService a served group version, and none for those that aren't served any more.
async fn api_services(customs: &CustomResources) -> Result<(), Status> {
    let info = registry::find("apiregistration.k8s.io", "v1", "apiservices").expect("a built-in resource");
    let store = customs.stores.of(info);
    let catalog = customs.catalog();
    let wanted: BTreeSet<(&str, &str)> = catalog
        .customs()
        .iter()
        .filter(|info| !registry::versions(info.group).contains(&info.version))
        .map(|info| (info.group, info.version))
        .collect();
    store.cacher().wait_for(At::Any).await?;
    let present = store.cacher().present(&info.key_prefix(None));
    let names: BTreeSet<&str> = present.iter().map(|service| service.object.name()).collect();
    let missing =
        wanted.iter().filter(|(group, version)| !names.contains(format!("{version}.{group}").as_str()));
    let made = missing.map(|(group, version)| api_service(group, version)).collect();
    bootstrap::apply_all(&customs.stores, made).await?;
    for service in present.iter().map(|service| &service.object) {
        let is_ours = service.label(AUTOMANAGED) == Some("true");
        let (group, version) = (service.get_str("/spec/group"), service.get_str("/spec/version"));
        if is_ours && !wanted.contains(&(group.unwrap_or_default(), version.unwrap_or_default())) {
            let request = DeleteRequest::at(Timestamp::now());
            let gone = store
                .delete(None, service.name(), &request, &Default::default(), |_| std::future::ready(Ok(())))
                .await;
            if let Err(status) = gone.map(drop)
                && status.code != 404
            {
                return Err(status);
            }
        }
    }
    Ok(())
}

fn api_service(group: &str, version: &str) -> Object {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": { "name": format!("{version}.{group}"), "labels": { AUTOMANAGED: "true" } },
        "spec": {
            "group": group, "version": version,
            "groupPriorityMinimum": GROUP_PRIORITY, "versionPriority": VERSION_PRIORITY,
        },
        "status": {"conditions": [{
            "type": "Available", "status": "True", "lastTransitionTime": now,
            "reason": "Local", "message": "Local APIServices are always available",
        }]},
    });
    Object::from_value(service).expect("a map")
}

#[cfg(test)]
mod tests;
