//! kubeconfig: which cluster, as whom, in which namespace.
//!
//! *Step 1 of a pod's journey.* Before: a command line. After: [`crate::client`] has an address and credentials.
//!
//! A kubeconfig file holds three lists (clusters, users, contexts) and the name of the current context, which joins one
//! of each. Several files can be given (`KUBECONFIG=a:b`): they are merged, and the first one that defines a name wins.
//!
//! The subtle thing: paths inside a file are relative to that file, not to the working directory, so they must be made
//! absolute before the files are merged.
//!
//! # Invariants
//! 1. After [`load`] every path in the configuration is absolute or was written absolute.
//! 2. Merging never changes an entry that is already there.
//!
//! # In Kubernetes
//! `client-go/tools/clientcmd/{loader,client_config}.go`, types in `clientcmd/api/v1/types.go`. Left out: auth providers (removed upstream too).

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

mod load;

pub use load::{default_paths, load, load_as_written, load_file};

/// Why a kubeconfig can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// An explicitly named file can't be read. The text is the one of the system call.
    #[error("stat {path}: {message}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        message: String,
    },
    /// A file is no kubeconfig.
    #[error("error loading config file \"{path}\": {message}")]
    Parse {
        /// The file.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// `--context` or `current-context` names nothing.
    #[error("context \"{0}\" does not exist")]
    NoContext(String),
    /// A context names a cluster that isn't there.
    #[error("cluster \"{0}\" does not exist")]
    NoCluster(String),
    /// A context names a user that isn't there.
    #[error("auth info \"{0}\" does not exist")]
    NoUser(String),
    /// There is nothing to connect to.
    #[error(
        "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
    )]
    Empty,
    /// Certificates, keys or tokens are unusable.
    #[error("invalid configuration: {0}")]
    Invalid(String),
}

/// A kubeconfig, or several merged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// `Config`.
    pub kind: String,
    /// `v1`.
    #[serde(rename = "apiVersion")]
    pub api_version: String,
    /// Old preferences, kept as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferences: Option<Value>,
    /// The clusters.
    #[serde(deserialize_with = "null_is_empty", serialize_with = "empty_is_null")]
    pub clusters: Vec<NamedCluster>,
    /// The users.
    #[serde(deserialize_with = "null_is_empty", serialize_with = "empty_is_null")]
    pub users: Vec<NamedUser>,
    /// The contexts.
    #[serde(deserialize_with = "null_is_empty", serialize_with = "empty_is_null")]
    pub contexts: Vec<NamedContext>,
    /// The context that is used when none is named.
    #[serde(rename = "current-context")]
    pub current_context: String,
    /// What other tools keep here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Value>,
}

/// `kubectl config` writes `clusters: null` into a fresh file.
fn null_is_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Vec<T>>::deserialize(deserializer)?.unwrap_or_default())
}

/// As `kubectl config` writes it.
fn empty_is_null<S: serde::Serializer, T: Serialize>(
    list: &Vec<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    Some(list).filter(|list| !list.is_empty()).serialize(serializer)
}

/// A cluster and its name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NamedCluster {
    /// The name.
    pub name: String,
    /// The cluster.
    #[serde(default)]
    pub cluster: Cluster,
}

/// Where a cluster is and how to trust it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Cluster {
    /// `https://127.0.0.1:6443`.
    pub server: String,
    /// The name that the certificate must have, instead of the host in `server`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_server_name: Option<String>,
    /// Trust any certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insecure_skip_tls_verify: Option<bool>,
    /// File with the CA's certificate (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_authority: Option<String>,
    /// The CA's certificate itself (PEM in base64).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_authority_data: Option<String>,
    /// An HTTP proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_url: Option<String>,
    /// Don't ask for compressed answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_compression: Option<bool>,
    /// What other tools keep here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Value>,
}

/// A user and its name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NamedUser {
    /// The name.
    pub name: String,
    /// The user.
    #[serde(default, deserialize_with = "null_user")]
    pub user: User,
}

fn null_user<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<User, D::Error> {
    Ok(Option::<User>::deserialize(deserializer)?.unwrap_or_default())
}

/// Credentials.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct User {
    /// File with the client certificate (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<String>,
    /// The client certificate itself (PEM in base64).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate_data: Option<String>,
    /// File with the client's key (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_key: Option<String>,
    /// The client's key itself (PEM in base64).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_key_data: Option<String>,
    /// A bearer token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// File with a bearer token; wins over `token`.
    #[serde(rename = "tokenFile", skip_serializing_if = "Option::is_none")]
    pub token_file: Option<String>,
    /// Act as this user.
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub impersonate: Option<String>,
    /// Act with this uid.
    #[serde(rename = "as-uid", skip_serializing_if = "Option::is_none")]
    pub impersonate_uid: Option<String>,
    /// Act as member of these groups.
    #[serde(rename = "as-groups", skip_serializing_if = "Option::is_none")]
    pub impersonate_groups: Option<Vec<String>>,
    /// Act with these extra attributes.
    #[serde(rename = "as-user-extra", skip_serializing_if = "Option::is_none")]
    pub impersonate_user_extra: Option<Value>,
    /// User name for basic authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Password for basic authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// A removed way to log in, kept as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_provider: Option<Value>,
    /// A credential plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecPlugin>,
    /// What other tools keep here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Value>,
}

/// A program that prints credentials.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExecPlugin {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Option<Vec<String>>,
    /// Variables added to its environment (`name`, `value`).
    pub env: Option<Vec<ExecEnv>>,
    /// `client.authentication.k8s.io/v1`.
    pub api_version: String,
    /// Shown when the program isn't there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_hint: Option<String>,
    /// Whether it wants to know the cluster.
    pub provide_cluster_info: bool,
    /// `Never`, `IfAvailable`, `Always`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interactive_mode: Option<String>,
}

/// A variable for an [`ExecPlugin`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExecEnv {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl std::fmt::Debug for User {
    /// Never shows a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("User { .. }")
    }
}

/// A context and its name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NamedContext {
    /// The name.
    pub name: String,
    /// The context.
    #[serde(default)]
    pub context: Context,
}

/// An empty name isn't written.
fn is_empty(text: &Option<String>) -> bool {
    text.as_ref().is_none_or(String::is_empty)
}

/// A cluster, a user and a namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Context {
    /// The cluster's name.
    pub cluster: String,
    /// The user's name.
    pub user: String,
    /// The namespace when none is given.
    #[serde(skip_serializing_if = "is_empty")]
    pub namespace: Option<String>,
    /// What other tools keep here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Value>,
}

/// What one context joins, with names resolved.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resolved {
    /// The cluster.
    pub cluster: Cluster,
    /// The credentials.
    pub user: User,
    /// The namespace, if the context has one.
    pub namespace: Option<String>,
}

impl Config {
    /// Adds what `other` has and we don't (the first definition of a name wins).
    pub fn merge(&mut self, other: Config) {
        for cluster in other.clusters {
            if !self.clusters.iter().any(|c| c.name == cluster.name) {
                self.clusters.push(cluster);
            }
        }
        for user in other.users {
            if !self.users.iter().any(|u| u.name == user.name) {
                self.users.push(user);
            }
        }
        for context in other.contexts {
            if !self.contexts.iter().any(|c| c.name == context.name) {
                self.contexts.push(context);
            }
        }
        if self.current_context.is_empty() {
            self.current_context = other.current_context;
        }
        merge_extensions(&mut self.extensions, other.extensions);
        self.preferences = merged_preferences(self.preferences.take(), other.preferences);
    }

    /// Makes relative paths absolute, from the folder of the file that they stand in.
    pub fn resolve_paths(&mut self, base: &Path) {
        let resolve = |path: &mut Option<String>| {
            if let Some(path) = path.as_mut().filter(|p| !p.is_empty() && !Path::new(p).is_absolute()) {
                *path = base.join(&*path).to_string_lossy().into_owned();
            }
        };
        for cluster in &mut self.clusters {
            resolve(&mut cluster.cluster.certificate_authority);
        }
        for NamedUser { user, .. } in &mut self.users {
            resolve(&mut user.client_certificate);
            resolve(&mut user.client_key);
            resolve(&mut user.token_file);
            // A command with a slash in it is a path; without one it is looked for in PATH.
            if let Some(plugin) = user.exec.as_mut().filter(|plugin| plugin.command.contains('/')) {
                let mut command = Some(std::mem::take(&mut plugin.command));
                resolve(&mut command);
                plugin.command = command.unwrap_or_default();
            }
        }
    }

    /// Joins the named context, or the current one.
    ///
    /// # Errors
    /// A context, cluster or user that isn't there; [`ConfigError::Empty`] when there is nothing at all.
    pub fn resolve(&self, context: Option<&str>) -> Result<Resolved, ConfigError> {
        let name = context.filter(|c| !c.is_empty()).unwrap_or(&self.current_context);
        if name.is_empty() {
            return Err(ConfigError::Empty);
        }
        let missing = || ConfigError::NoContext(name.to_string());
        let context = self.contexts.iter().find(|c| c.name == name).ok_or_else(missing)?;
        let Context { cluster, user, namespace, .. } = &context.context;
        let missing = || ConfigError::NoCluster(cluster.clone());
        let cluster = self.clusters.iter().find(|c| c.name == *cluster).ok_or_else(missing)?;
        let user = match self.users.iter().find(|u| u.name == *user) {
            Some(named) => named.user.clone(),
            None if user.is_empty() => User::default(),
            None => return Err(ConfigError::NoUser(user.clone())),
        };
        Ok(Resolved {
            cluster: cluster.cluster.clone(),
            user,
            namespace: namespace.clone().filter(|ns| !ns.is_empty()),
        })
    }
}

/// A wish for colours in any of the files is one; extensions are all kept.
fn merged_preferences(own: Option<Value>, other: Option<Value>) -> Option<Value> {
    let (Some(Value::Object(mut own)), Some(Value::Object(other))) = (own.clone(), other.clone()) else {
        return own.or(other);
    };
    let mut extensions = own.remove("extensions");
    merge_extensions(&mut extensions, other.get("extensions").cloned());
    own.extend(extensions.map(|all| ("extensions".to_string(), all)));
    own.extend(
        other.get("colors").filter(|wish| **wish == true).map(|wish| ("colors".to_string(), wish.clone())),
    );
    Some(own.into())
}

/// Adds the extensions that aren't there yet.
fn merge_extensions(own: &mut Option<Value>, other: Option<Value>) {
    let Some(Value::Array(other)) = other else { return };
    let Some(Value::Array(own)) = own else {
        *own = Some(Value::Array(other));
        return;
    };
    for extension in other {
        if !own.iter().any(|present| present["name"] == extension["name"]) {
            own.push(extension);
        }
    }
}

#[cfg(test)]
mod tests;
