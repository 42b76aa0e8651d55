//! `kubectl completion`: a script that teaches the shell our commands and flags.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/completion/completion.go`, which completes the names of objects too.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Kubectl;
use crate::context::Context;
use crate::failure::Failure;

/// Flags of `kubectl completion`.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// bash, zsh, fish or powershell.
    pub shell: Vec<String>,
}

/// Runs `kubectl completion`.
///
/// # Errors
/// A shell that there isn't.
pub fn run(ctx: &Context, args: &CompletionArgs) -> Result<(), Failure> {
    let shell = match args.shell.as_slice() {
        [] => {
            return Err(Failure::message(
                "Shell not specified.\nSee 'kubectl completion -h' for help and examples",
            ));
        }
        [name] => match name.as_str() {
            "bash" => Shell::Bash,
            "zsh" => Shell::Zsh,
            "fish" => Shell::Fish,
            "powershell" => Shell::PowerShell,
            other => {
                let hint = "See 'kubectl completion -h' for help and examples";
                return Err(Failure::message(format!("Unsupported shell type {other:?}.\n{hint}")));
            }
        },
        _ => {
            let why = "Too many arguments. Expected only the shell type.\nSee 'kubectl completion -h' for help and examples";
            return Err(Failure::message(why));
        }
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Kubectl::command(), "kubectl", &mut script);
    ctx.print(&String::from_utf8_lossy(&script));
    Ok(())
}
