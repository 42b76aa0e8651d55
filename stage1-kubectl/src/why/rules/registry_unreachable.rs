//! registry-unreachable: the node can't reach the registry
//!
//! Nothing answers at the registry's address: no route, no name, a proxy, or a registry that speaks another
//! protocol. The image may well exist.
//!
//! # In Kubernetes
//! Texts of Go's net package, through containerd.

use crate::journey::Stage;
use crate::why::image_pull::{PullProblem, findings};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the node can't reach the registry
pub const RULE: Rule = Rule {
    id: "registry-unreachable",
    stage: Stage::Kubelet,
    mechanism: Mechanism::RegistryUnreachable,
    lab: "",
    symptom: "ErrImagePull … dial tcp",
    first_command: "kubectl describe pod NAME",
    ruled_out_by: "an answer from the registry: image-not-found (5-D), image-denied",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    findings(facts, PullProblem::Unreachable, |pull| {
        format!("the node can't reach the registry of image {}", pull.image)
    })
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use serde_json::json;

    use crate::why::worlds::World;

    World::healthy()
        .asks("web-b", "/spec/containers/0/image", json!("127.0.0.1:9/nowhere:1"))
        .waiting("web-b", "ErrImagePull", "failed to do request: Head \"https://127.0.0.1:9/v2/nowhere/manifests/1\": dial tcp 127.0.0.1:9: connect: connection refused")
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_road_is_blamed_not_the_name() {
        assert!(only(&RULE, fault()).message.contains("127.0.0.1:9/nowhere:1"));
        assert!(find(&RULE, super::super::image_not_found::fault()).is_empty());
    }
}
