//! Escalation: nobody gives away what they don't have.
//!
//! *Step 2 of a pod's journey.* Before: somebody may write Roles or bindings. After: they may write *this* one, or are told which
//! rights they lack.
//!
//! Being allowed to create Roles would otherwise mean being allowed everything. So a Role may only hold rights that its
//! writer has (or the writer has the verb `escalate`), and a binding may only give a role whose rights its writer has (or
//! the writer has the verb `bind` on that role).
//!
//! # In Kubernetes
//! `pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased/storage.go`, `pkg/registry/rbac/escalation_check.go`.

use std::sync::Arc;

use stage1_kubectl::object::Object;
use stage1_kubectl::status::{Status, quote};

use super::rbac::{Index, RoleRef};
use super::rules::{PolicyRule, describe, missing, quote_list, rules_of};
use super::{Attributes, SYSTEM_MASTERS};
use crate::authentication::UserInfo;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Checks a write; `old` is the object before an update.
///
/// # Errors
/// 403 or 404, see [`super::ClusterAuthorizer::check_escalation`].
pub(super) fn check(
    index: &Index,
    user: &Arc<UserInfo>,
    object: &Object,
    old: Option<&Object>,
) -> Result<(), Status> {
    if user.groups.iter().any(|group| group == SYSTEM_MASTERS) || !object.api_version().starts_with(GROUP) {
        return Ok(());
    }
    if old.is_some_and(|old| only_housekeeping(old, object)) {
        return Ok(());
    }
    let namespace = object.namespace().unwrap_or_default();
    let resource = match object.kind() {
        "Role" => "roles",
        "ClusterRole" => "clusterroles",
        "RoleBinding" => "rolebindings",
        "ClusterRoleBinding" => "clusterrolebindings",
        _ => return Ok(()),
    };
    let refuse = |why: &str| Status::forbidden(&format!("{resource}.{GROUP}"), object.name(), why);
    let may = |verb: &str, resource: &str, name: &str| {
        let attributes = Attributes {
            user: user.clone(),
            verb: verb.into(),
            is_resource: true,
            group: GROUP.into(),
            version: "v1".into(),
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
            ..Attributes::default()
        };
        index.authorize(&attributes).is_allowed()
    };
    let wanted: Arc<[PolicyRule]> = match resource {
        "roles" | "clusterroles" => {
            // A new role has no name yet as far as the request is concerned: `resourceNames` can't allow it.
            if may("escalate", resource, old.map_or("", Object::name)) {
                return Ok(());
            }
            let aggregates =
                |object: &Object| object.get("/aggregationRule").is_some_and(|rule| !rule.is_null());
            let aggregated = aggregates(object) || old.is_some_and(aggregates);
            if aggregated && confirm(index, user, "", &everything()).is_err() {
                return Err(refuse("must have cluster-admin privileges to use the aggregationRule"));
            }
            rules_of(object).into()
        }
        _ => {
            let read = object.get("/roleRef").cloned().unwrap_or_default();
            let role: RoleRef = serde_json::from_value(read).unwrap_or_default();
            let roles = if role.kind == "ClusterRole" { "clusterroles" } else { "roles" };
            if may("bind", roles, &role.name) {
                return Ok(());
            }
            let rules = index.role_rules(&role, namespace);
            rules.map_err(|_| Status::not_found(&format!("{roles}.{GROUP}"), &role.name))?
        }
    };
    confirm(index, user, namespace, &wanted).map_err(|why| refuse(&why))
}

/// The two rules that are all there is.
fn everything() -> [PolicyRule; 2] {
    let star = || vec!["*".to_owned()];
    let resources =
        PolicyRule { verbs: star(), api_groups: star(), resources: star(), ..PolicyRule::default() };
    [resources, PolicyRule { verbs: star(), non_resource_urls: star(), ..PolicyRule::default() }]
}

fn confirm(index: &Index, user: &UserInfo, namespace: &str, wanted: &[PolicyRule]) -> Result<(), String> {
    let (owned, errors) = index.rules_for(user, namespace);
    let lacking = missing(&owned, wanted);
    if lacking.is_empty() {
        return Ok(());
    }
    let mut why = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quote(&user.name),
        quote_list(&user.groups),
        describe(&lacking).join("\n")
    );
    if !errors.is_empty() {
        why = format!("{why}; resolution errors: [{}]", errors.join(", "));
    }
    Err(why)
}

/// Whether an update changes nothing but what the garbage collector may change.
fn only_housekeeping(old: &Object, new: &Object) -> bool {
    let (mut old, mut new) = (old.clone(), new.clone());
    for object in [&mut old, &mut new] {
        for field in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
            object.remove(&format!("/metadata/{field}"));
        }
    }
    old == new
}
