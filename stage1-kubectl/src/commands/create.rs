//! `kubectl create -f`: sends new objects.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/create/create.go`. The generators (`create deployment`, …) are subcommands of their own.

use clap::Args;
use http::Method;
use serde_json::Value;

use super::DryRun;
use super::apply::LAST_APPLIED;
use super::builder::{self, FilenameFlags};
use crate::client::ClientError;
use crate::context::Context;
use crate::failure::Failure;
use crate::manifest::{Check, Manifest};
use crate::object::Object;
use crate::printers::{self, PrintFlags, Printer};
use crate::request::{self, query};

/// Objects from flags.
pub mod generate;

/// Flags of `kubectl create`.
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// An object from flags instead of files.
    #[command(subcommand)]
    pub generator: Option<generate::Generator>,
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
    /// Must be "none", "server", or "client".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    pub dry_run: String,
    /// Name of the manager used to track field ownership.
    #[arg(long, default_value = "kubectl-create")]
    pub field_manager: String,
    /// If true, the configuration of current object will be saved in its annotation.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub save_config: bool,
    /// Must be one of: strict (or true), warn, ignore (or false).
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "strict", default_missing_value = "strict")]
    pub validate: String,
    /// Edit the API resource before creating.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub edit: bool,
    /// Selector (label query) to filter on.
    #[arg(short = 'l', long)]
    pub selector: Option<String>,
    /// Only relevant if --edit=true. Defaults to the line ending native to your platform.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub windows_line_endings: bool,
    /// Raw URI to POST to the server.
    #[arg(long)]
    pub raw: Option<String>,
}

/// The `fieldValidation` that `--validate` asks for.
///
/// # Errors
/// A word that there isn't.
pub fn field_validation(validate: &str) -> Result<&'static str, Failure> {
    match validate {
        "true" | "strict" => Ok("Strict"),
        "warn" => Ok("Warn"),
        "false" | "ignore" => Ok("Ignore"),
        other => Err(Failure::message(format!(
            "invalid - validate option {other:?}; must be one of: strict (or true), warn, ignore (or false)"
        ))),
    }
}

/// Runs `kubectl create`.
///
/// # Errors
/// What the server refused, one failure an object.
pub async fn run(ctx: &Context, args: CreateArgs) -> Result<(), Failure> {
    if let Some(generator) = args.generator {
        return generate::run(ctx, generator).await;
    }
    if args.files.is_empty() {
        return Err(Failure::message("must specify one of -f and -k"));
    }
    let dry_run = DryRun::parse(&args.dry_run)?;
    let output = args.print.printer()?;
    if let Some(path) = &args.raw {
        let manifest = args.files.read()?.into_iter().next();
        let body = manifest.map(|m| m.object.into_value());
        let mut request = request::request(Method::POST, path, body.as_ref());
        request.headers_mut().remove(http::header::CONTENT_TYPE);
        let response = ctx.client().await?.send(request).await?;
        ctx.print(&String::from_utf8_lossy(response.body()));
        return Ok(());
    }
    let mut found = args.files.read_each(check(&args.validate)?)?;
    if args.edit {
        let Some(edited) = edited(ctx, args.windows_line_endings, found)? else { return Ok(()) };
        found = edited;
    }
    let selector = args.selector.as_deref();
    builder::send_each(found, selector, "create", async |manifest| {
        let source = manifest.source.clone();
        let created = create(ctx, &args, dry_run, manifest).await;
        let created = created.map_err(|failure| failure.while_doing("creating", &source))?;
        print_result(ctx, output.as_ref(), &created, "created", dry_run)
    })
    .await
}

/// `--edit`: the objects as the user leaves them in the editor; nothing when that is how they were.
fn edited(
    ctx: &Context,
    windows_line_endings: bool,
    found: Vec<Result<Manifest, Failure>>,
) -> Result<Option<Vec<Result<Manifest, Failure>>>, Failure> {
    let manifests = found.into_iter().collect::<Result<Vec<_>, _>>()?;
    let values: Vec<Value> = manifests.into_iter().map(|manifest| manifest.object.into_value()).collect();
    let shown = match values.as_slice() {
        [one] => one.clone(),
        _ => printers::as_list(values),
    };
    let text = format!("{}{}", super::edit::HEADER, crate::yaml::to_yaml(&shown));
    let editor = super::edit::Editor::new(false, windows_line_endings);
    let Some((text, _file)) = super::edit::edit_once(ctx, &editor, &text)? else { return Ok(None) };
    Ok(Some(crate::manifest::parse(&text, "edited file")?.into_iter().map(Ok).collect()))
}

/// Whether `--validate` wants documents checked before they are decoded.
///
/// # Errors
/// As [`field_validation`].
pub fn check(validate: &str) -> Result<Check, Failure> {
    Ok(match field_validation(validate)? {
        "Ignore" => Check::Decode,
        _ => Check::Validate,
    })
}

async fn create(
    ctx: &Context,
    args: &CreateArgs,
    dry_run: DryRun,
    manifest: Manifest,
) -> Result<Object, Failure> {
    let Manifest { mut object, source } = manifest;
    let save = |object: &mut Object| {
        // An annotation that the manifest brings along is brought up to date.
        if args.save_config || object.annotation(LAST_APPLIED).is_some() {
            let text = super::apply::last_applied(object);
            object.set_annotation(LAST_APPLIED, &text);
        }
    };
    let alone = dry_run == DryRun::Client && field_validation(&args.validate)? == "Ignore";
    let resource = match ctx.resource_of(&object, &source).await {
        Ok(resource) => resource,
        // Without a server the object is shown as it is, only its namespace isn't known.
        Err(Failure::Client(ClientError::Connection { .. })) if alone => {
            save(&mut object);
            ctx.record(&mut object);
            return Ok(object);
        }
        Err(failure) => return Err(failure),
    };
    let namespace = builder::place(ctx, resource, &mut object)?;
    save(&mut object);
    ctx.record(&mut object);
    if dry_run == DryRun::Client {
        return Ok(object);
    }
    let query = query(&[
        ("dryRun", dry_run.query()),
        ("fieldManager", Some(args.field_manager.clone())),
        ("fieldValidation", Some(field_validation(&args.validate)?.to_string())),
    ]);
    let path = resource.path(namespace.as_deref(), None, None) + &query;
    ctx.step(&object, "POST", "create");
    Ok(ctx.client().await?.request(request::request(Method::POST, &path, Some(object.as_value()))).await?)
}

/// An object that remembers itself as its last manifest, when that is wanted.
///
/// # Errors
/// It isn't an object.
pub(super) fn saved(object: Value, save_config: bool) -> Result<Value, Failure> {
    let mut object = Object::from_value(object).map_err(|e| Failure::message(e.to_string()))?;
    if save_config {
        let text = printers::typed::to_line(object.as_value());
        object.set_annotation(LAST_APPLIED, &text);
    }
    Ok(object.into_value())
}

/// Prints what became of an object: `pod/web created`, or the object in the wanted form.
///
/// # Errors
/// The form can't be made.
pub fn print_result(
    ctx: &Context,
    output: Option<&Printer>,
    object: &Object,
    done: &str,
    dry_run: DryRun,
) -> Result<(), Failure> {
    match output {
        None => ctx.print(&format!("{} {done}{}\n", printers::object_name(object), dry_run.suffix())),
        Some(printer) => ctx.print(&printer.render(object.as_value())?),
    }
    Ok(())
}
