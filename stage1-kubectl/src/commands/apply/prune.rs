//! `kubectl apply --prune`: deletes what an earlier apply made and this one doesn't name.
//!
//! Only objects that carry the last manifest are candidates: what somebody else created is left alone.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/apply/prune.go`. Left out: ApplySets.

use std::collections::BTreeSet;

use http::Method;
use serde_json::json;

use super::{ApplyArgs, LAST_APPLIED};
use crate::commands::DryRun;
use crate::commands::create::print_result;
use crate::commands::listing::list_all;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::printers::Printer;
use crate::request::{self, ListParams};
use crate::resource::{ApiResource, GroupVersionKind};

/// The kinds that are pruned unless `--prune-allowlist` names others.
const DEFAULT_ALLOWLIST: &[&str] = &[
    "core/v1/ConfigMap",
    "core/v1/Endpoints",
    "core/v1/PersistentVolumeClaim",
    "core/v1/Pod",
    "core/v1/ReplicationController",
    "core/v1/Secret",
    "core/v1/Service",
    "batch/v1/Job",
    "batch/v1/CronJob",
    "networking.k8s.io/v1/Ingress",
    "apps/v1/DaemonSet",
    "apps/v1/Deployment",
    "apps/v1/ReplicaSet",
    "apps/v1/StatefulSet",
    "core/v1/Namespace",
    "core/v1/PersistentVolume",
];

/// What was applied: its uid, and where it lives.
pub(in crate::commands) struct Applied {
    uid: String,
    namespace: Option<String>,
}

impl Applied {
    pub(in crate::commands) fn of(resource: &ApiResource, object: &Object) -> Self {
        let namespace = object.namespace().filter(|_| resource.namespaced).map(String::from);
        Applied { uid: object.uid().to_string(), namespace }
    }
}

/// Deletes the candidates that weren't applied.
pub(super) async fn prune(
    ctx: &Context,
    args: &ApplyArgs,
    dry_run: DryRun,
    output: Option<&Printer>,
    applied: &[Applied],
) -> Result<(), Failure> {
    for (resource, object) in candidates(ctx, &args.prune_allowlist, args.selector.as_ref(), applied).await? {
        if dry_run != DryRun::Client {
            delete(ctx, args, &resource, &object, dry_run).await?;
        }
        print_result(ctx, output, &object, "pruned", dry_run)?;
    }
    Ok(())
}

/// What an earlier apply made and this one doesn't name.
pub(in crate::commands) async fn candidates(
    ctx: &Context,
    allowlist: &[String],
    selector: Option<&String>,
    applied: &[Applied],
) -> Result<Vec<(ApiResource, Object)>, Failure> {
    let mut found = Vec::new();
    let uids: BTreeSet<&str> = applied.iter().map(|a| a.uid.as_str()).collect();
    let namespaces: BTreeSet<&str> = applied.iter().filter_map(|a| a.namespace.as_deref()).collect();
    for resource in allowed(ctx, allowlist).await? {
        let scopes: Vec<Option<&str>> = match resource.namespaced {
            true => namespaces.iter().copied().map(Some).collect(),
            false => vec![None],
        };
        let params = ListParams { label_selector: selector.cloned(), ..ListParams::default() };
        for scope in scopes {
            for object in list_all(ctx, &resource, scope, &params).await? {
                let ours = object.annotation(LAST_APPLIED).is_some();
                if !ours || uids.contains(object.uid()) || object.deletion_timestamp().is_some() {
                    continue;
                }
                found.push((resource.clone(), object));
            }
        }
    }
    Ok(found)
}

async fn delete(
    ctx: &Context,
    args: &ApplyArgs,
    resource: &ApiResource,
    object: &Object,
    dry_run: DryRun,
) -> Result<(), Failure> {
    let mut options = args.deletion.body(args.deletion.grace_period_seconds())?;
    options["kind"] = "DeleteOptions".into();
    options["apiVersion"] = "v1".into();
    if dry_run == DryRun::Server {
        options["dryRun"] = json!(["All"]);
    }
    let path = resource.path(object.namespace(), Some(object.name()), None);
    ctx.client().await?.send(request::request(Method::DELETE, &path, Some(&options))).await?;
    Ok(())
}

/// The resources of the allowlist, namespaced ones first.
async fn allowed(ctx: &Context, given: &[String]) -> Result<Vec<ApiResource>, Failure> {
    let defaults: Vec<String> = DEFAULT_ALLOWLIST.iter().map(|entry| entry.to_string()).collect();
    let mut found = Vec::new();
    for entry in if given.is_empty() { &defaults } else { given } {
        let bad = || {
            Failure::message(format!(
                "invalid GroupVersionKind format: {entry}, please follow <group/version/kind>"
            ))
        };
        let [group, version, kind] = entry.split('/').collect::<Vec<_>>()[..] else { return Err(bad()) };
        let group = if group == "core" { "" } else { group };
        let gvk = GroupVersionKind {
            group: group.to_string(),
            version: version.to_string(),
            kind: kind.to_string(),
        };
        found.extend(ctx.discovery().await?.for_kind(&gvk).cloned());
    }
    found.sort_by_key(|resource| !resource.namespaced);
    Ok(found)
}
