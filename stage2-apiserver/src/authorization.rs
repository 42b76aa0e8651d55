//! Authorization: may this user do this to that?
//!
//! *Step 2 of a pod's journey.* Before: [`crate::authentication`] knows who asks. After: the request goes on to admission, or ends
//! with 403 and the sentence that every administrator knows.
//!
//! Three answers are asked in turn: the group `system:masters` may do everything (so that a cluster can always be
//! repaired), the [`node`] authorizer lets a kubelet read what its own pods need, and [`rbac`] looks the rest up in Roles and
//! bindings. RBAC only ever allows; what nothing allows is forbidden.
//!
//! All of it is decided from memory: indices that follow the watch caches ([`follow`]), so a decision costs what the
//! user's own bindings cost, not what the cluster's cost.
//!
//! # Invariants
//! 1. No decision touches the store or the network.
//! 2. Without an allowing rule the answer is no.
//!
//! # In Kubernetes
//! `apiserver/pkg/authorization`, `plugin/pkg/auth/authorizer/{rbac,node}`. Left out: webhooks, ABAC, CEL conditions.

use std::sync::Arc;

use parking_lot::RwLock;
use stage1_kubectl::status::{Status, quote};

use crate::authentication::UserInfo;

pub mod aggregation;
pub mod escalation;
pub mod follow;
pub mod node;
pub mod rbac;
pub mod rules;

/// The group that may do everything.
pub const SYSTEM_MASTERS: &str = "system:masters";

// ANCHOR: authorizer
/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Who asks.
    pub user: Arc<UserInfo>,
    /// `get`, `list`, `create`, …; for paths the HTTP method in lower case.
    pub verb: String,
    /// Whether it is about a resource (and not a path such as `/healthz`).
    pub is_resource: bool,
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Resource, plural.
    pub resource: String,
    /// Subresource, or empty.
    pub subresource: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Name, or empty.
    pub name: String,
    /// The path, for what isn't a resource.
    pub path: String,
    /// `field=value` requirements of a list's or watch's field selector.
    pub fields: Vec<(String, String)>,
}

/// An answer, with the reason that the audit log and `kubectl auth can-i` show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Yes.
    Allow {
        /// Why.
        reason: String,
    },
    /// No, whatever others say.
    Deny {
        /// Why.
        reason: String,
    },
    /// Not by me.
    NoOpinion {
        /// Why not.
        reason: String,
    },
}

/// Something that decides.
pub trait Authorizer: Send + Sync {
    /// Decides.
    fn authorize(&self, attributes: &Attributes) -> Decision;
}
// ANCHOR_END: authorizer

impl Decision {
    /// Whether it is a yes.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Decision::Allow { .. })
    }

    /// The reason of any answer.
    pub fn reason(&self) -> &str {
        match self {
            Decision::Allow { reason } | Decision::Deny { reason } | Decision::NoOpinion { reason } => reason,
        }
    }
}

impl Attributes {
    /// `pods`, or `pods/log`.
    pub fn combined_resource(&self) -> String {
        match self.subresource.as_str() {
            "" => self.resource.clone(),
            subresource => format!("{}/{subresource}", self.resource),
        }
    }

    /// `User "jane" cannot list resource "pods" in API group "" in the namespace "default"`.
    pub fn forbidden_message(&self) -> String {
        let user = quote(&self.user.name);
        if !self.is_resource {
            return format!("User {user} cannot {} path {}", self.verb, quote(&self.path));
        }
        let (verb, resource, group) = (&self.verb, quote(&self.combined_resource()), quote(&self.group));
        let scope = match self.namespace.as_str() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {}", quote(namespace)),
        };
        format!("User {user} cannot {verb} resource {resource} in API group {group} {scope}")
    }

    /// The 403 for a request that nothing allows.
    pub fn forbidden(&self, reason: &str) -> Status {
        let message = match reason {
            "" => self.forbidden_message(),
            reason => format!("{}: {reason}", self.forbidden_message()),
        };
        let group_resource = match (self.resource.as_str(), self.group.as_str()) {
            (resource, "") => resource.to_owned(),
            (resource, group) => format!("{resource}.{group}"),
        };
        Status::forbidden(&group_resource, &self.name, &message)
    }
}

/// The cluster's authorizer: masters, then nodes, then RBAC.
#[derive(Default)]
pub struct ClusterAuthorizer {
    rbac: RwLock<rbac::Index>,
    nodes: RwLock<node::Graph>,
}

impl ClusterAuthorizer {
    /// Runs a question on the RBAC index (SelfSubjectRulesReview, escalation checks).
    pub fn with_rbac<T>(&self, ask: impl FnOnce(&rbac::Index) -> T) -> T {
        ask(&self.rbac.read())
    }

    /// Checks that writing a Role or binding gives away nothing that the writer hasn't; other objects pass.
    ///
    /// # Errors
    /// 403 with the missing rules, 404 for a binding to a role that isn't there.
    pub fn check_escalation(
        &self,
        user: &Arc<UserInfo>,
        object: &stage1_kubectl::object::Object,
        old: Option<&stage1_kubectl::object::Object>,
    ) -> Result<(), Status> {
        escalation::check(&self.rbac.read(), user, object, old)
    }
}

impl Authorizer for ClusterAuthorizer {
    fn authorize(&self, attributes: &Attributes) -> Decision {
        if attributes.user.groups.iter().any(|group| group == SYSTEM_MASTERS) {
            return Decision::Allow { reason: String::new() };
        }
        let by_node = self.nodes.read().authorize(attributes);
        if by_node.is_allowed() {
            return by_node;
        }
        let by_rbac = self.rbac.read().authorize(attributes);
        match (by_rbac, by_node) {
            (Decision::NoOpinion { reason }, Decision::NoOpinion { reason: node_reason }) => {
                let reasons = [node_reason, reason];
                let said: Vec<String> = reasons.into_iter().filter(|reason| !reason.is_empty()).collect();
                Decision::NoOpinion { reason: said.join("\n") }
            }
            (decision, _) => decision,
        }
    }
}

#[cfg(test)]
mod tests;
