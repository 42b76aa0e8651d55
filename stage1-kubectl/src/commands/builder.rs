//! Which objects a command is about: arguments, files, selectors.
//!
//! `pods web db`, `deploy/web svc/dns`, `pods,services -l app=web`, `-f file.yaml`: all end as a list of [`Target`]s.
//!
//! # In Kubernetes
//! `cli-runtime/pkg/resource/builder.go`.

use std::path::Path;

use clap::Args;
use http::Method;
use serde_json::Value;

use crate::context::Context;
use crate::failure::Failure;
use crate::kustomize;
use crate::manifest::{Check, Manifest, read_each};
use crate::object::Object;
use crate::printers;
use crate::request;
use crate::resource::ApiResource;
use crate::selector::LabelSelector;

/// `-f`, `-R`, `-k`.
#[derive(Debug, Clone, Default, Args)]
pub struct FilenameFlags {
    /// Files, folders or `-` for stdin.
    #[arg(short = 'f', long = "filename", value_delimiter = ',')]
    pub filenames: Vec<String>,
    /// Process the directory used in -f, --filename recursively.
    #[arg(short = 'R', long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub recursive: bool,
    /// A folder with a kustomization; can't be used together with -f.
    #[arg(short = 'k', long)]
    pub kustomize: Option<String>,
}

impl FilenameFlags {
    /// Whether no file was named.
    pub fn is_empty(&self) -> bool {
        self.filenames.is_empty() && self.kustomize.is_none()
    }

    /// The objects in the files.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn read(&self) -> Result<Vec<Manifest>, Failure> {
        let (mut manifests, mut failures) = (Vec::new(), Vec::new());
        for found in self.read_each(Check::Decode)? {
            match found {
                Ok(manifest) => manifests.push(manifest),
                Err(failure) => failures.push(failure),
            }
        }
        Failure::collect(failures).map(|()| manifests)
    }

    /// Each object in the files, or why a document isn't one: what can be read is used in spite of what can't.
    ///
    /// # Errors
    /// A file that isn't there.
    pub fn read_each(&self, check: Check) -> Result<Vec<Result<Manifest, Failure>>, Failure> {
        if let Some(folder) = &self.kustomize {
            return self.kustomized(folder);
        }
        let found = read_each(&self.filenames, self.recursive, check)?;
        Ok(found.into_iter().map(|one| one.map_err(Failure::from)).collect())
    }

    /// What a kustomization makes.
    fn kustomized(&self, folder: &str) -> Result<Vec<Result<Manifest, Failure>>, Failure> {
        if !self.filenames.is_empty() {
            return Err(Failure::message("only one of -f or -k can be specified"));
        }
        let objects = kustomize::build(Path::new(folder)).map_err(Failure::message)?;
        let manifest = |value| match Object::from_value(value) {
            Ok(object) => Ok(Manifest { object, source: folder.to_string() }),
            Err(error) => Err(Failure::message(error.to_string())),
        };
        Ok(objects.into_iter().map(manifest).collect())
    }
}

/// Sends each of the objects that were read and that a selector selects, in their order; goes on when one fails.
///
/// # Errors
/// A selector that is none, nothing to send, or what failed.
pub async fn send_each(
    found: Vec<Result<Manifest, Failure>>,
    selector: Option<&str>,
    verb: &str,
    mut send: impl AsyncFnMut(Manifest) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let selector = selector.map(LabelSelector::parse).transpose()?;
    let selected = |object: &Object| selector.as_ref().is_none_or(|s| s.matches(&object.labels()));
    let (mut failures, mut any) = (Vec::new(), false);
    for one in found {
        let done = match one {
            // What can't be read has no labels; it is told.
            Ok(manifest) if !selected(&manifest.object) => continue,
            Ok(manifest) => send(manifest).await,
            Err(failure) => Err(failure),
        };
        any = true;
        failures.extend(done.err());
    }
    match any {
        true => Failure::collect(failures),
        false => Err(Failure::message(format!("no objects passed to {verb}"))),
    }
}

/// One object on the server.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its resource.
    pub resource: ApiResource,
    /// Its namespace, for namespaced resources.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The manifest, when it was named by a file.
    pub manifest: Option<Manifest>,
}

impl Target {
    /// Its path, or that of a subresource.
    pub fn path(&self, subresource: Option<&str>) -> String {
        self.resource.path(self.namespace.as_deref(), Some(&self.name), subresource)
    }

    /// `deployment.apps/web`, without asking the server.
    pub fn display_name(&self) -> String {
        let kind = self.resource.kind.to_lowercase();
        match self.resource.gvr.group.as_str() {
            "" => format!("{kind}/{}", self.name),
            group => format!("{kind}.{group}/{}", self.name),
        }
    }

    /// Reads the object.
    ///
    /// # Errors
    /// It isn't there, or the server doesn't answer.
    pub async fn get(&self, ctx: &Context) -> Result<Object, Failure> {
        let request = request::request(Method::GET, &self.path(None), None);
        Ok(ctx.client().await?.request(request).await?)
    }
}

/// What was given besides names.
#[derive(Debug, Clone, Default)]
pub struct Selection<'a> {
    /// `-l`.
    pub label_selector: Option<&'a str>,
    /// `--field-selector`.
    pub field_selector: Option<&'a str>,
    /// `--all`.
    pub all: bool,
    /// `-A`.
    pub all_namespaces: bool,
    /// A kind without names means all of its objects.
    pub unnamed: bool,
}

/// A resource and the names that were given for it; no names mean all of them.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The resource.
    pub resource: ApiResource,
    /// The names.
    pub names: Vec<String>,
}

/// Splits arguments into resources and names.
///
/// # Errors
/// A resource that there isn't, or arguments that mix both forms.
pub async fn wanted(ctx: &Context, arguments: &[String]) -> Result<Vec<Wanted>, Failure> {
    let Some(first) = arguments.first() else { return Ok(Vec::new()) };
    let mut wanted: Vec<Wanted> = Vec::new();
    if first.contains('/') {
        for argument in arguments {
            let (kind, name) = argument.split_once('/').ok_or_else(|| {
                Failure::message("there is no need to specify a resource type as a separate argument when passing arguments in resource/name form (e.g. 'kubectl get resource/<resource_name>' instead of 'kubectl get resource resource/<resource_name>'")
            })?;
            if name.is_empty() || name.contains('/') {
                let why = "arguments in resource/name form must have a single resource and name";
                return Err(Failure::message(why));
            }
            for kind in kind.split(',') {
                let resource = ctx.resource(kind).await?.clone();
                wanted.push(Wanted { resource, names: vec![name.to_string()] });
            }
        }
        return Ok(wanted);
    }
    if let Some(mixed) = arguments[1..].iter().find(|a| a.contains('/')) {
        let _ = mixed;
        return Err(Failure::message(
            "there is no need to specify a resource type as a separate argument when passing arguments in resource/name form (e.g. 'kubectl get resource/<resource_name>' instead of 'kubectl get resource resource/<resource_name>'",
        ));
    }
    for kind in first.split(',') {
        let category = ctx.discovery().await?.category(kind);
        let names = arguments[1..].to_vec();
        match category.is_empty() {
            false => wanted
                .extend(category.into_iter().map(|r| Wanted { resource: r.clone(), names: names.clone() })),
            true => wanted.push(Wanted { resource: ctx.resource(kind).await?.clone(), names }),
        }
    }
    Ok(wanted)
}

/// Every object that is meant; lists are asked from the server.
///
/// # Errors
/// Nothing was named, or something can't be found out.
pub async fn targets(
    ctx: &Context,
    arguments: &[String],
    files: &FilenameFlags,
    selection: &Selection<'_>,
) -> Result<Vec<Target>, Failure> {
    if !files.is_empty() {
        return file_targets(ctx, files).await;
    }
    if arguments.is_empty() {
        return Err(Failure::message(
            "You must provide one or more resources by argument or filename.\nExample resource specifications include:\n   '-f rsrc.yaml'\n   '--filename=rsrc.json'\n   '<resource> <name>'\n   '<resource>'",
        ));
    }
    let namespace = ctx.namespace();
    let mut targets = Vec::new();
    let selects = selection.all || selection.label_selector.is_some() || selection.field_selector.is_some();
    for Wanted { resource, names } in wanted(ctx, arguments).await? {
        let scope = Some(namespace.clone()).filter(|_| resource.namespaced);
        if !names.is_empty() {
            refuse_names(arguments, selects, selection.all_namespaces)?;
        }
        if names.is_empty() {
            if !selects && !selection.unnamed {
                return Err(Failure::message("resource(s) were provided, but no name was specified"));
            }
            let scope = scope.clone().filter(|_| !selection.all_namespaces);
            targets.extend(listed(ctx, &resource, scope, selection).await?);
        }
        for name in names {
            targets.push(Target {
                resource: resource.clone(),
                namespace: scope.clone(),
                name,
                manifest: None,
            });
        }
    }
    Ok(targets)
}

/// Names don't go with what selects objects by other means.
///
/// # Errors
/// They were given together.
pub fn refuse_names(arguments: &[String], selects: bool, all_namespaces: bool) -> Result<(), Failure> {
    let why = match (selects, all_namespaces) {
        (true, _) if arguments.iter().any(|argument| argument.contains('/')) => {
            "selectors and the all flag cannot be used when passing resource/name arguments"
        }
        (true, _) => "name cannot be provided when a selector is specified",
        (false, true) => "a resource cannot be retrieved by name across all namespaces",
        (false, false) => return Ok(()),
    };
    Err(Failure::message(why))
}

async fn listed(
    ctx: &Context,
    resource: &ApiResource,
    namespace: Option<String>,
    selection: &Selection<'_>,
) -> Result<Vec<Target>, Failure> {
    let params = request::ListParams {
        label_selector: selection.label_selector.map(|text| text.trim().to_string()),
        field_selector: selection.field_selector.map(|text| text.trim().to_string()),
        ..request::ListParams::default()
    };
    let request = request::list(resource, namespace.as_deref(), &params);
    let list: Value = ctx.client().await?.request(request).await?;
    let items = printers::items(&list).iter().filter(|_| list.get("items").is_some());
    let target = |item: &Value| Target {
        resource: resource.clone(),
        namespace: item["metadata"]["namespace"].as_str().map(String::from),
        name: item["metadata"]["name"].as_str().unwrap_or_default().to_string(),
        manifest: None,
    };
    Ok(items.map(target).collect())
}

async fn file_targets(ctx: &Context, files: &FilenameFlags) -> Result<Vec<Target>, Failure> {
    let mut targets = Vec::new();
    for mut manifest in files.read()? {
        let resource = ctx.resource_of(&manifest.object, &manifest.source).await?.clone();
        let namespace = place(ctx, &resource, &mut manifest.object)?;
        let name = manifest.object.name().to_string();
        targets.push(Target { resource, namespace, name, manifest: Some(manifest) });
    }
    Ok(targets)
}

/// Puts an object into its namespace: its own, which must fit `--namespace`, else the current one.
///
/// # Errors
/// The manifest and the flag name different namespaces.
pub fn place(ctx: &Context, resource: &ApiResource, object: &mut Object) -> Result<Option<String>, Failure> {
    if !resource.namespaced {
        object.set_namespace(None);
        return Ok(None);
    }
    let namespace = match (object.namespace(), ctx.flags.namespace.as_deref()) {
        (Some(own), Some(flag)) if own != flag => {
            let why = format!(
                "the namespace from the provided object \"{own}\" does not match the namespace \"{flag}\". You must pass '--namespace={own}' to perform this operation."
            );
            return Err(Failure::message(why));
        }
        (Some(own), _) => own.to_string(),
        (None, _) => ctx.namespace(),
    };
    object.set_namespace(Some(&namespace));
    Ok(Some(namespace))
}
