//! `kubectl version`: ours and the server's.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/version/version.go`.

use clap::Args;
use http::Method;
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::Failure;
use crate::printers::Output;
use crate::request;

/// The release whose behaviour this kubectl has.
pub const GIT_VERSION: &str = "v1.33.0";

/// Flags of `kubectl version`.
#[derive(Debug, Args)]
pub struct VersionArgs {
    /// If true, shows client version only (no server required).
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub client: bool,
    /// One of 'yaml' or 'json'.
    #[arg(short = 'o', long, default_value = "")]
    pub output: String,
}

/// Runs `kubectl version`.
///
/// # Errors
/// The server doesn't answer.
pub async fn run(ctx: &Context, args: VersionArgs) -> Result<(), Failure> {
    let client = json!({"major": "1", "minor": "33", "gitVersion": GIT_VERSION, "platform": "linux/amd64"});
    let mut all = json!({"clientVersion": client, "kustomizeVersion": "v5.6.0"});
    let mut failure = None;
    if !args.client {
        let request = request::request(Method::GET, "/version", None);
        match async { Ok::<_, Failure>(ctx.client().await?.request::<Value>(request).await?) }.await {
            Ok(server) => all["serverVersion"] = server,
            Err(error) => failure = Some(error),
        }
    }
    match args.output.as_str() {
        "" => {
            let mut text = format!("Client Version: {GIT_VERSION}\nKustomize Version: v5.6.0\n");
            if let Some(version) = all["serverVersion"]["gitVersion"].as_str() {
                text.push_str(&format!("Server Version: {version}\n"));
            }
            ctx.print(&text);
        }
        "json" | "yaml" => ctx.print(&Output::parse(&args.output)?.render(&all)?),
        _ => return Err(Failure::message("--output must be 'yaml' or 'json'")),
    }
    failure.map_or(Ok(()), Err)
}
