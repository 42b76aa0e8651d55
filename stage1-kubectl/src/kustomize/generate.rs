//! ConfigMaps and Secrets from literals and files; a hash of the content goes behind their names later.
//!
//! # In Kubernetes
//! `kustomize/api/internal/generators`, `kustomize/api/kv`.

use std::path::Path;

use serde_json::{Map, Value};

use super::kustomization::{Generator, Kustomization, Options};
use super::{Resource, beside, text};
use crate::commands::create::generate::data::{config_map_of, secret_of};
use crate::commands::create::generate::sources::{self, Entries, SourceFlags};
use crate::failure::Failure;

/// Adds what a kustomization generates.
///
/// # Errors
/// A source that can't be read, or a generated object that is there already.
pub fn add(plan: &Kustomization, folder: &Path, resources: &mut Vec<Resource>) -> Result<(), String> {
    let all = plan.config_map_generator.iter().map(|one| (one, false));
    for (generator, secret) in all.chain(plan.secret_generator.iter().map(|one| (one, true))) {
        let entries = entries(generator, folder).map_err(|failure| message(&failure))?;
        let kind = if generator.r#type.is_empty() { "Opaque" } else { &generator.r#type };
        let object = match secret {
            true => secret_of(&generator.name, kind, entries),
            false => config_map_of(&generator.name, entries),
        };
        let mut object = object.map_err(|failure| message(&failure))?;
        dress(&mut object, generator, &plan.generator_options);
        let off =
            plan.generator_options.disable_name_suffix_hash || generator.options.disable_name_suffix_hash;
        let new = Resource { needs_hash: !off, ..Resource::new(object) };
        place(new, &generator.behavior, resources)?;
    }
    Ok(())
}

fn message(failure: &Failure) -> String {
    let text = failure.report().0;
    text.strip_prefix("error: ").unwrap_or(&text).to_string()
}

fn entries(generator: &Generator, folder: &Path) -> Result<Entries, Failure> {
    let inside = |source: &String| {
        let (key, path) =
            source.split_once('=').map_or((None, source.as_str()), |(key, path)| (Some(key), path));
        let path = beside(folder, path).display().to_string();
        key.map_or(path.clone(), |key| format!("{key}={path}"))
    };
    let flags = SourceFlags {
        from_literal: generator.literals.clone(),
        from_file: generator.files.iter().map(inside).collect(),
        from_env_file: Vec::new(),
    };
    let mut entries = sources::read(&flags)?;
    for file in generator.envs.iter().chain(Some(&generator.env).filter(|file| !file.is_empty())) {
        let variables = sources::env_file(&beside(folder, file).display().to_string())?;
        entries.extend(variables.into_iter().map(|(key, value)| (key, value.into_bytes())));
    }
    Ok(entries)
}

/// Namespace, labels, annotations, immutability.
fn dress(object: &mut Value, generator: &Generator, shared: &Options) {
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    metadata.remove("creationTimestamp");
    if !generator.namespace.is_empty() {
        metadata.insert("namespace".into(), generator.namespace.as_str().into());
    }
    let both = |shared: &Map<String, Value>, own: &Map<String, Value>| {
        let mut map = shared.clone();
        map.extend(own.clone());
        map
    };
    let labels = both(&shared.labels, &generator.options.labels);
    let annotations = both(&shared.annotations, &generator.options.annotations);
    for (field, map) in [("labels", labels), ("annotations", annotations)] {
        if !map.is_empty() {
            metadata.insert(field.into(), map.into());
        }
    }
    if shared.immutable || generator.options.immutable {
        object["immutable"] = true.into();
    }
}

fn place(new: Resource, behavior: &str, resources: &mut Vec<Resource>) -> Result<(), String> {
    let there = resources.iter_mut().find(|old| {
        old.gvk() == new.gvk()
            && old.names.first() == new.names.first()
            && text(&old.object, "/metadata/namespace") == text(&new.object, "/metadata/namespace")
    });
    let id = new.id();
    match (there, behavior) {
        (None, "" | "create") => resources.push(new),
        (Some(_), "" | "create") => {
            return Err(format!("may not add resource with an already registered id: {id}"));
        }
        (None, _) => return Err(format!("id {id} does not exist; cannot merge or replace")),
        (Some(old), "replace") => *old = Resource { names: old.names.clone(), ..new },
        (Some(old), "merge") => {
            for field in ["data", "binaryData"] {
                if let Some(values) = new.object[field].as_object() {
                    let mut all = old.object[field].as_object().cloned().unwrap_or_default();
                    all.extend(values.clone());
                    old.object[field] = all.into();
                }
            }
        }
        (Some(_), other) => return Err(format!("unknown behavior {other:?}")),
    }
    Ok(())
}
