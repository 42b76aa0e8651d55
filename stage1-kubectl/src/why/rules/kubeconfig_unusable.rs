//! kubeconfig-unusable: the kubeconfig can't be used
//!
//! A context that names a cluster or a user that isn't there, a file that can't be read, base64 that is none:
//! no request leaves.
//!
//! # In Kubernetes
//! `client-go/tools/clientcmd/validation.go`.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::trouble::TroubleKind;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the kubeconfig can't be used
pub const RULE: Rule = Rule {
    id: "kubeconfig-unusable",
    stage: Stage::Kubectl,
    mechanism: Mechanism::WrongEndpoint,
    lab: "",
    symptom: "error: context \"…\" does not exist; error loading config file",
    first_command: "kubectl config get-contexts",
    ruled_out_by: "a request that got an answer of any kind",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let Some(trouble) = facts.trouble.as_ref().filter(|trouble| trouble.kind == TroubleKind::Kubeconfig)
    else {
        return Vec::new();
    };
    let kubeconfig = ObjectRef::new("kubeconfig", "", &trouble.kubeconfig);
    vec![
        Finding::about(kubeconfig.clone())
            .message(format!("the kubeconfig can't be used: {}", trouble.message))
            .seen(kubeconfig, ".current-context", trouble.context.clone())
            .next("kubectl config get-contexts"),
    ]
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy().trouble(TroubleKind::Kubeconfig, "context was not found for specified context: nowhere")
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn no_request_was_sent() {
        assert!(only(&RULE, fault()).message.contains("nowhere"));
        assert!(find(&RULE, super::super::apiserver_down::fault()).is_empty());
    }
}
