//! `kubectl options` and `kubectl alpha`: what every command takes, and what isn't ready yet.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/options/options.go`, `alpha.go`.

use clap::builder::StyledStr;
use clap::{ArgAction, CommandFactory};

use super::Kubectl;
use crate::context::Context;

/// Runs `kubectl options`.
pub fn run(ctx: &Context) {
    let command = Kubectl::command();
    let mut flags: Vec<&clap::Arg> = command
        .get_arguments()
        .filter(|arg| arg.is_global_set() && arg.get_long() != Some("color"))
        .collect();
    flags.sort_by_key(|arg| arg.get_long().unwrap_or_default().to_string());
    let mut text = String::from("The following options can be passed to any command:\n\n");
    for flag in flags {
        let long = flag.get_long().unwrap_or_default();
        let short =
            flag.get_short().filter(|_| long != "help").map(|s| format!("-{s}, ")).unwrap_or_default();
        let help = flag.get_help().map(StyledStr::to_string).unwrap_or_default();
        text += &format!("    {short}--{long}={}:\n\t{help}\n\n", default_of(flag));
    }
    ctx.print(&text);
}

/// A flag's default as kubectl shows it: texts in quotes, lists in brackets.
fn default_of(flag: &clap::Arg) -> String {
    let given = flag.get_default_values().first().and_then(|value| value.to_str()).unwrap_or_default();
    let bare = given == "true" || given == "false" || given.parse::<i64>().is_ok();
    match (flag.get_long(), flag.get_action()) {
        (Some("vmodule"), _) => String::new(),
        (Some("log-flush-frequency"), _) => given.to_string(),
        (Some("cache-dir"), _) => {
            format!("'{}'", std::env::home_dir().unwrap_or_default().join(".kube/cache").display())
        }
        (Some("request-timeout"), _) => format!("'{given}'"),
        (_, ArgAction::Append) => "[]".into(),
        _ if bare => given.to_string(),
        _ => format!("'{given}'"),
    }
}

/// Runs `kubectl alpha`.
pub fn alpha(ctx: &Context) {
    ctx.warn("No alpha commands are available in this version of kubectl\n");
}
