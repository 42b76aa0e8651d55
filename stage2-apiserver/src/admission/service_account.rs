//! ServiceAccount: every pod has an identity, and its token mounted.
//!
//! A pod without `serviceAccountName` gets `default`. Unless the pod or the account says no, a projected volume is added to every container:
//! a token bound to this pod that the kubelet renews, the cluster's CA, and the namespace. A process that finds those three files
//! can call `kubernetes.default` with no further setup.
//!
//! # In Kubernetes
//! `plugin/pkg/admission/serviceaccount/admission.go`. Left out: `LimitSecretReferences` (off by default, deprecated).

use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use super::{AdmissionPlugin, Attributes, ObjectReader, Operation};
use crate::strategies::{create::random_suffix, edit};
use crate::validation::fields::{child, child_mut, has, items_mut, list, list_mut, opt_flag, set, text};

/// Where the token is mounted.
pub const DEFAULT_API_TOKEN_MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Prefix of the volume's name.
const SERVICE_ACCOUNT_VOLUME_NAME: &str = "kube-api-access";
/// One hour and seven seconds: recognisable as added by the server.
const TOKEN_EXPIRATION_SECONDS: i64 = 3607;
/// Annotation of pods that exist on a node without the API server.
pub const MIRROR_POD_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// The plugin.
pub struct ServiceAccount;

impl AdmissionPlugin for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Object,
        _: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Result<(), Status> {
        if !attributes.is_pod() || attributes.operation != Operation::Create || is_mirror(object) {
            return Ok(());
        }
        edit(object, |pod| {
            let spec = child_mut(pod, "spec");
            if text(spec, "serviceAccountName").is_empty() {
                set(spec, "serviceAccountName", "default");
                set(spec, "serviceAccount", "default");
            }
        });
        let account = account_of(attributes, object, reader)?;
        let account = account.as_value();
        edit(object, |pod| {
            let spec = child_mut(pod, "spec");
            let automount = opt_flag(spec, "automountServiceAccountToken")
                .or_else(|| opt_flag(account, "automountServiceAccountToken"))
                .unwrap_or(true);
            if automount {
                mount_token(spec, attributes.random);
            }
            if list(spec, "imagePullSecrets").is_empty() && !list(account, "imagePullSecrets").is_empty() {
                set(spec, "imagePullSecrets", list(account, "imagePullSecrets").to_vec());
            }
        });
        Ok(())
    }

    fn validate(
        &self,
        attributes: &Attributes,
        object: Option<&Object>,
        _: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Result<(), Status> {
        let Some(object) = object else { return Ok(()) };
        if !attributes.is_pod() || attributes.operation != Operation::Create {
            return Ok(());
        }
        if is_mirror(object) {
            return validate_mirror(attributes, object);
        }
        account_of(attributes, object, reader).map(drop)
    }
}

/// The pod mirrors one that a kubelet runs from a file.
pub fn is_mirror(pod: &Object) -> bool {
    pod.annotation(MIRROR_POD_ANNOTATION).is_some()
}

/// A mirror pod can't be given anything of the API's.
fn validate_mirror(attributes: &Attributes, pod: &Object) -> Result<(), Status> {
    let spec = child(pod.as_value(), "spec");
    if !text(spec, "serviceAccountName").is_empty() {
        return Err(attributes.forbidden("a mirror pod may not reference service accounts"));
    }
    if list(spec, "volumes").iter().any(|volume| has(volume, "secret")) {
        return Err(attributes.forbidden("a mirror pod may not reference secrets"));
    }
    Ok(())
}

fn account_of(
    attributes: &Attributes,
    pod: &Object,
    reader: &dyn ObjectReader,
) -> Result<std::sync::Arc<Object>, Status> {
    let name = pod.get_str("/spec/serviceAccountName").unwrap_or_default();
    reader.get("", "serviceaccounts", &attributes.namespace, name).ok_or_else(|| {
        let namespace = &attributes.namespace;
        let why = format!(
            "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
        );
        attributes.forbidden(why)
    })
}

/// Adds the volume, and a mount to each container that has none at that path.
fn mount_token(spec: &mut Value, random: u64) {
    let prefix = format!("{SERVICE_ACCOUNT_VOLUME_NAME}-");
    let existing = list(spec, "volumes")
        .iter()
        .map(|volume| text(volume, "name"))
        .find(|name| name.starts_with(&prefix));
    let is_new = existing.is_none();
    let name = existing.map_or_else(|| format!("{prefix}{}", random_suffix(random)), str::to_owned);
    let mut mounted = false;
    for containers in ["initContainers", "containers"] {
        for container in items_mut(spec, containers) {
            let taken = list(container, "volumeMounts")
                .iter()
                .any(|m| text(m, "mountPath") == DEFAULT_API_TOKEN_MOUNT_PATH);
            if !taken {
                let mount =
                    json!({"name": name, "readOnly": true, "mountPath": DEFAULT_API_TOKEN_MOUNT_PATH});
                list_mut(container, "volumeMounts").push(mount);
                mounted = true;
            }
        }
    }
    if mounted && is_new {
        list_mut(spec, "volumes").push(json!({"name": name, "projected": token_volume_source()}));
    }
}

/// Token, CA, namespace.
fn token_volume_source() -> Value {
    json!({
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_EXPIRATION_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
        ],
    })
}
