//! Plugins: a program named `kubectl-foo` on PATH is `kubectl foo`.
//!
//! *Step 1 of a pod's journey*, when somebody else takes it. The longest name wins: for `kubectl foo bar x`, first `kubectl-foo-bar`
//! is looked for, then `kubectl-foo`. A plugin can't replace a command of ours, except that `kubectl create KIND` may be one.
//!
//! # Invariants
//! 1. A program is run only when no command of ours has the name.
//!
//! # In Kubernetes
//! `HandlePluginCommand` in `kubectl/pkg/cmd/cmd.go`, `kubectl/pkg/cmd/plugin/plugin.go`. Left out: completion by plugins.
#![expect(clippy::disallowed_methods, reason = "shell: looks for programs and runs them")]

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory, Subcommand};

use super::Kubectl;
use crate::context::Context;
use crate::failure::Failure;

/// `kubectl plugin …`.
#[derive(Debug, Args)]
pub struct PluginArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: PluginCommand,
}

/// What can be done with plugins.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// List all visible plugin executables on a user's PATH.
    List(ListArgs),
}

/// Flags of `kubectl plugin list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// If true, display only the binary name of each plugin, rather than its full path.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub name_only: bool,
}

/// The names that plugins may be looked up under, longest first, and how many words each takes.
fn candidates(words: &[String]) -> Vec<(String, usize)> {
    let end = words.iter().position(|word| word.starts_with('-')).unwrap_or(words.len());
    let names: Vec<String> = words[..end].iter().map(|word| word.replace('-', "_")).collect();
    (1..=end).rev().map(|count| (format!("kubectl-{}", names[..count].join("-")), count)).collect()
}

fn on_path(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|dir| dir.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Becomes the plugin that the arguments name, if there is one. Returns only if there is none, or if it can't be run.
pub fn become_plugin(arguments: &[String]) -> Option<Failure> {
    let words = arguments.get(1..)?;
    let first = words.first()?;
    if first.starts_with('-') {
        // Flags of ours would have to be passed on, and a plugin knows none of them.
        let name = words.iter().find(|word| !word.starts_with('-'))?;
        let known = Kubectl::command().find_subcommand(name).is_some();
        return match !known && on_path(&format!("kubectl-{name}")).is_some() {
            true => Some(Failure::Exit {
                code: 1,
                message: format!("Error: flags cannot be placed before plugin name: {first}"),
            }),
            false => None,
        };
    }
    let known = Kubectl::command();
    let allowed = match known.find_subcommand(first) {
        None => true,
        Some(create) if first == "create" => {
            words.get(1).is_some_and(|kind| !kind.starts_with('-') && create.find_subcommand(kind).is_none())
        }
        Some(_) => false,
    };
    let smallest = if first == "create" { 2 } else { 1 };
    let found = candidates(words).into_iter().filter(|(_, count)| allowed && *count >= smallest);
    let (program, count) = found.filter_map(|(name, count)| Some((on_path(&name)?, count))).next()?;
    let error = std::process::Command::new(&program).args(&words[count..]).exec();
    Some(Failure::message(format!("{}: {error}", program.display())))
}

/// Runs `kubectl plugin …`.
///
/// # Errors
/// There are none, or some that can't work.
pub fn run(ctx: &Context, args: &PluginArgs) -> Result<(), Failure> {
    let PluginCommand::List(args) = &args.command;
    let known = Kubectl::command();
    let (mut lines, mut seen, mut warnings) = (String::new(), BTreeSet::new(), 0);
    let mut folders = BTreeSet::new();
    let mut found = 0;
    let paths = std::env::var_os("PATH").unwrap_or_default();
    for folder in std::env::split_paths(&paths).filter(|folder| folders.insert(folder.clone())) {
        let mut names: Vec<String> = std::fs::read_dir(&folder)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| !entry.path().is_dir())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.starts_with("kubectl-"))
            .collect();
        names.sort();
        for name in names {
            found += 1;
            let file = folder.join(&name);
            let shown = file.display().to_string();
            lines += &format!("{}\n", if args.name_only { &name } else { &shown });
            let mut warn = |text: String| {
                warnings += 1;
                ctx.warn(&format!("  - warning: {text}\n"));
            };
            let command = name.split('-').nth(1).unwrap_or_default();
            let our = known.find_subcommand(command).is_some();
            if our {
                warn(format!("{name} overwrites existing command: \"kubectl {command}\""));
            }
            if !is_executable(&file) {
                warn(format!("{shown} identified as a kubectl plugin, but it is not executable"));
            }
            if !seen.insert(name.clone()) {
                warn(format!("{shown} is overshadowed by a similarly named plugin"));
            }
        }
    }
    if found == 0 {
        return Err(Failure::message("unable to find any kubectl plugins in your PATH"));
    }
    ctx.print(&format!("The following compatible plugins are available:\n\n{lines}"));
    match warnings {
        0 => Ok(()),
        1 => Err(Failure::message("one plugin warning was found")),
        count => Err(Failure::message(format!("{count} plugin warnings were found"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_is_tried_first_and_flags_end_it() {
        let words: Vec<String> = ["foo-x", "bar", "--flag", "baz"].map(String::from).to_vec();
        let names = candidates(&words);
        assert_eq!(names, [("kubectl-foo_x-bar".to_string(), 2), ("kubectl-foo_x".to_string(), 1)]);
        assert!(candidates(&["--flag".to_string()]).is_empty());
    }
}
