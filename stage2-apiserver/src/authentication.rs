//! Authentication: who asks?
//!
//! *Step 2 of a pod's journey.* Before: a TLS connection and a request's headers. After: [`crate::authorization`] knows the user.
//!
//! A request may prove its user by a client certificate ([`x509`]), by a bearer token (a ServiceAccount's, [`service_account`] and
//! [`legacy_token`], one of a file, [`token_file`], of a joining node, [`bootstrap_token`], or of an identity provider, [`oidc`]), or not at all: then it is `system:anonymous`. A *wrong* proof is 401, no proof is not. Whoever
//! may impersonate can then ask in another's name ([`impersonation`]).
//!
//! # Invariants
//! 1. Everybody who proved something is in `system:authenticated`, everybody else in `system:unauthenticated`.
//! 2. Neither tokens nor keys are ever logged.
//!
//! # In Kubernetes
//! `apiserver/pkg/authentication`, `pkg/kubeapiserver/authenticator/config.go`. Left out: token webhooks, request headers
//! of a front proxy, `--authentication-config`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub mod bootstrap_token;
pub mod impersonation;
pub mod jwt;
pub mod legacy_token;
pub mod oidc;
pub mod service_account;
pub mod token_file;
pub mod x509;

mod authenticator;

pub use authenticator::Authenticator;

/// The user of requests that prove nothing.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of all who proved who they are.
pub const ALL_AUTHENTICATED: &str = "system:authenticated";
/// The group of all others.
pub const ALL_UNAUTHENTICATED: &str = "system:unauthenticated";

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    /// The name that bindings use.
    #[serde(rename = "username", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// An id that changes when a name is used again; empty when there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// What else the proof said, such as the pod of a token.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// A user in groups.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        UserInfo { name: name.to_owned(), groups, ..UserInfo::default() }
    }

    /// Who proved nothing.
    pub fn anonymous() -> Self {
        UserInfo::new(ANONYMOUS, &[ALL_UNAUTHENTICATED])
    }

    /// The same user, counted among the authenticated.
    pub fn authenticated(mut self) -> Self {
        let special = [ALL_AUTHENTICATED, ALL_UNAUTHENTICATED];
        if !self.groups.iter().any(|group| special.contains(&group.as_str())) {
            self.groups.push(ALL_AUTHENTICATED.to_owned());
        }
        self
    }
}

#[cfg(test)]
mod tests;
