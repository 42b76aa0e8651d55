//! RBAC: from a user to bindings, from bindings to roles, from roles to rules.
//!
//! *Step 2 of a pod's journey.* Before: somebody asks for something. After: allowed by the first rule that matches, with the
//! binding that gave it as the reason.
//!
//! The index turns bindings around: not "whom does this binding name?" but "which bindings name this user or one of its
//! groups?". A ServiceAccount is the user `system:serviceaccount:NAMESPACE:NAME`, so three kinds of subject become two. A
//! request looks up its user and groups, among cluster-wide bindings first and then those of its namespace.
//!
//! The subtle thing is what a RoleBinding to a ClusterRole means: the rules of the ClusterRole, but in the binding's
//! namespace only; its rules about paths and cluster-wide resources have no effect there.
//!
//! # Invariants
//! 1. The cost of a decision depends on the user's bindings only.
//! 2. A binding to a role that isn't there gives nothing, and its reason says so.
//!
//! # In Kubernetes
//! `plugin/pkg/auth/authorizer/rbac/rbac.go`, `pkg/registry/rbac/validation/rule.go`. There every decision walks all bindings.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Deserialize;
use stage1_kubectl::object::Object;
use stage1_kubectl::status::quote;

use super::rules::{PolicyRule, rules_of};
use super::{Attributes, Decision};
use crate::authentication::UserInfo;

/// Somebody whom a binding names, ServiceAccounts as the users that they are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Holder {
    User(String),
    Group(String),
}

/// An entry of `subjects`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

/// The role that a binding gives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RoleRef {
    /// `Role` or `ClusterRole`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// A RoleBinding (with a namespace) or ClusterRoleBinding (without).
#[derive(Debug)]
struct Binding {
    namespace: String,
    name: String,
    role: RoleRef,
    subjects: Vec<Subject>,
}

type Key = (String, String);

/// See the module's text; cluster-wide things have the namespace "".
#[derive(Debug, Default)]
pub struct Index {
    roles: HashMap<Key, Arc<[PolicyRule]>>,
    bindings: HashMap<Key, Arc<Binding>>,
    by_holder: HashMap<(String, Holder), BTreeMap<String, Arc<Binding>>>,
}

/// One binding that applies to a user, with what it gives.
struct Grant<'a> {
    binding: &'a Binding,
    rules: Result<Arc<[PolicyRule]>, String>,
}

impl Subject {
    fn holder(&self, namespace: &str) -> Option<Holder> {
        let own = if self.namespace.is_empty() { namespace } else { &self.namespace };
        match self.kind.as_str() {
            "User" => Some(Holder::User(self.name.clone())),
            "Group" => Some(Holder::Group(self.name.clone())),
            "ServiceAccount" if own.is_empty() => None,
            "ServiceAccount" => Some(Holder::User(format!("system:serviceaccount:{own}:{}", self.name))),
            _ => None,
        }
    }
}

impl Binding {
    /// `RoleBinding "b/az" of Role "r" to User "u1"`.
    fn describe(&self, user: &UserInfo) -> String {
        let (kind, name) = match self.namespace.as_str() {
            "" => ("ClusterRoleBinding", self.name.clone()),
            namespace => ("RoleBinding", format!("{}/{namespace}", self.name)),
        };
        let applies = |subject: &&Subject| match subject.holder(&self.namespace) {
            Some(Holder::User(name)) => name == user.name,
            Some(Holder::Group(name)) => user.groups.contains(&name),
            None => false,
        };
        let to = self.subjects.iter().find(applies).map_or(String::new(), |subject| {
            let own = if subject.namespace.is_empty() { &self.namespace } else { &subject.namespace };
            match subject.kind.as_str() {
                "ServiceAccount" => format!("ServiceAccount {}", quote(&format!("{}/{own}", subject.name))),
                kind => format!("{kind} {}", quote(&subject.name)),
            }
        });
        format!("{kind} {} of {} {} to {to}", quote(&name), self.role.kind, quote(&self.role.name))
    }
}

impl Index {
    /// Takes in an object of one of RBAC's four kinds as it is now.
    pub fn put(&mut self, object: &Object) {
        let key = (object.namespace().unwrap_or_default().to_owned(), object.name().to_owned());
        match object.kind() {
            "Role" | "ClusterRole" => {
                self.roles.insert(key, rules_of(object).into());
            }
            "RoleBinding" | "ClusterRoleBinding" => {
                self.remove_binding(&key);
                let read = |pointer| object.get(pointer).cloned().unwrap_or_default();
                let binding = Arc::new(Binding {
                    namespace: key.0.clone(),
                    name: key.1.clone(),
                    role: serde_json::from_value(read("/roleRef")).unwrap_or_default(),
                    subjects: serde_json::from_value(read("/subjects")).unwrap_or_default(),
                });
                for holder in binding.subjects.iter().filter_map(|subject| subject.holder(&key.0)) {
                    let bindings = self.by_holder.entry((key.0.clone(), holder)).or_default();
                    bindings.insert(key.1.clone(), binding.clone());
                }
                self.bindings.insert(key, binding);
            }
            _ => {}
        }
    }

    /// Forgets an object.
    pub fn remove(&mut self, object: &Object) {
        let key = (object.namespace().unwrap_or_default().to_owned(), object.name().to_owned());
        match object.kind() {
            "Role" | "ClusterRole" => {
                self.roles.remove(&key);
            }
            _ => self.remove_binding(&key),
        }
    }

    fn remove_binding(&mut self, key: &Key) {
        let Some(binding) = self.bindings.remove(key) else { return };
        for holder in binding.subjects.iter().filter_map(|subject| subject.holder(&key.0)) {
            let by = (key.0.clone(), holder);
            if let Some(bindings) = self.by_holder.get_mut(&by) {
                bindings.remove(&key.1);
                if bindings.is_empty() {
                    self.by_holder.remove(&by);
                }
            }
        }
    }

    /// The rules of a role that a binding in a namespace names.
    ///
    /// # Errors
    /// The text of the 404.
    pub fn role_rules(&self, role: &RoleRef, namespace: &str) -> Result<Arc<[PolicyRule]>, String> {
        let (resource, namespace) = match role.kind.as_str() {
            "ClusterRole" => ("clusterrole", ""),
            _ => ("role", namespace),
        };
        let found = self.roles.get(&(namespace.to_owned(), role.name.clone()));
        found
            .cloned()
            .ok_or_else(|| format!("{resource}.rbac.authorization.k8s.io {} not found", quote(&role.name)))
    }

    fn grants<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> impl Iterator<Item = Grant<'a>> {
        let scopes = std::iter::once("").chain((!namespace.is_empty()).then_some(namespace));
        scopes.flat_map(move |scope| {
            let groups = user.groups.iter().cloned().map(Holder::Group);
            let holders = std::iter::once(Holder::User(user.name.clone())).chain(groups);
            // By name, so that a binding that names a user twice counts once and the reason is always the same.
            let mut bindings: BTreeMap<&str, &Binding> = BTreeMap::new();
            for holder in holders {
                let found = self.by_holder.get(&(scope.to_owned(), holder)).into_iter().flatten();
                bindings.extend(found.map(|(name, binding)| (name.as_str(), &**binding)));
            }
            bindings
                .into_values()
                .rev()
                .map(move |binding| Grant { binding, rules: self.role_rules(&binding.role, scope) })
        })
    }

    // ANCHOR: rbac-authorize
    /// Decides a request.
    pub fn authorize(&self, asked: &Attributes) -> Decision {
        let mut errors = Vec::new();
        for grant in self.grants(&asked.user, &asked.namespace) {
            match grant.rules {
                Ok(rules) if rules.iter().any(|rule| rule.allows(asked)) => {
                    // A path has no namespace, so no RoleBinding is ever asked about one.
                    let reason = format!("RBAC: allowed by {}", grant.binding.describe(&asked.user));
                    return Decision::Allow { reason };
                }
                Ok(_) => {}
                Err(error) => errors.push(error),
            }
        }
        let reason = match errors.len() {
            0 => String::new(),
            1 => format!("RBAC: {}", errors[0]),
            _ => format!("RBAC: [{}]", errors.join(", ")),
        };
        Decision::NoOpinion { reason }
    }
    // ANCHOR_END: rbac-authorize

    /// All rules that a user has in a namespace ("": cluster-wide ones only), and what couldn't be resolved:
    /// the answer of a SelfSubjectRulesReview.
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> (Vec<PolicyRule>, Vec<String>) {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        for grant in self.grants(user, namespace) {
            match grant.rules {
                Ok(found) => rules.extend(found.iter().cloned()),
                Err(error) => errors.push(error),
            }
        }
        (rules, errors)
    }
}
