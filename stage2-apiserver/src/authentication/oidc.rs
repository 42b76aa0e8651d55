//! OpenID Connect: users whom somebody else knows.
//!
//! *Step 2 of a pod's journey.* Before: a person logged in at an identity provider and got an ID token. After: the token's user and groups,
//! with prefixes that keep them apart from the cluster's own.
//!
//! The API server never talks to the provider about a user. It fetches the provider's public keys once (`ISSUER/.well-known/openid-configuration`
//! names the place) and then checks signatures by itself; a key id that it doesn't know makes it look again.
//!
//! The subtle thing are the prefixes. Without one, a provider could name somebody `system:admin` or put them into `system:masters`; a user name
//! from a claim other than `email` therefore begins with the issuer's URL unless the administrator says otherwise.
//!
//! # Invariants
//! 1. A token is for us only if its issuer is exactly ours, its audience names our client id, and its time isn't over.
//! 2. An e-mail address that the provider doesn't vouch for is no user name.
//!
//! # In Kubernetes
//! `apiserver/plugin/pkg/authenticator/token/oidc/oidc.go`. Left out: `AuthenticationConfiguration` files (several issuers, CEL claim mappings),
//! distributed claims.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::Request;
use jiff::Timestamp;
use serde_json::Value;
use stage1_kubectl::client::{Client, ClientConfig};
use stage1_kubectl::tls::TlsOptions;

use super::UserInfo;
use super::jwt::{self, Key, Unverified};

/// Keys are looked for again at most this often.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// How long the provider may take.
/// Longest document that is read: a provider's description, its keys.
const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// A token may be this much too early, as the library of the real server has it.
const NOT_BEFORE_LEEWAY_SECONDS: i64 = 300;
/// Every algorithm that can be chosen.
const ALGORITHMS: [&str; 8] = ["RS256", "RS384", "RS512", "ES256", "ES384", "PS256", "PS384", "PS512"];

/// What the `--oidc-*` flags say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// `--oidc-issuer-url`
    pub issuer_url: String,
    /// `--oidc-client-id`
    pub client_id: String,
    /// `--oidc-username-claim`
    pub username_claim: String,
    /// `--oidc-username-prefix`
    pub username_prefix: String,
    /// `--oidc-groups-claim`
    pub groups_claim: String,
    /// `--oidc-groups-prefix`
    pub groups_prefix: String,
    /// `--oidc-signing-algs`
    pub signing_algorithms: Vec<String>,
    /// `--oidc-required-claim`
    pub required_claims: Vec<(String, String)>,
}

impl Config {
    /// Checks what can be checked without the provider.
    ///
    /// # Errors
    /// The flag that is wrong.
    pub fn check(&self) -> Result<(), String> {
        if self.issuer_url.is_empty() || self.client_id.is_empty() {
            return Err(
                "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"
                    .into(),
            );
        }
        if !self.issuer_url.starts_with("https://") {
            return Err(format!(
                "oidc-issuer-url: Invalid value: {:?}: URL scheme must be https",
                self.issuer_url
            ));
        }
        match self.signing_algorithms.iter().find(|a| !ALGORITHMS.contains(&a.as_str())) {
            Some(unknown) => Err(format!("oidc: unsupported signing alg: {unknown:?}")),
            None => Ok(()),
        }
    }

    fn prefix_of_users(&self) -> String {
        match self.username_prefix.as_str() {
            "-" => String::new(),
            "" if self.username_claim != "email" => format!("{}#", self.issuer_url),
            prefix => prefix.to_owned(),
        }
    }
}

// ANCHOR: oidc-user
/// The user of a token whose signature is right.
///
/// # Errors
/// Why it isn't believed; for the log.
pub fn user(config: &Config, token: &Unverified, now: Timestamp) -> Result<UserInfo, String> {
    let now = now.as_second();
    if !token.texts("aud").contains(&config.client_id) {
        return Err(format!("oidc: expected audience {:?} got {:?}", config.client_id, token.texts("aud")));
    }
    if token.seconds("exp").is_none_or(|exp| exp < now) {
        return Err("oidc: token is expired".into());
    }
    if token.seconds("nbf").is_some_and(|nbf| nbf > now + NOT_BEFORE_LEEWAY_SECONDS) {
        return Err("oidc: token is not valid yet".into());
    }
    let claim = config.username_claim.as_str();
    let name = token.text(claim);
    if name.is_empty() {
        return Err(format!("oidc: parse username claims {claim:?}: claim not present"));
    }
    if claim == "email" && token.claims.get("email_verified").is_some_and(|v| *v != Value::Bool(true)) {
        return Err("oidc: email not verified".into());
    }
    for (name, value) in &config.required_claims {
        if token.claims.get(name).and_then(Value::as_str) != Some(value.as_str()) {
            return Err(format!("oidc: required claim {name} value does not match"));
        }
    }
    let groups = match config.groups_claim.as_str() {
        "" => Vec::new(),
        claim => token.texts(claim),
    };
    let mut extra = BTreeMap::new();
    if !token.text("jti").is_empty() {
        let id = format!("JTI={}", token.text("jti"));
        extra.insert("authentication.kubernetes.io/credential-id".to_owned(), vec![id]);
    }
    Ok(UserInfo {
        name: format!("{}{name}", config.prefix_of_users()),
        groups: groups.iter().map(|group| format!("{}{group}", config.groups_prefix)).collect(),
        extra,
        ..UserInfo::default()
    })
}
// ANCHOR_END: oidc-user

/// An identity provider, and its keys as far as they are known.
pub struct Oidc {
    config: Config,
    ca_pem: Option<Vec<u8>>,
    keys: ArcSwap<Vec<Key>>,
    /// When keys were asked for last; held while they are.
    asked: tokio::sync::Mutex<Option<Instant>>,
}

impl Oidc {
    /// Nothing is fetched before the first token comes.
    ///
    /// # Errors
    /// A flag that is wrong.
    pub fn new(config: Config, ca_pem: Option<Vec<u8>>) -> Result<Self, String> {
        config.check()?;
        Ok(Oidc { config, ca_pem, keys: ArcSwap::default(), asked: tokio::sync::Mutex::default() })
    }

    /// The user of a token; `None` if the token isn't of this provider at all.
    ///
    /// # Errors
    /// Why a token of this provider isn't believed; for the log.
    pub async fn authenticate(&self, token: &str, now: Timestamp) -> Result<Option<UserInfo>, String> {
        let Some(token) = jwt::parse(token) else { return Ok(None) };
        if token.text("iss") != self.config.issuer_url {
            return Ok(None);
        }
        if !self.config.signing_algorithms.contains(&token.algorithm) {
            return Err(format!("oidc: id token signed with unsupported algorithm {:?}", token.algorithm));
        }
        if !token.is_signed_by(&self.keys.load()) {
            self.refresh().await?;
            if !token.is_signed_by(&self.keys.load()) {
                return Err("oidc: failed to verify signature: failed to verify id token signature".into());
            }
        }
        user(&self.config, &token, now).map(Some)
    }

    /// Fetches the keys; one request for all who wait.
    async fn refresh(&self) -> Result<(), String> {
        let mut asked = self.asked.lock().await;
        if asked.is_some_and(|at| at.elapsed() < REFRESH_INTERVAL) {
            return Ok(());
        }
        let outcome = self.fetch_keys().await;
        // The time of the answer: whoever waited for a slow one doesn't ask again.
        *asked = Some(Instant::now());
        outcome
    }

    async fn fetch_keys(&self) -> Result<(), String> {
        let issuer = self.config.issuer_url.trim_end_matches('/');
        let document = self.fetch(&format!("{issuer}/.well-known/openid-configuration")).await?;
        if document["issuer"].as_str() != Some(self.config.issuer_url.as_str()) {
            return Err(format!(
                "oidc: issuer did not match the issuer returned by provider, expected {:?} got {}",
                self.config.issuer_url, document["issuer"]
            ));
        }
        let place = document["jwks_uri"].as_str().unwrap_or("");
        let keys = jwt::keys(&self.fetch(place).await?);
        self.keys.store(Arc::new(keys));
        Ok(())
    }

    async fn fetch(&self, url: &str) -> Result<Value, String> {
        let (server, path) = split(url).ok_or_else(|| format!("oidc: {url:?} is no https URL"))?;
        let mut config = ClientConfig::new(server);
        config.tls = TlsOptions { ca_pem: self.ca_pem.clone(), ..TlsOptions::default() };
        config.timeout = Some(FETCH_TIMEOUT);
        config.max_response_bytes = Some(MAX_DOCUMENT_BYTES);
        let client = Client::new(config).map_err(|e| format!("oidc: {e}"))?;
        let request = Request::get(path).body(Bytes::new()).map_err(|e| format!("oidc: {url}: {e}"))?;
        client.request(request).await.map_err(|e| format!("oidc: get {url}: {e}"))
    }
}

/// `https://host` and `/path`.
fn split(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("https://")?;
    let at = rest.find('/').map_or(url.len(), |at| at + "https://".len());
    let (server, path) = url.split_at(at);
    Some((server, if path.is_empty() { "/" } else { path }))
}

#[cfg(test)]
mod tests;
