//! `kubectl config view`: the merged configuration as YAML or JSON.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/config/view.go`, `client-go/tools/clientcmd/api/helpers.go`.
#![expect(clippy::disallowed_methods, reason = "shell: --flatten reads certificate files")]

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde::Serialize;

use super::files::{Files, document, ordered};
use crate::context::Context;
use crate::failure::Failure;
use crate::kubeconfig::{self, Config};
use crate::printers::{Output, PrintFlags};

/// Flags of `kubectl config view`.
#[derive(Debug, Args)]
pub struct ViewArgs {
    /// How it is printed; YAML where nothing is asked for.
    #[command(flatten)]
    pub print: PrintFlags,
    /// Remove all information not used by current-context from the output.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub minify: bool,
    /// Flatten the resulting kubeconfig file into self-contained output.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub flatten: bool,
    /// Display raw byte data and sensitive data.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub raw: bool,
    /// Merge the full hierarchy of kubeconfig files.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub merge: bool,
}

/// Runs `kubectl config view`.
///
/// # Errors
/// A file that can't be read, or a context that isn't there.
pub fn run(ctx: &Context, args: &ViewArgs) -> Result<(), Failure> {
    if !args.merge && ctx.flags.kubeconfig.is_empty() {
        return Err(Failure::message("if merge==false a precise file must be specified"));
    }
    let printer = args.print.printer()?;
    let output = printer.map_or(Output::Yaml, |printer| printer.form);
    let mut config = Files::open(&ctx.flags.kubeconfig)?.merged();
    if args.minify {
        config = minify(&config, ctx.flags.context.as_deref())?;
    }
    match (args.flatten, args.raw) {
        (true, _) => flatten(&mut config, &resolved(&ctx.flags.kubeconfig)?)?,
        (false, false) => redact(&mut config),
        (false, true) => {}
    }
    ctx.print(&match output {
        // Go prints a struct's fields in their order, which a map of values has lost.
        Output::Json => in_order(&ordered(&config)),
        other => other.render(&document(&config))?,
    });
    Ok(())
}

/// Only what the context uses.
fn minify(config: &Config, context: Option<&str>) -> Result<Config, Failure> {
    let name = context.unwrap_or(&config.current_context);
    if name.is_empty() {
        return Err(Failure::message("current-context must exist in order to minify"));
    }
    let mut small = config.clone();
    small.current_context = name.to_string();
    small.contexts.retain(|context| context.name == name);
    let missing = |what: &str, name: &str| Failure::message(format!("cannot locate {what} {name}"));
    let context = small.contexts.first().ok_or_else(|| missing("context", name))?.context.clone();
    small.clusters.retain(|cluster| cluster.name == context.cluster);
    small.users.retain(|user| user.name == context.user);
    if small.clusters.is_empty() && !context.cluster.is_empty() {
        return Err(missing("cluster", &context.cluster));
    }
    if small.users.is_empty() && !context.user.is_empty() {
        return Err(missing("user", &context.user));
    }
    Ok(small)
}

/// Hides keys, certificates, tokens and passwords.
fn redact(config: &mut Config) {
    const OMITTED: &str = "DATA+OMITTED";
    const REDACTED: &str = "REDACTED";
    let hide = |field: &mut Option<String>, shown: &str| {
        if field.as_ref().is_some_and(|value| !value.is_empty()) {
            *field = Some(shown.to_string());
        }
    };
    for named in &mut config.clusters {
        hide(&mut named.cluster.certificate_authority_data, OMITTED);
    }
    for named in &mut config.users {
        hide(&mut named.user.client_certificate_data, OMITTED);
        hide(&mut named.user.client_key_data, OMITTED);
        hide(&mut named.user.token, REDACTED);
        hide(&mut named.user.password, REDACTED);
    }
}

/// The same with absolute paths.
fn resolved(explicit: &str) -> Result<Config, Failure> {
    let paths = match explicit {
        "" => kubeconfig::default_paths(),
        path => vec![PathBuf::from(path)],
    };
    kubeconfig::load(&paths).map_err(|e| Failure::message(e.to_string()))
}

/// Puts the content of the certificates' files in place of their names; where those are, `resolved` says.
fn flatten(config: &mut Config, resolved: &Config) -> Result<(), Failure> {
    let embed = |path: &mut Option<String>,
                 absolute: Option<&String>,
                 data: &mut Option<String>|
     -> Result<(), Failure> {
        let Some(file) = path.take().filter(|file| !file.is_empty()) else { return Ok(()) };
        if data.is_none() {
            let file = absolute.unwrap_or(&file);
            let bytes = std::fs::read(file).map_err(|error| {
                let why = match error.kind() {
                    std::io::ErrorKind::NotFound => "no such file or directory".to_string(),
                    _ => error.to_string(),
                };
                Failure::message(format!("open {file}: {why}"))
            })?;
            *data = Some(STANDARD.encode(bytes));
        }
        Ok(())
    };
    for named in &mut config.clusters {
        let known = resolved.clusters.iter().find(|one| one.name == named.name).map(|one| &one.cluster);
        let cluster = &mut named.cluster;
        let absolute = known.and_then(|one| one.certificate_authority.as_ref());
        embed(&mut cluster.certificate_authority, absolute, &mut cluster.certificate_authority_data)?;
    }
    for named in &mut config.users {
        let known = resolved.users.iter().find(|one| one.name == named.name).map(|one| &one.user);
        let user = &mut named.user;
        let absolute = known.and_then(|one| one.client_certificate.as_ref());
        embed(&mut user.client_certificate, absolute, &mut user.client_certificate_data)?;
        let absolute = known.and_then(|one| one.client_key.as_ref());
        embed(&mut user.client_key, absolute, &mut user.client_key_data)?;
    }
    Ok(())
}

fn in_order(config: &Config) -> String {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    config.serialize(&mut serializer).expect("a kubeconfig serializes");
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("JSON is UTF-8")
}
