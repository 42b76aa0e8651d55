//! field-ownership-conflict: two writers set the same field
//!
//! An autoscaler sets the number of replicas, and a manifest that is applied again and again sets it too: the
//! number jumps.
//!
//! # In Kubernetes
//! `managedFields` name who set what; server-side apply answers 409 with the other manager's name.

use serde_json::Value;

use crate::journey::Stage;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};
use crate::why::{ObjectRef, Severity};

/// two writers set the same field
pub const RULE: Rule = Rule {
    id: "field-ownership-conflict",
    stage: Stage::Kubectl,
    mechanism: Mechanism::FieldOwnershipConflict,
    lab: "1-D",
    symptom: "Apply failed with 1 conflict; replicas jump back",
    first_command: "kubectl get deploy NAME -o yaml --show-managed-fields",
    ruled_out_by: "one manager only: nobody else writes",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let scalers = facts.all("HorizontalPodAutoscaler").iter();
    scalers
        .filter_map(|scaler| {
            let target =
                |part: &str| scaler.get_str(&format!("/spec/scaleTargetRef/{part}")).unwrap_or_default();
            let object =
                facts.find(target("kind"), scaler.namespace().unwrap_or_default(), target("name"))?;
            if !facts.in_focus(object) {
                return None;
            }
            let managers = object.get("/metadata/managedFields").and_then(Value::as_array);
            let applies = |entry: &&Value| {
                entry["operation"] == "Apply" && entry.pointer("/fieldsV1/f:spec/f:replicas").is_some()
            };
            let by_apply =
                managers.into_iter().flatten().find(applies).and_then(|entry| entry["manager"].as_str());
            let last =
                object.annotation("kubectl.kubernetes.io/last-applied-configuration").unwrap_or_default();
            let last: Value = serde_json::from_str(last).unwrap_or_default();
            let by_file = last.pointer("/spec/replicas").map(|_| "kubectl apply");
            let writer = by_apply.or(by_file)?;
            Some(
                Finding::at(object, "/spec/replicas")
                    .severity(Severity::Warning)
                    .message(format!(
                        "{writer} sets the replicas of {}, and so does {}",
                        ObjectRef::of(object),
                        ObjectRef::of(scaler)
                    ))
                    .proof(scaler, "/spec/scaleTargetRef/name")
                    .next(format!(
                        "kubectl get {} -o yaml --show-managed-fields",
                        ObjectRef::of(object).arguments()
                    )),
            )
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    let scaler = json!({"kind": "HorizontalPodAutoscaler", "metadata": {"name": "h", "namespace": "default"},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}}});
    let managed =
        json!([{"manager": "ci", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
    World::healthy().with(scaler).set("Deployment/web", "/metadata/managedFields", managed)
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn both_writers_are_named() {
        assert!(only(&RULE, fault()).message.starts_with("ci sets the replicas"));
    }

    #[test]
    fn silent_when_the_manifest_leaves_the_number_out() {
        assert!(find(&RULE, fault().unset("Deployment/web", "/metadata/managedFields")).is_empty());
    }
}
