//! The connection: is there an answer, and if not, what can be known from here?
//!
//! # Invariants
//! 1. Only addresses that a kubeconfig of this machine names are asked.
//!
//! # In Kubernetes
//! No counterpart.
#![expect(clippy::disallowed_methods, reason = "shell: looks at other kubeconfigs of this machine")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{Method, header};
use jiff::Timestamp;

use super::own_time;
use crate::client::{Client, ClientConfig, ClientError};
use crate::context::Context;
use crate::failure::Failure;
use crate::kubeconfig::{self, Resolved};
use crate::request;
use crate::why::facts::Facts;
use crate::why::trouble::{
    Alternative, Credential, Trouble, TroubleKind, certificate_facts, classify, token_facts,
};

/// How long another address may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Asks `/version`; gives the server's time.
///
/// # Errors
/// There is no answer.
pub async fn server_time(ctx: &Context) -> Result<Timestamp, Failure> {
    let response = ctx.client().await?.send(request::request(Method::GET, "/version", None)).await?;
    let body: Result<serde_json::Value, _> = serde_json::from_slice(response.body());
    if !body.is_ok_and(|body| body["gitVersion"].is_string()) {
        let server = ctx.client().await?.config().server.clone();
        return Err(ClientError::NotKubernetes { server }.into());
    }
    let date = response.headers().get(header::DATE).and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()).map(|date| date.timestamp());
    Ok(date.unwrap_or_else(own_time))
}

/// The checks of `/readyz` that fail.
pub async fn unready(ctx: &Context) -> Vec<String> {
    let Ok(client) = ctx.client().await else { return Vec::new() };
    match client.send(request::request(Method::GET, "/readyz?verbose", None)).await {
        Err(ClientError::Api(status)) if status.code >= 500 => {
            let failed = status.message.lines().filter_map(|line| line.trim().strip_prefix("[-]"));
            let failed: Vec<String> =
                failed.map(|line| line.split(' ').next().unwrap_or(line).to_owned()).collect();
            if failed.is_empty() { vec![status.message.clone()] } else { failed }
        }
        _ => Vec::new(),
    }
}

/// The facts of a failure; one that is no trouble with the connection stays a failure.
///
/// # Errors
/// The failure itself.
pub async fn trouble(ctx: &Context, failure: &Failure) -> Result<Facts, Failure> {
    let Failure::Client(error) = failure else { return Err(Failure::message(failure.to_string())) };
    let kind = classify(error).ok_or_else(|| Failure::message(failure.to_string()))?;
    Ok(trouble_of(ctx, kind, error.to_string()).await)
}

/// The facts when there is no answer, or only refusals.
pub async fn trouble_of(ctx: &Context, kind: TroubleKind, message: String) -> Facts {
    let paths = match ctx.flags.kubeconfig.as_str() {
        "" => kubeconfig::default_paths(),
        path => vec![PathBuf::from(path)],
    };
    let config = kubeconfig::load(&paths).unwrap_or_default();
    let context = ctx.flags.context.clone().unwrap_or_else(|| config.current_context.clone());
    let server = match ctx.client().await {
        Ok(client) => client.config().server.clone(),
        Err(_) => String::new(),
    };
    let resolved = config.resolve(ctx.flags.context.as_deref()).unwrap_or_default();
    let reached = matches!(
        kind,
        TroubleKind::Unauthorized
            | TroubleKind::Forbidden
            | TroubleKind::Kubeconfig
            | TroubleKind::ServerError
    );
    let alternatives = if reached { Vec::new() } else { alternatives(&paths, &server).await };
    let trouble = Trouble {
        kind,
        message,
        server,
        kubeconfig: paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(":"),
        context,
        credential: credential(&resolved),
        alternatives,
    };
    Facts {
        now: own_time(),
        trouble: Some(trouble),
        subject: "the connection".into(),
        wide: true,
        ..Facts::default()
    }
}

fn credential(resolved: &Resolved) -> Credential {
    let Ok(config) = ClientConfig::from_resolved(resolved) else { return Credential::default() };
    if let Some((certificate, _)) = &config.tls.identity_pem {
        return certificate_facts(certificate);
    }
    let token = config.token.or_else(|| std::fs::read_to_string(config.token_file.as_ref()?).ok());
    match (token, &config.exec, &config.basic_auth) {
        (Some(token), ..) => token_facts(token.trim()),
        (None, Some(plugin), _) => Credential {
            kind: "exec plugin".into(),
            subject: plugin.command.clone(),
            ..Credential::default()
        },
        (None, None, Some((user, _))) => {
            Credential { kind: "password".into(), subject: user.clone(), ..Credential::default() }
        }
        _ => Credential::default(),
    }
}

/// The addresses in other kubeconfigs: beside the one in use, of the node's own programs, of a pipeline's state directory.
async fn alternatives(used: &[PathBuf], server: &str) -> Vec<Alternative> {
    let mut files: Vec<PathBuf> = Vec::new();
    let beside = used.iter().filter_map(|path| path.parent()).map(Path::to_owned);
    let state = crate::state_dir::StateDir::locate(None);
    let folders = beside.chain([state.root().to_owned(), PathBuf::from("/etc/kubernetes")]);
    for folder in folders {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        let named = |path: &PathBuf| path.extension().is_some_and(|end| end == "kubeconfig" || end == "conf");
        let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(named).collect();
        found.sort();
        files.extend(found.into_iter().filter(|path| !used.contains(path)));
    }
    let mut known: Vec<Alternative> = Vec::new();
    for file in files {
        let Ok(config) = ClientConfig::from_kubeconfig(&file, None) else { continue };
        let same = known.iter().any(|one| one.server == config.server);
        if same || known.len() >= MAX_ALTERNATIVES {
            continue;
        }
        let answers = config.server != server && answers(&config).await;
        known.push(Alternative { source: file.display().to_string(), server: config.server, answers });
    }
    known
}

const MAX_ALTERNATIVES: usize = 6;

/// Whether an API server answers there: a refusal of our rights is an answer, too.
async fn answers(config: &ClientConfig) -> bool {
    // A file that merely lies there is asked for its address, never for its credentials: no plugin of it runs, no token of it is sent.
    let mut config = ClientConfig {
        timeout: Some(PATIENCE),
        token: None,
        token_file: None,
        exec: None,
        basic_auth: None,
        ..config.clone()
    };
    config.tls.identity_pem = None;
    let Ok(client) = Client::new(config) else { return false };
    match client.send(request::request(Method::GET, "/version", None)).await {
        Ok(response) => serde_json::from_slice::<serde_json::Value>(response.body())
            .is_ok_and(|body| body["gitVersion"].is_string()),
        Err(ClientError::Api(status)) => status.code == 401 || status.code == 403,
        Err(_) => false,
    }
}
