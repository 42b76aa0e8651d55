//! Priority: from the name of a class to the number that the scheduler compares.
//!
//! Users name a PriorityClass; the number and the preemption policy are copied into the pod here, so that the scheduler needs no lookup, and
//! so that a pod keeps its priority when the class goes. A number that a user writes must be the one that would be computed.
//!
//! # In Kubernetes
//! `plugin/pkg/admission/priority/admission.go`.

use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use super::{AdmissionPlugin, Attributes, ObjectReader, Operation};
use crate::strategies::edit;
use crate::validation::fields::{child_mut, set};

/// Priority of pods when no class is the default.
const DEFAULT_PRIORITY_WHEN_NO_DEFAULT_CLASS_EXISTS: i64 = 0;

/// The plugin.
pub struct Priority;

impl AdmissionPlugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Object,
        old: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Result<(), Status> {
        if !attributes.is_pod() {
            return Ok(());
        }
        match (attributes.operation, old) {
            (Operation::Create, _) => admit_pod(attributes, object, reader),
            // An update that leaves the numbers out keeps them.
            (Operation::Update, Some(old)) => {
                for pointer in ["/spec/priority", "/spec/preemptionPolicy"] {
                    if object.get(pointer).is_none()
                        && let Some(value) = old.get(pointer)
                    {
                        object.set(pointer, value.clone());
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn validate(
        &self,
        attributes: &Attributes,
        object: Option<&Object>,
        _: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Result<(), Status> {
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        let Some(object) = object.filter(|_| attributes.is("scheduling.k8s.io", "priorityclasses") && writes)
        else {
            return Ok(());
        };
        if !is_global_default(object) {
            return Ok(());
        }
        match default_class(reader).filter(|class| class.name() != object.name()) {
            Some(class) => {
                let name = class.name();
                let why =
                    format!("PriorityClass {name} is already marked as default. Only one default can exist");
                Err(attributes.forbidden(why))
            }
            None => Ok(()),
        }
    }
}

fn is_global_default(class: &Object) -> bool {
    class.get("/globalDefault").and_then(serde_json::Value::as_bool).unwrap_or(false)
}

/// The default class with the lowest value: two can exist for a moment.
fn default_class(reader: &dyn ObjectReader) -> Option<std::sync::Arc<Object>> {
    let classes = reader.list("scheduling.k8s.io", "priorityclasses", "");
    classes
        .into_iter()
        .filter(|class| is_global_default(class))
        .min_by_key(|class| class.get_i64("/value").unwrap_or(0))
}

fn admit_pod(attributes: &Attributes, pod: &mut Object, reader: &dyn ObjectReader) -> Result<(), Status> {
    let class = match pod.get_str("/spec/priorityClassName").unwrap_or_default() {
        "" => default_class(reader),
        name => match reader.get("scheduling.k8s.io", "priorityclasses", "", name) {
            Some(class) => Some(class),
            None => return Err(attributes.forbidden(format!("no PriorityClass with name {name} was found"))),
        },
    };
    let computed = |pointer: &str| class.as_ref().and_then(|class| class.get(pointer)).cloned();
    let priority =
        computed("/value").and_then(|v| v.as_i64()).unwrap_or(DEFAULT_PRIORITY_WHEN_NO_DEFAULT_CLASS_EXISTS);
    let policy = computed("/preemptionPolicy").and_then(|v| v.as_str().map(str::to_owned));
    let policy = policy.unwrap_or_else(|| "PreemptLowerPriority".to_owned());
    if let Some(given) = pod.get_i64("/spec/priority").filter(|given| *given != priority) {
        return Err(attributes.forbidden(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed \
             {priority} from the given PriorityClass name"
        )));
    }
    if let Some(given) = pod.get_str("/spec/preemptionPolicy").filter(|given| *given != policy) {
        return Err(attributes.forbidden(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed \
             {policy} from the given PriorityClass name"
        )));
    }
    let name = class.map(|class| class.name().to_owned());
    edit(pod, |pod| {
        let spec = child_mut(pod, "spec");
        set(spec, "priority", priority);
        set(spec, "preemptionPolicy", policy);
        if let Some(name) = name {
            set(spec, "priorityClassName", name);
        }
    });
    Ok(())
}
