//! `create configmap`, `create secret generic|tls|docker-registry`.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/create/create_{configmap,secret,secret_tls,secret_docker}.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads the certificate's files")]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Map, Value};

use super::sources::{self, Entries, SourceFlags};
use super::{Common, hash, object};
use crate::failure::Failure;

/// Flags of `kubectl create configmap`.
#[derive(Debug, Args)]
pub struct ConfigMapArgs {
    /// Shared flags.
    #[command(flatten)]
    pub common: Common,
    /// Where the content comes from.
    #[command(flatten)]
    pub sources: SourceFlags,
    /// Append a hash of the configmap to its name.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub append_hash: bool,
}

/// `kubectl create secret …`.
#[derive(Debug, Args)]
pub struct SecretArgs {
    /// Which kind.
    #[command(subcommand)]
    pub secret: SecretType,
}

/// The kinds of Secrets.
#[derive(Debug, Subcommand)]
pub enum SecretType {
    /// Create a secret from a local file, directory, or literal value.
    Generic(GenericArgs),
    /// Create a TLS secret.
    Tls(TlsArgs),
    /// Create a secret for use with a Docker registry.
    DockerRegistry(DockerArgs),
}

/// Flags of `kubectl create secret generic`.
#[derive(Debug, Args)]
pub struct GenericArgs {
    /// Shared flags.
    #[command(flatten)]
    pub common: Common,
    /// Where the content comes from.
    #[command(flatten)]
    pub sources: SourceFlags,
    /// The type of secret to create.
    #[arg(long, default_value = "")]
    pub r#type: String,
    /// Append a hash of the secret to its name.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub append_hash: bool,
}

/// Flags of `kubectl create secret tls`.
#[derive(Debug, Args)]
pub struct TlsArgs {
    /// Shared flags.
    #[command(flatten)]
    pub common: Common,
    /// Path to PEM encoded public key certificate.
    #[arg(long, default_value = "")]
    pub cert: String,
    /// Path to private key associated with given certificate.
    #[arg(long, default_value = "")]
    pub key: String,
    /// Append a hash of the secret to its name.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub append_hash: bool,
}

/// Flags of `kubectl create secret docker-registry`.
#[derive(Debug, Args)]
pub struct DockerArgs {
    /// Shared flags.
    #[command(flatten)]
    pub common: Common,
    /// A file of Docker's configuration.
    #[arg(long, value_delimiter = ',')]
    pub from_file: Vec<String>,
    /// Username for Docker registry authentication.
    #[arg(long, default_value = "")]
    pub docker_username: String,
    /// Password for Docker registry authentication.
    #[arg(long, default_value = "")]
    pub docker_password: String,
    /// Email for Docker registry.
    #[arg(long, default_value = "")]
    pub docker_email: String,
    /// Server location for Docker registry.
    #[arg(long, default_value = "https://index.docker.io/v1/")]
    pub docker_server: String,
    /// Append a hash of the secret to its name.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub append_hash: bool,
}

const KEY_RULE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

fn key_error(key: &str) -> Option<String> {
    let fits = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    match (fits, key) {
        (false, _) => Some(KEY_RULE.into()),
        (true, "." | "..") => Some(format!("must not be '{key}'")),
        (true, key) if key.starts_with("..") => Some("must not start with '..'".into()),
        (true, key) if key.len() > 253 => Some("must be no more than 253 characters".into()),
        _ => None,
    }
}

fn append_hash(object: &mut Value) {
    let name = format!("{}-{}", object["metadata"]["name"].as_str().unwrap_or_default(), hash::hash(object));
    object["metadata"]["name"] = name.into();
}

/// A ConfigMap; what isn't UTF-8 goes into `binaryData`.
///
/// # Errors
/// A source that can't be read, or a key that is none.
pub fn config_map(args: &ConfigMapArgs) -> Result<Value, Failure> {
    let name = args.common.name("configmap")?;
    let entries = sources::read(&args.sources)?;
    let mut config_map = config_map_of(name, entries)?;
    if args.append_hash {
        append_hash(&mut config_map);
    }
    Ok(config_map)
}

/// A ConfigMap of these entries.
///
/// # Errors
/// A key that is none, or is there twice.
pub fn config_map_of(name: &str, entries: Entries) -> Result<Value, Failure> {
    let (mut data, mut binary) = (Map::new(), Map::new());
    for (key, content) in entries {
        if let Some(why) = key_error(&key) {
            return Err(Failure::message(format!("{key:?} is not a valid key name for a ConfigMap: {why}")));
        }
        for (field, map) in [("Data", &data), ("BinaryData", &binary)] {
            if map.contains_key(&key) {
                let why = format!(
                    "cannot add key {key:?}, another key by that name already exists in {field} for ConfigMap {name:?}"
                );
                return Err(Failure::message(why));
            }
        }
        match String::from_utf8(content) {
            Ok(text) => data.insert(key, text.into()),
            Err(bytes) => binary.insert(key, STANDARD.encode(bytes.as_bytes()).into()),
        };
    }
    let mut config_map = object("v1", "ConfigMap", name);
    for (field, map) in [("data", data), ("binaryData", binary)] {
        if !map.is_empty() {
            config_map[field] = map.into();
        }
    }
    Ok(config_map)
}

/// A Secret, and the flags that say what to do with it.
///
/// # Errors
/// A source that can't be read, or flags that make no Secret.
pub fn secret(args: &SecretArgs) -> Result<(&Common, Value), Failure> {
    let (common, mut secret, hashed) = match &args.secret {
        SecretType::Generic(args) => {
            let name = args.common.name("secret generic")?;
            (&args.common, secret_of(name, &args.r#type, sources::read(&args.sources)?)?, args.append_hash)
        }
        SecretType::Tls(args) => (&args.common, tls(args)?, args.append_hash),
        SecretType::DockerRegistry(args) => (&args.common, docker_registry(args)?, args.append_hash),
    };
    if hashed {
        append_hash(&mut secret);
    }
    Ok((common, secret))
}

/// A Secret of these entries.
///
/// # Errors
/// A key that is none, or is there twice.
pub fn secret_of(name: &str, kind: &str, entries: Entries) -> Result<Value, Failure> {
    let mut data = Map::new();
    for (key, content) in entries {
        if let Some(why) = key_error(&key) {
            return Err(Failure::message(format!("{key:?} is not valid key name for a Secret {why}")));
        }
        if data.contains_key(&key) {
            let why = format!("cannot add key {key}, another key by that name already exists");
            return Err(Failure::message(why));
        }
        data.insert(key, STANDARD.encode(content).into());
    }
    let mut secret = object("v1", "Secret", name);
    if !kind.is_empty() {
        secret["type"] = kind.into();
    }
    if !data.is_empty() {
        secret["data"] = data.into();
    }
    Ok(secret)
}

fn tls(args: &TlsArgs) -> Result<Value, Failure> {
    let name = args.common.name("secret tls")?;
    if args.key.is_empty() || args.cert.is_empty() {
        return Err(Failure::message("key and cert must be specified"));
    }
    let read = |path: &str| {
        std::fs::read(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                Failure::message(format!("Cannot read file {path}, open {path}: no such file or directory"))
            }
            _ => Failure::message(format!("Cannot read file {path}, open {path}: {error}")),
        })
    };
    let (cert, key) = (read(&args.cert)?, read(&args.key)?);
    if CertificateDer::from_pem_slice(&cert).is_err() {
        return Err(Failure::message("tls: failed to find any PEM data in certificate input"));
    }
    if PrivateKeyDer::from_pem_slice(&key).is_err() {
        return Err(Failure::message("tls: failed to find any PEM data in key input"));
    }
    secret_of(name, "kubernetes.io/tls", vec![("tls.crt".into(), cert), ("tls.key".into(), key)])
}

fn docker_registry(args: &DockerArgs) -> Result<Value, Failure> {
    const KEY: &str = ".dockerconfigjson";
    let name = args.common.name("secret docker-registry")?;
    let mut entries = if args.from_file.is_empty() {
        let given = [&args.docker_username, &args.docker_password, &args.docker_server];
        if given.iter().any(|flag| flag.is_empty()) {
            return Err(Failure::message(
                "either --from-file or the combination of --docker-username, --docker-password and --docker-server is required",
            ));
        }
        vec![(KEY.to_string(), docker_config(args).into_bytes())]
    } else {
        sources::read(&SourceFlags { from_file: args.from_file.clone(), ..SourceFlags::default() })?
    };
    // A file without a key is meant to be that one key.
    if let ([(key, _)], [source]) = (entries.as_mut_slice(), args.from_file.as_slice())
        && !source.contains('=')
    {
        *key = KEY.to_string();
    }
    secret_of(name, "kubernetes.io/dockerconfigjson", entries)
}

/// Docker's configuration file, with its fields in Docker's order.
fn docker_config(args: &DockerArgs) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    let auth = STANDARD.encode(format!("{}:{}", args.docker_username, args.docker_password));
    let email = match args.docker_email.as_str() {
        "" => String::new(),
        email => format!("\"email\":{},", quoted(email)),
    };
    format!(
        "{{\"auths\":{{{}:{{\"username\":{},\"password\":{},{email}\"auth\":{}}}}}}}",
        quoted(&args.docker_server),
        quoted(&args.docker_username),
        quoted(&args.docker_password),
        quoted(&auth)
    )
}
