//! The revisions of a Deployment are its ReplicaSets: showing them, and going back to one.
//!
//! # In Kubernetes
//! `kubectl/pkg/polymorphichelpers/{history,rollback}.go`. Left out: DaemonSets and StatefulSets, the template's details.

use http::{Method, header};
use serde_json::{Value, json};

use super::{DryRun, Target, print_result};
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::printers::zero_values;
use crate::request::{self, ListParams, query};

const REVISION: &str = "deployment.kubernetes.io/revision";
const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";

/// The Deployment's ReplicaSets by revision, oldest first.
async fn revisions(
    ctx: &Context,
    target: &Target,
    deployment: &Object,
) -> Result<Vec<(i64, Object)>, Failure> {
    if deployment.kind() != "Deployment" {
        return Err(Failure::message(format!(
            "no history viewer has been implemented for {:?}",
            deployment.kind()
        )));
    }
    let sets = crate::resource::of::<k8s_openapi::api::apps::v1::ReplicaSet>();
    let selector = deployment.get("/spec/selector").cloned().unwrap_or_default();
    let selector =
        crate::selector::LabelSelector::from_match(&serde_json::from_value(selector).unwrap_or_default())?;
    let params = ListParams { label_selector: Some(selector.to_string()), ..ListParams::default() };
    let list = ctx.client().await?.objects(&sets, target.namespace.as_deref()).list(&params).await?;
    let owned = |set: &Object| set.owner_references().iter().any(|o| o.uid == deployment.uid());
    let numbered = list.items.into_iter().filter(owned).filter_map(|set| {
        let revision = set.annotation(REVISION)?.parse().ok()?;
        Some((revision, set))
    });
    let mut numbered: Vec<(i64, Object)> = numbered.collect();
    numbered.sort_by_key(|(revision, _)| *revision);
    Ok(numbered)
}

/// Shows the revisions.
pub(super) async fn show(ctx: &Context, target: &Target, revision: i64) -> Result<(), Failure> {
    let deployment = target.get(ctx).await?;
    let found = revisions(ctx, target, &deployment).await?;
    if revision > 0 {
        let set = found.iter().find(|(number, _)| *number == revision);
        let (_, set) = set.ok_or_else(|| Failure::message("unable to find the specified revision"))?;
        let template = set.get("/spec/template").cloned().unwrap_or_default();
        let text = crate::yaml::to_yaml(&json!({"Pod Template": template}));
        ctx.print(&format!("{} with revision #{revision}\n{text}", target.display_name()));
        return Ok(());
    }
    let mut lines = vec![vec!["REVISION".to_string(), "CHANGE-CAUSE".to_string()]];
    for (number, set) in &found {
        lines.push(vec![number.to_string(), set.annotation(CHANGE_CAUSE).unwrap_or("<none>").to_string()]);
    }
    // This table is aligned with two spaces, unlike the others.
    let widest = lines.iter().map(|line| line[0].len()).max().unwrap_or(0);
    let text: String =
        lines.iter().map(|line| format!("{:width$}{}\n", line[0], line[1], width = widest + 2)).collect();
    ctx.print(&format!("{} \n{text}\n", target.display_name()));
    Ok(())
}

/// Puts an earlier revision's template back.
pub(super) async fn undo(
    ctx: &Context,
    target: &Target,
    to_revision: i64,
    dry_run: DryRun,
) -> Result<(), Failure> {
    let deployment = target.get(ctx).await?;
    let found = revisions(ctx, target, &deployment).await?;
    let chosen = match to_revision {
        0 => found.len().checked_sub(2).and_then(|at| found.get(at)),
        wanted => found.iter().find(|(number, _)| *number == wanted),
    };
    let Some((_, set)) = chosen else {
        return Err(Failure::message(match to_revision {
            0 => format!("no rollout history found for deployment {:?}", deployment.name()),
            wanted => format!("unable to find specified revision {wanted} in history"),
        }));
    };
    if deployment.get("/spec/paused") == Some(&json!(true)) {
        return Err(Failure::message(
            "you cannot rollback a paused deployment; resume it first with 'kubectl rollout resume' and try again",
        ));
    }
    let mut template = set.get("/spec/template").cloned().unwrap_or_default();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove("pod-template-hash");
    }
    // kubectl sends the template as Go encodes it.
    zero_values::fill_type(&mut template, "PodTemplateSpec");
    if deployment.get("/spec/template") == Some(&template) {
        let current = to_revision;
        ctx.print(&format!(
            "{} skipped rollback (current template already matches revision {current})\n",
            target.display_name()
        ));
        return Ok(());
    }
    let annotations = set.annotations();
    let kept = annotations.into_iter().filter(|(key, _)| !key.starts_with("deployment.kubernetes.io/"));
    let mut merged = serde_json::Map::new();
    for (key, value) in kept.filter(|(key, _)| key != super::super::apply::LAST_APPLIED) {
        merged.insert(key, value.into());
    }
    for (key, value) in deployment.annotations() {
        if key.starts_with("deployment.kubernetes.io/") || key == super::super::apply::LAST_APPLIED {
            merged.insert(key, value.into());
        }
    }
    let patch = json!([
        {"op": "replace", "path": "/spec/template", "value": template},
        {"op": "replace", "path": "/metadata/annotations", "value": merged},
    ]);
    let result = match dry_run {
        DryRun::Client => deployment,
        _ => {
            let path = target.path(None) + &query(&[("dryRun", dry_run.query())]);
            let mut request = request::request(Method::PATCH, &path, Some(&patch));
            let content_type = "application/json-patch+json".parse().expect("a constant content type");
            request.headers_mut().insert(header::CONTENT_TYPE, content_type);
            ctx.client().await?.request::<Object>(request).await?
        }
    };
    print_result(ctx, None, &result, "rolled back", dry_run)
}
