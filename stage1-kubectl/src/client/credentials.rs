//! Credentials: the headers that say who we are.
//!
//! A token in a file is rotated under us (a pod's service-account token lives an hour), so it is read again when it is
//! older than a minute. Impersonation is a set of headers beside the real credentials.
//!
//! # In Kubernetes
//! `client-go/transport/{round_trippers,token_source}.go`; credential plugins are `plugin/pkg/client/auth/exec`.
#![expect(clippy::disallowed_methods, reason = "shell: reads token files, starts credential plugins")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use base64::Engine;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;

use super::{ClientConfig, ClientError};
use crate::kubeconfig::ExecPlugin;

const TOKEN_FILE_PERIOD: Duration = Duration::from_secs(60);

/// A token and when it was fetched.
type Cached = Mutex<Option<(HeaderValue, Instant)>>;

/// What is added to each request.
pub(super) struct Credentials {
    fixed: HeaderMap,
    source: Source,
    cached: Cached,
}

enum Source {
    Fixed,
    File(PathBuf),
    Exec(ExecPlugin),
}

fn bearer(token: &str) -> Result<HeaderValue, ClientError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim())).map_err(|_| {
        ClientError::Config("the bearer token holds characters that no header may hold".into())
    })?;
    value.set_sensitive(true);
    Ok(value)
}

impl Credentials {
    pub(super) fn new(config: &ClientConfig) -> Result<Self, ClientError> {
        let mut fixed = HeaderMap::new();
        if let Some(token) = &config.token {
            fixed.insert(AUTHORIZATION, bearer(token)?);
        } else if let Some((user, password)) = &config.basic_auth {
            let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
            let value = HeaderValue::from_str(&format!("Basic {encoded}")).expect("base64 is plain ASCII");
            fixed.insert(AUTHORIZATION, value);
        }
        let mut impersonate = |name: String, value: &str| -> Result<(), ClientError> {
            let bad = |_| ClientError::Config(format!("cannot impersonate {value:?}"));
            let name = HeaderName::try_from(name)
                .map_err(|_| ClientError::Config("bad impersonation key".into()))?;
            fixed.append(name, HeaderValue::from_str(value).map_err(bad)?);
            Ok(())
        };
        let who = &config.impersonate;
        if !who.user.is_empty() {
            impersonate("Impersonate-User".into(), &who.user)?;
        }
        if !who.uid.is_empty() {
            impersonate("Impersonate-Uid".into(), &who.uid)?;
        }
        for group in &who.groups {
            impersonate("Impersonate-Group".into(), group)?;
        }
        for (key, value) in &who.extra {
            impersonate(format!("Impersonate-Extra-{key}"), value)?;
        }
        let source = match (&config.token_file, &config.exec) {
            (Some(file), _) => Source::File(file.clone()),
            (None, Some(plugin)) => Source::Exec(plugin.clone()),
            (None, None) => Source::Fixed,
        };
        Ok(Credentials { fixed, source, cached: Mutex::new(None) })
    }

    /// Adds the headers.
    pub(super) async fn add(&self, headers: &mut HeaderMap) -> Result<(), ClientError> {
        // Who says himself who he is (through the proxy) is not contradicted.
        if headers.contains_key(AUTHORIZATION) {
            return Ok(());
        }
        for (name, value) in &self.fixed {
            headers.append(name.clone(), value.clone());
        }
        if matches!(self.source, Source::Fixed) {
            return Ok(());
        }
        let cached = self.cached.lock().clone().filter(|(_, at)| at.elapsed() < TOKEN_FILE_PERIOD);
        let value = match cached {
            Some((value, _)) => value,
            None => {
                let value = bearer(&self.fetch().await?)?;
                *self.cached.lock() = Some((value.clone(), Instant::now()));
                value
            }
        };
        headers.insert(AUTHORIZATION, value);
        Ok(())
    }

    async fn fetch(&self) -> Result<String, ClientError> {
        match &self.source {
            Source::Fixed => Ok(String::new()),
            Source::File(path) => tokio::fs::read_to_string(path)
                .await
                .map_err(|e| ClientError::Config(format!("failed to read token file {path:?}: {e}"))),
            Source::Exec(plugin) => run_plugin(plugin).await,
        }
    }
}

/// Runs a credential plugin and takes the token from what it prints.
async fn run_plugin(plugin: &ExecPlugin) -> Result<String, ClientError> {
    let failed = |why: String| ClientError::Config(format!("getting credentials: exec: {why}"));
    let info = serde_json::json!({"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": {"interactive": false}});
    let output = tokio::process::Command::new(&plugin.command)
        .args(plugin.args.iter().flatten())
        .envs(plugin.env.iter().flatten().map(|e| (&e.name, &e.value)))
        .env("KUBERNETES_EXEC_INFO", info.to_string())
        .stderr(std::process::Stdio::inherit())
        .output()
        .await;
    let output = output.map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            let hint = plugin.install_hint.as_deref().map(|h| format!("\n\n{h}")).unwrap_or_default();
            failed(format!("executable {} not found{hint}", plugin.command))
        }
        _ => failed(format!("executable {} failed: {e}", plugin.command)),
    })?;
    if !output.status.success() {
        let code = output.status.code().unwrap_or(-1);
        return Err(failed(format!("executable {} failed with exit code {code}", plugin.command)));
    }
    let credential: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|e| failed(format!("decoding stdout: {e}")))?;
    let token = credential.pointer("/status/token").and_then(|t| t.as_str());
    token.map(String::from).ok_or_else(|| failed("plugin did not return a token".into()))
}
