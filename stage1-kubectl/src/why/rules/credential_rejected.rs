//! credential-rejected: the server doesn't know the client's credentials
//!
//! Within its dates, and still 401: signed by another cluster's authority, a token that was revoked, or no
//! credential at all.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/filters/authentication.go`.

use crate::journey::Stage;
use crate::time::format_time;
use crate::why::ObjectRef;
use crate::why::trouble::TroubleKind;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// the server doesn't know the client's credentials
pub const RULE: Rule = Rule {
    id: "credential-rejected",
    stage: Stage::Kubectl,
    mechanism: Mechanism::CredentialRejected,
    lab: "",
    symptom: "You must be logged in to the server (Unauthorized)",
    first_command: "kubectl config view --minify",
    ruled_out_by: "a date that is past: credential-expired (1-C); 403: forbidden (2-B)",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let Some(trouble) = &facts.trouble else { return Vec::new() };
    let credential = &trouble.credential;
    if trouble.kind != TroubleKind::Unauthorized || credential.not_after.is_some_and(|end| end < facts.now) {
        return Vec::new();
    }
    let kubeconfig = ObjectRef::new("kubeconfig", "", &trouble.kubeconfig);
    let message = match credential.kind.as_str() {
        "" => format!("the context {} has no credentials, and the server wants some", trouble.context),
        kind => format!(
            "the server at {} doesn't know the {kind} of {:?}: is it another cluster's?",
            trouble.server, credential.subject
        ),
    };
    let mut finding = Finding::about(kubeconfig.clone())
        .message(message)
        .seen(
            kubeconfig.clone(),
            ".users[].user",
            format!("{} {}", credential.kind, credential.subject).trim().to_owned(),
        )
        .seen(ObjectRef::component("kube-apiserver"), "answer", trouble.message.clone())
        .next("kubectl config view --minify");
    if let Some(end) = credential.not_after {
        finding = finding.seen(kubeconfig, "notAfter", format_time(end));
    }
    vec![finding]
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy().trouble(TroubleKind::Unauthorized, "Unauthorized")
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_credential_is_named_but_not_shown() {
        let finding = only(&RULE, fault());
        assert_eq!(finding.evidence[0].value, "client certificate jane");
    }

    #[test]
    fn silent_about_one_that_has_expired() {
        assert!(find(&RULE, super::super::credential_expired::fault()).is_empty());
    }
}
