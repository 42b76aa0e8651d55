//! `labs`: flags, then the subcommand.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use labs::options::{Command, Flags};
use labs::{demo, image};

fn main() -> ExitCode {
    let flags = Flags::parse();
    let done = match &flags.command {
        Command::Image(flags) => image::command::run(flags),
        Command::Demo(flags) => demo::run(flags),
    };
    let (text, code) = match done {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    // A closed pipe (`labs image … | head`) is no reason to panic.
    let _ = std::io::stdout().write_all(text.as_bytes());
    code
}
