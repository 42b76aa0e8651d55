//! image-not-found: the registry has no such image or tag
//!
//! ErrImagePull, then ImagePullBackOff: the registry answers `not found`. Where the registry can't be reached
//! at all, a tag that nobody has, beside another tag of the same image that runs, is told as a typo, too.
//!
//! # In Kubernetes
//! `pkg/kubelet/images/image_manager.go`; texts of the registry and of containerd.

use crate::journey::Stage;
use crate::why::image_pull::{PullProblem, findings};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the registry has no such image or tag
pub const RULE: Rule = Rule {
    id: "image-not-found",
    stage: Stage::Kubelet,
    mechanism: Mechanism::ImageNotFound,
    lab: "5-D",
    symptom: "ErrImagePull, ImagePullBackOff",
    first_command: "kubectl describe pod NAME",
    ruled_out_by: "unauthorized or denied: image-denied; connection refused, no such host: registry-unreachable",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    findings(facts, PullProblem::NotFound, |pull| {
        format!("image {} isn't in its registry{}", pull.image, pull.known_tags())
    })
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .asks("web-b", "/spec/containers/0/image", json!("nginx:1.52"))
        .waiting("web-b", "ImagePullBackOff", "Back-off pulling image \"nginx:1.52\": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image: not found")
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_image_of_the_template_is_blamed_and_the_tag_that_runs_is_shown() {
        let finding = only(&RULE, fault());
        assert_eq!(finding.field, "/spec/template/spec/containers/0/image");
        assert!(finding.message.ends_with("; nginx:1.25 is here"), "{}", finding.message);
    }

    #[test]
    fn a_tag_that_nobody_has_is_a_typo_even_when_the_registry_is_out_of_reach() {
        let offline = "failed to do request: Head \"https://registry-1.docker.io/v2\": dial tcp: lookup registry-1.docker.io: no such host";
        assert_eq!(find(&RULE, fault().waiting("web-b", "ErrImagePull", offline)).len(), 1);
    }

    #[test]
    fn silent_about_credentials_and_registries() {
        assert!(find(&RULE, super::super::image_denied::fault()).is_empty());
        assert!(find(&RULE, super::super::registry_unreachable::fault()).is_empty());
    }
}
