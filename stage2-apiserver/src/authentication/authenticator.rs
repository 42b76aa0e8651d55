//! The authenticator: each proof in turn, and what remains is anonymous.
//!
//! # In Kubernetes
//! `pkg/kubeapiserver/authenticator/config.go`, `apiserver/pkg/authentication/request/union`.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use stage1_kubectl::status::Status;

use super::service_account::{BoundObjects, Signer, TokenError};
use super::{UserInfo, token_file::TokenFile, x509};
use crate::registry;
use crate::watch_cache::{At, Caches};

/// See [`crate::authentication`].
pub struct Authenticator {
    /// Client certificates; `None`: none are believed.
    pub certificates: Option<x509::Verifier>,
    /// ServiceAccount tokens.
    pub service_accounts: Arc<Signer>,
    /// Static tokens.
    pub tokens: TokenFile,
    /// Whether requests without a proof are let in as `system:anonymous`.
    pub anonymous: bool,
    /// Where the objects are that tokens are bound to.
    pub caches: Arc<Caches>,
}

impl BoundObjects for Caches {
    fn uid(&self, resource: &'static str, namespace: &str, name: &str) -> Option<String> {
        let info = registry::find("", "v1", resource)?;
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        let found = self.of(&info.key_prefix(None)).peek(&info.key(namespace, name))?;
        Some(found.object.uid().to_owned())
    }
}

impl Authenticator {
    /// Who sends a request: `chain` is the connection's client certificate chain (leaf first, maybe empty), `authorization` the
    /// header of that name.
    ///
    /// # Errors
    /// 401 for a proof that is wrong, and for no proof when anonymous requests are off.
    pub async fn authenticate(
        &self,
        chain: &[CertificateDer<'_>],
        authorization: Option<&str>,
        now: Timestamp,
    ) -> Result<UserInfo, Status> {
        let mut refused = false;
        if let (Some(verifier), false) = (&self.certificates, chain.is_empty()) {
            match verifier.user(chain, now) {
                Ok(user) => return Ok(user.authenticated()),
                Err(why) => {
                    tracing::debug!(why, "Client certificate refused");
                    refused = true;
                }
            }
        }
        if let Some(token) = authorization.and_then(bearer) {
            match self.token(token, &[], now).await {
                Some(user) => return Ok(user.authenticated()),
                None => refused = true,
            }
        }
        if refused || !self.anonymous {
            return Err(Status::unauthorized());
        }
        Ok(UserInfo::anonymous())
    }

    /// The user of a bearer token (also the answer of a TokenReview, for the audiences that it names).
    pub async fn token(&self, token: &str, audiences: &[String], now: Timestamp) -> Option<UserInfo> {
        if !self.service_accounts.is_ours(token) {
            return self.tokens.user(token);
        }
        let verify = || self.service_accounts.verify(token, audiences, now, &*self.caches);
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

/// The token of a `Bearer` header; other schemes, and an empty token, are no proof.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
