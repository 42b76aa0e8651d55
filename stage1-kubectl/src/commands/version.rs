//! `kubectl version`: ours and the server's.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/version/version.go`.

use clap::Args;
use http::Method;
use serde_json::{Value, json};

use crate::client::Client;
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

/// `--match-server-version`: goes on only with a server of our version.
///
/// # Errors
/// The server has another version, or doesn't answer.
pub async fn require_match(client: &Client) -> Result<(), Failure> {
    let server: Value = client.request(request::request(Method::GET, "/version", None)).await?;
    if server["gitVersion"] == GIT_VERSION {
        return Ok(());
    }
    let ours = json!({"major": "1", "minor": "33", "gitVersion": GIT_VERSION, "platform": "linux/amd64"});
    Err(Failure::message(differs(&server, &ours)))
}

/// Both versions as Go prints them.
fn differs(server: &Value, client: &Value) -> String {
    let go = |info: &Value| {
        let names = [
            "Major",
            "Minor",
            "GitVersion",
            "GitCommit",
            "GitTreeState",
            "BuildDate",
            "GoVersion",
            "Compiler",
            "Platform",
        ];
        let field = |name: &&str| {
            let key = format!("{}{}", name[..1].to_lowercase(), &name[1..]);
            format!("{name}:{:?}", info[key].as_str().unwrap_or_default())
        };
        format!("version.Info{{{}}}", names.iter().map(field).collect::<Vec<_>>().join(", "))
    };
    format!("server version ({}) differs from client version ({})!", go(server), go(client))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_versions_are_told_as_go_prints_them() {
        let (server, client) =
            (json!({"major": "1", "gitVersion": "v1.32.3"}), json!({"gitVersion": GIT_VERSION}));
        let text = differs(&server, &client);
        assert!(
            text.starts_with(
                "server version (version.Info{Major:\"1\", Minor:\"\", GitVersion:\"v1.32.3\", "
            ),
            "{text}"
        );
        assert!(text.ends_with("Platform:\"\"})!"), "{text}");
    }
}
