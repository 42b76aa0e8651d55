//! DefaultTolerationSeconds: a pod stays five minutes on a node that has gone.
//!
//! The node controller taints a node that it doesn't hear of with `NoExecute`, which evicts. The tolerations that are added here are why a pod
//! isn't evicted at once, and why it is evicted after 300 seconds.
//!
//! # In Kubernetes
//! `plugin/pkg/admission/defaulttolerationseconds/admission.go`.

use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use super::{AdmissionPlugin, Attributes, ObjectReader, Operation};
use crate::strategies::edit;
use crate::validation::fields::{child_mut, list_mut, text};

/// `--default-not-ready-toleration-seconds` and `--default-unreachable-toleration-seconds`: shorter, and a
/// switch that restarts moves every pod of a rack.
pub const DEFAULT_TOLERATION_SECONDS: i64 = 300;

/// The plugin.
pub struct DefaultTolerationSeconds;

impl AdmissionPlugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Object,
        _: Option<&Object>,
        _: &dyn ObjectReader,
    ) -> Result<(), Status> {
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        if attributes.is_pod() && writes {
            edit(object, |pod| {
                let tolerations = list_mut(child_mut(pod, "spec"), "tolerations");
                let missing: Vec<&str> = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
                    .into_iter()
                    .filter(|key| !tolerations.iter().any(|toleration| tolerates(toleration, key)))
                    .collect();
                for key in missing {
                    tolerations.push(json!({
                        "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": DEFAULT_TOLERATION_SECONDS,
                    }));
                }
            });
        }
        Ok(())
    }
}

fn tolerates(toleration: &Value, key: &str) -> bool {
    let (of, effect) = (text(toleration, "key"), text(toleration, "effect"));
    (of == key || of.is_empty()) && (effect == "NoExecute" || effect.is_empty())
}
