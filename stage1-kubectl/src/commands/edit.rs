//! `kubectl edit`: opens objects in an editor and sends what changed.
//!
//! The object is written into a temporary file as YAML. When the editor ends, the file is read again, and the difference
//! between the two versions goes to the server as a patch. What the server refuses comes back into the editor with the reasons at
//! its head; who then leaves it as it is gives up, and the file stays, so no work is lost.
//!
//! *Step 1 of a pod's journey*, by hand. Before: objects on the server. After: a patch for each that was changed.
//!
//! # Invariants
//! 1. Lines that begin with `#` are the editor's header and comments; they never reach the server.
//! 2. No edit is lost: whatever ends the command with an error names the file that has it.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/util/editor/{editor,editoptions}.go`.
#![expect(clippy::disallowed_methods, reason = "shell: runs the editor")]

use std::io::Write;
use std::path::Path;

use clap::Args;
use http::Method;

use super::apply::{LAST_APPLIED, last_applied};
use super::builder::{self, FilenameFlags, Selection, Target};
use super::create::{field_validation, print_result};
use crate::context::Context;
use crate::failure::Failure;
use crate::manifest;
use crate::object::Object;
use crate::patch;
use crate::printers::{self, PrintFlags};
use crate::request::{self, query};
use crate::yaml;

mod retry;

use retry::{Problem, Reason, cause, not_an_object, refusal, with_reasons};

/// The head of the file.
pub(super) const HEADER: &str = "# Please edit the object below. Lines beginning with a '#' will be ignored,
# and an empty file will abort the edit. If an error occurs while saving this file will be
# reopened with the relevant failures.
#
";

/// Flags of `kubectl edit`.
#[derive(Debug, Args)]
pub struct EditArgs {
    /// TYPE NAME … or TYPE/NAME ….
    pub arguments: Vec<String>,
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// In which form it is edited: YAML unless JSON is asked for.
    #[command(flatten)]
    pub print: PrintFlags,
    /// Output the patch if the resource is edited.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub output_patch: bool,
    /// If true, the configuration of current object will be saved in its annotation.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub save_config: bool,
    /// Defaults to the line ending native to your platform.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub windows_line_endings: bool,
    /// If specified, edit will operate on the subresource of the requested object.
    #[arg(long)]
    pub subresource: Option<String>,
    /// Name of the manager used to track field ownership.
    #[arg(long, default_value = "kubectl-edit")]
    pub field_manager: String,
    /// Must be one of: strict (or true), warn, ignore (or false).
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "strict", default_missing_value = "strict")]
    pub validate: String,
}

/// Runs `kubectl edit`.
///
/// # Errors
/// The editor can't be run, or what the server refused.
pub async fn run(ctx: &Context, args: EditArgs) -> Result<(), Failure> {
    let json = is_json(&args.print)?;
    let selection = Selection { unnamed: true, ..Selection::default() };
    let targets = builder::targets(ctx, &args.arguments, &args.files, &selection).await?;
    let mut objects = Vec::new();
    for target in &targets {
        let path = target.path(args.subresource.as_deref());
        let mut live: Object =
            ctx.client().await?.request(request::request(Method::GET, &path, None)).await?;
        if !args.print.show_managed_fields {
            live.remove("/metadata/managedFields");
        }
        objects.push(live);
    }
    if objects.is_empty() {
        return Err(Failure::message("edit cancelled, no objects found"));
    }
    let editor = Editor::new(json, args.windows_line_endings);
    let session = Session { ctx, args: &args, targets: &targets, before: &objects };
    session.edit(&editor).await
}

/// YAML unless JSON is asked for.
///
/// # Errors
/// Anything else.
pub(super) fn is_json(print: &PrintFlags) -> Result<bool, Failure> {
    match print.output.as_str() {
        "" | "yaml" => Ok(false),
        "json" => Ok(true),
        other => Err(Failure::message(format!("The flag 'output' must be one of yaml|json, not {other}"))),
    }
}

/// The objects in one text.
pub(super) fn shown(objects: &[Object], json: bool) -> String {
    let value = match objects {
        [one] => one.as_value().clone(),
        several => printers::as_list(several.iter().map(|object| object.as_value().clone()).collect()),
    };
    if json { printers::to_json(&value) } else { yaml::to_yaml(&value) }
}

/// How files are opened, and in which form.
pub(super) struct Editor {
    suffix: &'static str,
    /// `--windows-line-endings`.
    crlf: bool,
}

/// A text that came back from the editor, and the file that has it.
pub(super) type Edited = (String, tempfile::NamedTempFile);

impl Editor {
    pub(super) fn new(json: bool, crlf: bool) -> Self {
        Editor { suffix: if json { ".json" } else { ".yaml" }, crlf }
    }

    /// Lets the user change a text.
    ///
    /// # Errors
    /// The editor can't be run.
    pub(super) fn open(&self, text: &str) -> Result<Edited, Failure> {
        let mut file = tempfile::Builder::new().prefix("kubectl-edit-").suffix(self.suffix).tempfile()?;
        let text = if self.crlf { text.replace('\n', "\r\n") } else { text.to_string() };
        file.write_all(text.as_bytes())?;
        file.flush()?;
        run_editor(file.path())?;
        Ok((std::fs::read_to_string(file.path())?.replace("\r\n", "\n"), file))
    }
}

/// Lets the user change a text once; nothing when it is left as it was, or empty.
///
/// # Errors
/// The editor can't be run.
pub(super) fn edit_once(ctx: &Context, editor: &Editor, text: &str) -> Result<Option<Edited>, Failure> {
    let (edited, file) = editor.open(text)?;
    Ok(changed(ctx, text, &edited).then_some((edited, file)))
}

/// Whether there is something to do; says so when there isn't.
fn changed(ctx: &Context, before: &str, after: &str) -> bool {
    let (before, after) = (content(before), content(after));
    let why = match (before == after, after.trim().is_empty()) {
        (true, _) => "Edit cancelled, no changes made.\n",
        (false, true) => "Edit cancelled, saved file was empty.\n",
        (false, false) => return true,
    };
    ctx.warn(why);
    false
}

/// A text without its comments.
fn content(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

/// The error, and where the edit is to be found.
fn keep(ctx: &Context, file: Option<tempfile::NamedTempFile>, failure: Failure) -> Failure {
    let kept = file.and_then(|file| file.keep().ok());
    if let Some((_, path)) = kept {
        ctx.warn(&format!("A copy of your changes has been stored to {:?}\n", path.display().to_string()));
    }
    failure
}

/// `KUBE_EDITOR`, `EDITOR` or `vi`. The variable may hold arguments; what is quoted in it is left to the shell.
fn run_editor(path: &Path) -> Result<(), Failure> {
    let from = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let editor = from("KUBE_EDITOR").or_else(|| from("EDITOR")).unwrap_or_else(|| "vi".into());
    let quoted = editor.contains(' ') && editor.contains(['"', '\'', '\\']);
    let mut command = match quoted {
        true => {
            let mut shell = std::process::Command::new(from("SHELL").unwrap_or_else(|| "/bin/bash".into()));
            shell.arg("-c").arg(format!("{editor} {:?}", path.display().to_string()));
            shell
        }
        false => {
            let mut words = editor.split(' ');
            let mut program = std::process::Command::new(words.next().unwrap_or_default());
            program.args(words).arg(path);
            program
        }
    };
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Failure::message(format!("unable to launch the editor {editor:?}")))
        }
        _ => Err(Failure::message(format!("there was a problem with the editor {editor:?}"))),
    }
}

/// The objects under edit.
struct Session<'a> {
    ctx: &'a Context,
    args: &'a EditArgs,
    targets: &'a [Target],
    before: &'a [Object],
}

impl Session<'_> {
    /// Opens the editor until what it leaves is accepted, or given up.
    async fn edit(&self, editor: &Editor) -> Result<(), Failure> {
        let json = editor.suffix == ".json";
        let original = shown(self.before, json);
        let head = if json { "" } else { HEADER };
        let mut text = format!("{head}{original}");
        let mut refused: Option<tempfile::NamedTempFile> = None;
        loop {
            let (edited, file) = match editor.open(&text) {
                Ok(edited) => edited,
                Err(failure) => return Err(keep(self.ctx, refused, failure)),
            };
            if refused.is_some() && content(&text) == content(&edited) {
                let why = Failure::message("Edit cancelled, no valid changes were saved.");
                return Err(keep(self.ctx, Some(file), why));
            }
            if !changed(self.ctx, &original, &edited) {
                return Ok(());
            }
            drop(refused.take());
            let after = match manifest::parse(&edited, "edited-file") {
                Ok(after) => after.into_iter().map(|manifest| manifest.object).collect::<Vec<_>>(),
                Err(error) => {
                    let (told, reason) = not_an_object(&error.to_string(), &self.targets[0]);
                    self.ctx.warn(&format!("{told}\n"));
                    text = with_reasons(&edited, &[reason], json);
                    refused = Some(file);
                    continue;
                }
            };
            let problems = match self.send(&after).await {
                Ok(problems) => problems,
                Err(failure) => return Err(keep(self.ctx, Some(file), failure)),
            };
            if let Some(end) = retry::end(&problems, file.path()) {
                let _ = file.keep();
                self.ctx.warn(&end);
                return Err(Failure::Exit { code: 1, message: String::new() });
            }
            if problems.is_empty() {
                return Ok(());
            }
            let reasons: Vec<Reason> = problems.into_iter().filter_map(cause).collect();
            text = with_reasons(&edited, &reasons, json);
            refused = Some(file);
        }
    }

    /// Sends what changed; what the server refused comes back.
    async fn send(&self, after: &[Object]) -> Result<Vec<Problem>, Failure> {
        let mut problems = Vec::new();
        for after in after {
            let at = self.before.iter().position(|before| before.uid() == after.uid());
            let Some(at) = at else {
                return Err(Failure::message(format!(
                    "no original object found for {}",
                    printers::object_name(after)
                )));
            };
            let before = &self.before[at];
            if before == after {
                print_result(self.ctx, None, after, "skipped", super::DryRun::None)?;
                continue;
            }
            if (before.gvk(), before.name()) != (after.gvk(), after.name()) {
                return Err(Failure::message("At least one of apiVersion, kind and name was changed"));
            }
            match self.patch(&self.targets[at], before, after).await {
                Ok(result) => print_result(self.ctx, None, &result, "edited", super::DryRun::None)?,
                Err(Failure::Client(error)) => {
                    let (told, problem) = refusal(error, &self.targets[at]);
                    self.ctx.warn(&format!("{told}\n"));
                    problems.push(problem);
                }
                Err(other) => return Err(other),
            }
        }
        Ok(problems)
    }

    async fn patch(&self, target: &Target, before: &Object, after: &Object) -> Result<Object, Failure> {
        let (args, mut after) = (self.args, after.clone());
        if args.save_config {
            let text = last_applied(&after);
            after.set_annotation(LAST_APPLIED, &text);
        }
        let (before, gvk) = (before.as_value(), before.gvk());
        let (patch, patch_type) = patch::difference(before, after.as_value(), before, &gvk)?;
        if args.output_patch {
            self.ctx.print(&format!("Patch: {patch}\n"));
        }
        let query = query(&[
            ("fieldManager", Some(args.field_manager.clone())),
            ("fieldValidation", Some(field_validation(&args.validate)?.to_string())),
        ]);
        let path = target.path(args.subresource.as_deref()) + &query;
        Ok(self.ctx.client().await?.request(request::patch_at(&path, patch_type, &patch)).await?)
    }
}
