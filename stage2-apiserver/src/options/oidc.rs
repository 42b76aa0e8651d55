//! `--oidc-*`: one identity provider.
//!
//! # In Kubernetes
//! `pkg/kubeapiserver/options/authentication.go` (`OIDCAuthenticationOptions`).

use std::path::PathBuf;

use clap::Args;

use crate::authentication::oidc::Config;

/// The flags of an identity provider.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "OpenID Connect")]
pub struct OidcFlags {
    /// URL of the identity provider, https only
    #[arg(long, value_name = "URL")]
    pub oidc_issuer_url: Option<String>,
    /// The client id for which tokens must be
    #[arg(long, value_name = "ID")]
    pub oidc_client_id: Option<String>,
    /// CA of the provider's certificate (default: the machine's)
    #[arg(long, value_name = "FILE")]
    pub oidc_ca_file: Option<PathBuf>,
    /// Claim that is the user name
    #[arg(long, default_value = "sub", value_name = "CLAIM")]
    pub oidc_username_claim: String,
    /// Prefix of user names; "-" for none (default: the issuer's URL and #, unless the claim is email)
    #[arg(long, default_value = "", hide_default_value = true, value_name = "PREFIX")]
    pub oidc_username_prefix: String,
    /// Claim that is the user's groups
    #[arg(long, default_value = "", hide_default_value = true, value_name = "CLAIM")]
    pub oidc_groups_claim: String,
    /// Prefix of groups
    #[arg(long, default_value = "", hide_default_value = true, value_name = "PREFIX")]
    pub oidc_groups_prefix: String,
    /// Algorithms of signatures that are believed
    #[arg(long, default_value = "RS256", value_delimiter = ',', value_name = "ALGORITHMS")]
    pub oidc_signing_algs: Vec<String>,
    /// A claim that tokens must have, with its value; may be repeated
    #[arg(long, value_delimiter = ',', value_parser = parse_pair, value_name = "KEY=VALUE")]
    pub oidc_required_claim: Vec<(String, String)>,
}

impl OidcFlags {
    /// The provider, if one is named.
    ///
    /// # Errors
    /// Flags that don't go together.
    pub fn config(&self) -> Result<Option<Config>, String> {
        if self.oidc_issuer_url.is_none() && self.oidc_client_id.is_none() {
            return Ok(None);
        }
        let config = Config {
            issuer_url: self.oidc_issuer_url.clone().unwrap_or_default(),
            client_id: self.oidc_client_id.clone().unwrap_or_default(),
            username_claim: self.oidc_username_claim.clone(),
            username_prefix: self.oidc_username_prefix.clone(),
            groups_claim: self.oidc_groups_claim.clone(),
            groups_prefix: self.oidc_groups_prefix.clone(),
            signing_algorithms: self.oidc_signing_algs.clone(),
            required_claims: self.oidc_required_claim.clone(),
        };
        config.check().map(|()| Some(config))
    }
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').ok_or_else(|| format!("{text:?} is not KEY=VALUE"))?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}
