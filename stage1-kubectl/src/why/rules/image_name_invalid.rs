//! image-name-invalid: the image's name can't be one
//!
//! Capital letters, spaces, a missing repository: the kubelet can't even ask.
//!
//! # In Kubernetes
//! Waiting reason InvalidImageName (`pkg/kubelet/images/types.go`).

use crate::journey::Stage;
use crate::why::image_pull::{PullProblem, findings};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the image's name can't be one
pub const RULE: Rule = Rule {
    id: "image-name-invalid",
    stage: Stage::Kubelet,
    mechanism: Mechanism::ImageNameInvalid,
    lab: "",
    symptom: "InvalidImageName",
    first_command: "kubectl get pod NAME -o jsonpath='{..image}'",
    ruled_out_by: "a registry that answers: image-not-found (5-D)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    findings(facts, PullProblem::InvalidName, |pull| format!("{:?} can't be an image's name", pull.image))
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .asks("web-b", "/spec/containers/0/image", json!("Nginx:1.25"))
        .waiting("web-b", "InvalidImageName", "Failed to apply default image tag \"Nginx:1.25\": couldn't parse image name: invalid reference format: repository name must be lowercase")
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_name_is_shown() {
        assert!(only(&RULE, fault()).message.contains("Nginx:1.25"));
        assert!(find(&RULE, super::super::image_not_found::fault()).is_empty());
    }
}
