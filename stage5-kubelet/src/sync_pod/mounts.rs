//! Mounts: the volumes and files that one container sees.
//!
//! *Step 5 of a pod's journey.* Before: the pod's volumes are ready. After: [`crate::container_spec`] lists them for the runtime.
//!
//! # Invariants
//! 1. A container sees exactly the volumes that it names, its hosts file, and its termination message file.
//!
//! # In Kubernetes
//! `makeMounts` in `pkg/kubelet/kubelet_pods.go`, `makeMounts` in `kuberuntime_container.go`. Left out: image volumes, recursive read-only.
#![expect(clippy::disallowed_methods, reason = "shell: writes the hosts file")]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, VolumeMount};

use crate::container_spec::termination_message_path;
use crate::cri::{Mount, MountPropagation};
use crate::env::expansion::expand;
use crate::etc_hosts::{hostname_and_domain, managed_hosts_file, node_hosts_file};
use crate::kubelet::Kubelet;
use crate::pod::PodExt;
use crate::runtime_view::RuntimePod;
use crate::volumes::{MountedVolume, place, sub_path};

const ETC_HOSTS: &str = "/etc/hosts";

impl Kubelet {
    /// The mounts of one container.
    pub(super) fn make_mounts(
        &self,
        pod: &Pod,
        container: &Container,
        view: &RuntimePod,
        volumes: &BTreeMap<String, MountedVolume>,
        env: &BTreeMap<String, String>,
        attempt: i32,
    ) -> Result<Vec<Mount>, String> {
        let mut mounts = Vec::new();
        for (i, m) in container.volume_mounts.iter().flatten().enumerate() {
            mounts.push(self.volume_mount(pod, container, m, i, volumes, env)?);
        }
        if !mounts.iter().any(|m| m.container_path == ETC_HOSTS) {
            mounts.push(self.hosts_mount(pod, view).map_err(|e| format!("write hosts file: {e}"))?);
        }
        let file = self
            .pod_dir(pod.pod_uid())
            .join("containers")
            .join(&container.name)
            .join(format!("{attempt:08x}"));
        place::world_writable_file(&file).map_err(|e| format!("make termination message file: {e}"))?;
        mounts.push(Mount {
            container_path: termination_message_path(container).to_owned(),
            host_path: file.display().to_string(),
            ..Mount::default()
        });
        Ok(mounts)
    }

    fn volume_mount(
        &self,
        pod: &Pod,
        container: &Container,
        m: &VolumeMount,
        index: usize,
        volumes: &BTreeMap<String, MountedVolume>,
        env: &BTreeMap<String, String>,
    ) -> Result<Mount, String> {
        let missing =
            || format!("cannot find volume \"{}\" to mount into container \"{}\"", m.name, container.name);
        let volume = volumes.get(&m.name).ok_or_else(missing)?;
        let by_name = |name: &str| env.get(name).cloned();
        let sub = match (&m.sub_path, &m.sub_path_expr) {
            (Some(path), _) if !path.is_empty() => Some(path.clone()),
            (_, Some(expr)) if !expr.is_empty() => {
                let path = expand(expr, by_name);
                if path.contains("$(") {
                    return Err(format!("missing value for \"{path}\""));
                }
                Some(path)
            }
            _ => None,
        };
        let host_path = match sub {
            Some(sub) => {
                let bound = self
                    .pod_dir(pod.pod_uid())
                    .join("volume-subpaths")
                    .join(&m.name)
                    .join(&container.name)
                    .join(index.to_string());
                place::unmount_below(&bound);
                let whose = format!("for volumeMount \"{}\" of container \"{}\"", m.name, container.name);
                sub_path::prepare(&volume.path, &sub, &bound).map_err(|e| format!("{e} {whose}"))?
            }
            None => volume.path.clone(),
        };
        let container_path =
            if m.mount_path.starts_with('/') { m.mount_path.clone() } else { format!("/{}", m.mount_path) };
        Ok(Mount {
            container_path,
            host_path: host_path.display().to_string(),
            readonly: m.read_only.unwrap_or(false) || volume.read_only,
            propagation: match m.mount_propagation.as_deref() {
                Some("HostToContainer") => MountPropagation::HostToContainer,
                Some("Bidirectional") => MountPropagation::Bidirectional,
                _ => MountPropagation::Private,
            },
        })
    }

    fn hosts_mount(&self, pod: &Pod, view: &RuntimePod) -> std::io::Result<Mount> {
        let file = self.pod_dir(pod.pod_uid()).join("etc-hosts");
        let (hostname, domain) = hostname_and_domain(pod, &self.config.cluster_domain);
        let text = if pod.host_network() {
            node_hosts_file(pod, &std::fs::read_to_string(ETC_HOSTS).unwrap_or_default())
        } else {
            managed_hosts_file(pod, &view.ips, &hostname, &domain)
        };
        // The other containers of the pod have the same file mounted: it is written in place.
        std::fs::write(&file, text)?;
        Ok(Mount {
            container_path: ETC_HOSTS.to_owned(),
            host_path: file.display().to_string(),
            ..Mount::default()
        })
    }
}
