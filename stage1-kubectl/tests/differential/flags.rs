//! Every command and every flag of the stock kubectl is known.

use std::collections::BTreeSet;
use std::path::Path;

use crate::{OURS, run, stock};

/// The subcommands and the flags (with their letters) that a stock help text lists.
fn help_of(kubectl: &Path, command: &[String]) -> (Vec<String>, BTreeSet<String>) {
    let dir = tempfile::tempdir().expect("a folder");
    let (_, text, _) = run(kubectl, dir.path(), &[command, &["--help".to_string()]].concat(), "");
    let (mut commands, mut flags, mut part) = (Vec::new(), BTreeSet::new(), "");
    for line in text.lines() {
        if !line.starts_with(' ') && line.ends_with(':') {
            part = if line.contains("ommands") { "commands" } else { line };
        }
        let word = line.split_whitespace().next().unwrap_or_default();
        match part {
            "commands" if line.starts_with("  ") && !line.starts_with("   ") => {
                commands.push(word.to_string())
            }
            "Options:" if line.starts_with("    -") => {
                flags.insert(line.trim().split('=').next().unwrap_or_default().to_string());
            }
            _ => {}
        }
    }
    (commands, flags)
}

#[test]
fn every_stock_command_and_flag_is_known() {
    let Some(stock) = stock() else { return };
    let (mut waiting, mut missing, mut known) = (vec![Vec::<String>::new()], Vec::new(), 0);
    while let Some(command) = waiting.pop() {
        let (commands, flags) = help_of(&stock, &command);
        waiting.extend(
            commands.iter().filter(|c| *c != "kubectl").map(|c| [command.clone(), vec![c.clone()]].concat()),
        );
        let dir = tempfile::tempdir().expect("a folder");
        let (code, ours, _) =
            run(Path::new(OURS), dir.path(), &[&command[..], &["--help".to_string()]].concat(), "");
        if code != 0 || ours.is_empty() {
            missing.push(format!("command {command:?}"));
            continue;
        }
        for flag in flags {
            known += 1;
            // `-f, --filename` and `--filename` are both there, or neither is.
            if !ours.contains(&format!("{flag} "))
                && !ours.contains(&format!("{flag}["))
                && !ours.contains(&format!("{flag}\n"))
            {
                missing.push(format!("{command:?}: {flag}"));
            }
        }
    }
    assert!(known > 850, "the stock help was read: {known} flags");
    assert!(missing.is_empty(), "of {known} flags {} are missing:\n{}", missing.len(), missing.join("\n"));
}
