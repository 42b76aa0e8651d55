//! NodeRestriction: a kubelet writes its own node and the pods on it, nothing else.
//!
//! RBAC can say that nodes may update nodes, but not "each its own". A stolen kubelet credential would otherwise reach the whole cluster: so
//! node `a` may not write node `b`, may not create pods that use secrets, and may not give itself labels that attract sensitive pods.
//!
//! # In Kubernetes
//! `plugin/pkg/admission/noderestriction/admission.go`. Left out: the check of token requests against the volumes of the pod,
//! ResourceSlices, and the comparison of claim status updates.

use std::collections::BTreeMap;

use stage1_kubectl::object::Object;
use stage1_kubectl::status::{Status, quote};

use super::{AdmissionPlugin, Attributes, ObjectReader, Operation, service_account};

/// The plugin.
pub struct NodeRestriction;

/// The node that a user is; `None` for users that are not nodes.
fn node_name(attributes: &Attributes) -> Option<&str> {
    let in_group = attributes.user.groups.iter().any(|group| group == "system:nodes");
    attributes.user.name.strip_prefix("system:node:").filter(|_| in_group)
}

impl AdmissionPlugin for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    fn validate(
        &self,
        attributes: &Attributes,
        object: Option<&Object>,
        old: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Result<(), Status> {
        let Some(node) = node_name(attributes) else { return Ok(()) };
        let why = match (attributes.resource.group.as_str(), attributes.resource.resource.as_str()) {
            ("", "pods") => pods(node, attributes, object, old, reader),
            ("", "nodes") => nodes(node, attributes, object, old),
            ("", "persistentvolumeclaims") => {
                only(attributes.operation == Operation::Update && attributes.subresource == "status", || {
                    "can only update PVC status".to_owned()
                })
            }
            ("", "serviceaccounts") => service_account_tokens(attributes, object),
            ("coordination.k8s.io", "leases") => leases(node, attributes, object),
            ("storage.k8s.io", "csinodes") => own_named(node, attributes, object, "CSINode"),
            _ => None,
        };
        why.map_or(Ok(()), |why| Err(attributes.forbidden(why)))
    }
}

fn only(allowed: bool, why: impl FnOnce() -> String) -> Option<String> {
    (!allowed).then(why)
}

fn pods(
    node: &str,
    attributes: &Attributes,
    object: Option<&Object>,
    old: Option<&Object>,
    reader: &dyn ObjectReader,
) -> Option<String> {
    let stored = || {
        old.cloned().or_else(|| {
            reader.get("", "pods", &attributes.namespace, &attributes.name).map(|pod| (*pod).clone())
        })
    };
    let on_node = |pod: &Object| pod.get_str("/spec/nodeName") == Some(node);
    match (attributes.subresource.as_str(), attributes.operation) {
        ("", Operation::Create) => mirror_pod(node, object?),
        ("" | "status", Operation::Delete | Operation::Update) => {
            let verb = if attributes.operation == Operation::Delete { "delete" } else { "update status for" };
            if attributes.subresource.is_empty() && attributes.operation == Operation::Update {
                return Some(format!(
                    "unexpected operation {}, node {} can only create and delete mirror pods",
                    quote("UPDATE"),
                    quote(node)
                ));
            }
            let pod = stored()?;
            if !on_node(&pod) {
                return Some(format!(
                    "node {} can only {verb} pods with spec.nodeName set to itself",
                    quote(node)
                ));
            }
            let relabelled = object.is_some_and(|new| new.labels() != pod.labels());
            relabelled.then(|| format!("node {} cannot update labels through pod status", quote(node)))
        }
        ("eviction", Operation::Create) => {
            let pod = stored()?;
            (!on_node(&pod))
                .then(|| format!("node {} can only evict pods with spec.nodeName set to itself", quote(node)))
        }
        (subresource, _) => Some(format!(
            "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
            quote(subresource)
        )),
    }
}

/// A node may make known the pods that it runs from files.
fn mirror_pod(node: &str, pod: &Object) -> Option<String> {
    if !service_account::is_mirror(pod) {
        return Some(format!(
            "pod does not have {} annotation, node {} can only create mirror pods",
            quote(service_account::MIRROR_POD_ANNOTATION),
            quote(node)
        ));
    }
    if pod.get_str("/spec/nodeName") != Some(node) {
        return Some(format!("node {} can only create pods with spec.nodeName set to itself", quote(node)));
    }
    let owners = pod.owner_references();
    match owners.as_slice() {
        [owner] if owner.kind == "Node" && owner.name == node => {}
        [_] => {
            return Some(format!(
                "node {} can only create pods with an owner reference set to itself",
                quote(node)
            ));
        }
        owners => {
            let count = owners.len();
            return Some(format!(
                "node {} can only create pods with a single owner reference set to itself, found {count}",
                quote(node)
            ));
        }
    }
    let secrets = pod
        .get("/spec/volumes")
        .and_then(|v| v.as_array())
        .into_iter()
        .flatten()
        .any(|v| v.get("secret").is_some());
    secrets.then(|| format!("node {} can not create pods that reference secrets", quote(node)))
}

fn nodes(
    node: &str,
    attributes: &Attributes,
    object: Option<&Object>,
    old: Option<&Object>,
) -> Option<String> {
    let name = object.map_or(attributes.name.as_str(), Object::name);
    if name != node {
        return Some(format!("node {} is not allowed to modify node {}", quote(node), quote(name)));
    }
    let object = object?;
    match attributes.operation {
        Operation::Create => {
            let forbidden = forbidden_labels(&object.labels(), &BTreeMap::new());
            if object.get("/spec/configSource").is_some() {
                return Some(format!(
                    "node {} is not allowed to create pods with a non-nil configSource",
                    quote(node)
                ));
            }
            (!forbidden.is_empty()).then(|| {
                format!(
                    "node {} is not allowed to set the following labels: {}",
                    quote(node),
                    forbidden.join(", ")
                )
            })
        }
        Operation::Update => {
            let old = old?;
            if object.get("/spec/taints") != old.get("/spec/taints") {
                return Some(format!("node {} is not allowed to modify taints", quote(node)));
            }
            if object.get("/metadata/ownerReferences") != old.get("/metadata/ownerReferences") {
                return Some(format!("node {} is not allowed to modify ownerReferences", quote(node)));
            }
            let forbidden = forbidden_labels(&object.labels(), &old.labels());
            (!forbidden.is_empty())
                .then(|| format!("is not allowed to modify labels: {}", forbidden.join(", ")))
        }
        _ => None,
    }
}

/// Changed labels under kubernetes.io and k8s.io that are not the kubelet's.
fn forbidden_labels(new: &BTreeMap<String, String>, old: &BTreeMap<String, String>) -> Vec<String> {
    let changed = |key: &&String| new.get(*key) != old.get(*key);
    let mut keys: Vec<String> =
        new.keys().chain(old.keys()).filter(changed).filter(|key| is_restricted(key)).cloned().collect();
    keys.sort();
    keys.dedup();
    keys
}

fn is_restricted(label: &str) -> bool {
    const KUBELET: &[&str] = &[
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    ];
    let Some((prefix, _)) = label.split_once('/') else { return false };
    let ours = |domain: &str| prefix == domain || prefix.ends_with(&format!(".{domain}"));
    if ours("node-restriction.kubernetes.io") {
        return true;
    }
    let kubelet = ours("kubelet.kubernetes.io") || ours("node.kubernetes.io") || KUBELET.contains(&label);
    (ours("kubernetes.io") || ours("k8s.io")) && !kubelet
}

fn service_account_tokens(attributes: &Attributes, object: Option<&Object>) -> Option<String> {
    if attributes.subresource != "token" || attributes.operation != Operation::Create {
        return None;
    }
    let bound_to_pod =
        object.is_some_and(|request| request.get_str("/spec/boundObjectRef/kind") == Some("Pod"));
    (!bound_to_pod).then(|| "node requested token not bound to a pod".to_owned())
}

fn leases(node: &str, attributes: &Attributes, object: Option<&Object>) -> Option<String> {
    if attributes.namespace != "kube-node-lease" {
        return Some(format!("can only access leases in the {} system namespace", quote("kube-node-lease")));
    }
    own_named(node, attributes, object, "lease")
}

fn own_named(node: &str, attributes: &Attributes, object: Option<&Object>, what: &str) -> Option<String> {
    let name = match attributes.operation {
        Operation::Create => object.map_or("", Object::name),
        _ => attributes.name.as_str(),
    };
    (name != node).then(|| match what {
        "lease" => "can only access node lease with the same name as the requesting node".to_owned(),
        _ => "can only access CSINode with the same name as the requesting node".to_owned(),
    })
}
