//! Patches: strategic ones by the object's own name, or of any form by a target.
//!
//! # In Kubernetes
//! `kustomize/api/internal/builtins/{PatchTransformer,PatchStrategicMergeTransformer,PatchJson6902Transformer}.go`.

use std::path::Path;

use regex::Regex;
use serde_json::Value;

use super::kustomization::{Kustomization, Patch, Selector};
use super::{Resource, beside, read, text};
use crate::manifest;
use crate::object::Object;
use crate::patch::{apply_json_patch, apply_merge_patch, apply_strategic, merge_keys::is_built_in};
use crate::selector::LabelSelector;

/// Carries out all patches of a kustomization.
///
/// # Errors
/// A patch that can't be read or fits nothing.
pub fn apply(plan: &Kustomization, folder: &Path, resources: &mut Vec<Resource>) -> Result<(), String> {
    let old = plan.patches_strategic_merge.iter().map(|patch| match patch.contains('\n') {
        true => Patch { patch: patch.clone(), ..Patch::default() },
        false => Patch { path: patch.clone(), ..Patch::default() },
    });
    let all = old.chain(plan.patches_json6902.iter().cloned()).chain(plan.patches.iter().cloned());
    for patch in all {
        let content = match patch.path.as_str() {
            "" => patch.patch.clone(),
            path => read(&beside(folder, path))?,
        };
        let documents = manifest::documents(&content, "patch").map_err(|e| e.to_string())?;
        for document in documents {
            match (&document, &patch.target) {
                (Value::Array(_), None) => return Err("must specify a target for JSON patch".into()),
                (_, Some(target)) => by_target(&document, target, resources)?,
                (_, None) => by_name(&document, resources)?,
            }
        }
    }
    Ok(())
}

fn by_name(patch: &Value, resources: &mut Vec<Resource>) -> Result<(), String> {
    let wanted = Resource::new(patch.clone());
    let namespace = text(patch, "/metadata/namespace");
    let fits = |resource: &Resource| {
        resource.gvk() == wanted.gvk()
            && (resource.name() == wanted.name() || resource.names.iter().any(|name| name == wanted.name()))
            && (namespace.is_empty() || text(&resource.object, "/metadata/namespace") == namespace)
    };
    let Some(at) = resources.iter().position(fits) else {
        let id = wanted.id();
        return Err(format!(
            "no resource matches strategic merge patch {id:?}: no matches for Id {id}; failed to find unique target for patch {id}"
        ));
    };
    if patch["$patch"] == "delete" {
        resources.remove(at);
        return Ok(());
    }
    merge(&mut resources[at], patch)
}

fn by_target(patch: &Value, target: &Selector, resources: &mut Vec<Resource>) -> Result<(), String> {
    let chosen: Vec<usize> = (0..resources.len()).filter(|at| selects(target, &resources[*at])).collect();
    for at in chosen.into_iter().rev() {
        if patch.is_array() {
            apply_json_patch(&mut resources[at].object, patch).map_err(|e| e.to_string())?;
        } else if patch["$patch"] == "delete" {
            resources.remove(at);
        } else {
            merge(&mut resources[at], patch)?;
        }
    }
    Ok(())
}

/// The object keeps its kind and name, whatever the patch calls it.
fn merge(resource: &mut Resource, patch: &Value) -> Result<(), String> {
    let gvk = resource.gvk();
    let mut patch = patch.clone();
    for field in ["apiVersion", "kind"] {
        patch[field] = resource.object[field].clone();
    }
    if let Some(metadata) = patch["metadata"].as_object_mut() {
        metadata.remove("name");
        metadata.remove("namespace");
    }
    match is_built_in(&gvk) {
        true => apply_strategic(&mut resource.object, &patch, &gvk).map_err(|e| e.to_string()),
        false => {
            apply_merge_patch(&mut resource.object, &patch);
            Ok(())
        }
    }
}

/// Whether a selector means a resource; names and kinds are regular expressions for the whole text.
pub fn selects(selector: &Selector, resource: &Resource) -> bool {
    let gvk = resource.gvk();
    let fits = |pattern: &str, value: &str| {
        pattern.is_empty() || Regex::new(&format!("^(?:{pattern})$")).is_ok_and(|regex| regex.is_match(value))
    };
    let named =
        resource.names.iter().any(|name| fits(&selector.name, name)) || fits(&selector.name, resource.name());
    let object = Object::from_value(resource.object.clone()).unwrap_or_default();
    let labelled = |text: &str, map| {
        text.is_empty() || LabelSelector::parse(text).is_ok_and(|selector| selector.matches(&map))
    };
    fits(&selector.group, &gvk.group)
        && fits(&selector.version, &gvk.version)
        && fits(&selector.kind, &gvk.kind)
        && fits(&selector.namespace, text(&resource.object, "/metadata/namespace"))
        && named
        && labelled(&selector.label_selector, object.labels())
        && labelled(&selector.annotation_selector, object.annotations())
}
