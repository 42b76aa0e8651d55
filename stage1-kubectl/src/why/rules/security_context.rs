//! security-context: the pod's security settings don't fit its image or node
//!
//! `runAsNonRoot` with an image whose user is root or a name, a seccomp or AppArmor profile that isn't on the
//! node.
//!
//! # In Kubernetes
//! Waiting reasons CreateContainerConfigError, CreateContainerError; `container has runAsNonRoot and image will
//! run as root`.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::container::containers;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the pod's security settings don't fit its image or node
pub const RULE: Rule = Rule {
    id: "security-context",
    stage: Stage::Kubelet,
    mechanism: Mechanism::SecurityContext,
    lab: "",
    symptom: "CreateContainerConfigError … runAsNonRoot",
    first_command: "kubectl describe pod NAME",
    ruled_out_by: "a text that names a ConfigMap or Secret: config-missing (5-H)",
    explained: Explained::Never,
    find,
};

const TEXTS: [&str; 5] = ["runAsNonRoot", "seccomp", "apparmor", "AppArmor", "SELinux"];

fn find(facts: &Facts) -> Vec<Finding> {
    facts
        .pods()
        .flat_map(|pod| {
            containers(pod)
                .into_iter()
                .filter_map(|one| {
                    let (reason, message) = one.waiting()?;
                    let known = ["CreateContainerConfigError", "CreateContainerError", "RunContainerError"]
                        .contains(&reason);
                    if !known || !TEXTS.iter().any(|text| message.contains(text)) {
                        return None;
                    }
                    let field = if one.spec("/securityContext").is_some() {
                        format!("{}/securityContext", one.spec_at)
                    } else {
                        "/spec/securityContext".into()
                    };
                    Some(
                        Finding::in_pod(facts, pod, &field)
                            .proof(pod, &one.status_pointer("/state/waiting/message"))
                            .message(format!(
                                "{} of {} may not run so: {message}",
                                one.title(),
                                ObjectRef::of(pod)
                            )),
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

    World::healthy().set("Pod/web-b", "/spec/securityContext", json!({"runAsNonRoot": true})).waiting(
        "web-b",
        "CreateContainerConfigError",
        "container has runAsNonRoot and image will run as root (pod: \"web-b\", container: c)",
    )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_setting_is_blamed() {
        assert_eq!(only(&RULE, fault()).field, "/spec/securityContext");
        assert!(find(&RULE, super::super::config_missing::fault()).is_empty());
    }
}
