//! The volume manager: all volumes of a pod, made and kept up to date.
//!
//! *Step 5 of a pod's journey.* Before: [`crate::sync_pod`] asks for the volumes. After: each has a path, or the pod waits and users read why.
//!
//! Mounting is repeatable: what is there already is left alone, content that changed is written anew. So the same call serves
//! the first start, a periodic refresh and a kubelet that was restarted.
//!
//! # Invariants
//! 1. A pod's folder is removed only after everything below it was unmounted.
//!
//! # In Kubernetes
//! `pkg/kubelet/volumemanager/volume_manager.go` with its reconciler. Left out: the split into desired and actual state of the world, attach
//! and detach.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock, removes folders")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Volume};
use stage1_kubectl::client::Client;

use super::atomic_writer::{Ownership, write};
use super::payload::{Sources, make_payload, referenced_objects};
use super::token::TokenManager;
use super::{MountedVolume, VolumeError, place};
use crate::pod::{Pick, PodExt, pod_total, units};

/// Makes the volumes of this node's pods.
pub struct VolumeManager {
    root: PathBuf,
    client: Client,
    real: bool,
    tokens: TokenManager,
}

/// What a pod's volumes need to know of pod and node.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The node's allocatable resources.
    pub allocatable: BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>,
    /// The pod's addresses.
    pub pod_ips: Vec<String>,
    /// The node's addresses.
    pub host_ips: Vec<String>,
    /// The node's memory, in bytes: the largest memory volume.
    pub memory_bytes: u64,
}

impl VolumeManager {
    /// For pods below `root`; without a real runtime nothing is made.
    pub fn new(root: PathBuf, client: Client, real: bool) -> Self {
        VolumeManager { root, client, real, tokens: TokenManager::default() }
    }

    fn volume_dir(&self, pod: &Pod, plugin: &str, name: &str) -> PathBuf {
        self.root
            .join("pods")
            .join(pod.pod_uid())
            .join("volumes")
            .join(format!("kubernetes.io~{plugin}"))
            .join(name)
    }

    /// Makes or refreshes all volumes; those that failed are in the second list with their error.
    pub async fn mount(
        &self,
        pod: &Pod,
        facts: &Facts,
    ) -> (BTreeMap<String, MountedVolume>, Vec<(String, VolumeError)>) {
        let (mut ready, mut failed) = (BTreeMap::new(), Vec::new());
        let volumes = pod.spec_ref().volumes.as_deref().unwrap_or_default();
        if !self.real || volumes.is_empty() {
            return (ready, failed);
        }
        let sources = match self.sources(pod, volumes, facts).await {
            Ok(sources) => sources,
            Err((name, error)) => return (ready, vec![(name, error)]),
        };
        for volume in volumes {
            match self.mount_one(pod, volume, &sources, facts) {
                Ok(mounted) => drop(ready.insert(volume.name.clone(), mounted)),
                Err(error) => failed.push((volume.name.clone(), error)),
            }
        }
        (ready, failed)
    }

    async fn sources(
        &self,
        pod: &Pod,
        volumes: &[Volume],
        facts: &Facts,
    ) -> Result<Sources, (String, VolumeError)> {
        let (maps, secrets) = referenced_objects(volumes);
        let blame =
            |e: String| (volumes.first().map(|v| v.name.clone()).unwrap_or_default(), VolumeError::Api(e));
        let (config_maps, secrets) = fetch(&self.client, pod, &maps, &secrets).await.map_err(blame)?;
        let mut tokens = BTreeMap::new();
        for volume in volumes {
            let parts = volume.projected.iter().flat_map(|p| p.sources.iter().flatten());
            for projection in parts.filter_map(|p| p.service_account_token.as_ref()) {
                let token = self.tokens.token(&self.client, pod, projection).await;
                tokens.insert(projection.path.clone(), token.map_err(|e| (volume.name.clone(), e))?);
            }
        }
        let Facts { allocatable, pod_ips, host_ips, .. } = facts.clone();
        Ok(Sources { config_maps, secrets, tokens, allocatable, pod_ips, host_ips })
    }

    fn mount_one(
        &self,
        pod: &Pod,
        v: &Volume,
        from: &Sources,
        facts: &Facts,
    ) -> Result<MountedVolume, VolumeError> {
        let group = pod.spec_ref().security_context.as_ref().and_then(|s| s.fs_group);
        let group = group.and_then(|g| u32::try_from(g).ok());
        if let Some(payload) = make_payload(pod, v, from)? {
            let (plugin, in_memory) = match v {
                Volume { config_map: Some(_), .. } => ("configmap", false),
                Volume { secret: Some(_), .. } => ("secret", true),
                Volume { projected: Some(_), .. } => ("projected", true),
                _ => ("downward-api", true),
            };
            let dir = self.volume_dir(pod, plugin, &v.name);
            if in_memory {
                place::memory_dir(&dir, memory_limit(pod, None, facts))?
            } else {
                place::empty_dir(&dir)?
            }
            let failed = VolumeError::io(format!("write {}", dir.display()));
            write(&dir, &payload, &fresh_version(), Ownership { fs_group: group }).map_err(failed)?;
            own_root(&dir, group)?;
            return Ok(MountedVolume { path: dir, read_only: true });
        }
        if let Some(host) = &v.host_path {
            place::host_path(Path::new(&host.path), host.type_.as_deref().unwrap_or_default())?;
            return Ok(MountedVolume { path: PathBuf::from(&host.path), read_only: false });
        }
        let Some(empty) = &v.empty_dir else { return Err(VolumeError::Unsupported(volume_kind(v))) };
        let dir = self.volume_dir(pod, "empty-dir", &v.name);
        let fresh = !dir.is_dir();
        if empty.medium.as_deref() == Some("Memory") {
            let limit = empty.size_limit.as_ref().map(|q| u64::try_from(units(q)).unwrap_or(0));
            place::memory_dir(&dir, memory_limit(pod, limit, facts))?;
        } else {
            place::empty_dir(&dir)?;
        }
        if let Some(group) = group.filter(|_| fresh) {
            place::set_volume_ownership(&dir, group, false)?;
        }
        Ok(MountedVolume { path: dir, read_only: false })
    }

    /// Removes everything that a pod had on this node.
    pub fn remove_pod(&self, uid: &str) -> std::io::Result<()> {
        self.tokens.remove_pod(uid);
        let dir = self.root.join("pods").join(uid);
        place::unmount_below(&dir);
        match std::fs::remove_dir_all(&dir) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}

fn own_root(dir: &Path, group: Option<u32>) -> Result<(), VolumeError> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let Some(group) = group else { return Ok(()) };
    let set = || {
        chown(dir, None, Some(group))?;
        let mode = std::fs::metadata(dir)?.mode() | 0o2550;
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode & 0o7777))
    };
    set().map_err(VolumeError::io(format!("chown {}", dir.display())))
}

/// A volume in memory may take what the pod may take, and never more than the node has.
fn memory_limit(pod: &Pod, own: Option<u64>, facts: &Facts) -> u64 {
    let pod_limit = u64::try_from(pod_total(pod, "memory", Pick::Limits, units)).unwrap_or(0);
    let every = pod.all_containers().all(|c| {
        c.resources.as_ref().and_then(|r| r.limits.as_ref()).is_some_and(|l| l.contains_key("memory"))
    });
    let limits =
        [own.filter(|l| *l > 0), (every && pod_limit > 0).then_some(pod_limit), Some(facts.memory_bytes)];
    limits.into_iter().flatten().filter(|l| *l > 0).min().unwrap_or(0)
}

/// `2026_11_30_09_00_00.123456789`: sortable for people, unique for us.
fn fresh_version() -> String {
    let now = Timestamp::now();
    format!("{}.{}", now.strftime("%Y_%m_%d_%H_%M_%S"), now.subsec_nanosecond())
}

fn volume_kind(v: &Volume) -> String {
    let json = serde_json::to_value(v).unwrap_or_default();
    let kind = json.as_object().into_iter().flatten().map(|(k, _)| k.as_str()).find(|k| *k != "name");
    format!("kubernetes.io/{}", kind.unwrap_or("empty-dir"))
}

type Objects = (BTreeMap<String, ConfigMap>, BTreeMap<String, Secret>);

/// The ConfigMaps and Secrets of a pod that exist; an error only when the API server cannot be asked.
///
/// # Errors
/// With the API server's text.
pub async fn fetch(
    client: &Client,
    pod: &Pod,
    maps: &[String],
    secrets: &[String],
) -> Result<Objects, String> {
    let (map_api, secret_api) = (
        client.namespaced::<ConfigMap>(pod.pod_namespace()),
        client.namespaced::<Secret>(pod.pod_namespace()),
    );
    let mut found = Objects::default();
    for name in maps {
        match map_api.get(name).await {
            Ok(cm) => drop(found.0.insert(name.clone(), cm)),
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(e.to_string()),
        }
    }
    for name in secrets {
        match secret_api.get(name).await {
            Ok(secret) => drop(found.1.insert(name.clone(), secret)),
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(e.to_string()),
        }
    }
    Ok(found)
}
