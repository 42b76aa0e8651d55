//! Legacy tokens: ServiceAccount tokens that live in a Secret and never expire.
//!
//! A Secret of type `kubernetes.io/service-account-token` whose annotation names a ServiceAccount is filled with one. It is worth
//! something as long as that Secret exists and still holds exactly this token: to revoke it, delete the Secret.
//!
//! # In Kubernetes
//! `pkg/serviceaccount/legacy.go`. Left out: the label that notes when such a token was last used.

use serde::{Deserialize, Serialize};

use super::UserInfo;
use super::service_account::{BoundObjects, TokenError, USER_PREFIX, groups};

/// `iss` of such tokens.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// What such a token says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegacyClaims {
    /// [`LEGACY_ISSUER`].
    pub iss: String,
    /// The namespace.
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    pub namespace: String,
    /// The Secret.
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    pub secret: String,
    /// The ServiceAccount.
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    pub account: String,
    /// Its uid.
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    pub uid: String,
    /// The user.
    pub sub: String,
}

/// The user of a token whose signature is right.
///
/// # Errors
/// Secret or account are gone, or hold another token.
pub fn verify(
    claims: &LegacyClaims,
    token: &str,
    objects: &dyn BoundObjects,
) -> Result<UserInfo, TokenError> {
    let name = format!("{USER_PREFIX}{}:{}", claims.namespace, claims.account);
    if claims.sub != name || [&claims.namespace, &claims.secret, &claims.account].iter().any(|n| n.is_empty())
    {
        return Err(TokenError::Foreign);
    }
    if objects.secret_token(&claims.namespace, &claims.secret).as_deref() != Some(token) {
        return Err(TokenError::Gone("the secret"));
    }
    if objects.uid("serviceaccounts", &claims.namespace, &claims.account).as_ref() != Some(&claims.uid) {
        return Err(TokenError::Gone("the service account"));
    }
    Ok(UserInfo { name, uid: claims.uid.clone(), groups: groups(&claims.namespace), ..UserInfo::default() })
}
