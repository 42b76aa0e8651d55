//! not-applied: it was never sent to this cluster
//!
//! The object that a file or a name means isn't on the server, in no namespace: nobody has applied it here, or
//! somebody has deleted it.
//!
//! # In Kubernetes
//! 404 with reason NotFound.

use crate::journey::Stage;
use crate::why::facts::Missing;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// it was never sent to this cluster
pub const RULE: Rule = Rule {
    id: "not-applied",
    stage: Stage::Kubectl,
    mechanism: Mechanism::NotApplied,
    lab: "",
    symptom: "Error from server (NotFound)",
    first_command: "kubectl config current-context",
    ruled_out_by: "found in another namespace: wrong-namespace (1-A); a kind that the server doesn't serve: api-version-removed (1-E)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let gone =
        facts.missing.iter().filter(|missing| missing.elsewhere.is_empty() && missing.unknown_kind.is_none());
    gone.map(|Missing { object, manifest, .. }| {
        let next = if manifest.is_some() { "kubectl diff -f FILE" } else { "kubectl config current-context" };
        Finding::about(object.clone())
            .message(format!("{object} isn't on the server"))
            .seen(object.clone(), "answer", "not found")
            .next(next)
    })
    .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::empty().missing(Missing {
        object: crate::why::ObjectRef::new("Deployment", "default", "web"),
        manifest: None,
        elsewhere: Vec::new(),
        unknown_kind: None,
        served_as: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn an_object_that_is_nowhere_was_not_applied() {
        assert_eq!(only(&RULE, fault()).object.name, "web");
        assert!(find(&RULE, super::super::wrong_namespace::fault()).is_empty());
        assert!(find(&RULE, super::super::api_version_removed::fault()).is_empty());
    }
}
