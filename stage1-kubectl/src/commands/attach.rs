//! `kubectl attach`: connects to a container's main process.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/attach/attach.go`.

use clap::Args;

use super::exec::{StreamFlags, choose_container, stream, stream_query};
use super::logs::find_pod;
use crate::context::Context;
use crate::failure::Failure;
use crate::request::query;

/// Flags of `kubectl attach`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// POD or TYPE/NAME.
    pub arguments: Vec<String>,
    /// The streams.
    #[command(flatten)]
    pub streams: StreamFlags,
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
    let flags = &args.streams;
    let container = choose_container(ctx, &pod, &flags.container, flags.quiet)?;
    if flags.stdin && flags.tty && !flags.quiet {
        ctx.warn("If you don't see a command prompt, try pressing enter.\n");
    }
    let query = query(&stream_query(&container, flags.stdin, flags.tty));
    stream(ctx, &pod, "attach", &query, flags.stdin, flags.tty).await
}
