//! LimitRanger: what a namespace says about the size of one pod.
//!
//! A LimitRange fills in what containers leave out (default limits and requests) and refuses what is too small, too large, or whose limit is
//! too far above its request. Quota needs it: a pod without requests can't be counted.
//!
//! # In Kubernetes
//! `plugin/pkg/admission/limitranger/admission.go`.

use std::collections::BTreeMap;

use serde_json::Value;
use stage1_kubectl::object::Object;
use stage1_kubectl::quantity::Quantity;
use stage1_kubectl::status::Status;

use super::{AdmissionPlugin, Attributes, ObjectReader, Operation};
use crate::strategies::edit;
use crate::validation::fields::{at, child, child_mut, entries, has, items_mut, list, set, text};

/// Records what was filled in.
const LIMIT_RANGER_ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The plugin.
pub struct LimitRanger;

impl AdmissionPlugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Object,
        _: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Result<(), Status> {
        if attributes.is_pod() && attributes.operation == Operation::Create {
            for limits in reader.list("", "limitranges", &attributes.namespace) {
                edit(object, |pod| merge_pod_resource_requirements(pod, limits.as_value()));
            }
        }
        Ok(())
    }

    fn validate(
        &self,
        attributes: &Attributes,
        object: Option<&Object>,
        _: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Result<(), Status> {
        let Some(object) = object else { return Ok(()) };
        let pod = attributes.is_pod() && attributes.operation == Operation::Create;
        let claim = attributes.is("", "persistentvolumeclaims");
        if !pod && !claim {
            return Ok(());
        }
        for limits in reader.list("", "limitranges", &attributes.namespace) {
            let wrong = if pod {
                check_pod(object.as_value(), limits.as_value())
            } else {
                check_claim(object.as_value(), limits.as_value())
            };
            match wrong.as_slice() {
                [] => {}
                [one] => return Err(attributes.forbidden(one)),
                several => return Err(attributes.forbidden(format!("[{}]", several.join(", ")))),
            }
        }
        Ok(())
    }
}

/// Fills in defaults of `Container` limits.
fn merge_pod_resource_requirements(pod: &mut Value, limit_range: &Value) {
    let (mut limits, mut requests) = (BTreeMap::new(), BTreeMap::new());
    for item in
        list(child(limit_range, "spec"), "limits").iter().filter(|item| text(item, "type") == "Container")
    {
        limits.extend(entries(item, "default").map(|(name, quantity)| (name.clone(), quantity.clone())));
        requests
            .extend(entries(item, "defaultRequest").map(|(name, quantity)| (name.clone(), quantity.clone())));
    }
    let mut notes = Vec::new();
    for (containers, word) in [("containers", "container"), ("initContainers", "init container")] {
        for container in items_mut(child_mut(pod, "spec"), containers) {
            let name = text(container, "name").to_owned();
            let mut set_requests = fill(container, "requests", &requests);
            let mut set_limits = fill(container, "limits", &limits);
            set_requests.sort();
            set_limits.sort();
            if !set_requests.is_empty() {
                notes.push(format!("{} request for {word} {name}", set_requests.join(", ")));
            }
            if !set_limits.is_empty() {
                notes.push(format!("{} limit for {word} {name}", set_limits.join(", ")));
            }
        }
    }
    if !notes.is_empty() {
        let text = format!("LimitRanger plugin set: {}", notes.join("; "));
        set(child_mut(child_mut(pod, "metadata"), "annotations"), LIMIT_RANGER_ANNOTATION, text);
    }
}

fn fill(container: &mut Value, part: &str, defaults: &BTreeMap<String, Value>) -> Vec<String> {
    let mut filled = Vec::new();
    for (name, quantity) in defaults {
        let resources = child_mut(child_mut(container, "resources"), part);
        if !has(resources, name) {
            set(resources, name, quantity.clone());
            filled.push(name.clone());
        }
    }
    filled
}

fn quantity(value: &Value) -> Option<Quantity> {
    value.as_str().and_then(|text| Quantity::parse(text).ok())
}

/// Requests and limits, one side of the comparison each.
struct Usage {
    requests: BTreeMap<String, Quantity>,
    limits: BTreeMap<String, Quantity>,
}

impl Usage {
    fn of(resources: &Value) -> Usage {
        let part =
            |name| entries(resources, name).filter_map(|(k, v)| Some((k.clone(), quantity(v)?))).collect();
        Usage { requests: part("requests"), limits: part("limits") }
    }

    /// The sum of the containers, or the largest init container where that is more.
    fn of_pod(spec: &Value) -> Usage {
        let mut total = Usage { requests: BTreeMap::new(), limits: BTreeMap::new() };
        for container in list(spec, "containers") {
            let one = Usage::of(child(container, "resources"));
            add(&mut total.requests, one.requests);
            add(&mut total.limits, one.limits);
        }
        for container in list(spec, "initContainers") {
            let one = Usage::of(child(container, "resources"));
            raise(&mut total.requests, one.requests);
            raise(&mut total.limits, one.limits);
        }
        total
    }
}

fn add(total: &mut BTreeMap<String, Quantity>, part: BTreeMap<String, Quantity>) {
    for (name, amount) in part {
        let slot = total.entry(name).or_insert_with(Quantity::zero);
        *slot = *slot + amount;
    }
}

fn raise(total: &mut BTreeMap<String, Quantity>, part: BTreeMap<String, Quantity>) {
    for (name, amount) in part {
        let slot = total.entry(name).or_insert(amount);
        *slot = (*slot).max(amount);
    }
}

fn check_pod(pod: &Value, limit_range: &Value) -> Vec<String> {
    let spec = child(pod, "spec");
    let mut wrong = Vec::new();
    for item in list(child(limit_range, "spec"), "limits") {
        match text(item, "type") {
            "Container" => {
                for container in list(spec, "containers").iter().chain(list(spec, "initContainers")) {
                    check(item, &Usage::of(child(container, "resources")), &mut wrong);
                }
            }
            "Pod" => check(item, &Usage::of_pod(spec), &mut wrong),
            _ => {}
        }
    }
    wrong
}

fn check_claim(claim: &Value, limit_range: &Value) -> Vec<String> {
    let usage = Usage::of(at(claim, "/spec/resources"));
    let mut wrong = Vec::new();
    for item in list(child(limit_range, "spec"), "limits")
        .iter()
        .filter(|item| text(item, "type") == "PersistentVolumeClaim")
    {
        check(item, &Usage { limits: BTreeMap::new(), requests: usage.requests.clone() }, &mut wrong);
    }
    wrong
}

fn check(item: &Value, usage: &Usage, wrong: &mut Vec<String>) {
    let kind = text(item, "type");
    let claim = kind == "PersistentVolumeClaim";
    for (name, bound) in entries(item, "min").filter_map(|(name, value)| Some((name, quantity(value)?))) {
        let (request, limit) = (usage.requests.get(name), usage.limits.get(name));
        match (request, limit) {
            (None, _) => {
                wrong.push(format!("minimum {name} usage per {kind} is {bound}.  No request is specified"))
            }
            (Some(request), _) if *request < bound => {
                wrong.push(format!("minimum {name} usage per {kind} is {bound}, but request is {request}"));
            }
            (_, Some(limit)) if *limit < bound => {
                wrong.push(format!("minimum {name} usage per {kind} is {bound}, but limit is {limit}"));
            }
            _ => {}
        }
    }
    for (name, bound) in entries(item, "max").filter_map(|(name, value)| Some((name, quantity(value)?))) {
        let (request, limit) = (usage.requests.get(name), usage.limits.get(name));
        match (request, limit) {
            (_, None) if !claim => {
                wrong.push(format!("maximum {name} usage per {kind} is {bound}.  No limit is specified"))
            }
            (_, Some(limit)) if *limit > bound => {
                wrong.push(format!("maximum {name} usage per {kind} is {bound}, but limit is {limit}"));
            }
            (Some(request), _) if *request > bound => {
                wrong.push(format!("maximum {name} usage per {kind} is {bound}, but request is {request}"));
            }
            _ => {}
        }
    }
    for (name, bound) in
        entries(item, "maxLimitRequestRatio").filter_map(|(name, value)| Some((name, quantity(value)?)))
    {
        let (Some(request), Some(limit)) = (usage.requests.get(name), usage.limits.get(name)) else {
            wrong.push(format!("{name} max limit to request ratio per {kind} is {bound}, but no request is specified or request is 0"));
            continue;
        };
        let ratio = limit.as_f64() / request.as_f64();
        if ratio > bound.as_f64() {
            wrong.push(format!(
                "{name} max limit to request ratio per {kind} is {bound}, but provided ratio is {ratio:.6}"
            ));
        }
    }
}
