//! The name of a plugin: installed as `kubectl-why`, this program is a plugin of any kubectl.
//!
//! A kubectl that doesn't know a command looks for a program `kubectl-COMMAND` on PATH and runs it with the rest of the line. So the
//! same file, linked under such a name, takes its command from its name.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/cmd.go` (`HandlePluginCommand`): dashes of the command are underscores in the file's name.

use std::path::Path;

/// The command line with the command that the program's name means, if it means one.
#[must_use]
pub fn with_command(mut arguments: Vec<String>) -> Vec<String> {
    let name = arguments.first().and_then(|program| Path::new(program).file_stem()?.to_str());
    let command =
        name.and_then(|name| name.strip_prefix("kubectl-")).map(|command| command.replace('_', "-"));
    if let Some(command) =
        command.filter(|command| ["why", "journey", "checklist"].contains(&command.as_str()))
    {
        arguments.insert(1, command);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_name_is_the_command_and_another_name_is_none() {
        let line = |words: &[&str]| with_command(words.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(line(&["/usr/bin/kubectl-why", "pod/a"]), ["/usr/bin/kubectl-why", "why", "pod/a"]);
        assert_eq!(line(&["kubectl", "get"]), ["kubectl", "get"]);
        assert_eq!(line(&["kubectl-1.32", "get"]), ["kubectl-1.32", "get"]);
    }
}
