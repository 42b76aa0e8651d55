//! image-denied: the registry wants other credentials
//!
//! The registry answers 401 or 403. For a private image the pull secret is missing, wrong, or in another
//! namespace; some registries say the same for an image that isn't there.
//!
//! # In Kubernetes
//! `pkg/credentialprovider`; event FailedToRetrieveImagePullSecret.

use crate::journey::Stage;
use crate::why::image_pull::{PullProblem, findings};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the registry wants other credentials
pub const RULE: Rule = Rule {
    id: "image-denied",
    stage: Stage::Kubelet,
    mechanism: Mechanism::ImageDenied,
    lab: "",
    symptom: "ErrImagePull … unauthorized / pull access denied",
    first_command: "kubectl describe pod NAME; kubectl get pod NAME -o jsonpath='{.spec.imagePullSecrets}'",
    ruled_out_by: "not found: image-not-found (5-D)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    findings(facts, PullProblem::Denied, |pull| {
        let missing = facts.event(pull.container.pod, "FailedToRetrieveImagePullSecret", "").is_some();
        let missing = if missing { "; a pull secret that the pod names isn't there" } else { "" };
        format!("the registry refuses image {}: wrong name or wrong credentials{missing}", pull.image)
    })
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .asks("web-b", "/spec/containers/0/image", json!("registry.example.org/private:1"))
        .waiting(
            "web-b",
            "ErrImagePull",
            "failed to authorize: failed to fetch anonymous token: 401 Unauthorized",
        )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn a_refusal_is_told_from_an_absence() {
        assert!(only(&RULE, fault()).message.contains("registry.example.org/private:1"));
        assert!(find(&RULE, super::super::image_not_found::fault()).is_empty());
    }
}
