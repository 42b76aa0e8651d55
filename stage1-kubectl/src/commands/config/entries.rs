//! `set-context`, `set-cluster`, `set-credentials`: whole entries.
//!
//! A flag that isn't given leaves its field alone. Flags that exclude each other clear what they replace: a certificate
//! authority clears the insecure mode, a token clears user name and password.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/config/{set_context,set_cluster,set_credentials}.go`. Left out: `--insecure-skip-tls-verify=false`.
#![expect(clippy::disallowed_methods, reason = "shell: embeds certificate files")]

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Value, json};

use super::files::Files;
use crate::context::GlobalFlags;
use crate::failure::Failure;
use crate::kubeconfig::{Cluster, ExecEnv, ExecPlugin, User};

/// Flags of `kubectl config set-context`; `--cluster`, `--user` and `--namespace` are global.
#[derive(Debug, Args)]
pub struct SetContextArgs {
    /// The context.
    pub names: Vec<String>,
    /// Modify the current context.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub current: bool,
}

/// Flags of `kubectl config set-cluster`; `--server` and the certificates' flags are global.
#[derive(Debug, Args)]
pub struct SetClusterArgs {
    /// The cluster.
    pub names: Vec<String>,
    /// Embed the certificate's content instead of naming its file.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub embed_certs: bool,
    /// An HTTP or SOCKS proxy.
    #[arg(long)]
    pub proxy_url: Option<String>,
}

/// Flags of `kubectl config set-credentials`; `--token` and the certificates' flags are global.
#[derive(Debug, Args)]
pub struct SetCredentialsArgs {
    /// The user.
    pub names: Vec<String>,
    /// Embed the certificates' content instead of naming their files.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub embed_certs: bool,
    /// User name for basic authentication.
    #[arg(long)]
    pub username: Option<String>,
    /// Password for basic authentication.
    #[arg(long)]
    pub password: Option<String>,
    /// Auth provider for the user entry.
    #[arg(long)]
    pub auth_provider: Option<String>,
    /// KEY=VALUE arguments for the auth provider.
    #[arg(long, value_delimiter = ',')]
    pub auth_provider_arg: Vec<String>,
    /// Command for the exec credential plugin.
    #[arg(long)]
    pub exec_command: Option<String>,
    /// API version of the exec credential plugin.
    #[arg(long)]
    pub exec_api_version: Option<String>,
    /// New arguments for the exec credential plugin.
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true)]
    pub exec_arg: Vec<String>,
    /// KEY=VALUE environment of the exec credential plugin.
    #[arg(long)]
    pub exec_env: Vec<String>,
    /// Whether the plugin may ask the user.
    #[arg(long)]
    pub exec_interactive_mode: Option<String>,
    /// Tell the plugin about the cluster.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub exec_provide_cluster_info: Option<bool>,
}

/// Removes the elements that fit; whether there were any.
pub fn take<T>(list: &mut Vec<T>, is: impl Fn(&T) -> bool) -> bool {
    let before = list.len();
    list.retain(|element| !is(element));
    list.len() < before
}

fn one_name(names: &[String]) -> Result<String, Failure> {
    match names {
        [name] if !name.is_empty() => Ok(name.clone()),
        other => Err(Failure::message(format!("Unexpected args: [{}]", other.join(" ")))),
    }
}

fn given(flag: Option<&String>) -> Option<String> {
    flag.cloned()
}

/// Runs `kubectl config set-context`; gives what is said about it.
///
/// # Errors
/// No context is named, or two are.
pub fn set_context(flags: &GlobalFlags, args: &SetContextArgs, files: &mut Files) -> Result<String, Failure> {
    let config = files.merged();
    let name = match (args.names.as_slice(), args.current) {
        ([_, ..], true) => {
            return Err(Failure::message("you cannot specify both a context name and --current"));
        }
        ([], true) if config.current_context.is_empty() => {
            return Err(Failure::message("no current context is set"));
        }
        ([], true) => config.current_context.clone(),
        ([name], false) if !name.is_empty() => name.clone(),
        ([], false) | ([_], false) => {
            return Err(Failure::message("you must specify a non-empty context name or --current"));
        }
        (several, false) => {
            return Err(Failure::message(format!("Unexpected args: [{}]", several.join(" "))));
        }
    };
    let existed = config.contexts.iter().any(|context| context.name == name);
    let context = &mut files.context(&name).context;
    if let Some(cluster) = given(flags.cluster.as_ref()) {
        context.cluster = cluster;
    }
    if let Some(user) = given(flags.user.as_ref()) {
        context.user = user;
    }
    if let Some(namespace) = given(flags.namespace.as_ref()) {
        context.namespace = Some(namespace).filter(|ns| !ns.is_empty());
    }
    Ok(format!("Context {name:?} {}.\n", if existed { "modified" } else { "created" }))
}

/// Runs `kubectl config set-cluster`; gives what is said about it.
///
/// # Errors
/// Flags that exclude each other, or a certificate that can't be read.
pub fn set_cluster(flags: &GlobalFlags, args: &SetClusterArgs, files: &mut Files) -> Result<String, Failure> {
    let name = one_name(&args.names)?;
    let authority = flags.certificate_authority.as_deref();
    if flags.insecure_skip_tls_verify && authority.is_some_and(|path| !path.is_empty()) {
        let why = "you cannot specify a certificate authority and insecure mode at the same time";
        return Err(Failure::message(why));
    }
    let embedded = match (args.embed_certs, authority) {
        (true, None | Some("")) => {
            return Err(Failure::message("you must specify a --certificate-authority to embed"));
        }
        (true, Some(path)) => Some(embed("certificate-authority", path)?),
        (false, _) => None,
    };
    let (named, base) = files.cluster(&name);
    let cluster: &mut Cluster = &mut named.cluster;
    if let Some(server) = given(flags.server.as_ref()) {
        cluster.server = server;
        // A server name belongs to its server.
        cluster.tls_server_name = None;
    }
    cluster.tls_server_name = given(flags.tls_server_name.as_ref()).or(cluster.tls_server_name.take());
    if flags.insecure_skip_tls_verify {
        cluster.insecure_skip_tls_verify = Some(true);
        (cluster.certificate_authority, cluster.certificate_authority_data) = (None, None);
    }
    if let Some(path) = authority {
        cluster.insecure_skip_tls_verify = None;
        cluster.certificate_authority =
            Some(relative(path, &base)).filter(|p| embedded.is_none() && !p.is_empty());
        cluster.certificate_authority_data = embedded;
    }
    cluster.proxy_url = args.proxy_url.clone().or(cluster.proxy_url.take());
    Ok(format!("Cluster {name:?} set.\n"))
}

/// Runs `kubectl config set-credentials`; gives what is said about it.
///
/// # Errors
/// Flags that exclude each other, or a certificate that can't be read.
pub fn set_credentials(
    flags: &GlobalFlags,
    args: &SetCredentialsArgs,
    files: &mut Files,
) -> Result<String, Failure> {
    let name = one_name(&args.names)?;
    let basic = args.username.is_some() || args.password.is_some();
    if flags.token.is_some() && basic {
        let why = "you cannot specify more than one authentication method at the same time: --token, --username/--password";
        return Err(Failure::message(why));
    }
    let (certificate, key) = (flags.client_certificate.as_deref(), flags.client_key.as_deref());
    if args.embed_certs && certificate.is_none() && key.is_none() {
        return Err(Failure::message("you must specify a --client-certificate or --client-key to embed"));
    }
    let read = |flag: &str, path: Option<&str>| {
        path.filter(|_| args.embed_certs).map(|path| embed(flag, path)).transpose()
    };
    let (certificate_data, key_data) = (read("client-certificate", certificate)?, read("client-key", key)?);
    let (named, base) = files.user(&name);
    let user: &mut User = &mut named.user;
    if let Some(path) = certificate {
        user.client_certificate = Some(relative(path, &base)).filter(|_| !args.embed_certs);
        user.client_certificate_data = certificate_data;
    }
    if let Some(path) = key {
        user.client_key = Some(relative(path, &base)).filter(|_| !args.embed_certs);
        user.client_key_data = key_data;
    }
    if let Some(token) = given(flags.token.as_ref()) {
        user.token = Some(token);
        (user.username, user.password) = (None, None);
    }
    if basic {
        user.username = args.username.clone().or(user.username.take());
        user.password = args.password.clone().or(user.password.take());
        (user.token, user.token_file) = (None, None);
    }
    if let Some(provider) = &args.auth_provider {
        user.auth_provider = Some(auth_provider(provider, &args.auth_provider_arg));
    }
    set_exec(user, args);
    Ok(format!("User {name:?} set.\n"))
}

fn auth_provider(name: &str, arguments: &[String]) -> Value {
    let pairs = arguments.iter().filter_map(|argument| argument.split_once('='));
    let config: serde_json::Map<String, Value> =
        pairs.map(|(key, value)| (key.to_string(), value.into())).collect();
    json!({"name": name, "config": if config.is_empty() { Value::Null } else { config.into() }})
}

fn set_exec(user: &mut User, args: &SetCredentialsArgs) {
    if user.exec.is_none() && args.exec_command.is_none() {
        return;
    }
    let exec = user.exec.get_or_insert_with(ExecPlugin::default);
    exec.command = args.exec_command.clone().unwrap_or(std::mem::take(&mut exec.command));
    exec.api_version = args.exec_api_version.clone().unwrap_or(std::mem::take(&mut exec.api_version));
    exec.interactive_mode = args.exec_interactive_mode.clone().or(exec.interactive_mode.take());
    exec.provide_cluster_info = args.exec_provide_cluster_info.unwrap_or(exec.provide_cluster_info);
    if !args.exec_arg.is_empty() {
        exec.args = Some(args.exec_arg.clone());
    }
    for entry in &args.exec_env {
        let variables = exec.env.get_or_insert_default();
        match (entry.split_once('='), entry.strip_suffix('-')) {
            (Some((name, value)), _) => {
                take(variables, |variable| variable.name == name);
                variables.push(ExecEnv { name: name.into(), value: value.into() });
            }
            (None, Some(name)) => drop(take(variables, |variable| variable.name == name)),
            (None, None) => {}
        }
    }
}

fn embed(flag: &str, path: &str) -> Result<String, Failure> {
    let bytes = std::fs::read(path).map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::NotFound => "no such file or directory".to_string(),
            std::io::ErrorKind::PermissionDenied => "permission denied".to_string(),
            _ => error.to_string(),
        };
        Failure::message(format!("could not stat {flag} file {path}: stat {path}: {why}"))
    })?;
    Ok(STANDARD.encode(bytes))
}

/// A path as it is written into a file of the folder `base`: relative when it lies in there.
fn relative(path: &str, base: &Path) -> String {
    if path.is_empty() {
        return String::new();
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.into());
    let inside = absolute.strip_prefix(base).map(Path::to_path_buf);
    inside.unwrap_or(absolute).to_string_lossy().into_owned()
}
