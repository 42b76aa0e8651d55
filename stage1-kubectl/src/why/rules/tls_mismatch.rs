//! tls-mismatch: client and server don't trust each other
//!
//! Somebody answers, but the certificate is for other names, from another authority, past its date, or the
//! answer isn't TLS at all. Each has its own remedy, so the problem is named.
//!
//! # In Kubernetes
//! Go's `x509: certificate signed by unknown authority`, `certificate is valid for …, not …`, `certificate has
//! expired or is not yet valid`.

use jiff::Timestamp;

use crate::client::TlsProblem;
use crate::journey::Stage;
use crate::time::format_time;
use crate::why::ObjectRef;
use crate::why::trouble::{Trouble, TroubleKind};
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// client and server don't trust each other
pub const RULE: Rule = Rule {
    id: "tls-mismatch",
    stage: Stage::Kubectl,
    mechanism: Mechanism::TlsMismatch,
    lab: "",
    symptom: "x509: certificate …; server gave HTTP response to HTTPS client",
    first_command: "kubectl config view --minify",
    ruled_out_by: "401 comes after the handshake: credential-expired, credential-rejected",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let Some(trouble) = &facts.trouble else { return Vec::new() };
    let (what, field) = match &trouble.kind {
        TroubleKind::Tls(TlsProblem::ClientCertificate) if expired(facts, trouble) => return Vec::new(),
        TroubleKind::Tls(problem) => match problem {
            TlsProblem::WrongName => ("the server's certificate is for other names".to_owned(), "server"),
            TlsProblem::UnknownAuthority => (
                "the server's certificate is from another authority than the kubeconfig trusts".into(),
                "certificate-authority",
            ),
            TlsProblem::Expired(when) => {
                (format!("the server's certificate has expired{}", date(*when)), "server")
            }
            TlsProblem::NotYetValid(when) => (
                format!("the server's certificate isn't valid yet{}: is a clock wrong?", date(*when)),
                "server",
            ),
            TlsProblem::NotTls => ("the server answers without TLS".into(), "server"),
            TlsProblem::ClientCertificate => {
                ("the server refuses the client's certificate".into(), "certificate-authority")
            }
            TlsProblem::Other => ("the TLS handshake fails".into(), "server"),
        },
        TroubleKind::NotKubernetes => {
            ("something answers there that is no Kubernetes API server".into(), "server")
        }
        _ => return Vec::new(),
    };
    if trouble.alternatives.iter().any(|one| one.answers && one.server != trouble.server) {
        return Vec::new();
    }
    let kubeconfig = ObjectRef::new("kubeconfig", "", &trouble.kubeconfig);
    vec![
        Finding::about(kubeconfig.clone())
            .message(format!("{}: {what}", trouble.server))
            .seen(kubeconfig, &format!(".clusters[].cluster.{field}"), trouble.server.clone())
            .seen(ObjectRef::component("kube-apiserver"), "answer", trouble.message.clone())
            .next("kubectl config view --minify"),
    ]
}

fn expired(facts: &Facts, trouble: &Trouble) -> bool {
    trouble.credential.not_after.is_some_and(|end| end < facts.now)
}

fn date(when: Option<Timestamp>) -> String {
    when.map_or_else(String::new, |when| format!(" ({})", format_time(when)))
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy().trouble(
        TroubleKind::Tls(TlsProblem::UnknownAuthority),
        "x509: certificate signed by unknown authority",
    )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::client::TlsProblem;
    use crate::why::trouble::TroubleKind;
    use crate::why::worlds::{World, find, only};

    #[test]
    fn the_kind_of_mistrust_is_named() {
        assert!(only(&RULE, fault()).message.contains("another authority"));
        let name = World::healthy()
            .trouble(TroubleKind::Tls(TlsProblem::WrongName), "x509: certificate is valid for a, not b");
        assert!(only(&RULE, name).message.contains("other names"));
    }

    #[test]
    fn silent_about_a_client_certificate_that_has_expired() {
        assert!(find(&RULE, super::super::credential_expired::fault()).is_empty());
    }
}
