//! Collections: which lists are read, all at once.
//!
//! # Invariants
//! 1. A collection that the server doesn't have (404) is empty; one that may not be read is noted.
//!
//! # In Kubernetes
//! No counterpart; `kubectl get all` reads fewer kinds.

use futures::future::join_all;

use super::super::facts::Unseen;
use super::unseen;
use crate::client::ClientError;
use crate::commands::listing::{bare, list_all};
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::request::ListParams;
use crate::resource::GroupVersionResource;

/// Which namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All.
    All,
    /// These.
    Some(Vec<String>),
}

/// What a namespace is read for: group, version, resource.
const NAMESPACED: [(&str, &str, &str); 18] = [
    ("", "v1", "pods"),
    ("", "v1", "events"),
    ("", "v1", "services"),
    ("", "v1", "persistentvolumeclaims"),
    ("", "v1", "resourcequotas"),
    ("", "v1", "limitranges"),
    ("", "v1", "serviceaccounts"),
    ("apps", "v1", "deployments"),
    ("apps", "v1", "replicasets"),
    ("apps", "v1", "statefulsets"),
    ("apps", "v1", "daemonsets"),
    ("batch", "v1", "jobs"),
    ("batch", "v1", "cronjobs"),
    ("discovery.k8s.io", "v1", "endpointslices"),
    ("networking.k8s.io", "v1", "networkpolicies"),
    ("networking.k8s.io", "v1", "ingresses"),
    ("autoscaling", "v2", "horizontalpodautoscalers"),
    ("rbac.authorization.k8s.io", "v1", "rolebindings"),
];

/// What is read of the cluster whatever is asked: group, version, resource, namespace (empty: none or all).
const CLUSTER: [(&str, &str, &str, &str); 11] = [
    ("", "v1", "nodes", ""),
    ("coordination.k8s.io", "v1", "leases", "kube-system"),
    ("coordination.k8s.io", "v1", "leases", "kube-node-lease"),
    ("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", ""),
    ("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", ""),
    ("storage.k8s.io", "v1", "storageclasses", ""),
    ("", "v1", "pods", ""),
    ("", "v1", "services", "kube-system"),
    ("discovery.k8s.io", "v1", "endpointslices", "kube-system"),
    ("apps", "v1", "deployments", "kube-system"),
    ("apps", "v1", "daemonsets", "kube-system"),
];

/// Kinds that are only worth reading when everything is asked about.
const WIDE: [(&str, &str, &str); 2] =
    [("rbac.authorization.k8s.io", "v1", "clusterrolebindings"), ("", "v1", "namespaces")];

/// Reads them all; gives the objects and what could not be seen.
pub async fn read(ctx: &Context, scope: &Scope) -> (Vec<Object>, Vec<Unseen>) {
    let mut lists: Vec<(GroupVersionResource, Option<String>)> = Vec::new();
    let mut add = |group: &str, version: &str, resource: &str, namespace: Option<&str>| {
        let list = (GroupVersionResource::new(group, version, resource), namespace.map(str::to_owned));
        if !lists.contains(&list) {
            lists.push(list);
        }
    };
    for (group, version, resource, namespace) in CLUSTER {
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        let covered = *scope == Scope::All && NAMESPACED.contains(&(group, version, resource));
        if !covered {
            add(group, version, resource, namespace);
        }
    }
    for (group, version, resource) in NAMESPACED {
        match scope {
            Scope::All => add(group, version, resource, None),
            // All pods are read for the sums of the nodes.
            Scope::Some(_) if resource == "pods" => {}
            Scope::Some(namespaces) => {
                namespaces.iter().for_each(|one| add(group, version, resource, Some(one)))
            }
        }
    }
    if *scope == Scope::All {
        WIDE.iter().for_each(|(group, version, resource)| add(group, version, resource, None));
    }
    let answers =
        join_all(lists.iter().map(|(gvr, namespace)| one(ctx, gvr, namespace.as_deref(), scope))).await;
    let (mut objects, mut missed) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Ok(found) => objects.extend(found),
            Err(one) => missed.push(one),
        }
    }
    (objects, missed)
}

async fn one(
    ctx: &Context,
    gvr: &GroupVersionResource,
    namespace: Option<&str>,
    scope: &Scope,
) -> Result<Vec<Object>, Unseen> {
    let params = ListParams { limit: Some(500), ..ListParams::default() };
    let resource = bare(gvr, true);
    let mut answer = list_all(ctx, &resource, namespace, &params).await;
    // Who may not read the whole cluster's pods may read those of the namespace.
    if let (Err(error), None, "pods", Scope::Some(namespaces)) =
        (&answer, namespace, gvr.resource.as_str(), scope)
        && is_forbidden(error)
    {
        let lists = join_all(namespaces.iter().map(|one| list_all(ctx, &resource, Some(one), &params))).await;
        answer = lists.into_iter().collect::<Result<Vec<_>, _>>().map(|lists| lists.concat());
    }
    match answer {
        Ok(objects) => Ok(objects),
        Err(Failure::Client(error)) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => {
            let place = namespace.map(|namespace| format!(" in {namespace}")).unwrap_or_default();
            Err(unseen(format!("{}{place}", gvr.resource), &error))
        }
    }
}

fn is_forbidden(failure: &Failure) -> bool {
    matches!(failure, Failure::Client(error) if ClientError::is_forbidden(error))
}

/// The server's words when it lets nothing at all be read.
#[must_use]
pub fn all_refused(objects: &[Object], unseen: &[Unseen]) -> Option<String> {
    let pods = unseen.iter().find(|one| one.what.starts_with("pods"))?;
    (objects.is_empty() && unseen.len() > NAMESPACED.len() / 2).then(|| pods.why.clone())
}
