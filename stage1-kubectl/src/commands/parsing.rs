//! The command line becomes a command; what can't be read is told in kubectl's words.
//!
//! *Step 1 of a pod's journey: its first instant.* Before: words. After: a [`Kubectl`].
//!
//! clap reads what the commands declare. Two of its habits differ from those of kubectl's users: a value that begins with a dash is a value
//! there (`-l -a=b`), and of a flag that is given twice the last counts, unless it collects. [`lenient`] says so once, for all commands.
//!
//! # In Kubernetes
//! `spf13/pflag`, `spf13/cobra`, `UsageErrorf` in `kubectl/pkg/cmd/util/helpers.go`.

use clap::{CommandFactory, FromArgMatches};

use super::{Kubectl, record};
use crate::failure::Failure;

/// Reads a command line.
///
/// # Errors
/// clap's, see [`usage_failure`]; also when it is help that was asked for.
pub fn parse(arguments: &[String]) -> Result<Kubectl, clap::Error> {
    let mut kubectl = lenient(record::with_flag(Kubectl::command()));
    let matches = kubectl.try_get_matches_from_mut(arguments)?;
    let mut parsed = Kubectl::from_arg_matches(&matches)?;
    parsed.flags.record = record::of(&kubectl, &matches, arguments.first().map_or("kubectl", String::as_str));
    Ok(parsed)
}

/// Flags take any word as their value, and may come again.
fn lenient(command: clap::Command) -> clap::Command {
    let command = command.args_override_self(true).mut_args(|arg| {
        let wants_value =
            arg.get_action().takes_values() && !arg.is_positional() && !arg.is_require_equals_set();
        if wants_value { arg.allow_hyphen_values(true) } else { arg }
    });
    let names: Vec<String> = command.get_subcommands().map(|inner| inner.get_name().to_string()).collect();
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, lenient))
}

/// What clap can't parse, in kubectl's words.
pub fn usage_failure(error: &clap::Error, arguments: &[String]) -> Failure {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let command = command_path(arguments);
    let hint = format!("See 'kubectl {command} --help' for usage.");
    let message = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            format!("unknown command {:?} for \"kubectl\"", context(ContextKind::InvalidSubcommand))
        }
        ErrorKind::UnknownArgument => match context(ContextKind::InvalidArg) {
            flag if flag.starts_with("--") => {
                let name = flag.split('=').next().unwrap_or(&flag).to_string();
                format!("unknown flag: {name}\n{hint}")
            }
            flag if flag.starts_with('-') => {
                let letter = flag.chars().nth(1).unwrap_or('-');
                format!("unknown shorthand flag: '{letter}' in {flag}\n{hint}")
            }
            other => format!("unexpected argument {other:?}\n{hint}"),
        },
        ErrorKind::InvalidValue if context(ContextKind::InvalidValue).is_empty() => {
            let flag = context(ContextKind::InvalidArg);
            let flag = flag.split(' ').next().unwrap_or_default().to_string();
            format!("flag needs an argument: {flag}\n{hint}")
        }
        _ => {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            text.trim_end().to_string()
        }
    };
    match command.as_str() {
        // Code 1 says that something differs.
        "diff" => {
            let message = message.replace(
                "See 'kubectl diff --help' for usage.",
                "See 'kubectl diff -h' for help and examples",
            );
            Failure::Exit { code: 2, message: Failure::Message(message).report().0 }
        }
        _ => Failure::Message(message),
    }
}

/// The words of a command line that name a command: `create namespace`, whatever alias stands for it.
fn command_path(arguments: &[String]) -> String {
    let kubectl = Kubectl::command();
    let (mut command, mut path) = (&kubectl, Vec::new());
    for word in arguments.iter().skip(1).filter(|word| !word.starts_with('-')) {
        match command.find_subcommand(word) {
            Some(found) => {
                path.push(found.get_name().to_string());
                command = found;
            }
            None if path.is_empty() => continue,
            None => break,
        }
    }
    path.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Command;

    #[test]
    fn a_value_may_begin_with_a_dash_and_the_last_of_two_counts() {
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        let Command::Get(args) = parse(&words("kubectl get pods -l -a=b -l c=d -n x -n y")).unwrap().command
        else {
            panic!("another command")
        };
        assert_eq!(args.selector.as_deref(), Some("c=d"));
        let kubectl = parse(&words("kubectl run r --image=i --env=A=b --env=C=d")).unwrap();
        let Command::Run(args) = kubectl.command else { panic!("another command") };
        assert_eq!(args.env, ["A=b", "C=d"], "what collects goes on collecting");
        let error = parse(&words("kubectl get --nope")).unwrap_err();
        let failure = usage_failure(&error, &words("kubectl get --nope"));
        assert_eq!(failure.report().0, "error: unknown flag: --nope\nSee 'kubectl get --help' for usage.");
    }
}
