//! server-unreachable: no answer comes from the server's address
//!
//! Packets go out and nothing comes back: a firewall, a VPN, a route, or a machine that is down. A refused
//! connection is something else: there the machine answers.
//!
//! # In Kubernetes
//! Go's `i/o timeout`, `no route to host`, `network is unreachable`.

use crate::client::ConnectionProblem;
use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::trouble::TroubleKind;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// no answer comes from the server's address
pub const RULE: Rule = Rule {
    id: "server-unreachable",
    stage: Stage::Kubectl,
    mechanism: Mechanism::ServerUnreachable,
    lab: "",
    symptom: "i/o timeout; no route to host",
    first_command: "kubectl config view --minify",
    ruled_out_by: "connection refused means that the machine answers: apiserver-down, endpoint-wrong",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let Some(trouble) = &facts.trouble else { return Vec::new() };
    let silent = matches!(
        trouble.kind,
        TroubleKind::Connection(ConnectionProblem::Timeout | ConnectionProblem::Other)
    );
    if !silent || trouble.alternatives.iter().any(|one| one.answers) {
        return Vec::new();
    }
    let kubeconfig = ObjectRef::new("kubeconfig", "", &trouble.kubeconfig);
    vec![
        Finding::about(kubeconfig.clone())
            .message(format!("{} gives no answer: {}", trouble.server, trouble.message))
            .seen(kubeconfig, ".clusters[].cluster.server", trouble.server.clone())
            .seen(ObjectRef::component("network"), "answer", trouble.message.clone())
            .next("kubectl config view --minify"),
    ]
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy()
        .trouble(TroubleKind::Connection(ConnectionProblem::Timeout), "dial tcp 10.9.9.9:6443: i/o timeout")
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn silence_is_told_from_refusal() {
        assert!(only(&RULE, fault()).message.contains("i/o timeout"));
        assert!(find(&RULE, super::super::apiserver_down::fault()).is_empty());
    }
}
