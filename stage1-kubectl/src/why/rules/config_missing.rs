//! config-missing: an environment variable names a ConfigMap, Secret or key that isn't there
//!
//! The image is there, the sandbox too; the kubelet can't compute the container's environment, and waits for
//! the object to appear.
//!
//! # In Kubernetes
//! Waiting reason CreateContainerConfigError; `couldn't find key x in ConfigMap ns/y`.

use serde_json::Value;

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::container::containers;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// an environment variable names a ConfigMap, Secret or key that isn't there
pub const RULE: Rule = Rule {
    id: "config-missing",
    stage: Stage::Kubelet,
    mechanism: Mechanism::MissingReference,
    lab: "5-H",
    symptom: "CreateContainerConfigError",
    first_command: "kubectl describe pod NAME",
    ruled_out_by: "ContainerCreating and FailedMount: volume-missing (5-C); a text about users: security-context",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .pods()
        .flat_map(|pod| {
            containers(pod)
                .into_iter()
                .filter_map(|one| {
                    let (_, message) =
                        one.waiting().filter(|(reason, _)| *reason == "CreateContainerConfigError")?;
                    if !message.contains("not found") && !message.contains("couldn't find key") {
                        return None;
                    }
                    let name =
                        message.split('"').nth(1).or_else(|| message.rsplit('/').next()).unwrap_or_default();
                    let list = |field: &str| {
                        one.spec(field)
                            .and_then(Value::as_array)
                            .into_iter()
                            .flatten()
                            .enumerate()
                            .map(|(at, v)| (at, v.clone()))
                            .collect::<Vec<_>>()
                    };
                    let of_env = list("/env")
                        .into_iter()
                        .find(|(_, entry)| entry["valueFrom"].to_string().contains(&format!("\"{name}\"")));
                    let of_all = list("/envFrom")
                        .into_iter()
                        .find(|(_, entry)| entry.to_string().contains(&format!("\"{name}\"")));
                    let field = match (of_env, of_all) {
                        (Some((at, _)), _) => format!("/env/{at}"),
                        (None, Some((at, _))) => format!("/envFrom/{at}"),
                        (None, None) => "/env".into(),
                    };
                    let namespace = pod.namespace().unwrap_or_default();
                    Some(
                        one.finding(facts, &field)
                            .proof(pod, &one.status_pointer("/state/waiting/message"))
                            .message(format!(
                                "{} of {} can't be configured: {message}",
                                one.title(),
                                ObjectRef::of(pod)
                            ))
                            .next(format!("kubectl -n {namespace} get configmaps,secrets")),
                    )
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .set(
            "Pod/web-b",
            "/spec/containers/0/env",
            json!([{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}}]),
        )
        .waiting(
            "web-b",
            "CreateContainerConfigError",
            "couldn't find key color in ConfigMap default/settings",
        )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_variable_is_blamed() {
        let finding = only(&RULE, fault());
        assert_eq!(finding.field, "/spec/containers/0/env/0");
        assert!(find(&RULE, super::super::volume_missing::fault()).is_empty());
        assert!(find(&RULE, super::super::security_context::fault()).is_empty());
    }
}
