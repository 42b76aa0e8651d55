//! The focus: what belongs to the objects that were asked about.
//!
//! A workload's troubles are those of its pods, of what makes them, and of the Services in front of them. A Service that
//! selects nothing, but nearly selects these pods, belongs to them as well: it is the one that somebody meant.
//!
//! # Invariants
//! 1. What was asked about is always in focus.
//!
//! # In Kubernetes
//! No counterpart.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::facts::{selects, template_at};
use super::super::finding::ObjectRef;
use super::super::near_miss::selector_miss;
use crate::object::Object;

/// Everything of a namespace, and what has none.
#[must_use]
pub fn of_namespace(namespace: &str, objects: &[Object]) -> BTreeSet<ObjectRef> {
    let fits = |object: &&Object| object.namespace().is_none_or(|own| own == namespace);
    objects.iter().filter(fits).map(ObjectRef::of).collect()
}

/// What belongs to some objects.
#[must_use]
pub fn of_subjects(subjects: &[Object], objects: &[Object]) -> BTreeSet<ObjectRef> {
    let mut focus: BTreeSet<ObjectRef> = BTreeSet::new();
    let mut members: Vec<&Object> = Vec::new();
    for subject in subjects {
        focus.insert(ObjectRef::of(subject));
        members.push(subject);
        match subject.kind() {
            "Namespace" => focus.extend(of_namespace(subject.name(), objects)),
            "Node" => members
                .extend(objects.iter().filter(|one| one.get_str("/spec/nodeName") == Some(subject.name()))),
            "Service" => {
                let same = |one: &&Object| one.namespace() == subject.namespace();
                members.extend(objects.iter().filter(same).filter(|one| selects(subject, &labels(one))));
            }
            _ => {}
        }
    }
    grow(&mut members, objects);
    focus.extend(members.iter().map(|one| ObjectRef::of(one)));
    let services: Vec<&Object> =
        objects.iter().filter(|one| one.kind() == "Service" && is_in_front(one, &members, objects)).collect();
    focus.extend(services.iter().map(|one| ObjectRef::of(one)));
    let of_services = |one: &&Object| {
        let service = one.label("kubernetes.io/service-name").unwrap_or_default();
        let slice = one.kind() == "EndpointSlice"
            && focus.contains(&ObjectRef::new("Service", one.namespace().unwrap_or_default(), service));
        let ingress =
            one.kind() == "Ingress" && members.iter().any(|member| member.namespace() == one.namespace());
        slice || ingress
    };
    let more: Vec<ObjectRef> = objects.iter().filter(of_services).map(ObjectRef::of).collect();
    focus.extend(more);
    focus.extend(members.iter().flat_map(|member| named_by(member)));
    focus
}

/// Adds what stands above and below, until nothing is new.
fn grow<'a>(members: &mut Vec<&'a Object>, objects: &'a [Object]) {
    let by_uid: BTreeMap<&str, &Object> =
        objects.iter().filter(|one| !one.uid().is_empty()).map(|one| (one.uid(), one)).collect();
    let mut uids: BTreeSet<String> = members.iter().map(|one| one.uid().to_owned()).collect();
    let mut at = 0;
    while at < members.len() {
        let one = members[at];
        at += 1;
        for owner in one.owner_references() {
            if let Some(owner) = by_uid.get(owner.uid.as_str()).filter(|owner| owner.kind() != "Node")
                && uids.insert(owner.uid().to_owned())
            {
                members.push(owner);
            }
        }
        let below = objects.iter().filter(|other| {
            other.owner_references().iter().any(|owner| !one.uid().is_empty() && owner.uid == one.uid())
        });
        for other in below.filter(|_| one.kind() != "Node") {
            if uids.insert(other.uid().to_owned()) {
                members.push(other);
            }
        }
    }
}

/// The labels of a pod, or of the pods that an object makes.
fn labels(object: &Object) -> BTreeMap<String, String> {
    match template_at(object) {
        Some(template) => object.string_map(&format!("{template}/metadata/labels")),
        None if object.kind() == "Pod" => object.labels(),
        None => BTreeMap::new(),
    }
}

/// Whether a Service sends to one of these, or selects nothing and nearly one of these.
fn is_in_front(service: &Object, members: &[&Object], objects: &[Object]) -> bool {
    let same = |one: &&&Object| one.namespace() == service.namespace();
    let ours = || members.iter().filter(same).map(|one| labels(one)).filter(|labels| !labels.is_empty());
    if ours().any(|labels| selects(service, &labels)) {
        return true;
    }
    let selector = service.string_map("/spec/selector");
    let near = ours()
        .filter_map(|labels| selector_miss(&selector, &labels))
        .any(|miss| miss.distance * 2 <= miss.wanted.len().max(2));
    let selects_any = objects
        .iter()
        .filter(|one| one.namespace() == service.namespace())
        .any(|one| selects(service, &labels(one)));
    near && !selects_any
}

/// The claims and accounts that a pod's spec names, and the node it is on.
fn named_by(object: &Object) -> Vec<ObjectRef> {
    let template = template_at(object).unwrap_or_default();
    let namespace = object.namespace().unwrap_or_default();
    let volumes =
        object.get(&format!("{template}/spec/volumes")).and_then(Value::as_array).into_iter().flatten();
    let claims = volumes.filter_map(|volume| volume.pointer("/persistentVolumeClaim/claimName")?.as_str());
    claims.map(|name| ObjectRef::new("PersistentVolumeClaim", namespace, name)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::why::worlds::World;

    fn focus_of(world: &World, kind: &str, name: &str) -> Vec<String> {
        let subject =
            world.objects.iter().find(|one| one.kind() == kind && one.name() == name).unwrap().clone();
        of_subjects(&[subject], &world.objects)
            .into_iter()
            .map(|one| format!("{}/{}", one.kind, one.name))
            .collect()
    }

    #[test]
    fn a_deployment_brings_its_pods_and_its_service_and_not_its_neighbours() {
        let world = World::healthy().app("other", &["x"]);
        let focus = focus_of(&world, "Deployment", "web");
        let expected = [
            "Deployment/web",
            "EndpointSlice/web-slice",
            "Pod/web-a",
            "Pod/web-b",
            "ReplicaSet/web-5d4",
            "Service/web",
        ];
        assert_eq!(focus, expected);
        assert_eq!(focus_of(&world, "Service", "web"), expected);
        assert_eq!(focus_of(&world, "Pod", "web-a"), expected);
    }

    #[test]
    fn a_service_that_nearly_selects_the_pods_is_in_focus() {
        let world = World::healthy().set("Service/web", "/spec/selector", json!({"app": "wbe"}));
        assert!(focus_of(&world, "Deployment", "web").contains(&"Service/web".to_owned()));
    }
}
