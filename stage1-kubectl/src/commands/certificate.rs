//! `kubectl certificate approve|deny`: decides about a CertificateSigningRequest.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/certificates/certificates.go`.
#![expect(clippy::disallowed_methods, reason = "shell: the condition carries the time")]

use clap::{Args, Subcommand};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::DryRun;
use super::builder::{self, FilenameFlags, Selection};
use super::create::print_result;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::printers::{PrintFlags, Printer};
use crate::request;
use crate::time::format_time;

/// `kubectl certificate …`.
#[derive(Debug, Args)]
pub struct CertificateArgs {
    /// What to decide.
    #[command(subcommand)]
    pub command: CertificateCommand,
}

/// The two decisions.
#[derive(Debug, Subcommand)]
pub enum CertificateCommand {
    /// Approve a certificate signing request.
    Approve(DecisionArgs),
    /// Deny a certificate signing request.
    Deny(DecisionArgs),
}

/// Flags of `kubectl certificate approve` and `deny`.
#[derive(Debug, Args)]
pub struct DecisionArgs {
    /// The requests.
    pub names: Vec<String>,
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
    /// Update the CSR even if it is already approved.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub force: bool,
}

/// Runs `kubectl certificate …`.
///
/// # Errors
/// A request that isn't there, or was decided the other way.
pub async fn run(ctx: &Context, args: CertificateArgs) -> Result<(), Failure> {
    let (args, approve) = match args.command {
        CertificateCommand::Approve(args) => (args, true),
        CertificateCommand::Deny(args) => (args, false),
    };
    let (condition, done, word) =
        if approve { ("Approved", "approved", "approve") } else { ("Denied", "denied", "deny") };
    let printer = args.print.printer()?.map(Printer::typed);
    let other = if approve { "Denied" } else { "Approved" };
    let mut words = vec!["certificatesigningrequests.certificates.k8s.io".to_string()];
    words.extend(args.names.iter().map(|name| name.rsplit('/').next().unwrap_or(name).to_string()));
    if args.names.is_empty() && args.files.is_empty() {
        let why = "one or more CSRs must be specified as <name> or -f <filename>";
        return Err(Failure::message(why));
    }
    for target in builder::targets(ctx, &words, &args.files, &Selection::default()).await? {
        let mut csr = target.get(ctx).await?;
        let mut conditions =
            csr.get("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        let has = |kind: &str| conditions.iter().any(|condition| condition["type"] == kind);
        if has(other) {
            let why =
                format!("certificate signing request {:?} is already {}", target.name, other.to_lowercase());
            return Err(Failure::message(why));
        }
        if !has(condition) || args.force {
            conditions.retain(|old| old["type"] != condition);
            conditions.push(json!({
                "type": condition, "status": "True", "reason": format!("Kubectl{condition}"),
                "message": format!("This CSR was {done} by kubectl certificate {word}."),
                "lastUpdateTime": format_time(Timestamp::now()), "lastTransitionTime": null,
            }));
            csr.set("/status/conditions", Value::Array(conditions));
            let request = request::typed(Method::PUT, &target.path(Some("approval")), csr.as_value());
            csr = ctx.client().await?.request::<Object>(request).await?;
        }
        print_result(ctx, printer.as_ref(), &csr, done, DryRun::None)?;
    }
    Ok(())
}
