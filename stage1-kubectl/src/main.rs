//! kubectl: flags → context → command → exit code.
#![expect(
    clippy::disallowed_methods,
    reason = "shell: whether a certificate has expired depends on the clock"
)]

use stage1_kubectl::commands::{self, parsing};
use stage1_kubectl::context::{Context, eprint};
use stage1_kubectl::failure::Failure;
use stage1_kubectl::logging::{self, LogOptions};

fn main() {
    std::process::exit(start());
}

/// Parses, runs, reports; gives the exit code.
fn start() -> i32 {
    let arguments = commands::plugin_name::with_command(std::env::args().collect());
    if let Some(failure) = commands::plugin::become_plugin(&arguments) {
        return report(&failure);
    }
    let parsed = match parsing::parse(&arguments) {
        Ok(parsed) => parsed,
        Err(error) if !error.use_stderr() => {
            // `--help`; a closed pipe is nobody's fault.
            let _ = error.print();
            return 0;
        }
        Err(error) => return report(&parsing::usage_failure(&error, &arguments)),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return report(&Failure::message(error.to_string())),
    };
    let context = Context::new(parsed.flags);
    let options =
        LogOptions { v: context.flags.v, journey_file: context.journey_file(), ..LogOptions::default() };
    // A journey that can't be written down (another user's cluster) is no reason not to work.
    let told =
        logging::init(&options).or_else(|_| logging::init(&LogOptions { journey_file: None, ..options }));
    if let Err(error) = told {
        return report(&Failure::message(error.to_string()));
    }
    let result = runtime.block_on(commands::run(&context, parsed.command));
    let result = result.and_then(|()| context.warnings_as_errors());
    // A thread that still waits for a line on standard input must not keep the process.
    runtime.shutdown_background();
    match result {
        Ok(()) => 0,
        Err(failure) => report_with(&failure, context.certificate_end()),
    }
}

fn report(failure: &Failure) -> i32 {
    report_with(failure, None)
}

/// Prints a failure; a hint may name the date until which our own certificate is valid.
fn report_with(failure: &Failure, certificate_end: Option<jiff::Timestamp>) -> i32 {
    let (text, code) = failure.report();
    if !text.is_empty() {
        eprint(&format!("{text}\n"));
    }
    // A hint is for people; scripts read kubectl's own words and nothing else.
    if std::io::IsTerminal::is_terminal(&std::io::stderr())
        && let Some(hint) = failure.hint(certificate_end, jiff::Timestamp::now())
    {
        eprint(&format!("hint: {hint}\n"));
    }
    code
}
