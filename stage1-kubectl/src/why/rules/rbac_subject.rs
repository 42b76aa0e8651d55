//! rbac-subject: a binding names a subject that there isn't
//!
//! RoleBindings take any subject, whether it exists or not. A typo in a service account's name gives rights to
//! nobody, and the account that was meant gets 403.
//!
//! # In Kubernetes
//! `apiserver/pkg/authorization/rbac`: subjects are compared as text.

use serde_json::Value;

use crate::journey::Stage;
use crate::object::Object;
use crate::why::near_miss::nearest;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};
use crate::why::{ObjectRef, Severity};

/// a binding names a subject that there isn't
pub const RULE: Rule = Rule {
    id: "rbac-subject",
    stage: Stage::ApiServer,
    mechanism: Mechanism::RbacSubject,
    lab: "2-B",
    symptom: "forbidden: User \"system:serviceaccount:…\" cannot …",
    first_command: "kubectl auth can-i list pods --as=system:serviceaccount:NS:NAME -n NS",
    ruled_out_by: "401 instead of 403: credential-expired (1-C)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let bindings = facts.focused("RoleBinding").chain(facts.focused("ClusterRoleBinding"));
    bindings.flat_map(|binding| {
        let subjects = binding.get("/subjects").and_then(Value::as_array).into_iter().flatten().enumerate();
        subjects.filter_map(|(at, subject)| {
            if subject["kind"] != "ServiceAccount" {
                return None;
            }
            let name = subject["name"].as_str()?;
            let namespace = subject["namespace"].as_str().or(binding.namespace())?;
            let accounts = facts.all("ServiceAccount").iter().filter(|account| account.namespace() == Some(namespace));
            let names: Vec<&str> = accounts.map(Object::name).collect();
            if names.is_empty() || names.contains(&name) {
                return None;
            }
            let meant = nearest(name, names.iter().copied())?;
            let pods = facts.all("Pod").iter().filter(|pod| {
                pod.namespace() == Some(namespace) && pod.get_str("/spec/serviceAccountName") == Some(meant)
            });
            let users: Vec<ObjectRef> = pods.map(ObjectRef::of).collect();
            let severity = if users.is_empty() { Severity::Warning } else { Severity::Error };
            Some(
                Finding::at(binding, &format!("/subjects/{at}/name"))
                    .severity(severity)
                    .message(format!(
                        "{} gives its rights to service account {name}, which there isn't; there is {meant}",
                        ObjectRef::of(binding)
                    ))
                    .seen(ObjectRef::new("ServiceAccount", namespace, meant), ".metadata.name", meant)
                    .affecting(users)
                    .not(Stage::Kubectl, "403, not 401: the server knows the account, and no role allows it")
                    .next(format!("kubectl auth can-i --list --as=system:serviceaccount:{namespace}:{meant} -n {namespace}")),
            )
        }).collect::<Vec<_>>()
    }).collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    let account = json!({"kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": "default"}});
    let binding = json!({"kind": "RoleBinding", "metadata": {"name": "reader", "namespace": "default"},
        "subjects": [{"kind": "ServiceAccount", "name": "raeder", "namespace": "default"}]});
    World::healthy().with(account).with(binding).set("Pod/web-a", "/spec/serviceAccountName", json!("reader"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_account_that_was_meant_is_shown() {
        let finding = only(&RULE, fault());
        assert!(finding.message.ends_with("there is reader"));
        assert_eq!(finding.object.kind, "RoleBinding");
    }

    #[test]
    fn silent_when_the_subject_is_there_or_its_account_was_never_made() {
        assert!(
            find(&RULE, fault().set("RoleBinding/reader", "/subjects/0/name", json!("reader"))).is_empty()
        );
        assert!(
            find(&RULE, fault().set("RoleBinding/reader", "/subjects/0/name", json!("elsewhere"))).is_empty()
        );
    }
}
