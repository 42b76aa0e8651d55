//! `kubectl why`: at which of the six stages is it stuck, and what proves it?
//!
//! Reads what the rules need ([`crate::why::gather`]), asks every rule, prints causes with what follows from them. It never
//! changes anything, so it may be run by whoever may read; installed as `kubectl-why` it is a plugin of any kubectl.
//!
//! Exit codes: 0 nothing is wrong, 2 warnings only, 3 something is stuck or broken, 1 the command itself failed.
//!
//! # In Kubernetes
//! No counterpart; `kubectl describe` and `kubectl events` show the parts.

use clap::Args;

use super::builder::FilenameFlags;
use crate::context::Context;
use crate::failure::Failure;
use crate::printers::terminal::escaped;
use crate::why::gather::{Question, gather};
use crate::why::{diagnose, exit_code, report};
use crate::{printers, yaml};

/// Flags of `kubectl why`.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// TYPE/NAME or TYPE NAME; nothing for the whole namespace.
    pub arguments: Vec<String>,
    /// Files with the objects to ask about.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// Ask about all namespaces.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Output format: json or yaml.
    #[arg(short = 'o', long, default_value = "")]
    pub output: String,
}

/// Runs `kubectl why`.
///
/// # Errors
/// Arguments that mean nothing; and, as an exit code without a text, what was found.
pub async fn run(ctx: &Context, args: WhyArgs) -> Result<(), Failure> {
    if !matches!(args.output.as_str(), "" | "json" | "yaml") {
        return Err(Failure::message(format!(
            "unknown output format {:?}, json and yaml are known",
            args.output
        )));
    }
    let named = !args.arguments.is_empty() || !args.files.is_empty();
    let question =
        Question { arguments: args.arguments, files: args.files, all_namespaces: args.all_namespaces };
    let facts = gather(ctx, &question).await?;
    let diagnoses = diagnose(&facts);
    match args.output.as_str() {
        "json" => ctx.print(&printers::to_json(&report::to_value(&facts, &diagnoses))),
        "yaml" => ctx.print(&yaml::to_yaml(&report::to_value(&facts, &diagnoses))),
        _ => ctx.print(&escaped(&report::render(&facts, &diagnoses, !named))),
    }
    match exit_code(&diagnoses) {
        0 => Ok(()),
        code => Err(Failure::Exit { code, message: String::new() }),
    }
}
