//! The provider file: an `EncryptionConfiguration` that says which resources are sealed, and how.
//!
//! # In Kubernetes
//! `apiserver/pkg/apis/apiserver/v1/types_encryption.go` and its validation; `--encryption-provider-config`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::Rule;
use super::provider::{Algorithm, NamedKey, Provider};
use crate::registry;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    resources: Vec<Resources>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Resources {
    resources: Vec<String>,
    providers: Vec<Entry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Entry {
    aesgcm: Option<Keys>,
    aescbc: Option<Keys>,
    secretbox: Option<Keys>,
    identity: Option<Empty>,
    kms: Option<serde_json::Value>,
}

#[derive(Debug, Default, Deserialize)]
struct Empty {}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Keys {
    keys: Vec<Key>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Key {
    name: String,
    secret: String,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({})", self.name)
    }
}

/// The rules of a file, in its order.
///
/// # Errors
/// What is wrong with it; never a secret.
pub fn parse(text: &str) -> Result<Vec<Rule>, String> {
    // The parser's own words may quote the file, and so a key.
    let file: File =
        serde_yaml::from_str(text).map_err(|_| "the file can't be read as EncryptionConfiguration")?;
    if (file.api_version.as_str(), file.kind.as_str())
        != ("apiserver.config.k8s.io/v1", "EncryptionConfiguration")
    {
        return Err(format!("unexpected {} of {}", file.kind, file.api_version));
    }
    let mut rules = Vec::new();
    for (at, group) in file.resources.iter().enumerate() {
        let path = format!("resources[{at}]");
        let read = |(index, entry): (usize, &Entry)| provider(entry, &format!("{path}.providers[{index}]"));
        let providers: Vec<Provider> =
            group.providers.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        if providers.is_empty() {
            return Err(format!("{path}.providers: Required value: provider must contain at least one"));
        }
        for resource in &group.resources {
            let prefixes = prefixes(resource);
            if prefixes.is_empty() {
                // Left alone it would stay in the clear without a word.
                return Err(format!("{path}.resources: Invalid value: {resource:?}: no such resource"));
            }
            let rule = |prefix| Rule { prefix, providers: providers.clone() };
            rules.extend(prefixes.into_iter().map(rule));
        }
    }
    Ok(rules)
}

fn provider(entry: &Entry, path: &str) -> Result<Provider, String> {
    let with_keys = [
        (Algorithm::AesGcm, &entry.aesgcm),
        (Algorithm::AesCbc, &entry.aescbc),
        (Algorithm::Secretbox, &entry.secretbox),
    ];
    let chosen: Vec<_> = with_keys.into_iter().filter_map(|(a, keys)| Some((a, keys.as_ref()?))).collect();
    if entry.kms.is_some() {
        return Err(format!("{path}.kms: this server has no kms provider"));
    }
    match (chosen.as_slice(), &entry.identity) {
        ([], Some(_)) => Ok(Provider::Identity),
        ([(algorithm, keys)], None) => Ok(Provider::Keys(*algorithm, named_keys(*algorithm, keys, path)?)),
        ([], None) => {
            Err(format!("{path}: Required value: provider does not contain any of the expected providers"))
        }
        _ => Err(format!("{path}: Invalid value: more than one provider specified in a single element")),
    }
}

fn named_keys(algorithm: Algorithm, keys: &Keys, path: &str) -> Result<Vec<NamedKey>, String> {
    let path = format!("{path}.{}.keys", algorithm.name());
    if keys.keys.is_empty() {
        return Err(format!("{path}: Required value: at least one key is required"));
    }
    let mut named: Vec<NamedKey> = Vec::new();
    for (index, key) in keys.keys.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if key.name.is_empty() || key.name.contains(':') || named.iter().any(|n| n.name == key.name) {
            return Err(format!(
                "{path}.name: Invalid value: {:?}: must be unique and without colons",
                key.name
            ));
        }
        let secret = STANDARD.decode(key.secret.trim());
        let secret = secret
            .map_err(|_| format!("{path}.secret: Invalid value: \"REDACTED\": must be base64 encoded"))?;
        if !algorithm.key_lengths().contains(&secret.len()) {
            return Err(format!(
                "{path}.secret: Invalid value: \"REDACTED\": secret is not of the expected length, got {}, expected one of {:?}",
                secret.len(),
                algorithm.key_lengths()
            ));
        }
        named.push(NamedKey::new(&key.name, secret));
    }
    Ok(named)
}

/// The storage prefixes of `secrets`, `deployments.apps`, `*.apps`, `*.` or `*.*`.
fn prefixes(resource: &str) -> Vec<String> {
    let (name, group) = resource.split_once('.').unwrap_or((resource, ""));
    if (name, group) == ("*", "*") {
        return vec!["/registry/".into()];
    }
    let chosen = |info: &&registry::ResourceInfo| {
        info.group == group && info.storage.is_some() && (name == "*" || info.resource == name)
    };
    let mut found: Vec<String> = registry::all().filter(chosen).map(|info| info.key_prefix(None)).collect();
    found.sort();
    found.dedup();
    // Custom resources', or those of a group that nobody has yet: where their objects would be.
    match name {
        "*" if !group.is_empty() => found.push(format!("/registry/{group}/")),
        name if found.is_empty() && !group.is_empty() => found.push(format!("/registry/{group}/{name}/")),
        _ => {}
    }
    found
}
