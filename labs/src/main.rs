//! `labs`: flags, then the subcommand.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser as _;
use labs::exercises::{ExerciseCommand, Exercises};
use labs::options::{Command, Flags};
use labs::{demo, image, lab, measure, page};
use stage1_kubectl::logging::LogOptions;

fn main() -> ExitCode {
    let flags = Flags::parse();
    let mut well = true;
    let done = match &flags.command {
        Command::Image(flags) => image::command::run(flags),
        Command::Demo(demo) => demo::run(flags.state_dir.clone(), demo),
        Command::Book(book) => page::run(flags.state_dir.clone(), book),
        Command::Cluster => cluster(flags.state_dir.clone()),
        Command::Exercises { command } => exercises(command).map(|(passed, text)| {
            well = passed;
            text
        }),
        Command::Lab(command) => lab::commands::run(flags.state_dir.clone(), command),
        Command::Measure(flags) => measure::run(flags),
    };
    let (text, code) = match done {
        Ok(text) => (text, if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    // A closed pipe (`labs image … | head`) is no reason to panic.
    let _ = std::io::stdout().write_all(text.as_bytes());
    code
}

/// The exercises of the repository that this runs in.
fn exercises(command: &ExerciseCommand) -> anyhow::Result<(bool, String)> {
    Exercises::find(&std::env::current_dir()?)?.run(command)
}

/// Runs the lab cluster; the lines that a learner needs are printed as soon as it is ready.
fn cluster(state_dir: Option<PathBuf>) -> anyhow::Result<String> {
    stage1_kubectl::logging::init(&LogOptions::default())?;
    lab::cluster::run(state_dir, |state_dir| {
        let lines = lab::learner::welcome(state_dir);
        let _ = std::io::stdout().write_all(lines.as_bytes());
        let _ = std::io::stdout().flush();
    })?;
    Ok(String::new())
}
