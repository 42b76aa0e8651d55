//! apiserver-down: nobody listens where the API server should be
//!
//! Every kubeconfig of this machine names the same address, or none of the others answers either: the process
//! is gone.
//!
//! # In Kubernetes
//! kube-apiserver as a static pod; its log and `crictl ps -a` on its machine tell why it ended.

use crate::client::ConnectionProblem;
use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::trouble::TroubleKind;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// nobody listens where the API server should be
pub const RULE: Rule = Rule {
    id: "apiserver-down",
    stage: Stage::ApiServer,
    mechanism: Mechanism::ComponentNotRunning,
    lab: "2-A",
    symptom: "connection refused",
    first_command: "kubectl config view --minify; on the machine: the process and its log",
    ruled_out_by: "another address answers: endpoint-wrong (1-B); a name without an address: server-name-unresolved",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let Some(trouble) = &facts.trouble else { return Vec::new() };
    let gone = matches!(
        trouble.kind,
        TroubleKind::Connection(ConnectionProblem::Refused | ConnectionProblem::Interrupted)
    );
    if !gone || trouble.alternatives.iter().any(|one| one.answers && one.server != trouble.server) {
        return Vec::new();
    }
    let apiserver = ObjectRef::component("kube-apiserver");
    let mut finding = Finding::about(apiserver.clone())
        .message(format!("no API server listens at {}: {}", trouble.server, trouble.message))
        .seen(apiserver, "answer", trouble.message.clone())
        .seen(
            ObjectRef::new("kubeconfig", "", &trouble.kubeconfig),
            ".clusters[].cluster.server",
            trouble.server.clone(),
        )
        .next("kubectl get --raw=/readyz");
    for other in &trouble.alternatives {
        let source = ObjectRef::new("kubeconfig", "", &other.source);
        finding = finding.seen(source, ".clusters[].cluster.server", other.server.clone());
    }
    let same = trouble.alternatives.iter().find(|one| one.server == trouble.server);
    let proof = match (same, trouble.alternatives.first()) {
        (Some(same), _) => format!("{} names the same address", same.source),
        (None, Some(other)) => format!("nobody answers at {} of {} either", other.server, other.source),
        (None, None) => "no other kubeconfig of this machine names another address".into(),
    };
    vec![finding.not(Stage::Kubectl, proof)]
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    let refused = TroubleKind::Connection(ConnectionProblem::Refused);
    World::healthy()
        .trouble(refused, "connect: connection refused")
        .alternative("https://127.0.0.1:6444", false)
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_server_is_blamed_when_the_address_is_what_everybody_uses() {
        let finding = only(&RULE, fault());
        assert_eq!(finding.object.name, "kube-apiserver");
        assert!(finding.ruled_out[0].because.contains("names the same address"));
    }

    #[test]
    fn silent_when_another_address_answers() {
        assert!(find(&RULE, super::super::endpoint_wrong::fault()).is_empty());
    }
}
