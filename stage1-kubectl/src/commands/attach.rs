//! `kubectl attach`: connects to a container's main process.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/attach/attach.go`.

use clap::Args;

use super::exec::{choose_container, stream, stream_query};
use super::logs::find_pod;
use crate::context::Context;
use crate::failure::Failure;
use crate::request::query;

/// Flags of `kubectl attach`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// POD or TYPE/NAME.
    pub arguments: Vec<String>,
    /// Container name.
    #[arg(short = 'c', long, default_value = "")]
    pub container: String,
    /// Pass stdin to the container.
    #[arg(short = 'i', long)]
    pub stdin: bool,
    /// Stdin is a TTY.
    #[arg(short = 't', long)]
    pub tty: bool,
    /// Only print output from the remote session.
    #[arg(short = 'q', long)]
    pub quiet: bool,
}

/// Runs `kubectl attach`.
///
/// # Errors
/// The container can't be attached to.
pub async fn run(ctx: &Context, args: AttachArgs) -> Result<(), Failure> {
    let [pod] = args.arguments.as_slice() else {
        return Err(Failure::message("at least 1 argument is required for attach"));
    };
    let pod = find_pod(ctx, pod).await?;
    let container = choose_container(ctx, &pod, &args.container, args.quiet)?;
    if args.stdin && args.tty && !args.quiet {
        ctx.warn("If you don't see a command prompt, try pressing enter.\n");
    }
    stream(ctx, &pod, "attach", &query(&stream_query(&container, args.stdin, args.tty)), args.stdin, args.tty)
        .await
}
