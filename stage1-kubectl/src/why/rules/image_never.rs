//! image-never: the image may not be pulled, and the node doesn't have it
//!
//! `imagePullPolicy: Never` and no such image on the node where the pod landed.
//!
//! # In Kubernetes
//! Waiting reason ErrImageNeverPull.

use crate::journey::Stage;
use crate::why::image_pull::{PullProblem, findings};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the image may not be pulled, and the node doesn't have it
pub const RULE: Rule = Rule {
    id: "image-never",
    stage: Stage::Kubelet,
    mechanism: Mechanism::ImageNotPresent,
    lab: "",
    symptom: "ErrImageNeverPull",
    first_command: "kubectl get pod NAME -o jsonpath='{..imagePullPolicy}'",
    ruled_out_by: "a pull that was tried: image-not-found (5-D)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    findings(facts, PullProblem::NeverPulled, |pull| {
        format!("the node doesn't have image {}, and imagePullPolicy is Never", pull.image)
    })
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy().set("Pod/web-b", "/spec/containers/0/imagePullPolicy", json!("Never")).waiting(
        "web-b",
        "ErrImageNeverPull",
        "Container image \"nginx:1.25\" is not present with pull policy of Never",
    )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_policy_is_told() {
        assert!(only(&RULE, fault()).message.ends_with("Never"));
        assert!(find(&RULE, super::super::image_not_found::fault()).is_empty());
    }
}
