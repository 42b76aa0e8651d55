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
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{ClientConfig, ClientError};
use crate::kubeconfig::ExecPlugin;

const TOKEN_FILE_PERIOD: Duration = Duration::from_secs(60);

/// A token, when it was fetched, and until when it is good where that is known.
type Cached = Mutex<Option<(HeaderValue, Instant, Option<Timestamp>)>>;

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
        // A file is read again after a while; a plugin is asked again when what it gave has expired.
        let is_file = matches!(self.source, Source::File(_));
        let good = |at: &Instant, until: &Option<Timestamp>| match (is_file, until) {
            (true, _) => at.elapsed() < TOKEN_FILE_PERIOD,
            (false, Some(until)) => Timestamp::now() < *until,
            (false, None) => true,
        };
        let cached = self.cached.lock().clone().filter(|(_, at, until)| good(at, until));
        let value = match cached {
            Some((value, ..)) => value,
            None => {
                let (token, until) = self.fetch().await?;
                let value = bearer(&token)?;
                *self.cached.lock() = Some((value.clone(), Instant::now(), until));
                value
            }
        };
        headers.insert(AUTHORIZATION, value);
        Ok(())
    }

    async fn fetch(&self) -> Result<(String, Option<Timestamp>), ClientError> {
        match &self.source {
            Source::Fixed => Ok((String::new(), None)),
            Source::File(path) => tokio::fs::read_to_string(path)
                .await
                .map(|token| (token, None))
                .map_err(|e| ClientError::Config(format!("failed to read token file {path:?}: {e}"))),
            Source::Exec(plugin) => {
                let given = run_plugin(plugin).await?;
                let token = given.token.ok_or_else(|| {
                    ClientError::Config("getting credentials: exec: plugin did not return a token".into())
                })?;
                Ok((token, given.until))
            }
        }
    }
}

/// What a plugin gave.
pub(super) struct Given {
    pub token: Option<String>,
    /// Client certificate and key, as PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    until: Option<Timestamp>,
}

/// Runs a credential plugin and reads what it prints.
pub(super) async fn run_plugin(plugin: &ExecPlugin) -> Result<Given, ClientError> {
    let failed = |why: String| ClientError::Config(format!("getting credentials: exec: {why}"));
    let info = serde_json::json!({"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": {"interactive": std::io::IsTerminal::is_terminal(&std::io::stdin()) && plugin.interactive_mode.as_deref() != Some("Never")}});
    let output = tokio::process::Command::new(&plugin.command)
        .args(plugin.args.iter().flatten())
        .envs(plugin.env.iter().flatten().map(|e| (&e.name, &e.value)))
        .env("KUBERNETES_EXEC_INFO", info.to_string())
        .stdin(std::process::Stdio::inherit())
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
    let text = |field: &str| credential["status"][field].as_str().filter(|t| !t.is_empty()).map(String::from);
    if credential["apiVersion"] != plugin.api_version {
        let got = credential["apiVersion"].as_str().unwrap_or_default();
        let why = "exec plugin is configured to use API version";
        return Err(failed(format!("{why} {}, plugin returned version {got}", plugin.api_version)));
    }
    let identity = match (text("clientCertificateData"), text("clientKeyData")) {
        (Some(certificate), Some(key)) => Some((certificate.into_bytes(), key.into_bytes())),
        (None, None) => None,
        _ => return Err(failed("plugin returned only certificate or key, not both".into())),
    };
    let token = text("token");
    if token.is_none() && identity.is_none() {
        return Err(failed("plugin didn't return a token or cert/key pair".into()));
    }
    let until = text("expirationTimestamp").and_then(|t| t.parse().ok());
    Ok(Given { token, identity, until })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_token_file_is_read_again_when_it_is_a_minute_old() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "first\n").unwrap();
        let config = ClientConfig { token_file: Some(file.path().into()), ..ClientConfig::new("https://a") };
        let credentials = Credentials::new(&config).unwrap();
        let sent = async || {
            let mut headers = HeaderMap::new();
            credentials.add(&mut headers).await.unwrap();
            headers[AUTHORIZATION].to_str().unwrap().to_string()
        };
        assert_eq!(sent().await, "Bearer first");
        std::fs::write(file.path(), "second").unwrap();
        assert_eq!(sent().await, "Bearer first", "a minute is not over");
        let now = Instant::now();
        if let Some((_, at, _)) = credentials.cached.lock().as_mut() {
            *at = now.checked_sub(TOKEN_FILE_PERIOD).expect("this machine runs for longer than a minute");
        }
        assert_eq!(sent().await, "Bearer second");
    }
}
