//! RuntimeClass: a pod takes the overhead and the node selection of its runtime.
//!
//! # In Kubernetes
//! `plugin/pkg/admission/runtimeclass/admission.go`.

use serde_json::Value;
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use super::{AdmissionPlugin, Attributes, ObjectReader, Operation};
use crate::strategies::edit;
use crate::validation::fields::{at, child, child_mut, entries, has, list, list_mut, set};

/// The plugin.
pub struct RuntimeClass;

impl AdmissionPlugin for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Object,
        _: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Result<(), Status> {
        if !attributes.is_pod() || attributes.operation != Operation::Create {
            return Ok(());
        }
        let Some(name) = object.get_str("/spec/runtimeClassName").map(str::to_owned) else {
            return match object.get("/spec/overhead") {
                Some(_) => Err(attributes.forbidden(
                    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
                )),
                None => Ok(()),
            };
        };
        let Some(class) = reader.get("node.k8s.io", "runtimeclasses", "", &name) else {
            return Err(attributes.forbidden(format!("pod rejected: RuntimeClass \"{name}\" not found")));
        };
        let class = class.as_value();
        let overhead = at(class, "/overhead/podFixed");
        if let Some(given) = object.get("/spec/overhead")
            && given != overhead
        {
            return Err(attributes
                .forbidden("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"));
        }
        let conflict = schedule(object, child(class, "scheduling"), overhead);
        conflict.map_or(Ok(()), |why| Err(attributes.forbidden(why)))
    }
}

/// Merges overhead, node selector and tolerations; the answer is a conflict.
fn schedule(pod: &mut Object, scheduling: &Value, overhead: &Value) -> Option<String> {
    let mut conflict = None;
    edit(pod, |pod| {
        let spec = child_mut(pod, "spec");
        if !overhead.is_null() {
            set(spec, "overhead", overhead.clone());
        }
        for (key, value) in entries(scheduling, "nodeSelector") {
            let selector = child_mut(spec, "nodeSelector");
            if has(selector, key) && child(selector, key) != value {
                let (mine, theirs) =
                    (child(selector, key).as_str().unwrap_or_default(), value.as_str().unwrap_or_default());
                conflict =
                    Some(format!("conflict: pod nodeSelector {key}={mine} and RuntimeClass {key}={theirs}"));
            }
            set(selector, key, value.clone());
        }
        for toleration in list(scheduling, "tolerations") {
            let tolerations = list_mut(spec, "tolerations");
            if !tolerations.contains(toleration) {
                tolerations.push(toleration.clone());
            }
        }
    });
    conflict
}
