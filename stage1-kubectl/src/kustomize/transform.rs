//! Labels, annotations, namespace, names, images, replicas.
//!
//! # In Kubernetes
//! `kustomize/api/filters`, where each field is meant by its path: `kustomize/api/internal/konfig/builtinpluginconsts`.

use serde_json::{Map, Value};

use super::kustomization::{Image, Kustomization};
use super::{Resource, text};

const CLUSTER_SCOPED: [&str; 14] = [
    "APIService",
    "CSIDriver",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "IngressClass",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "StorageClass",
    "ValidatingWebhookConfiguration",
];
/// Where labels are part of a selector, by kind.
const SELECTORS: [(&str, &str); 8] = [
    ("Service", "/spec/selector"),
    ("ReplicationController", "/spec/selector"),
    ("Deployment", "/spec/selector/matchLabels"),
    ("ReplicaSet", "/spec/selector/matchLabels"),
    ("DaemonSet", "/spec/selector/matchLabels"),
    ("StatefulSet", "/spec/selector/matchLabels"),
    ("PodDisruptionBudget", "/spec/selector/matchLabels"),
    ("NetworkPolicy", "/spec/podSelector/matchLabels"),
];
const TEMPLATES: [&str; 3] = ["/spec/template", "/spec/jobTemplate", "/spec/jobTemplate/spec/template"];

/// Carries out everything of a kustomization that needs one object at a time.
pub fn apply(plan: &Kustomization, resources: &mut [Resource]) {
    for resource in resources.iter_mut() {
        let kind = text(&resource.object, "/kind").to_string();
        if !plan.namespace.is_empty() && !CLUSTER_SCOPED.contains(&kind.as_str()) {
            put(&mut resource.object, "/metadata", "namespace", plan.namespace.as_str().into());
        }
        bind_accounts(plan, &mut resource.object);
        if !(plan.name_prefix.is_empty() && plan.name_suffix.is_empty())
            && kind != "CustomResourceDefinition"
            && kind != "Namespace"
        {
            let name = format!("{}{}{}", plan.name_prefix, resource.name(), plan.name_suffix);
            rename(resource, name);
        }
        for labels in &plan.labels {
            add_labels(
                &mut resource.object,
                &labels.pairs,
                labels.include_selectors,
                labels.include_templates,
            );
        }
        add_labels(&mut resource.object, &plan.common_labels, true, true);
        add_annotations(&mut resource.object, &plan.common_annotations);
        for image in &plan.images {
            set_images(&mut resource.object, image);
        }
        for replicas in plan.replicas.iter().filter(|replicas| resource.names.contains(&replicas.name)) {
            if resource.object.pointer("/spec/replicas").is_some()
                || kind == "Deployment"
                || kind == "StatefulSet"
            {
                put(&mut resource.object, "/spec", "replicas", replicas.count.into());
            }
        }
    }
}

/// Gives an object another name and remembers the old one.
pub fn rename(resource: &mut Resource, name: String) {
    put(&mut resource.object, "/metadata", "name", name.as_str().into());
    resource.names.push(name);
}

/// Sets a field of a map, which is made when it isn't there.
fn put(object: &mut Value, at: &str, field: &str, value: Value) {
    if let Some(map) = make(object, at) {
        map.insert(field.to_string(), value);
    }
}

/// The map at a path, made when it isn't there.
fn make<'a>(object: &'a mut Value, at: &str) -> Option<&'a mut Map<String, Value>> {
    let mut here = object;
    for part in at.split('/').skip(1) {
        let map = here.as_object_mut()?;
        here = map.entry(part).or_insert_with(|| Value::Object(Map::new()));
        if here.is_null() {
            *here = Value::Object(Map::new());
        }
    }
    here.as_object_mut()
}

fn merge(object: &mut Value, at: &str, pairs: &Map<String, Value>) {
    if !pairs.is_empty()
        && let Some(map) = make(object, at)
    {
        map.extend(pairs.clone());
    }
}

fn add_labels(object: &mut Value, pairs: &Map<String, Value>, selectors: bool, templates: bool) {
    merge(object, "/metadata/labels", pairs);
    let kind = text(object, "/kind").to_string();
    if selectors {
        for (_, at) in SELECTORS.iter().filter(|(selecting, _)| *selecting == kind) {
            // A Service without selector stays without: its endpoints are somebody else's.
            let there = object.pointer(at).is_some() || at.ends_with("matchLabels");
            if there {
                merge(object, at, pairs);
            }
        }
    }
    if selectors || templates {
        for at in TEMPLATES.iter().filter(|at| object.pointer(at).is_some()).collect::<Vec<_>>() {
            merge(object, &format!("{at}/metadata/labels"), pairs);
        }
    }
}

fn add_annotations(object: &mut Value, pairs: &Map<String, Value>) {
    merge(object, "/metadata/annotations", pairs);
    for at in TEMPLATES.iter().filter(|at| object.pointer(at).is_some()).collect::<Vec<_>>() {
        merge(object, &format!("{at}/metadata/annotations"), pairs);
    }
}

/// A binding names the namespace of its ServiceAccounts too.
fn bind_accounts(plan: &Kustomization, object: &mut Value) {
    if plan.namespace.is_empty() || !text(object, "/kind").ends_with("RoleBinding") {
        return;
    }
    let subjects = object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten();
    for subject in
        subjects.filter(|subject| subject["kind"] == "ServiceAccount" && subject["name"] == "default")
    {
        subject["namespace"] = plan.namespace.as_str().into();
    }
}

/// Changes the images of all containers in an object, wherever they are.
fn set_images(value: &mut Value, image: &Image) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                if matches!(key.as_str(), "containers" | "initContainers" | "ephemeralContainers")
                    && let Some(list) = inner.as_array_mut()
                {
                    for container in list {
                        if let Some(new) = container["image"].as_str().and_then(|old| changed(old, image)) {
                            container["image"] = new.into();
                        }
                    }
                    continue;
                }
                set_images(inner, image);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|inner| set_images(inner, image)),
        _ => {}
    }
}

/// The image's new reference, when its name is meant.
fn changed(old: &str, image: &Image) -> Option<String> {
    let (tagged, digest) = old.split_once('@').map_or((old, None), |(name, digest)| (name, Some(digest)));
    let colon = tagged.rfind(':').filter(|at| !tagged[*at..].contains('/'));
    let (name, tag) = colon.map_or((tagged, None), |at| (&tagged[..at], Some(&tagged[at + 1..])));
    if name != image.name {
        return None;
    }
    let name = if image.new_name.is_empty() { name } else { &image.new_name };
    let suffix = image.tag_suffix.as_str();
    Some(match (image.new_tag.as_str(), image.digest.as_str()) {
        ("", "") => match (tag, digest) {
            (Some(tag), None) => format!("{name}:{tag}{suffix}"),
            (None, Some(digest)) => format!("{name}@{digest}"),
            (Some(tag), Some(digest)) => format!("{name}:{tag}@{digest}"),
            (None, None) => name.to_string(),
        },
        (tag, "") => format!("{name}:{tag}"),
        ("", digest) => format!("{name}@{digest}"),
        (tag, digest) => format!("{name}:{tag}@{digest}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_meant_by_its_name_without_tag_and_digest() {
        let image = Image { name: "nginx".into(), new_tag: "2".into(), ..Image::default() };
        assert_eq!(changed("nginx:1.25", &image).as_deref(), Some("nginx:2"));
        assert_eq!(changed("nginx@sha256:1", &image).as_deref(), Some("nginx:2"));
        assert_eq!(changed("nginx-light", &image), None);
        let image = Image { name: "r:5000/a".into(), new_name: "b".into(), ..Image::default() };
        assert_eq!(changed("r:5000/a:1", &image).as_deref(), Some("b:1"));
    }
}
