//! Payload: the files of a ConfigMap, Secret, downward or projected volume.
//!
//! *Step 5 of a pod's journey.* Before: the objects that the volume names were fetched. After: [`super::atomic_writer`] writes the files.
//!
//! # Invariants
//! 1. Same sources, same files.
//! 2. A key that is named and missing is an error, unless the source is optional.
//!
//! # In Kubernetes
//! `MakePayload` in `pkg/volume/{configmap,secret}`, `CollectData` in `downwardapi`, `collectData` in `projected`. Left out: clusterTrustBundle
//! and podCertificate sources.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ConfigMap, DownwardAPIVolumeFile, KeyToPath, Pod, Secret, Volume, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::VolumeError;
use crate::env::field_ref::{container_resource, pod_field};
use crate::pod::PodExt;

/// Mode of a file that nobody gave another.
pub const DEFAULT_MODE: i32 = 0o644;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Content.
    pub data: Vec<u8>,
    /// Permissions.
    pub mode: u32,
    /// Owner, where it is not root.
    pub owner: Option<u32>,
}

/// Files by path below the volume.
pub type Payload = BTreeMap<String, File>;

/// What the sources of a volume are taken from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// ConfigMaps by name, where they exist.
    pub config_maps: BTreeMap<String, ConfigMap>,
    /// Secrets by name, where they exist.
    pub secrets: BTreeMap<String, Secret>,
    /// Tokens by path in the volume.
    pub tokens: BTreeMap<String, String>,
    /// The node's allocatable resources.
    pub allocatable: BTreeMap<String, Quantity>,
    /// The pod's addresses.
    pub pod_ips: Vec<String>,
    /// The node's addresses.
    pub host_ips: Vec<String>,
}

fn mode(own: Option<i32>, default: i32) -> u32 {
    u32::try_from(own.unwrap_or(default)).unwrap_or(0) & 0o777
}

/// Names of the ConfigMaps and Secrets that the volumes of a pod need.
pub fn referenced_objects(volumes: &[Volume]) -> (Vec<String>, Vec<String>) {
    let (mut maps, mut secrets) = (Vec::new(), Vec::new());
    for v in volumes {
        maps.extend(v.config_map.as_ref().map(|c| c.name.clone()));
        secrets.extend(v.secret.as_ref().and_then(|s| s.secret_name.clone()));
        for p in v.projected.iter().flat_map(|p| p.sources.iter().flatten()) {
            maps.extend(p.config_map.as_ref().map(|c| c.name.clone()));
            secrets.extend(p.secret.as_ref().map(|s| s.name.clone()));
        }
    }
    maps.sort();
    maps.dedup();
    secrets.sort();
    secrets.dedup();
    (maps, secrets)
}

// ANCHOR: make-payload
/// The files of a volume; `None` for a volume of another family.
///
/// # Errors
/// A source that is not optional is missing.
pub fn make_payload(pod: &Pod, volume: &Volume, from: &Sources) -> Result<Option<Payload>, VolumeError> {
    let mut files = Payload::new();
    if let Some(source) = &volume.config_map {
        let default = source.default_mode.unwrap_or(DEFAULT_MODE);
        let optional = source.optional == Some(true);
        let data = from.config_maps.get(&source.name).map(config_map_data);
        select(&mut files, data, &source.name, "configmap", source.items.as_deref(), default, optional)?;
    } else if let Some(source) = &volume.secret {
        let default = source.default_mode.unwrap_or(DEFAULT_MODE);
        let (name, optional) =
            (source.secret_name.as_deref().unwrap_or_default(), source.optional == Some(true));
        let data = from.secrets.get(name).map(secret_data);
        select(&mut files, data, name, "secret", source.items.as_deref(), default, optional)?;
    } else if let Some(source) = &volume.downward_api {
        let default = source.default_mode.unwrap_or(DEFAULT_MODE);
        downward(&mut files, pod, source.items.as_deref().unwrap_or_default(), from, default)?;
    } else if let Some(source) = &volume.projected {
        let default = source.default_mode.unwrap_or(DEFAULT_MODE);
        for part in source.sources.iter().flatten() {
            project(&mut files, pod, part, from, default)?;
        }
    } else {
        return Ok(None);
    }
    Ok(Some(files))
}
// ANCHOR_END: make-payload

fn project(
    files: &mut Payload,
    pod: &Pod,
    part: &VolumeProjection,
    from: &Sources,
    default: i32,
) -> Result<(), VolumeError> {
    if let Some(s) = &part.config_map {
        let data = from.config_maps.get(&s.name).map(config_map_data);
        select(files, data, &s.name, "configmap", s.items.as_deref(), default, s.optional == Some(true))?;
    }
    if let Some(s) = &part.secret {
        let data = from.secrets.get(&s.name).map(secret_data);
        select(files, data, &s.name, "secret", s.items.as_deref(), default, s.optional == Some(true))?;
    }
    if let Some(s) = &part.downward_api {
        downward(files, pod, s.items.as_deref().unwrap_or_default(), from, default)?;
    }
    if let Some(s) = &part.service_account_token {
        let token = from.tokens.get(&s.path).cloned().unwrap_or_default();
        let (owner, mode) = token_owner(pod, default);
        files.insert(s.path.clone(), File { data: token.into_bytes(), mode, owner });
    }
    Ok(())
}

/// A token is readable by the pod's user only, where there is just one.
fn token_owner(pod: &Pod, default: i32) -> (Option<u32>, u32) {
    let sc = pod.spec_ref().security_context.as_ref();
    let of_pod = sc.and_then(|s| s.run_as_user);
    let users: Vec<Option<i64>> = pod
        .all_containers()
        .map(|c| c.security_context.as_ref().and_then(|s| s.run_as_user).or(of_pod))
        .collect();
    let common = users.first().copied().flatten().filter(|u| users.iter().all(|x| x == &Some(*u)));
    let private = common.is_some() || sc.is_some_and(|s| s.fs_group.is_some());
    (common.and_then(|u| u32::try_from(u).ok()), if private { 0o600 } else { mode(None, default) })
}

fn config_map_data(cm: &ConfigMap) -> BTreeMap<String, Vec<u8>> {
    let text = cm.data.iter().flatten().map(|(k, v)| (k.clone(), v.clone().into_bytes()));
    text.chain(cm.binary_data.iter().flatten().map(|(k, v)| (k.clone(), v.0.clone()))).collect()
}

fn secret_data(s: &Secret) -> BTreeMap<String, Vec<u8>> {
    s.data.iter().flatten().map(|(k, v)| (k.clone(), v.0.clone())).collect()
}

fn select(
    files: &mut Payload,
    data: Option<BTreeMap<String, Vec<u8>>>,
    name: &str,
    kind: &str,
    items: Option<&[KeyToPath]>,
    default: i32,
    optional: bool,
) -> Result<(), VolumeError> {
    let mut data = match data {
        Some(data) => data,
        None if optional => return Ok(()),
        None => return Err(VolumeError::Missing(format!("{kind} \"{name}\" not found"))),
    };
    let Some(items) = items.filter(|i| !i.is_empty()) else {
        files.extend(
            data.into_iter().map(|(k, data)| (k, File { data, mode: mode(None, default), owner: None })),
        );
        return Ok(());
    };
    for item in items {
        match data.remove(&item.key) {
            Some(bytes) => {
                files.insert(
                    item.path.clone(),
                    File { data: bytes, mode: mode(item.mode, default), owner: None },
                );
            }
            None if optional => {}
            None if kind == "secret" => {
                return Err(VolumeError::Missing(format!(
                    "references non-existent secret key: {}",
                    item.key
                )));
            }
            None => {
                return Err(VolumeError::Missing(format!(
                    "configmap references non-existent config key: {}",
                    item.key
                )));
            }
        }
    }
    Ok(())
}

fn downward(
    files: &mut Payload,
    pod: &Pod,
    items: &[DownwardAPIVolumeFile],
    from: &Sources,
    default: i32,
) -> Result<(), VolumeError> {
    let wrong = |e: crate::env::EnvError| VolumeError::Missing(e.to_string());
    for item in items {
        let text = if let Some(r) = &item.field_ref {
            pod_field(pod, &r.field_path, &from.pod_ips, &from.host_ips).map_err(wrong)?
        } else if let Some(r) = &item.resource_field_ref {
            let first = pod.containers().first().cloned().unwrap_or_default();
            container_resource(pod, &first, r, &from.allocatable).map_err(wrong)?
        } else {
            String::new()
        };
        files.insert(
            item.path.clone(),
            File { data: text.into_bytes(), mode: mode(item.mode, default), owner: None },
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Pod {
        serde_json::from_value(
            json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": [{"name": "c"}]}}),
        )
        .unwrap()
    }

    fn make(volume: serde_json::Value) -> Result<Payload, String> {
        let from = Sources {
            config_maps: BTreeMap::from([(
                "cm".to_owned(),
                serde_json::from_value(json!({"data": {"a": "A", "b": "B"}, "binaryData": {"bin": "AAE="}}))
                    .unwrap(),
            )]),
            tokens: BTreeMap::from([("tok".to_owned(), "secret".to_owned())]),
            ..Sources::default()
        };
        let volume: Volume = serde_json::from_value(volume).unwrap();
        make_payload(&pod(), &volume, &from).map(Option::unwrap_or_default).map_err(|e| e.to_string())
    }

    #[test]
    fn items_choose_paths_and_modes() {
        let files = make(json!({"name": "v", "configMap": {"name": "cm", "defaultMode": 288,
            "items": [{"key": "a", "path": "d/a", "mode": 256}, {"key": "b", "path": "b"}]}}))
        .unwrap();
        assert_eq!(
            files.iter().map(|(p, f)| (p.as_str(), f.mode)).collect::<Vec<_>>(),
            [("b", 0o440), ("d/a", 0o400)]
        );
        let files = make(json!({"name": "v", "configMap": {"name": "cm"}})).unwrap();
        assert_eq!(files["bin"].data, [0, 1]);
    }

    #[test]
    fn missing_sources_are_errors_unless_optional() {
        let cm = |name: &str, optional| json!({"name": "v", "configMap": {"name": name, "optional": optional, "items": [{"key": "x", "path": "x"}]}});
        assert_eq!(make(cm("no", false)).unwrap_err(), "configmap \"no\" not found");
        assert_eq!(make(cm("cm", false)).unwrap_err(), "configmap references non-existent config key: x");
        assert!(make(cm("no", true)).unwrap().is_empty());
        assert!(make(cm("cm", true)).unwrap().is_empty());
    }

    #[test]
    fn a_projected_volume_joins_its_sources() {
        let files = make(json!({"name": "v", "projected": {"sources": [
            {"serviceAccountToken": {"path": "tok"}}, {"configMap": {"name": "cm"}},
            {"downwardAPI": {"items": [{"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}}]}}]}}))
        .unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["a", "b", "bin", "ns", "tok"]);
        assert_eq!(files["ns"].data, b"ns");
    }
}
