//! Gathering: reads what the rules need, and nothing else.
//!
//! *Beside a pod's journey.* Before: a person named a workload, a file, a namespace, or everything. After: [`Facts`].
//!
//! One question to the server first: `/version`. Without an answer there is nothing to read, and [`connection`] finds out what can
//! be known from this side. With one, the objects are read in one go, each collection by one list; what may not be read is
//! noted and the rest goes on, so that a person with few rights gets few answers instead of none.
//!
//! The subtle thing is the time: Leases and ages are compared with the *server's* clock, from the `Date` of its answer; a
//! laptop that is a minute behind must not declare the scheduler dead.
//!
//! # Invariants
//! 1. Only GET requests are sent.
//! 2. A part that may not be read (403) is noted, never fatal; Secrets aren't read at all.
//!
//! # In Kubernetes
//! No counterpart.
#![expect(clippy::disallowed_methods, reason = "shell: the time, when the server doesn't tell it")]

use jiff::Timestamp;

use super::facts::{Facts, Missing, Unseen};
use super::finding::ObjectRef;
use super::trouble::TroubleKind;
use crate::commands::builder::{self, FilenameFlags};
use crate::commands::listing::{bare, list_all};
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::request::{self, ListParams};
use crate::resource::{ApiResource, GroupVersionKind, GroupVersionResource};

pub mod collections;
pub mod connection;
pub mod focus;

/// What a person asks about.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// `TYPE/NAME`, or TYPE and NAME.
    pub arguments: Vec<String>,
    /// Files.
    pub files: FilenameFlags,
    /// Every namespace.
    pub all_namespaces: bool,
}

/// Reads the facts.
///
/// # Errors
/// Arguments that mean nothing. A server that doesn't answer is a fact, not an error.
pub async fn gather(ctx: &Context, question: &Question) -> Result<Facts, Failure> {
    let now = match connection::server_time(ctx).await {
        Ok(time) => time,
        Err(error) => return connection::trouble(ctx, &error).await,
    };
    let manifests = if question.files.is_empty() { Vec::new() } else { question.files.read()? };
    let named = !question.arguments.is_empty() || !manifests.is_empty();
    let mut reading = Reading::default();
    for manifest in manifests {
        if let Err(error) = reading.manifest(ctx, manifest.object).await {
            return connection::trouble(ctx, &error).await;
        }
    }
    if !question.arguments.is_empty() {
        for wanted in builder::wanted(ctx, &question.arguments).await? {
            if wanted.names.is_empty() {
                return Err(Failure::message(
                    "why wants TYPE/NAME, -f FILE, -A, or nothing for the whole namespace",
                ));
            }
            for name in &wanted.names {
                let namespace = wanted.resource.namespaced.then(|| ctx.namespace());
                if let Err(error) =
                    reading.object(ctx, &wanted.resource, namespace.as_deref(), name, None).await
                {
                    return connection::trouble(ctx, &error).await;
                }
            }
        }
    }
    let scope = scope(ctx, question, &reading, named);
    let (mut objects, unseen) = collections::read(ctx, &scope).await;
    objects.extend(reading.found.iter().cloned());
    // When nothing at all may be read, that is the answer.
    if let Some(refusal) = collections::all_refused(&objects, &unseen) {
        return Ok(connection::trouble_of(ctx, TroubleKind::Forbidden, refusal).await);
    }
    let wide = !named;
    let focus = match (named, question.all_namespaces) {
        (true, _) => Some(focus::of_subjects(&reading.found, &objects)),
        (false, true) => None,
        (false, false) => Some(focus::of_namespace(&ctx.namespace(), &objects)),
    };
    if wide && !question.all_namespaces {
        reading.missing.extend(astray(ctx, &objects).await);
    }
    let subject = match (named, question.all_namespaces) {
        (true, _) => reading.asked.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        (false, true) => "all namespaces".into(),
        (false, false) => format!("namespace {}", ctx.namespace()),
    };
    let unready = connection::unready(ctx).await;
    Ok(Facts { subject, unseen, missing: reading.missing, unready, wide, ..Facts::new(now, objects, focus) })
}

/// Which namespaces to read; `None`: all.
fn scope(ctx: &Context, question: &Question, reading: &Reading, named: bool) -> collections::Scope {
    if question.all_namespaces {
        return collections::Scope::All;
    }
    let mut namespaces: Vec<String> =
        reading.found.iter().filter_map(Object::namespace).map(str::to_owned).collect();
    if !named {
        namespaces.push(ctx.namespace());
    }
    namespaces.sort();
    namespaces.dedup();
    // A node or a namespace is about everything on it.
    let cluster_wide = reading.found.iter().any(|object| object.namespace().is_none());
    if cluster_wide { collections::Scope::All } else { collections::Scope::Some(namespaces) }
}

/// What was named.
#[derive(Debug, Default)]
struct Reading {
    asked: Vec<ObjectRef>,
    found: Vec<Object>,
    missing: Vec<Missing>,
}

impl Reading {
    /// Looks an object of a file up.
    async fn manifest(&mut self, ctx: &Context, mut object: Object) -> Result<(), Failure> {
        let gvk = object.gvk();
        match ctx.discovery().await?.for_kind(&gvk).cloned() {
            Some(resource) => {
                let namespace = builder::place(ctx, &resource, &mut object)?;
                let name = object.name().to_owned();
                self.object(ctx, &resource, namespace.as_deref(), &name, Some(object)).await
            }
            None => {
                let served = served_as(ctx, &gvk).await?;
                let about = ObjectRef::of(&object);
                self.asked.push(about.clone());
                self.missing.push(Missing {
                    object: about,
                    elsewhere: Vec::new(),
                    unknown_kind: Some(gvk.api_version()),
                    served_as: served,
                    manifest: Some(object),
                });
                Ok(())
            }
        }
    }

    /// Reads one object; where it isn't, other namespaces are searched.
    async fn object(
        &mut self,
        ctx: &Context,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        manifest: Option<Object>,
    ) -> Result<(), Failure> {
        let about = ObjectRef::new(&resource.kind, namespace.unwrap_or_default(), name);
        self.asked.push(about.clone());
        match ctx.client().await?.request::<Object>(request::get(resource, namespace, name, None)).await {
            Ok(object) => self.found.push(object),
            Err(error) if error.is_not_found() => {
                let elsewhere =
                    if resource.namespaced { elsewhere(ctx, resource, name).await } else { Vec::new() };
                self.missing.push(Missing {
                    object: about,
                    manifest,
                    elsewhere,
                    unknown_kind: None,
                    served_as: Vec::new(),
                });
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// The namespaces that have an object of this name.
async fn elsewhere(ctx: &Context, resource: &ApiResource, name: &str) -> Vec<String> {
    let params =
        ListParams { field_selector: Some(format!("metadata.name={name}")), ..ListParams::default() };
    let found = list_all(ctx, resource, None, &params).await.unwrap_or_default();
    found
        .iter()
        .filter(|object| object.name() == name)
        .filter_map(Object::namespace)
        .map(str::to_owned)
        .collect()
}

/// The versions in which the server has a kind.
async fn served_as(ctx: &Context, gvk: &GroupVersionKind) -> Result<Vec<String>, Failure> {
    let discovery = ctx.discovery().await?;
    let same = discovery.resources().filter(|resource| resource.kind == gvk.kind);
    let mut versions: Vec<String> = same.map(|resource| resource.gvr.api_version()).collect();
    versions.dedup();
    Ok(versions)
}

/// An empty namespace that a context names, though the workloads are elsewhere. `default` is often empty and never a typo.
async fn astray(ctx: &Context, objects: &[Object]) -> Option<Missing> {
    let namespace = ctx.namespace();
    let here = |object: &&Object| object.namespace() == Some(namespace.as_str());
    let kinds = ["Pod", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Service", "ReplicaSet"];
    let empty = !objects.iter().filter(here).any(|object| kinds.contains(&object.kind()));
    if !empty || namespace == "default" {
        return None;
    }
    let deployments = GroupVersionResource::new("apps", "v1", "deployments");
    let all = list_all(ctx, &bare(&deployments, true), None, &ListParams::default()).await.ok()?;
    let mut elsewhere: Vec<String> = all.iter().filter_map(Object::namespace).map(str::to_owned).collect();
    elsewhere.retain(|name| !name.starts_with("kube-"));
    elsewhere.sort();
    elsewhere.dedup();
    let object = ObjectRef::new("Namespace", "", &namespace);
    Some(Missing { object, manifest: None, elsewhere, unknown_kind: None, served_as: Vec::new() })
        .filter(|missing| !missing.elsewhere.is_empty())
}

/// Our own clock, when the server doesn't tell its own.
pub(crate) fn own_time() -> Timestamp {
    Timestamp::now()
}

/// Something that could not be read.
pub(crate) fn unseen(what: String, error: &Failure) -> Unseen {
    Unseen { what, why: error.to_string() }
}

#[cfg(test)]
mod tests;
