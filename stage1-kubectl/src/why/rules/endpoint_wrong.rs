//! endpoint-wrong: the kubeconfig names a port where nobody listens, and the server is elsewhere
//!
//! A refused connection says that the machine lives and the port is free. When another kubeconfig of this
//! machine names another address, and an API server answers there, the address is wrong and the server is well.
//!
//! # In Kubernetes
//! No counterpart; kubectl says `The connection to the server … was refused - did you specify the right host or
//! port?`.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::trouble::TroubleKind;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the kubeconfig names a port where nobody listens, and the server is elsewhere
pub const RULE: Rule = Rule {
    id: "endpoint-wrong",
    stage: Stage::Kubectl,
    mechanism: Mechanism::WrongEndpoint,
    lab: "1-B",
    symptom: "connection refused",
    first_command: "kubectl config view --minify",
    ruled_out_by: "an API server answers at the address of another kubeconfig; if none answers anywhere, it is apiserver-down (2-A)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let Some(trouble) = &facts.trouble else { return Vec::new() };
    let no_answer =
        matches!(trouble.kind, TroubleKind::Connection(_) | TroubleKind::NotKubernetes | TroubleKind::Tls(_));
    let Some(other) = trouble.alternatives.iter().find(|one| one.answers && one.server != trouble.server)
    else {
        return Vec::new();
    };
    if !no_answer {
        return Vec::new();
    }
    let kubeconfig = ObjectRef::new("kubeconfig", "", &trouble.kubeconfig);
    let message = format!(
        "{} doesn't answer, but an API server answers at {}: the kubeconfig's address is wrong",
        trouble.server, other.server
    );
    vec![
        Finding::about(kubeconfig.clone())
            .message(message)
            .seen(kubeconfig, ".clusters[].cluster.server", trouble.server.clone())
            .seen(
                ObjectRef::new("kubeconfig", "", &other.source),
                ".clusters[].cluster.server",
                other.server.clone(),
            )
            .seen(ObjectRef::component("kube-apiserver"), "answer", trouble.message.clone())
            .not(Stage::ApiServer, format!("an API server answers at {}", other.server))
            .next("kubectl config view --minify"),
    ]
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    let refused = TroubleKind::Connection(crate::client::ConnectionProblem::Refused);
    World::healthy()
        .trouble(refused, "connect: connection refused")
        .alternative("https://127.0.0.1:6443", true)
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn another_address_that_answers_proves_the_kubeconfig_wrong() {
        let finding = only(&RULE, fault());
        assert_eq!(finding.object.kind, "kubeconfig");
        assert_eq!(finding.evidence[0].value, "https://127.0.0.1:6444");
    }

    #[test]
    fn silent_when_nobody_answers_anywhere() {
        assert!(find(&RULE, super::super::apiserver_down::fault()).is_empty());
    }
}
