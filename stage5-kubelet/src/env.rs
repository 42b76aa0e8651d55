//! Environment: what `spec.containers[].env` and `envFrom` become.
//!
//! *Step 5 of a pod's journey.* Before: [`crate::sync_pod`] fetched the ConfigMaps, Secrets and Services that the pod names. After:
//! [`crate::container_spec`] puts the variables in the container's configuration.
//!
//! Three layers, later ones win: variables of Services, `envFrom` in order, `env` in order. A value may refer to variables
//! defined before it (`$(NAME)`); an unknown reference stays as it was written, and `$$` is a dollar.
//!
//! The subtle thing: a missing object is an error that keeps the container waiting (`CreateContainerConfigError`), unless the
//! reference is optional; then the variable does not exist.
//!
//! # Invariants
//! 1. Same sources, same variables.
//! 2. Service variables never override what the pod says.
//!
//! # In Kubernetes
//! `makeEnvironmentVariables` in `pkg/kubelet/kubelet_pods.go`. Left out: `fileKeyRef` (later than 1.33).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ConfigMap, Container, EnvFromSource, EnvVar, EnvVarSource, Pod, Secret, Service,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::pod::PodExt;

pub mod expansion;
pub mod field_ref;
pub mod services;

/// Why the environment cannot be made; the text is what users see after `Error: `.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EnvError {
    /// The object is not there.
    #[error("{kind} \"{name}\" not found")]
    NotFound {
        /// `configmap` or `secret`
        kind: &'static str,
        /// Name of the object.
        name: String,
    },
    /// The object has no such key.
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    NoKey {
        /// `ConfigMap` or `Secret`
        kind: &'static str,
        /// Namespace of the object.
        namespace: String,
        /// Name of the object.
        name: String,
        /// The key.
        key: String,
    },
    /// The pod has no such field, or it cannot be given to a container.
    #[error("{0}")]
    Field(String),
}

/// What variables may be taken from.
#[derive(Clone, Debug, Default)]
pub struct EnvSources {
    /// ConfigMaps of the pod's namespace that exist, by name.
    pub config_maps: BTreeMap<String, ConfigMap>,
    /// Secrets of the pod's namespace that exist, by name.
    pub secrets: BTreeMap<String, Secret>,
    /// Services of the pod's namespace and `default/kubernetes`.
    pub services: Vec<Service>,
    /// The node's allocatable resources.
    pub allocatable: BTreeMap<String, Quantity>,
    /// The pod's addresses.
    pub pod_ips: Vec<String>,
    /// The node's addresses.
    pub host_ips: Vec<String>,
}

// ANCHOR: make-environment
/// The variables of one container, sorted by name.
///
/// # Errors
/// A reference that is not optional leads nowhere.
pub fn make_environment(
    pod: &Pod,
    container: &Container,
    from: &EnvSources,
) -> Result<BTreeMap<String, String>, EnvError> {
    let links = pod.spec_ref().enable_service_links.unwrap_or(true);
    let service_env = services::service_variables(&from.services, pod.pod_namespace(), links);
    let mut env = BTreeMap::new();
    for source in container.env_from.iter().flatten() {
        env.extend(env_from(source, from)?);
    }
    for var in container.env.iter().flatten() {
        let value = match (var.value.as_deref().filter(|v| !v.is_empty()), &var.value_from) {
            (Some(text), _) => {
                expansion::expand(text, |name| env.get(name).or_else(|| service_env.get(name)).cloned())
            }
            (None, Some(source)) => match value_from(pod, container, var, source, from)? {
                Some(value) => value,
                None => continue,
            },
            (None, None) => String::new(),
        };
        env.insert(var.name.clone(), value);
    }
    for (name, value) in service_env {
        env.entry(name).or_insert(value);
    }
    Ok(env)
}
// ANCHOR_END: make-environment

fn env_from(source: &EnvFromSource, from: &EnvSources) -> Result<Vec<(String, String)>, EnvError> {
    let prefix = source.prefix.as_deref().unwrap_or_default();
    let mut vars = Vec::new();
    if let Some(r) = &source.config_map_ref {
        match from.config_maps.get(&r.name) {
            Some(cm) => {
                vars.extend(cm.data.iter().flatten().map(|(k, v)| (format!("{prefix}{k}"), v.clone())));
            }
            None if r.optional == Some(true) => {}
            None => return Err(EnvError::NotFound { kind: "configmap", name: r.name.clone() }),
        }
    }
    if let Some(r) = &source.secret_ref {
        match from.secrets.get(&r.name) {
            Some(s) => {
                vars.extend(s.data.iter().flatten().map(|(k, v)| (format!("{prefix}{k}"), text(&v.0))))
            }
            None if r.optional == Some(true) => {}
            None => return Err(EnvError::NotFound { kind: "secret", name: r.name.clone() }),
        }
    }
    // A name with `=` in it, or an empty one, cannot be a variable.
    vars.retain(|(k, _)| !k.is_empty() && !k.contains('='));
    Ok(vars)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The value of one reference; `None` where an optional one leads nowhere.
fn value_from(
    pod: &Pod,
    container: &Container,
    var: &EnvVar,
    source: &EnvVarSource,
    from: &EnvSources,
) -> Result<Option<String>, EnvError> {
    if let Some(r) = &source.field_ref {
        return field_ref::pod_field(pod, &r.field_path, &from.pod_ips, &from.host_ips).map(Some);
    }
    if let Some(r) = &source.resource_field_ref {
        return field_ref::container_resource(pod, container, r, &from.allocatable).map(Some);
    }
    let no_key = |kind, name: &str, key: &str| EnvError::NoKey {
        kind,
        namespace: pod.pod_namespace().to_owned(),
        name: name.to_owned(),
        key: key.to_owned(),
    };
    if let Some(r) = &source.config_map_key_ref {
        let found =
            from.config_maps.get(&r.name).map(|cm| cm.data.as_ref().and_then(|d| d.get(&r.key)).cloned());
        return match found {
            Some(Some(value)) => Ok(Some(value)),
            _ if r.optional == Some(true) => Ok(None),
            Some(None) => Err(no_key("ConfigMap", &r.name, &r.key)),
            None => Err(EnvError::NotFound { kind: "configmap", name: r.name.clone() }),
        };
    }
    if let Some(r) = &source.secret_key_ref {
        let found = from
            .secrets
            .get(&r.name)
            .map(|s| s.data.as_ref().and_then(|d| d.get(&r.key)).map(|v| text(&v.0)));
        return match found {
            Some(Some(value)) => Ok(Some(value)),
            _ if r.optional == Some(true) => Ok(None),
            Some(None) => Err(no_key("Secret", &r.name, &r.key)),
            None => Err(EnvError::NotFound { kind: "secret", name: r.name.clone() }),
        };
    }
    Err(EnvError::Field(format!("invalid environment variable {}: no source", var.name)))
}

/// The names of the ConfigMaps and Secrets that the containers' variables need.
pub fn referenced_objects(containers: &[Container]) -> (Vec<String>, Vec<String>) {
    let (mut config_maps, mut secrets) = (Vec::new(), Vec::new());
    for c in containers {
        for f in c.env_from.iter().flatten() {
            config_maps.extend(f.config_map_ref.as_ref().map(|r| r.name.clone()));
            secrets.extend(f.secret_ref.as_ref().map(|r| r.name.clone()));
        }
        for source in c.env.iter().flatten().filter_map(|v| v.value_from.as_ref()) {
            config_maps.extend(source.config_map_key_ref.as_ref().map(|r| r.name.clone()));
            secrets.extend(source.secret_key_ref.as_ref().map(|r| r.name.clone()));
        }
    }
    config_maps.sort();
    config_maps.dedup();
    secrets.sort();
    secrets.dedup();
    (config_maps, secrets)
}

#[cfg(test)]
mod tests;
