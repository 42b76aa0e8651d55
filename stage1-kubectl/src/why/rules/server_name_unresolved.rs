//! server-name-unresolved: the server's name has no address
//!
//! The host in the kubeconfig is a name that DNS doesn't know: a typo, a VPN that is down, or a cluster that is
//! gone.
//!
//! # In Kubernetes
//! Go's `lookup HOST: no such host`.

use crate::client::ConnectionProblem;
use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::trouble::TroubleKind;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the server's name has no address
pub const RULE: Rule = Rule {
    id: "server-name-unresolved",
    stage: Stage::Kubectl,
    mechanism: Mechanism::NameUnresolved,
    lab: "",
    symptom: "dial tcp: lookup …: no such host",
    first_command: "kubectl config view --minify",
    ruled_out_by: "an address that refuses: endpoint-wrong, apiserver-down",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let Some(trouble) = &facts.trouble else { return Vec::new() };
    if trouble.kind != TroubleKind::Connection(ConnectionProblem::Dns)
        || trouble.alternatives.iter().any(|one| one.answers)
    {
        return Vec::new();
    }
    let kubeconfig = ObjectRef::new("kubeconfig", "", &trouble.kubeconfig);
    vec![
        Finding::about(kubeconfig.clone())
            .message(format!("the name in {} has no address", trouble.server))
            .seen(kubeconfig, ".clusters[].cluster.server", trouble.server.clone())
            .seen(ObjectRef::component("DNS"), "answer", trouble.message.clone())
            .next("kubectl config view --minify"),
    ]
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy().trouble(
        TroubleKind::Connection(ConnectionProblem::Dns),
        "dial tcp: lookup k8s.invalid: no such host",
    )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_name_is_blamed() {
        assert!(
            only(&RULE, fault()).evidence[1].value.as_str().is_some_and(|text| text.contains("no such host"))
        );
    }

    #[test]
    fn silent_when_the_address_refuses() {
        assert!(find(&RULE, super::super::apiserver_down::fault()).is_empty());
    }
}
