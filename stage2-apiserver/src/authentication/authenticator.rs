//! The authenticator: each proof in turn, and what remains is anonymous.
//!
//! # In Kubernetes
//! `pkg/kubeapiserver/authenticator/config.go`, `apiserver/pkg/authentication/request/union`.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use stage1_kubectl::status::Status;

use super::oidc::Oidc;
use super::service_account::{BoundObjects, ISSUER, LEEWAY_SECONDS, Signer, TokenError};
use super::x509::{self, PeerCertificates};
use super::{UserInfo, bootstrap_token, token_file::TokenFile};
use crate::registry;
use crate::watch_cache::{At, CachedObject, Caches};

/// See [`crate::authentication`].
pub struct Authenticator {
    /// Client certificates; `None`: none are believed.
    pub certificates: Option<x509::Verifier>,
    /// ServiceAccount tokens.
    pub service_accounts: Arc<Signer>,
    /// Static tokens.
    pub tokens: TokenFile,
    /// An identity provider.
    pub oidc: Option<Oidc>,
    /// Whether bootstrap tokens are believed.
    pub bootstrap_tokens: bool,
    /// Whether requests without a proof are let in as `system:anonymous`.
    pub anonymous: bool,
    /// Where the objects are that tokens are bound to.
    pub caches: Arc<Caches>,
}

/// Bound objects as they are at a time.
struct Present<'a> {
    caches: &'a Caches,
    now: Timestamp,
}

impl Present<'_> {
    /// An object of the core group, unless it is being deleted for longer than clocks differ.
    fn find(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<CachedObject>> {
        let info = registry::find("", "v1", resource)?;
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        let found = self.caches.of(&info.key_prefix(None)).peek(&info.key(namespace, name))?;
        let deleted = found.object.deletion_timestamp();
        let over = deleted.is_some_and(|at| at.as_second() < self.now.as_second() - LEEWAY_SECONDS);
        (!over).then_some(found)
    }
}

impl BoundObjects for Present<'_> {
    fn uid(&self, resource: &'static str, namespace: &str, name: &str) -> Option<String> {
        self.find(resource, namespace, name).map(|found| found.object.uid().to_owned())
    }

    fn secret_token(&self, namespace: &str, name: &str) -> Option<String> {
        let secret = &self.find("secrets", namespace, name)?.object;
        let invalid = secret.label("kubernetes.io/legacy-token-invalid-since").is_some();
        if invalid || secret.get_str("/type") != Some("kubernetes.io/service-account-token") {
            return None;
        }
        String::from_utf8(STANDARD.decode(secret.get_str("/data/token")?).ok()?).ok()
    }
}

impl Authenticator {
    /// Who sends a request: by the connection's certificates, or by the header `authorization`.
    ///
    /// # Errors
    /// 401 for a proof that is wrong, and for no proof when anonymous requests are off.
    pub async fn authenticate(
        &self,
        peer: &PeerCertificates,
        authorization: Option<&str>,
        now: Timestamp,
    ) -> Result<Arc<UserInfo>, Status> {
        let mut refused = false;
        if let (Some(verifier), false) = (&self.certificates, peer.is_empty()) {
            match verifier.user(peer, now) {
                Ok(user) => return Ok(user),
                Err(why) => {
                    tracing::debug!(why, "Client certificate refused");
                    refused = true;
                }
            }
        }
        if let Some(token) = authorization.and_then(bearer) {
            match self.token(token, &[], now).await {
                Some(user) => return Ok(Arc::new(user.authenticated())),
                None => refused = true,
            }
        }
        if refused || !self.anonymous {
            return Err(Status::unauthorized());
        }
        Ok(Arc::new(UserInfo::anonymous()))
    }

    /// The user of a bearer token (also the answer of a TokenReview, for the audiences that it names).
    pub async fn token(&self, token: &str, audiences: &[String], now: Timestamp) -> Option<UserInfo> {
        if !self.service_accounts.is_ours(token) {
            return self.foreign_token(token, audiences, now).await;
        }
        let present = Present { caches: &self.caches, now };
        let verify = || self.service_accounts.verify(token, audiences, now, &present);
        let mut verified = verify();
        if let Err(TokenError::Gone(_)) = verified {
            // The caches may not have heard yet of what was made a moment ago: wait for the present, then decide.
            for resource in ["serviceaccounts", "pods", "secrets", "nodes"] {
                let Some(info) = registry::find("", "v1", resource) else { continue };
                let _ = self.caches.of(&info.key_prefix(None)).wait_for(At::Consistent).await;
            }
            verified = verify();
        }
        verified.inspect_err(|error| tracing::debug!(%error, "Token refused")).ok()
    }
}

impl Authenticator {
    /// Tokens that somebody else made, in Kubernetes' order: of a file, of a joining node, of an identity provider.
    async fn foreign_token(&self, token: &str, audiences: &[String], now: Timestamp) -> Option<UserInfo> {
        if !audiences.is_empty() && !audiences.iter().any(|audience| audience == ISSUER) {
            // None of them says for whom it is: they are for this server.
            return None;
        }
        if let Some(user) = self.tokens.user(token) {
            return Some(user);
        }
        if let (true, Some((id, secret))) = (self.bootstrap_tokens, bootstrap_token::parse(token)) {
            let present = Present { caches: &self.caches, now };
            let name = bootstrap_token::secret_name(id);
            let found = present.find("secrets", bootstrap_token::NAMESPACE, &name)?;
            return bootstrap_token::user(id, secret, &found.object, now);
        }
        let outcome = self.oidc.as_ref()?.authenticate(token, now).await;
        outcome.inspect_err(|why| tracing::debug!(why, "Token refused")).ok().flatten()
    }
}

/// The token of a `Bearer` header; other schemes, and an empty token, are no proof.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
