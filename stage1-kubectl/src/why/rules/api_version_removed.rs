//! api-version-removed: the server doesn't serve this API version
//!
//! A manifest from an older time, or a custom resource whose definition isn't installed.
//!
//! # In Kubernetes
//! kubectl says `no matches for kind "Ingress" in version "extensions/v1beta1"`.

use crate::journey::Stage;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the server doesn't serve this API version
pub const RULE: Rule = Rule {
    id: "api-version-removed",
    stage: Stage::Kubectl,
    mechanism: Mechanism::RemovedApiVersion,
    lab: "1-E",
    symptom: "no matches for kind … in version …",
    first_command: "kubectl api-resources",
    ruled_out_by: "a kind that is served, but no such object: not-applied",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let unknown = facts.missing.iter().filter_map(|missing| Some((missing, missing.unknown_kind.as_ref()?)));
    unknown
        .map(|(missing, version)| {
            let served = match missing.served_as.as_slice() {
                [] => "no version of it: is a CustomResourceDefinition missing?".to_owned(),
                versions => format!("{}: the manifest is older than the server", versions.join(", ")),
            };
            Finding::about(missing.object.clone())
                .message(format!(
                    "the server has no {} in version {version}; it serves {served}",
                    missing.object.kind
                ))
                .seen(missing.object.clone(), ".apiVersion", version.clone())
                .seen(
                    crate::why::ObjectRef::component("kube-apiserver"),
                    "discovery",
                    missing.served_as.clone(),
                )
                .next("kubectl api-resources")
        })
        .collect()
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::empty().missing(crate::why::facts::Missing {
        object: crate::why::ObjectRef::new("Ingress", "default", "web"),
        manifest: None,
        elsewhere: Vec::new(),
        unknown_kind: Some("extensions/v1beta1".into()),
        served_as: vec!["networking.k8s.io/v1".into()],
    })
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_version_that_is_served_is_shown() {
        assert!(only(&RULE, fault()).message.contains("networking.k8s.io/v1"));
        assert!(find(&RULE, super::super::not_applied::fault()).is_empty());
    }
}
