//! Field selectors: which fields of a kind may be selected by, and what they hold.
//!
//! *Step 2 of a pod's journey.* Before: [`crate::handlers::options`] parsed `spec.nodeName=node-1`. After: lists and watches
//! keep the objects that match; a kubelet sees the pods of its node and no others.
//!
//! Unlike labels, fields are selectable only where a kind says so. Every kind has its name (and namespace); a few have
//! more, and each of them refuses the others in words of its own.
//!
//! # In Kubernetes
//! `pkg/apis/core/v1/conversion.go` (`AddFieldLabelConversionsFor…`) and the `ToSelectableFields` of each strategy.

use serde_json::Value;
use stage1_kubectl::object::Object;
use stage1_kubectl::selector::{FieldSelector, LabelSelector};
use stage1_kubectl::status::Status;

use crate::registry::ResourceInfo;

const POD: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
];
const EVENT: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];
const REGARDING: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

/// Selectable fields of a resource beyond name and namespace, and whether the kind refuses others in its own words.
fn extra_fields(info: &ResourceInfo) -> (&'static [&'static str], bool) {
    match (info.group, info.resource) {
        ("", "pods") => (POD, true),
        ("", "nodes") => (&["spec.unschedulable"], true),
        ("", "events") => (EVENT, true),
        ("events.k8s.io", "events") => (REGARDING, true),
        ("", "namespaces") => (&["status.phase"], true),
        ("", "secrets") => (&["type"], true),
        ("", "services") => (&["spec.clusterIP", "spec.type"], true),
        ("", "replicationcontrollers") | ("apps", "replicasets") => (&["status.replicas"], true),
        ("batch", "jobs") => (&["status.successful"], true),
        ("apps", "statefulsets") => (&["status.successful"], true),
        ("certificates.k8s.io", "certificatesigningrequests") => (&["spec.signerName"], true),
        _ => (&[], false),
    }
}

/// Refuses a selector on a field that the kind doesn't offer.
///
/// # Errors
/// 400 in the kind's words.
pub fn check_field_selector(info: &ResourceInfo, selector: &FieldSelector) -> Result<(), Status> {
    let kind = info.custom_kind();
    let (extra, own_words) = if kind.is_some() { (&[][..], true) } else { extra_fields(info) };
    for (field, _, _) in &selector.terms {
        if kind.as_ref().is_some_and(|kind| kind.selectable_fields.contains(field)) {
            continue;
        }
        let known = field == "metadata.name"
            || (field == "metadata.namespace" && (info.namespaced || !own_words))
            || extra.contains(&field.as_str());
        if known {
            continue;
        }
        return Err(Status::bad_request(match own_words {
            true => format!("field label not supported: {field}"),
            false => {
                format!(
                    "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                )
            }
        }));
    }
    Ok(())
}

/// What a selectable field of an object holds.
pub fn field_value<'a>(object: &'a Object, field: &str) -> Option<std::borrow::Cow<'a, str>> {
    let pointer = match field {
        "source" => "/source/component".to_owned(),
        "status.successful" => "/status/succeeded".to_owned(),
        "status.podIPs" => "/status/podIPs/0/ip".to_owned(),
        field => format!("/{}", field.replace('.', "/")),
    };
    Some(match object.get(&pointer) {
        Some(Value::String(text)) => text.as_str().into(),
        Some(other @ (Value::Bool(_) | Value::Number(_))) => other.to_string().into(),
        // A boolean or number that is absent is selectable as its zero.
        _ => match field {
            "spec.unschedulable" | "spec.hostNetwork" => "false".into(),
            "status.replicas" | "status.successful" => "0".into(),
            _ => "".into(),
        },
    })
}

/// Whether an object is among those that a list or watch asks for.
pub fn matches(object: &Object, labels: &LabelSelector, fields: &FieldSelector) -> bool {
    let fields_match = fields.terms.iter().all(|(field, value, equal)| {
        let found = field_value(object, field).unwrap_or_default();
        (found == value.as_str()) == *equal
    });
    fields_match && (labels.is_empty() || labels.matches(&object.labels()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registry;

    #[test]
    fn a_kind_refuses_foreign_fields_in_its_words() {
        let selector = FieldSelector::parse("data.a=1").expect("parses");
        let refuse = |r| check_field_selector(registry::find("", "v1", r).expect("registered"), &selector);
        assert_eq!(refuse("pods").expect_err("refused").message, "field label not supported: data.a");
        assert_eq!(
            refuse("configmaps").expect_err("refused").message,
            "\"data.a\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
    }

    #[test]
    fn a_kubelet_finds_the_pods_of_its_node() {
        let pod = |node: &str| Object::from_value(json!({ "spec": { "nodeName": node } })).expect("object");
        let selector = FieldSelector::parse("spec.nodeName=node-1").expect("parses");
        assert!(matches(&pod("node-1"), &LabelSelector::everything(), &selector));
        assert!(!matches(&pod("node-2"), &LabelSelector::everything(), &selector));
    }
}
