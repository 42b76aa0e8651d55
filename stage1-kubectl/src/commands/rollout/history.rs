//! The revisions of a workload: showing them, and going back to one.
//!
//! A Deployment's revisions are its ReplicaSets; a DaemonSet's and a StatefulSet's are ControllerRevisions, which hold a patch that
//! brings the template back. Both end as a number, a cause and a template ([`Revision`]).
//!
//! # In Kubernetes
//! `kubectl/pkg/polymorphichelpers/{history,rollback}.go`. Left out: a DaemonSet's dry run says less about what would change.
#![expect(clippy::disallowed_methods, reason = "shell: a page needs the time")]

use serde_json::{Value, json};

use super::{DryRun, Target, print_result};
use crate::commands::apply::LAST_APPLIED;
use crate::commands::record::CHANGE_CAUSE;
use crate::context::Context;
use crate::describe::{doc::Doc, pod_template};
use crate::failure::Failure;
use crate::object::Object;
use crate::patch;
use crate::printers::{self, Printer, zero_values};
use crate::request::{self, ListParams, PatchType, query};

const REVISION: &str = "deployment.kubernetes.io/revision";

/// One state that the workload was in.
struct Revision {
    number: i64,
    cause: Option<String>,
    template: Value,
    /// The ReplicaSet, or the workload as it was.
    object: Object,
    /// A ControllerRevision's patch.
    data: Value,
}

/// The workload's revisions, oldest first.
async fn revisions(ctx: &Context, target: &Target, workload: &Object) -> Result<Vec<Revision>, Failure> {
    let resource = match workload.kind() {
        "Deployment" => crate::resource::of::<k8s_openapi::api::apps::v1::ReplicaSet>(),
        "DaemonSet" | "StatefulSet" => {
            crate::resource::of::<k8s_openapi::api::apps::v1::ControllerRevision>()
        }
        kind => return Err(Failure::message(format!("no history viewer has been implemented for {kind:?}"))),
    };
    let selector = workload.get("/spec/selector").cloned().unwrap_or_default();
    let selector =
        crate::selector::LabelSelector::from_match(&serde_json::from_value(selector).unwrap_or_default())?;
    let params = ListParams { label_selector: Some(selector.to_string()), ..ListParams::default() };
    let list = ctx.client().await?.objects(&resource, target.namespace.as_deref()).list(&params).await?;
    let owned = |object: &Object| object.owner_references().iter().any(|o| o.uid == workload.uid());
    let mut found = Vec::new();
    for object in list.items.into_iter().filter(owned) {
        found.extend(revision(workload, object)?);
    }
    found.sort_by_key(|revision| revision.number);
    Ok(found)
}

fn revision(workload: &Object, object: Object) -> Result<Option<Revision>, Failure> {
    let cause = object.annotation(CHANGE_CAUSE).map(String::from);
    if workload.kind() == "Deployment" {
        let number = object.annotation(REVISION).and_then(|text| text.parse().ok());
        let template = object.get("/spec/template").cloned().unwrap_or_default();
        return Ok(number.map(|number| Revision { number, cause, template, object, data: Value::Null }));
    }
    let Some(number) = object.get_i64("/revision") else { return Ok(None) };
    let data = object.get("/data").cloned().unwrap_or_default();
    let mut then = workload.as_value().clone();
    patch::apply_strategic(&mut then, &data, &workload.gvk())?;
    let template = then["spec"]["template"].clone();
    let object = Object::from_value(then).map_err(|e| Failure::message(e.to_string()))?;
    Ok(Some(Revision { number, cause, template, object, data }))
}

/// A template as a page.
fn page(template: &Value, cause: Option<&str>) -> String {
    let mut template = template.clone();
    if let Some(cause) = cause {
        template["metadata"]["annotations"][CHANGE_CAUSE] = cause.into();
    }
    let mut doc = Doc::new(jiff::Timestamp::now());
    pod_template::write(&mut doc, &template);
    doc.unaligned()
}

/// Shows the revisions, or one of them.
pub(super) async fn show(
    ctx: &Context,
    target: &Target,
    wanted: i64,
    printer: Option<&Printer>,
) -> Result<(), Failure> {
    let workload = target.get(ctx).await?;
    let found = revisions(ctx, target, &workload).await?;
    let one = found.iter().find(|revision| revision.number == wanted);
    if let Some(printer) = printer {
        return print(ctx, printer, wanted, one, &found);
    }
    if wanted > 0 {
        let one = one.ok_or_else(|| Failure::message("unable to find the specified revision"))?;
        let cause = one.cause.as_deref().filter(|_| workload.kind() == "Deployment");
        let text = page(&one.template, cause);
        ctx.print(&format!("{} with revision #{wanted}\n{text}\n", target.display_name()));
        return Ok(());
    }
    let mut lines = vec![["REVISION".to_string(), "CHANGE-CAUSE".to_string()]];
    for revision in &found {
        let cause = revision.cause.clone().filter(|cause| !cause.is_empty());
        lines.push([revision.number.to_string(), cause.unwrap_or_else(|| "<none>".into())]);
    }
    // This table is aligned with two spaces, unlike the others.
    let widest = lines.iter().map(|line| line[0].len()).max().unwrap_or(0);
    let text: String =
        lines.iter().map(|line| format!("{:width$}{}\n", line[0], line[1], width = widest + 2)).collect();
    ctx.print(&format!("{} \n{text}\n", target.display_name()));
    Ok(())
}

fn print(
    ctx: &Context,
    printer: &Printer,
    wanted: i64,
    one: Option<&Revision>,
    all: &[Revision],
) -> Result<(), Failure> {
    if wanted > 0 {
        let one = one.ok_or_else(|| Failure::message("unable to find the specified revision"))?;
        ctx.print(&printer.render(one.object.as_value())?);
        return Ok(());
    }
    for (at, revision) in all.iter().enumerate() {
        let separator = at > 0 && printer.form == printers::Output::Yaml;
        ctx.print(if separator { "---\n" } else { "" });
        ctx.print(&printer.render(revision.object.as_value())?);
    }
    Ok(())
}

/// Puts an earlier revision's template back.
pub(super) async fn undo(
    ctx: &Context,
    target: &Target,
    to_revision: i64,
    dry_run: DryRun,
    printer: Option<&Printer>,
) -> Result<(), Failure> {
    let workload = target.get(ctx).await?;
    let found = revisions(ctx, target, &workload).await?;
    let chosen = match to_revision {
        0 => found.len().checked_sub(2).and_then(|at| found.get(at)),
        wanted => found.iter().find(|revision| revision.number == wanted),
    };
    let Some(chosen) = chosen else {
        return Err(Failure::message(match to_revision {
            0 if workload.kind() == "Deployment" => {
                format!("no rollout history found for deployment {:?}", workload.name())
            }
            0 => "no last revision to roll back to".into(),
            wanted => format!("unable to find specified revision {wanted} in history"),
        }));
    };
    if workload.get("/spec/paused") == Some(&json!(true)) {
        return Err(Failure::message(
            "you cannot rollback a paused deployment; resume it first with 'kubectl rollout resume' and try again",
        ));
    }
    if dry_run == DryRun::Client {
        let done = format!("will roll back to {}", page(&chosen.template, None));
        return print_result(ctx, printer, &workload, &done, dry_run);
    }
    let (patch, patch_type, same) = match workload.kind() {
        "Deployment" => {
            let (patch, same) = deployment_patch(&workload, chosen);
            (patch, PatchType::Json, same)
        }
        _ => {
            let same = workload.get("/spec/template") == Some(&chosen.template);
            (chosen.data.clone(), PatchType::Strategic, same)
        }
    };
    if same {
        let name = target.display_name();
        let current = if workload.kind() == "Deployment" { to_revision } else { chosen.number };
        let why = format!("skipped rollback (current template already matches revision {current})");
        ctx.print(&format!("{name} {why}\n"));
        return Ok(());
    }
    let path = target.path(None) + &query(&[("dryRun", dry_run.query())]);
    let request = request::patch_at(&path, patch_type, &patch);
    let result = ctx.client().await?.request::<Object>(request).await?;
    print_result(ctx, printer, &result, "rolled back", dry_run)
}

/// A Deployment takes the ReplicaSet's template and annotations; whether it has that template already.
fn deployment_patch(deployment: &Object, chosen: &Revision) -> (Value, bool) {
    let mut template = chosen.template.clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove("pod-template-hash");
    }
    // kubectl sends the template as Go encodes it.
    zero_values::fill_type(&mut template, "PodTemplateSpec");
    let same = deployment.get("/spec/template") == Some(&template);
    let ours = |key: &str| key.starts_with("deployment.kubernetes.io/") || key == LAST_APPLIED;
    let mut merged = serde_json::Map::new();
    for (key, value) in chosen.object.annotations().into_iter().filter(|(key, _)| !ours(key)) {
        merged.insert(key, value.into());
    }
    for (key, value) in deployment.annotations().into_iter().filter(|(key, _)| ours(key)) {
        merged.insert(key, value.into());
    }
    let patch = json!([
        {"op": "replace", "path": "/spec/template", "value": template},
        {"op": "replace", "path": "/metadata/annotations", "value": merged},
    ]);
    (patch, same)
}
