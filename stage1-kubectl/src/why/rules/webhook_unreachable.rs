//! webhook-unreachable: an admission webhook doesn't answer, and its policy is to fail
//!
//! Every write that the webhook is asked about fails. The service behind it is gone, or has no endpoint: the
//! control plane is well, and yet nothing can be created.
//!
//! # In Kubernetes
//! `apiserver/pkg/admission/plugin/webhook`: `failed calling webhook "x": …`; `failurePolicy: Fail`.

use serde_json::Value;

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::Severity;
use crate::why::refusal::{Gate, refusals};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// an admission webhook doesn't answer, and its policy is to fail
pub const RULE: Rule = Rule {
    id: "webhook-unreachable",
    stage: Stage::ApiServer,
    mechanism: Mechanism::WebhookUnreachable,
    lab: "2-C",
    symptom: "Internal error occurred: failed calling webhook",
    first_command: "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o yaml",
    ruled_out_by: "the webhook answered and said no: webhook-denied",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let refused = refusals(facts);
    let named = |name: &str| refused.iter().find(|one| one.gate == Gate::WebhookUnreachable(name.to_owned()));
    let mut found = Vec::new();
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        for configuration in facts.all(kind) {
            let webhooks =
                configuration.get("/webhooks").and_then(Value::as_array).into_iter().flatten().enumerate();
            for (at, webhook) in webhooks {
                let name = webhook["name"].as_str().unwrap_or_default();
                let event = named(name);
                let dead = webhook["failurePolicy"] != "Ignore" && backend_is_gone(facts, webhook);
                if event.is_none() && !dead {
                    continue;
                }
                let mut finding = Finding::at(configuration, &format!("/webhooks/{at}/clientConfig"))
                    .proof(configuration, &format!("/webhooks/{at}/failurePolicy"))
                    .message(format!("webhook {name} doesn't answer, and its failurePolicy is Fail"))
                    .next(format!("kubectl get {} {} -o yaml", kind.to_lowercase(), configuration.name()));
                if let Some(one) = event {
                    finding = finding.event(Some(one.event)).affecting([ObjectRef::of(one.owner)]);
                } else if !facts.wide {
                    finding = finding.severity(Severity::Warning);
                }
                found.push(finding);
            }
        }
    }
    let unknown = refused.iter().filter(|_| found.is_empty()).filter_map(|one| match &one.gate {
        Gate::WebhookUnreachable(name) => Some(
            Finding::about(ObjectRef::new("ValidatingWebhookConfiguration", "", name))
                .message(format!("webhook {name} doesn't answer: {}", one.message))
                .event(Some(one.event))
                .affecting([ObjectRef::of(one.owner)])
                .next("kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"),
        ),
        _ => None,
    });
    let unknown: Vec<Finding> = unknown.collect();
    found.extend(unknown);
    found
}

/// Whether the Service behind a webhook can be seen not to work.
fn backend_is_gone(facts: &Facts, webhook: &Value) -> bool {
    let part = |name: &str| webhook.pointer(&format!("/clientConfig/service/{name}")).and_then(Value::as_str);
    let (Some(namespace), Some(name)) = (part("namespace"), part("name")) else { return false };
    // Only what was read can be missing.
    let seen = facts.all("Service").iter().any(|service| service.namespace() == Some(namespace));
    seen && facts.find("Service", namespace, name).is_none()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    let webhook = json!({"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "v"},
        "webhooks": [{"name": "v.x.io", "failurePolicy": "Fail",
            "clientConfig": {"service": {"namespace": "default", "name": "gone"}}}]});
    World::healthy().with(webhook).create_refused(
        "Internal error occurred: failed calling webhook \"v.x.io\": failed to call webhook: Post \"https://gone\": EOF",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_configuration_is_blamed_with_its_policy() {
        let finding = only(&RULE, fault());
        assert_eq!(finding.evidence[1].value, "Fail");
        assert!(finding.affects.iter().any(|one| one.kind == "ReplicaSet"));
    }

    #[test]
    fn a_missing_backend_is_seen_before_anything_is_refused() {
        let world = fault().without(&["Event/e0"]);
        assert_eq!(find(&RULE, world).len(), 1);
        let ignored = fault().without(&["Event/e0"]).set(
            "ValidatingWebhookConfiguration/v",
            "/webhooks/0/failurePolicy",
            json!("Ignore"),
        );
        assert!(find(&RULE, ignored).is_empty());
    }

    #[test]
    fn silent_when_the_webhook_answered() {
        assert!(find(&RULE, super::super::webhook_denied::fault()).is_empty());
    }
}
