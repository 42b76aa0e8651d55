//! silent-mutation: the pod isn't what its template says: admission changed it
//!
//! A mutating webhook rewrites pods on their way in. The manifest says 512Mi, the pod has 16Mi, and everybody
//! looks at the manifest. Only told when the pod is in trouble, since rewriting is what such webhooks are for.
//!
//! # In Kubernetes
//! `apiserver/pkg/admission/plugin/webhook/mutating`.

use serde_json::Value;

use crate::journey::Stage;
use crate::object::Object;
use crate::why::ObjectRef;
use crate::why::container::containers;
use crate::why::facts::{has_condition, template_at};
use crate::why::finding::json_path;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the pod isn't what its template says: admission changed it
pub const RULE: Rule = Rule {
    id: "silent-mutation",
    stage: Stage::ApiServer,
    mechanism: Mechanism::SilentMutation,
    lab: "2-D",
    symptom: "OOMKilled though the manifest has a large limit",
    first_command: "kubectl get deploy,pod -o jsonpath='{..resources}'",
    ruled_out_by: "pod and template agree: oom-killed (5-E)",
    explained: Explained::Never,
    find,
};

const FIELDS: [&str; 4] = ["/image", "/command", "/resources/limits", "/resources/requests"];

fn find(facts: &Facts) -> Vec<Finding> {
    let troubled = facts.pods().filter(|pod| !has_condition(pod, "Ready", "True") || restarts(pod));
    troubled
        .flat_map(|pod| {
            let Some(owner) = facts.owner(pod) else { return Vec::new() };
            let Some(template) = template_at(owner) else { return Vec::new() };
            let changed = containers(pod).into_iter().flat_map(|one| {
                let differs = |field: &&&str| {
                    let said = owner.get(&format!("{template}{}{field}", one.spec_at));
                    let name = owner.get(&format!("{template}{}/name", one.spec_at));
                    // A default that was filled in is no change.
                    said.is_some_and(|said| !agrees(said, one.spec(field)))
                        && name.and_then(Value::as_str) == Some(one.name)
                };
                FIELDS
                    .iter()
                    .filter(differs)
                    .map(|field| format!("{}{field}", one.spec_at))
                    .collect::<Vec<_>>()
            });
            changed
                .map(|at| {
                    let webhook = facts.all("MutatingWebhookConfiguration").first();
                    let mut finding = match webhook {
                        Some(webhook) => Finding::at(webhook, "/webhooks"),
                        None => Finding::about(ObjectRef::component("admission")),
                    };
                    finding.affects.insert(ObjectRef::of(pod));
                    finding
                        .proof(pod, &at)
                        .proof(owner, &format!("{template}{at}"))
                        .message(format!(
                            "{} of {} isn't what {} says: admission changed it",
                            json_path(&at),
                            ObjectRef::of(pod),
                            ObjectRef::of(owner)
                        ))
                        .not(Stage::Kubelet, "the kubelet runs the pod as it is stored")
                        .next("kubectl get mutatingwebhookconfigurations -o yaml")
                })
                .collect()
        })
        .collect()
}

/// Whether a field of a pod is as its template says; what was added to a map (by a LimitRange, say) is no change.
fn agrees(said: &Value, has: Option<&Value>) -> bool {
    match (said, has) {
        (Value::Object(said), Some(Value::Object(has))) => {
            said.iter().all(|(key, value)| has.get(key) == Some(value))
        }
        (said, has) => has == Some(said),
    }
}

fn restarts(pod: &Object) -> bool {
    containers(pod).iter().any(|one| one.restarts() > 0)
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    let webhook = json!({"kind": "MutatingWebhookConfiguration", "metadata": {"name": "m"}, "webhooks": [{"name": "m.x.io"}]});
    World::healthy().with(webhook).crashed("web-a", 137, "OOMKilled").set(
        "Pod/web-a",
        "/spec/containers/0/resources/limits/memory",
        json!("16Mi"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{World, find, only};

    #[test]
    fn both_values_are_shown() {
        let finding = only(&RULE, fault());
        assert_eq!(finding.object.kind, "MutatingWebhookConfiguration");
        assert_eq!(finding.evidence[1].value, json!({"memory": "16Mi"}));
        assert_eq!(finding.evidence[2].value, json!({"memory": "128Mi"}));
    }

    #[test]
    fn silent_when_something_was_only_added() {
        let world = World::healthy().crashed("web-a", 1, "Error");
        let world = world.set("Pod/web-a", "/spec/containers/0/resources/limits/cpu", json!("1"));
        assert!(find(&RULE, world).is_empty());
    }

    #[test]
    fn silent_when_pod_and_template_agree_and_while_the_pod_is_well() {
        assert!(find(&RULE, super::super::oom_killed::fault()).is_empty());
        let well = World::healthy().set("Pod/web-a", "/spec/containers/0/image", json!("mirror/nginx:1.25"));
        assert!(find(&RULE, well).is_empty());
    }
}
