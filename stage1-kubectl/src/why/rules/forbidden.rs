//! forbidden: no role allows the request
//!
//! The server knows who asks, and says no: 403 with the user, the verb and the resource in its text. Whoever
//! gives rights must give one; nothing is broken.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/filters/authorization.go`; RBAC only ever allows.

use crate::journey::Stage;
use crate::why::ObjectRef;
use crate::why::trouble::TroubleKind;
use crate::why::{Explained, Facts, Finding, Mechanism, Rule};

/// no role allows the request
pub const RULE: Rule = Rule {
    id: "forbidden",
    stage: Stage::ApiServer,
    mechanism: Mechanism::RbacDenied,
    lab: "",
    symptom: "Error from server (Forbidden): … cannot list resource …",
    first_command: "kubectl auth can-i --list",
    ruled_out_by: "401 instead of 403: credential-expired (1-C), credential-rejected",
    explained: Explained::Never,
    find,
};

fn find(facts: &Facts) -> Vec<Finding> {
    let Some(trouble) = facts.trouble.as_ref().filter(|trouble| trouble.kind == TroubleKind::Forbidden)
    else {
        return Vec::new();
    };
    if trouble.credential.not_after.is_some_and(|end| end < facts.now) {
        return Vec::new();
    }
    vec![
        Finding::about(ObjectRef::new("User", "", &trouble.credential.subject))
            .message(trouble.message.clone())
            .seen(ObjectRef::component("kube-apiserver"), "answer", trouble.message.clone())
            .not(Stage::Kubectl, "403, not 401: the server knows who asks")
            .next("kubectl auth can-i --list"),
    ]
}

/// A world with this fault.
#[cfg(test)]
pub(crate) fn fault() -> crate::why::worlds::World {
    use crate::why::worlds::World;

    World::healthy().trouble(
        TroubleKind::Forbidden,
        "pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\"",
    )
}

#[cfg(test)]
mod tests {
    use super::{RULE, fault};
    use crate::why::worlds::{find, only};

    #[test]
    fn the_servers_sentence_is_kept() {
        assert!(only(&RULE, fault()).message.contains("cannot list resource"));
        assert!(find(&RULE, super::super::credential_rejected::fault()).is_empty());
    }
}
