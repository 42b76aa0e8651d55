//! Credentials: which user a registry knows us by.
//!
//! *Step 5 of a pod's journey.* Before: Secrets of type `kubernetes.io/dockerconfigjson` (or the old `dockercfg`). After: [`crate::images`] tries
//! what fits the image's registry.
//!
//! # Invariants
//! 1. Credentials of one registry are never shown to another.
//! 2. The longest matching registry path comes first.
//!
//! # In Kubernetes
//! `pkg/credentialprovider/{config,keyring}.go`. Left out: credential plugins, `$HOME/.docker`.

use std::collections::BTreeMap;

use base64::Engine;
use k8s_openapi::api::core::v1::Secret;
use serde::Deserialize;

use crate::cri::AuthConfig;

/// Credentials by registry.
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    entries: Vec<(String, AuthConfig)>,
}

#[derive(Deserialize)]
struct DockerConfigJson {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    username: String,
    password: String,
    auth: String,
    identitytoken: String,
}

/// The credentials in a pod's pull secrets.
pub fn keyring(secrets: &[Secret]) -> Keyring {
    let mut entries = Vec::new();
    for data in secrets.iter().filter_map(|s| s.data.as_ref()) {
        let modern =
            data.get(".dockerconfigjson").and_then(|d| serde_json::from_slice::<DockerConfigJson>(&d.0).ok());
        let old =
            data.get(".dockercfg").and_then(|d| serde_json::from_slice::<BTreeMap<String, Entry>>(&d.0).ok());
        let auths = modern.map(|m| m.auths).into_iter().chain(old).flatten();
        entries.extend(auths.map(|(registry, e)| (normalize(&registry), auth_config(e))));
    }
    entries.sort_by_key(|(registry, _)| std::cmp::Reverse(registry.len()));
    Keyring { entries }
}

fn auth_config(entry: Entry) -> AuthConfig {
    let (mut username, mut password) = (entry.username, entry.password);
    let decoded = base64::engine::general_purpose::STANDARD.decode(entry.auth.trim()).ok();
    if let Some((u, p)) =
        decoded.as_deref().and_then(|d| std::str::from_utf8(d).ok()).and_then(|d| d.split_once(':'))
    {
        (username, password) = (u.to_owned(), p.to_owned());
    }
    AuthConfig {
        username,
        password,
        auth: String::new(),
        // Stays empty, as with the real one: the keyring has chosen already, and containerd takes `host:port` for no URL.
        server_address: String::new(),
        identity_token: entry.identitytoken,
    }
}

/// `https://index.docker.io/v1/` → `index.docker.io`.
fn normalize(registry: &str) -> String {
    let bare =
        registry.strip_prefix("https://").or_else(|| registry.strip_prefix("http://")).unwrap_or(registry);
    let bare = bare.trim_end_matches('/');
    bare.strip_suffix("/v1").or_else(|| bare.strip_suffix("/v2")).unwrap_or(bare).to_owned()
}

impl Keyring {
    /// The credentials that fit an image, most specific first.
    pub fn lookup(&self, image: &str) -> Vec<AuthConfig> {
        let (host, rest) = image.split_once('/').unwrap_or(("", image));
        // A first part without dot or port is a user of Docker Hub.
        let full = match host.contains(['.', ':']) || host == "localhost" {
            true => image.to_owned(),
            false if host.is_empty() => format!("index.docker.io/library/{rest}"),
            false => format!("index.docker.io/{image}"),
        };
        let fits = |registry: &str| {
            let registry = if registry == "docker.io" { "index.docker.io" } else { registry };
            full.strip_prefix(registry)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':', '@']))
        };
        self.entries.iter().filter(|(r, _)| fits(r)).map(|(_, a)| a.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(json: &str) -> Secret {
        let data = BTreeMap::from([(
            ".dockerconfigjson".to_owned(),
            k8s_openapi::ByteString(json.as_bytes().to_vec()),
        )]);
        Secret { data: Some(data), ..Secret::default() }
    }

    #[test]
    fn credentials_go_to_their_own_registry_only() {
        let k = keyring(&[secret(
            r#"{"auths":{"reg.test:5000":{"auth":"dTpw"},"https://index.docker.io/v1/":{"username":"d","password":"x"}}}"#,
        )]);
        assert_eq!(k.lookup("reg.test:5000/a:1")[0].username, "u");
        assert_eq!(k.lookup("reg.test:5000/a:1")[0].password, "p");
        assert!(k.lookup("reg.test:50001/a:1").is_empty());
        assert_eq!(k.lookup("nginx:1.25")[0].username, "d");
    }

    #[test]
    fn secrets_are_not_printed() {
        let k = keyring(&[secret(r#"{"auths":{"r.test":{"auth":"dTpw"}}}"#)]);
        assert!(!format!("{k:?}").contains("\"p\""));
    }
}
