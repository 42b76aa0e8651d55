//! Kustomize: manifests of others, changed without touching their files.
//!
//! *Step 1 of a pod's journey.* Before: a folder with a `kustomization.yaml`. After: [`crate::manifest`]s like any others.
//!
//! A kustomization names resources (files, or folders with a kustomization of their own) and says how they change: names,
//! labels, images, patches. It is carried out bottom up: each folder's result is the next one's input. The subtle thing is
//! names: a generated ConfigMap gets a hash behind its name, and everything that refers to it must follow, so an object
//! remembers the names it had ([`Resource::names`]), and [`references`] runs last.
//!
//! # Invariants
//! 1. No file is read outside of what the kustomization names.
//! 2. Two objects of one kind, namespace and name are an error, never a silent replacement.
//! 3. The order of the output depends on kinds and names alone.
//!
//! # In Kubernetes
//! `sigs.k8s.io/kustomize/api`. Left out: remote resources, plugins, helm charts, `vars`, `crds`, `configurations`; a patch
//! puts new list elements behind the old ones, not before them.
#![expect(clippy::disallowed_methods, reason = "shell: reads the files that a kustomization names")]

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::commands::create::generate::hash::hash;
use crate::manifest;
use crate::resource::GroupVersionKind;

/// ConfigMaps and Secrets from files and literals.
mod generate;
/// What a kustomization may say.
mod kustomization;
/// The order of the output.
mod order;
/// Changes of parts of objects.
mod patches;
/// Names inside objects.
mod references;
/// Values copied from one object to others.
mod replacements;
/// Labels, annotations, names, images, replicas.
mod transform;

use kustomization::Kustomization;

const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
/// A kustomization that names itself would never end.
const MAX_DEPTH: usize = 32;

/// An object on its way through the kustomizations.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// The object.
    pub object: Value,
    /// The names that it had, oldest first.
    pub names: Vec<String>,
    /// Whether a hash of its content goes behind its name.
    pub needs_hash: bool,
}

impl Resource {
    /// A resource as a file has it.
    fn new(object: Value) -> Self {
        let names = vec![text(&object, "/metadata/name").to_string()];
        Resource { object, names, needs_hash: false }
    }

    fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::from_api_version(text(&self.object, "/apiVersion"), text(&self.object, "/kind"))
    }

    fn name(&self) -> &str {
        text(&self.object, "/metadata/name")
    }

    /// `Deployment.v1.apps/web.[noNs]`.
    fn id(&self) -> String {
        let gvk = self.gvk();
        let kind = [gvk.kind.as_str(), &gvk.version, &gvk.group].into_iter().filter(|part| !part.is_empty());
        let kind = kind.collect::<Vec<_>>().join(".");
        let namespace = match text(&self.object, "/metadata/namespace") {
            "" => "[noNs]",
            namespace => namespace,
        };
        format!("{kind}/{}.{namespace}", self.name())
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The objects that a folder's kustomization makes, in the order in which they should be created.
///
/// # Errors
/// What is wrong with it, in kustomize's words.
pub fn build(folder: &Path) -> Result<Vec<Value>, String> {
    let folder = std::path::absolute(folder).map_err(|e| e.to_string())?;
    let folder = std::fs::canonicalize(&folder).unwrap_or(folder);
    let mut resources = build_folder(&folder, 0)?;
    for resource in resources.iter_mut().filter(|resource| resource.needs_hash) {
        // Kustomize looks the name up under another path and finds none, so its hashes leave the name out.
        let mut content = resource.object.clone();
        content["metadata"]["name"] = "".into();
        if content.get("data").is_none() {
            content["data"] = "".into();
        }
        let hash = hash(&content);
        let name = format!("{}-{hash}", resource.name());
        transform::rename(resource, name);
    }
    references::update(&mut resources);
    order::sort(&mut resources);
    Ok(resources.into_iter().map(|resource| resource.object).collect())
}

// ANCHOR: build-folder
fn build_folder(folder: &Path, depth: usize) -> Result<Vec<Resource>, String> {
    if depth > MAX_DEPTH {
        return Err(format!("cycle detected: candidate root '{}' contains itself", folder.display()));
    }
    let file = FILE_NAMES.iter().map(|name| folder.join(name)).find(|path| path.is_file()).ok_or_else(|| {
        format!(
            "unable to find one of 'kustomization.yaml', 'kustomization.yml' or 'Kustomization' in directory '{}'",
            folder.display()
        )
    })?;
    let plan = Kustomization::parse(&read(&file)?)?;
    let mut resources = Vec::new();
    for name in &plan.resources {
        let added = accumulate(folder, name, depth, &resources);
        resources.extend(added.map_err(|why| format!("accumulating resources: {why}"))?);
    }
    for name in &plan.components {
        // A component changes what was there before it, so it is only read here.
        let component = build_folder(&folder.join(name), depth + 1)?;
        resources.extend(component);
    }
    generate::add(&plan, folder, &mut resources)?;
    patches::apply(&plan, folder, &mut resources)?;
    transform::apply(&plan, &mut resources);
    replacements::apply(&plan, folder, &mut resources)?;
    Ok(resources)
}
// ANCHOR_END: build-folder

fn accumulate(folder: &Path, name: &str, depth: usize, before: &[Resource]) -> Result<Vec<Resource>, String> {
    let path = folder.join(name);
    if path.is_dir() {
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        let built = build_folder(&path, depth + 1)?;
        return merged(built, before)
            .map_err(|why| format!("recursed merging from path '{}': {why}", path.display()));
    }
    let shown = path.display();
    let not_folder = format!("must build at directory: '{shown}': file is not directory");
    let content = read(&path).map_err(|why| {
        let gone = format!("must build at directory: not a valid directory: evalsymlink failure on '{shown}' : lstat {shown}: no such file or directory");
        format!("accumulation err='accumulating resources from '{name}': {why}': {gone}")
    })?;
    let objects = manifest::documents(&content, name).map_err(|why| {
        format!("accumulation err='accumulating resources from '{name}': {why}': {not_folder}")
    })?;
    let mut resources = Vec::new();
    for object in objects {
        match object["items"].as_array().filter(|_| text(&object, "/kind").ends_with("List")) {
            Some(items) => resources.extend(items.iter().cloned().map(Resource::new)),
            None => resources.push(Resource::new(object)),
        }
    }
    merged(resources, before)
        .map_err(|why| format!("accumulation err='merging resources from '{name}': {why}': {not_folder}"))
}

/// The new resources, unless one of them is there already.
fn merged(new: Vec<Resource>, before: &[Resource]) -> Result<Vec<Resource>, String> {
    for (at, resource) in new.iter().enumerate() {
        let id = resource.id();
        if before.iter().chain(&new[..at]).any(|other| other.id() == id) {
            return Err(format!("may not add resource with an already registered id: {id}"));
        }
    }
    Ok(new)
}

/// Reads a file of bounded size.
fn read(path: &Path) -> Result<String, String> {
    let why = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("open {}: no such file or directory", path.display()),
        _ => format!("open {}: {error}", path.display()),
    };
    if std::fs::metadata(path).map_err(why)?.len() > manifest::MAX_FILE_BYTES as u64 {
        return Err(format!("{} is larger than {} bytes", path.display(), manifest::MAX_FILE_BYTES));
    }
    std::fs::read_to_string(path).map_err(why)
}

/// The path of a file that a kustomization names.
fn beside(folder: &Path, name: &str) -> PathBuf {
    folder.join(name)
}
