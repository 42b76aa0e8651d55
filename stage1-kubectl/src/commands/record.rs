//! `--record`: keeps the command line in the object, as `kubernetes.io/change-cause`.
//!
//! Old scripts write `set image … --record`, and `rollout history` shows what they kept. The flag says at each use that it will go; it is
//! in no help text.
//!
//! # Invariants
//! 1. A secret that stands in the command line is not kept. A stock kubectl keeps `--token` and `--password` as they are.
//!
//! # In Kubernetes
//! `cli-runtime/pkg/genericclioptions/record_flags.go`. Left out: `edit`, `expose`, `run`, `scale`, `autoscale` and `patch` take
//! the flag and warn, but keep nothing.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};

/// Where the command line is kept.
pub const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";
/// What is said at each use.
pub const DEPRECATED: &str = "Flag --record has been deprecated, --record will be removed in the future\n";

/// The commands that take the flag.
const COMMANDS: [&[&str]; 14] = [
    &["annotate"],
    &["apply"],
    &["autoscale"],
    &["create"],
    &["edit"],
    &["expose"],
    &["label"],
    &["patch"],
    &["run"],
    &["scale"],
    &["set", "image"],
    &["set", "resources"],
    &["set", "selector"],
    &["set", "serviceaccount"],
];
const FLAG: &str = "record";
/// Flags whose values nobody may read later.
const CLASSIFIED: [&str; 2] = ["token", "password"];

/// What a command line says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// Whether the flag was given, in whatever sense.
    pub given: bool,
    /// The command line, where it is to be kept.
    pub cause: Option<String>,
}

/// The commands, and the flag where it belongs.
pub fn with_flag(kubectl: clap::Command) -> clap::Command {
    COMMANDS.iter().fold(kubectl, |kubectl, path| add(kubectl, path))
}

fn add(command: clap::Command, path: &[&str]) -> clap::Command {
    match path.split_first() {
        Some((first, rest)) => command.mut_subcommand(first, |inner| add(inner, rest)),
        None => command.arg(
            Arg::new(FLAG)
                .long(FLAG)
                .hide(true)
                .action(ArgAction::Set)
                .num_args(0..=1)
                .require_equals(true)
                .value_parser(clap::value_parser!(bool))
                .default_missing_value("true"),
        ),
    }
}

/// What the words of a command line say.
pub fn of(kubectl: &clap::Command, matches: &ArgMatches, program: &str) -> Record {
    let (mut command, mut matches, mut path) = (kubectl, matches, Vec::new());
    while let Some((name, inner)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else { break };
        path.push(name.to_string());
        (command, matches) = (found, inner);
    }
    let value = match matches.try_get_one::<bool>(FLAG) {
        Ok(Some(value)) => *value,
        _ => return Record::default(),
    };
    let cause = value.then(|| {
        let base = program.rsplit('/').next().unwrap_or(program);
        [vec![base.to_string()], path, words(command, matches)].concat().join(" ")
    });
    Record { given: true, cause }
}

/// The arguments, then the flags in the order in which they were given, each with its long name.
fn words(command: &clap::Command, matches: &ArgMatches) -> Vec<String> {
    let (mut arguments, mut flags) = (Vec::new(), Vec::new());
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        if matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        let values =
            matches.get_raw(id).into_iter().flatten().map(|value| value.to_string_lossy().into_owned());
        let places = matches.indices_of(id).into_iter().flatten();
        for (at, value) in places.zip(values) {
            match arg.get_long() {
                None => arguments.push((at, value)),
                Some(name) if CLASSIFIED.contains(&name) => flags.push((at, format!("--{name}=CLASSIFIED"))),
                Some(name) => flags.push((at, format!("--{name}={value}"))),
            }
        }
    }
    arguments.sort();
    flags.sort();
    arguments.into_iter().chain(flags).map(|(_, word)| word).collect()
}

#[cfg(test)]
mod tests {
    use crate::commands::parsing::parse;

    fn cause(line: &str) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(String::from).collect();
        parse(&words).unwrap().flags.record.cause
    }

    #[test]
    fn the_command_line_is_kept_as_it_was_read() {
        assert_eq!(
            cause("/usr/bin/kubectl -n prod set image deploy/web c=x:2 --record").unwrap(),
            "kubectl set image deploy/web c=x:2 --namespace=prod --record=true"
        );
        assert_eq!(
            cause("kubectl apply --record=true -f a.yaml --token=t --server-side").unwrap(),
            "kubectl apply --record=true --filename=a.yaml --token=CLASSIFIED --server-side=true",
            "invariant 1"
        );
        assert_eq!(cause("kubectl set image deploy/web c=x:2 --record=false"), None);
        assert_eq!(cause("kubectl set image deploy/web c=x:2"), None);
    }

    #[test]
    fn only_the_commands_that_had_it_take_the_flag() {
        let taken = |line: &str| parse(&line.split(' ').map(String::from).collect::<Vec<_>>()).is_ok();
        assert!(
            taken("kubectl scale deploy/web --replicas=1 --record") && taken("kubectl edit pod/p --record")
        );
        assert!(!taken("kubectl set env deploy/web A=b --record") && !taken("kubectl delete pod/p --record"));
    }
}
