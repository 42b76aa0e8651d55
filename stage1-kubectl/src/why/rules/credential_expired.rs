//! credential-expired: the client's certificate or token is past its date
//!
//! The server answers 401 to everything, as to a stranger. The date stands in the certificate, or in the
//! token's claims, and needs no server to be read.
//!
//! # In Kubernetes
//! `apiserver/pkg/authentication/request/x509`: an expired client certificate is no identity.

use crate::client::TlsProblem;
use crate::journey::Stage;
use crate::time::{format_time, human_duration};
use crate::why::ObjectRef;
use crate::why::trouble::TroubleKind;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the client's certificate or token is past its date
pub const RULE: Rule = Rule {
    id: "credential-expired",
    stage: Stage::Kubectl,
    mechanism: Mechanism::CredentialExpired,
    lab: "1-C",
    symptom: "You must be logged in to the server (Unauthorized)",
    first_command: "kubectl config view --minify --raw -o jsonpath='{.users[0].user.client-certificate-data}' | base64 -d | openssl x509 -noout -enddate",
    ruled_out_by: "a certificate within its dates: credential-rejected; 403 instead of 401: forbidden (2-B), the server knows who asks",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let Some(trouble) = &facts.trouble else { return Vec::new() };
    let refused = matches!(
        trouble.kind,
        TroubleKind::Unauthorized | TroubleKind::Tls(TlsProblem::ClientCertificate) | TroubleKind::Forbidden
    );
    let Some(end) = trouble.credential.not_after.filter(|end| *end < facts.now) else { return Vec::new() };
    if !refused {
        return Vec::new();
    }
    let kubeconfig = ObjectRef::new("kubeconfig", "", &trouble.kubeconfig);
    let credential = &trouble.credential;
    let age = human_duration(facts.now.duration_since(end));
    vec![
        Finding::about(kubeconfig.clone())
            .message(format!(
                "the {} of {:?} expired on {} ({age} ago)",
                credential.kind,
                credential.subject,
                format_time(end)
            ))
            .seen(
                kubeconfig.clone(),
                &format!(".users[].user.{}", credential.kind.replace(' ', "-")),
                credential.subject.clone(),
            )
            .seen(kubeconfig, "notAfter", format_time(end))
            .seen(ObjectRef::component("kube-apiserver"), "answer", trouble.message.clone())
            .not(Stage::ApiServer, "the server answers; it doesn't get as far as asking what the user may do")
            .next("kubectl config view --minify"),
    ]
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy().trouble(TroubleKind::Unauthorized, "Unauthorized").expired()
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_date_is_shown() {
        let finding = only(&RULE, fault());
        assert!(finding.message.contains("2025-12-31T12:00:00Z"), "{}", finding.message);
    }

    #[test]
    fn silent_while_the_certificate_is_valid_and_when_the_user_may_not() {
        assert!(find(&RULE, super::super::credential_rejected::fault()).is_empty());
        assert!(find(&RULE, super::super::forbidden::fault()).is_empty());
    }
}
