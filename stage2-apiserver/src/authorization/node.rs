//! The node authorizer: a kubelet may read what its own pods need, and nothing else's.
//!
//! *Step 2 of a pod's journey.* Before: the pod was bound to a node. After: that node's kubelet may read the pod's Secrets,
//! ConfigMaps and claims, from the moment of the binding until the pod is gone.
//!
//! A stolen kubelet credential should be worth one node, not the cluster. So Secrets aren't granted by a role: a graph says
//! which node reaches which object through which pods. It follows the pods' watch cache; an entry counts the pods that
//! give it.
//!
//! # Invariants
//! 1. A node reaches an object only while a pod that is bound to the node names it.
//! 2. A node reads Secrets and ConfigMaps one by one, by name.
//!
//! # In Kubernetes
//! `plugin/pkg/auth/authorizer/node/{graph,node_authorizer}.go`. Left out: PersistentVolumes behind claims (any may be read),
//! VolumeAttachments, ResourceClaims, static pods' mirror rules (admission has them).

use std::collections::HashMap;

use serde_json::Value;
use stage1_kubectl::object::Object;

use super::{Attributes, Decision};

/// What a pod names: resource, namespace, name.
pub type Reference = (&'static str, String, String);

/// Which node reaches what.
#[derive(Debug, Default)]
pub struct Graph {
    /// Pod (namespace, name) → its node and what it names.
    pods: HashMap<(String, String), (String, Vec<Reference>)>,
    /// Node and reference → how many pods.
    reach: HashMap<(String, Reference), usize>,
}

/// What a pod spec names.
pub fn references(pod: &Object) -> Vec<Reference> {
    let namespace = pod.namespace().unwrap_or_default().to_owned();
    let mut found: Vec<Reference> = Vec::new();
    let mut add = |resource: &'static str, name: Option<&Value>| {
        if let Some(name) = name.and_then(Value::as_str).filter(|name| !name.is_empty()) {
            found.push((resource, namespace.clone(), name.to_owned()));
        }
    };
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    add("serviceaccounts", pod.get("/spec/serviceAccountName"));
    for secret in list(pod.get("/spec/imagePullSecrets")) {
        add("secrets", secret.get("name"));
    }
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        for container in list(pod.get(&format!("/spec/{kind}"))) {
            for env in list(container.get("env")) {
                add("secrets", env.pointer("/valueFrom/secretKeyRef/name"));
                add("configmaps", env.pointer("/valueFrom/configMapKeyRef/name"));
            }
            for env in list(container.get("envFrom")) {
                add("secrets", env.pointer("/secretRef/name"));
                add("configmaps", env.pointer("/configMapRef/name"));
            }
        }
    }
    for volume in list(pod.get("/spec/volumes")) {
        add("secrets", volume.pointer("/secret/secretName"));
        add("configmaps", volume.pointer("/configMap/name"));
        add("persistentvolumeclaims", volume.pointer("/persistentVolumeClaim/claimName"));
        for source in list(volume.pointer("/projected/sources")) {
            add("secrets", source.pointer("/secret/name"));
            add("configmaps", source.pointer("/configMap/name"));
        }
    }
    found
}

impl Graph {
    /// Takes in a pod as it is now.
    pub fn put(&mut self, pod: &Object) {
        self.remove(pod);
        let Some(node) = pod.get_str("/spec/nodeName").filter(|node| !node.is_empty()) else { return };
        let mut reached = references(pod);
        reached.push(("pods", pod.namespace().unwrap_or_default().into(), pod.name().into()));
        for reference in &reached {
            *self.reach.entry((node.to_owned(), reference.clone())).or_default() += 1;
        }
        let key = (pod.namespace().unwrap_or_default().to_owned(), pod.name().to_owned());
        self.pods.insert(key, (node.to_owned(), reached));
    }

    /// Forgets a pod.
    pub fn remove(&mut self, pod: &Object) {
        let key = (pod.namespace().unwrap_or_default().to_owned(), pod.name().to_owned());
        let Some((node, reached)) = self.pods.remove(&key) else { return };
        for reference in reached {
            let edge = (node.clone(), reference);
            if let Some(count) = self.reach.get_mut(&edge) {
                *count -= 1;
                if *count == 0 {
                    self.reach.remove(&edge);
                }
            }
        }
    }

    // ANCHOR: node-authorizer
    /// Decides a request of a kubelet; about everybody else it has no opinion.
    pub fn authorize(&self, asked: &Attributes) -> Decision {
        let Some(node) = node_name(asked) else { return no("") };
        if !asked.is_resource {
            return no("");
        }
        let reads = matches!(asked.verb.as_str(), "get" | "list" | "watch");
        let own = || asked.name == node;
        let selects = |field: &str| asked.fields.iter().any(|(f, value)| f == field && value == node);
        let allowed = match (asked.group.as_str(), asked.combined_resource().as_str()) {
            ("", "secrets" | "configmaps") if reads => return self.named(node, asked),
            ("", "persistentvolumeclaims" | "pods") if asked.verb == "get" => return self.named(node, asked),
            ("", "pods") if reads => selects("spec.nodeName"),
            ("", "pods") => matches!(asked.verb.as_str(), "create" | "delete"),
            ("", "pods/status") => matches!(asked.verb.as_str(), "update" | "patch"),
            ("", "pods/eviction") => asked.verb == "create",
            ("", "serviceaccounts/token") if asked.verb == "create" => return self.named(node, asked),
            ("", "nodes") if asked.verb == "create" => true,
            ("", "nodes") if matches!(asked.verb.as_str(), "get" | "update" | "patch") => own(),
            ("", "nodes") if reads => own() || selects("metadata.name"),
            ("", "nodes/status") => own() && matches!(asked.verb.as_str(), "update" | "patch"),
            ("" | "events.k8s.io", "events") => {
                matches!(asked.verb.as_str(), "create" | "update" | "patch")
            }
            ("", "services" | "persistentvolumes") => reads,
            ("coordination.k8s.io", "leases") if asked.namespace == "kube-node-lease" => {
                asked.verb == "create" || (own() && asked.verb != "list" && asked.verb != "watch")
            }
            ("storage.k8s.io", "csinodes") => asked.verb == "create" || own(),
            ("storage.k8s.io", "csidrivers" | "volumeattachments") => reads,
            ("node.k8s.io", "runtimeclasses") => reads,
            ("authentication.k8s.io", "tokenreviews") => asked.verb == "create",
            ("authorization.k8s.io", "subjectaccessreviews" | "localsubjectaccessreviews") => {
                asked.verb == "create"
            }
            ("certificates.k8s.io", "certificatesigningrequests") => reads || asked.verb == "create",
            _ => false,
        };
        if allowed { Decision::Allow { reason: String::new() } } else { no("") }
    }
    // ANCHOR_END: node-authorizer

    /// Access to one object that the graph must connect with the node.
    fn named(&self, node: &str, asked: &Attributes) -> Decision {
        if asked.name.is_empty() {
            return no("No Object name found");
        }
        let resources = ["secrets", "configmaps", "persistentvolumeclaims", "serviceaccounts", "pods"];
        let Some(resource) = resources.into_iter().find(|resource| *resource == asked.resource) else {
            return no("");
        };
        let reference = (resource, asked.namespace.clone(), asked.name.clone());
        match self.reach.contains_key(&(node.to_owned(), reference)) {
            true => Decision::Allow { reason: String::new() },
            false => no(&format!("no relationship found between node '{node}' and this object")),
        }
    }
}

fn no(reason: &str) -> Decision {
    Decision::NoOpinion { reason: reason.to_owned() }
}

/// The node whose kubelet asks.
fn node_name(asked: &Attributes) -> Option<&str> {
    let in_group = asked.user.groups.iter().any(|group| group == "system:nodes");
    asked.user.name.strip_prefix("system:node:").filter(|name| in_group && !name.is_empty())
}
