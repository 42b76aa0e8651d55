//! Debug profiles: how much a debugging container may do.
//!
//! A profile is a small change of the new container (and, for copies and nodes, of the pod around it): `general` may trace processes,
//! `baseline` and `restricted` fit the pod security standards of those names, `netadmin` may change the network, `sysadmin` is
//! privileged, and `legacy` is what `kubectl debug` did before there were profiles.
//!
//! # Invariants
//! 1. A profile touches no container but the debugging one; the keep flags act on copies only.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/debug/profiles.go`.

use clap::Args;
use serde_json::{Map, Value, json};

/// What a copy keeps of the original.
#[derive(Debug, Clone, Args)]
pub struct KeepFlags {
    /// If true, keep the original pod labels.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub keep_labels: bool,
    /// If true, keep the original pod annotations.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub keep_annotations: bool,
    /// If true, keep the original pod liveness probes.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub keep_liveness: bool,
    /// If true, keep the original pod readiness probes.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub keep_readiness: bool,
    /// If true, keep the original startup probes.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub keep_startup: bool,
    /// Run the init containers for the pod. Defaults to true.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub keep_init_containers: bool,
}

impl Default for KeepFlags {
    fn default() -> Self {
        KeepFlags {
            keep_labels: false,
            keep_annotations: false,
            keep_liveness: false,
            keep_readiness: false,
            keep_startup: false,
            keep_init_containers: true,
        }
    }
}

/// The profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Profile {
    Legacy,
    General,
    Baseline,
    Restricted,
    Netadmin,
    Sysadmin,
}

/// What is debugged, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Ephemeral,
    Copy,
    Node,
}

impl Profile {
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        Ok(match name {
            "legacy" => Profile::Legacy,
            "general" => Profile::General,
            "baseline" => Profile::Baseline,
            "restricted" => Profile::Restricted,
            "netadmin" => Profile::Netadmin,
            "sysadmin" => Profile::Sysadmin,
            other => return Err(format!("unknown profile: {other}")),
        })
    }

    /// Changes the debugging container.
    // ANCHOR: debug-profile
    pub(super) fn apply_to_container(self, style: Style, container: &mut Value) {
        if matches!(self, Profile::Baseline | Profile::Restricted) {
            container.as_object_mut().map(|fields| fields.remove("securityContext"));
        }
        let context = &mut container["securityContext"];
        match (self, style) {
            (Profile::General, Style::Ephemeral | Style::Copy) => add(context, &["SYS_PTRACE"]),
            (Profile::Netadmin, _) => add(context, &["NET_ADMIN", "NET_RAW"]),
            (Profile::Sysadmin, _) => context["privileged"] = true.into(),
            (Profile::Restricted, _) => {
                *context = json!({
                    "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
                    "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"},
                });
            }
            _ => {}
        }
        if context.is_null() {
            container.as_object_mut().map(|fields| fields.remove("securityContext"));
        }
        if style == Style::Node && self.sees_disk() {
            container["volumeMounts"] = json!([{"name": "host-root", "mountPath": "/host"}]);
        }
    }
    // ANCHOR_END: debug-profile

    fn sees_disk(self) -> bool {
        matches!(self, Profile::Legacy | Profile::General | Profile::Sysadmin)
    }

    /// Changes the pod around it.
    pub(super) fn apply_to_pod(self, style: Style, keep: &KeepFlags, pod: &mut Value) {
        match style {
            Style::Ephemeral => {}
            Style::Copy => self.apply_to_copy(keep, pod),
            Style::Node => {
                if self.sees_disk() {
                    pod["spec"]["volumes"] = json!([{"name": "host-root", "hostPath": {"path": "/"}}]);
                }
                if self.sees_disk() || self == Profile::Netadmin {
                    for namespace in ["hostNetwork", "hostPID", "hostIPC"] {
                        pod["spec"][namespace] = true.into();
                    }
                }
            }
        }
    }

    fn apply_to_copy(self, keep: &KeepFlags, pod: &mut Value) {
        let remove = |map: Option<&mut Map<String, Value>>, field: &str| {
            map.map(|map| map.remove(field));
        };
        if !keep.keep_labels {
            remove(pod["metadata"].as_object_mut(), "labels");
        }
        if self == Profile::Legacy {
            return;
        }
        if !keep.keep_annotations {
            remove(pod["metadata"].as_object_mut(), "annotations");
        }
        if !keep.keep_init_containers {
            remove(pod["spec"].as_object_mut(), "initContainers");
        }
        let probes = [
            ("livenessProbe", keep.keep_liveness),
            ("readinessProbe", keep.keep_readiness),
            ("startupProbe", keep.keep_startup),
        ];
        for container in pod["spec"]["containers"].as_array_mut().into_iter().flatten() {
            for (probe, kept) in probes.iter().filter(|(_, kept)| !kept) {
                let _ = kept;
                remove(container.as_object_mut(), probe);
            }
        }
        if pod["spec"]["shareProcessNamespace"].is_null() {
            pod["spec"]["shareProcessNamespace"] = true.into();
        }
    }
}

/// Adds capabilities to those that are there.
fn add(context: &mut Value, capabilities: &[&str]) {
    let mut all = context["capabilities"]["add"].as_array().cloned().unwrap_or_default();
    for capability in capabilities {
        if !all.iter().any(|there| there == capability) {
            all.push(json!(capability));
        }
    }
    context["capabilities"]["add"] = all.into();
}
