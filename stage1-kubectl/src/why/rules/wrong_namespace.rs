//! wrong-namespace: it is there, in another namespace
//!
//! What was asked for isn't in the namespace that the context or `-n` names, but an object of that kind and
//! name is elsewhere. Or the namespace itself isn't there.
//!
//! # In Kubernetes
//! kubectl says `No resources found in X namespace.` for a namespace that there isn't, too.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::facts::Missing;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// it is there, in another namespace
pub const RULE: Rule = Rule {
    id: "wrong-namespace",
    stage: Stage::Kubectl,
    mechanism: Mechanism::ClientWrongNamespace,
    lab: "1-A",
    symptom: "No resources found in … namespace; not found",
    first_command: "kubectl config view --minify -o jsonpath='{..namespace}'",
    ruled_out_by: "not there in any namespace: not-applied",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let astray = facts.missing.iter().filter(|missing| !missing.elsewhere.is_empty());
    astray
        .map(|Missing { object, elsewhere, .. }| {
            let message = match object.kind.as_str() {
                "Namespace" => format!(
                    "there is nothing in namespace {}; workloads are in {}",
                    object.name,
                    elsewhere.join(", ")
                ),
                _ => format!("{object} isn't there, but {} has one of that name", elsewhere.join(", ")),
            };
            Finding::about(ObjectRef::new("kubeconfig", "", "context"))
                .message(message)
                .seen(object.clone(), "answer", "not found")
                .seen(ObjectRef::new("Namespace", "", &elsewhere[0]), "answer", "found")
                .affecting([object.clone()])
                .not(Stage::ApiServer, "the server answers, and has the object in another namespace")
                .next("kubectl config view --minify -o jsonpath='{..namespace}'")
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::empty().missing(Missing {
        object: ObjectRef::new("Deployment", "ghost", "web"),
        manifest: None,
        elsewhere: vec!["shop".into()],
        unknown_kind: None,
        served_as: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_other_namespace_is_named() {
        assert!(only(&RULE, fault()).message.contains("shop"));
        assert!(find(&RULE, super::super::not_applied::fault()).is_empty());
    }
}
