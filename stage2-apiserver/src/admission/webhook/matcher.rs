//! Matcher: whether a webhook wants a request, and as which version of the resource.
//!
//! A rule names operations, groups, versions and resources; `pods` is only the pod itself, `pods/exec` only that subresource, `pods/*`
//! both. With `matchPolicy: Equivalent` a rule for `apps/v1` also matches a request for the same objects under another version; the
//! webhook then sees the object in the version that it knows.
//!
//! # In Kubernetes
//! `apiserver/pkg/admission/plugin/webhook/predicates/{rules,namespace,object}`, `…/generic/webhook.go` (`ShouldCallHook`).

use std::collections::BTreeMap;

use stage1_kubectl::object::Object;
use stage1_kubectl::resource::{GroupVersionKind, GroupVersionResource};
use stage1_kubectl::selector::LabelSelector;
use stage1_kubectl::status::Status;

use super::{GROUP, Rule, Webhook};
use crate::admission::{Attributes, ObjectReader, Operation};
use crate::registry;

/// Resources that no webhook and no policy judges.
const EXEMPT: [&str; 6] = [
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
];

/// As what a webhook sees the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The resource that its rule matched.
    pub resource: GroupVersionResource,
    /// The kind of the object there.
    pub kind: GroupVersionKind,
}

/// The object before and after, where there is one.
#[derive(Clone, Copy)]
pub struct Objects<'a> {
    /// As it will be.
    pub new: Option<&'a Object>,
    /// As it is.
    pub old: Option<&'a Object>,
}

/// Whether the request is about something that webhooks and policies don't judge.
pub fn is_exempt(attributes: &Attributes) -> bool {
    attributes.resource.group == GROUP && EXEMPT.contains(&attributes.resource.resource.as_str())
}

/// How Kubernetes writes the operation.
pub fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

/// Whether the webhook is to be called, and as what.
///
/// # Errors
/// 404 when the namespace isn't there, 500 for a selector that can't be read: only of a webhook whose rules match.
pub fn should_call(
    webhook: &Webhook,
    attributes: &Attributes,
    objects: Objects<'_>,
    reader: &dyn ObjectReader,
) -> Result<Option<Invocation>, Status> {
    let in_namespace = namespace_fits(webhook.namespace_selector.as_ref(), attributes, objects, reader);
    let in_objects = object_fits(webhook.object_selector.as_ref(), objects);
    if in_namespace == Ok(false) || in_objects == Ok(false) {
        return Ok(None);
    }
    let Some(invocation) = invocation(&webhook.rules, webhook.equivalent, attributes) else {
        return Ok(None);
    };
    in_namespace.and(in_objects).map(|_| Some(invocation))
}

/// The first rule that matches the request's resource, or one that is the same in another version.
pub fn invocation(rules: &[Rule], equivalent: bool, attributes: &Attributes) -> Option<Invocation> {
    let exact = Invocation { resource: attributes.resource.clone(), kind: attributes.kind.clone() };
    if rules.iter().any(|rule| rule_matches(rule, attributes, &exact.resource)) {
        return Some(exact);
    }
    if !equivalent {
        return None;
    }
    let others = equivalents(attributes);
    let first = |rule: &Rule| others.iter().find(|o| rule_matches(rule, attributes, &o.resource)).cloned();
    rules.iter().find_map(first)
}

/// The same objects under other groups and versions.
fn equivalents(attributes: &Attributes) -> Vec<Invocation> {
    let asked = &attributes.resource;
    let Some(info) = registry::find(&asked.group, &asked.version, &asked.resource) else { return Vec::new() };
    if info.storage.is_none() {
        return Vec::new();
    }
    let same = |other: &&registry::ResourceInfo| {
        other.storage.is_some() && other.key_prefix(None) == info.key_prefix(None) && other.gvr() != *asked
    };
    let of_subresource = !attributes.subresource.is_empty() && attributes.kind != info.gvk();
    registry::all()
        .filter(same)
        .map(|other| Invocation {
            resource: other.gvr(),
            kind: if of_subresource { attributes.kind.clone() } else { other.gvk() },
        })
        .collect()
}

/// One rule against the request, as if it were for `resource`.
pub fn rule_matches(rule: &Rule, attributes: &Attributes, resource: &GroupVersionResource) -> bool {
    let any = |list: &[String], value: &str| list.iter().any(|entry| entry == "*" || entry == value);
    let of_cluster = attributes.namespace.is_empty() || is_namespace_object(resource);
    let in_scope = match rule.scope.as_str() {
        "Namespaced" => !of_cluster,
        "Cluster" => of_cluster,
        _ => true,
    };
    let resource_fits = |entry: &String| {
        let (name, subresource) = entry.split_once('/').unwrap_or((entry, ""));
        (name == "*" || name == resource.resource)
            && (subresource == "*" || subresource == attributes.subresource)
    };
    in_scope
        && any(&rule.operations, operation_name(attributes.operation))
        && any(&rule.groups, &resource.group)
        && any(&rule.versions, &resource.version)
        && rule.resources.iter().any(resource_fits)
        && (rule.names.is_empty() || rule.names.contains(&attributes.name))
}

fn is_namespace_object(resource: &GroupVersionResource) -> bool {
    resource.group.is_empty() && resource.resource == "namespaces"
}

/// Whether the request's namespace is selected. What is in no namespace always is; a Namespace is judged by its own labels.
///
/// # Errors
/// 404 when the namespace isn't there, 500 for a selector that can't be read.
pub fn namespace_fits(
    selector: Option<&LabelSelector>,
    attributes: &Attributes,
    objects: Objects<'_>,
    reader: &dyn ObjectReader,
) -> Result<bool, Status> {
    let selector = selector.ok_or_else(|| Status::internal("the namespaceSelector can't be read"))?;
    let is_namespace = is_namespace_object(&attributes.resource);
    if selector.is_empty() || (attributes.namespace.is_empty() && !is_namespace) {
        return Ok(true);
    }
    Ok(selector.matches(&namespace_labels(attributes, objects, reader)?))
}

fn namespace_labels(
    attributes: &Attributes,
    objects: Objects<'_>,
    reader: &dyn ObjectReader,
) -> Result<BTreeMap<String, String>, Status> {
    let itself = is_namespace_object(&attributes.resource) && attributes.subresource.is_empty();
    let written = matches!(attributes.operation, Operation::Create | Operation::Update);
    if let (true, Some(new)) = (itself && written, objects.new) {
        return Ok(new.labels());
    }
    let name =
        if is_namespace_object(&attributes.resource) { &attributes.name } else { &attributes.namespace };
    let found = reader.get("", "namespaces", "", name);
    found.map(|namespace| namespace.labels()).ok_or_else(|| Status::not_found("namespaces", name))
}

/// Whether the object, as it was or as it will be, is selected.
///
/// # Errors
/// 500 for a selector that can't be read.
pub fn object_fits(selector: Option<&LabelSelector>, objects: Objects<'_>) -> Result<bool, Status> {
    let selector = selector.ok_or_else(|| Status::internal("the objectSelector can't be read"))?;
    let fits = |object: Option<&Object>| object.is_some_and(|object| selector.matches(&object.labels()));
    Ok(selector.is_empty() || fits(objects.new) || fits(objects.old))
}
