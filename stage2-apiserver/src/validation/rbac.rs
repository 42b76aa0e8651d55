//! Roles and bindings.
//!
//! # In Kubernetes
//! `pkg/apis/rbac/validation/validation.go`.

use serde_json::Value;

use super::fields::{child, list, text, texts};
use super::{Errors, FieldError, field, go_syntax, index, invalid_each, names, selector};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Role.
pub fn role(value: &Value) -> Errors {
    rules(value, true)
}

/// ClusterRole.
pub fn cluster_role(value: &Value) -> Errors {
    let mut errors = rules(value, false);
    for (at, chosen) in list(child(value, "aggregationRule"), "clusterRoleSelectors").iter().enumerate() {
        errors.extend(selector::label_selector(chosen, &index("aggregationRule.clusterRoleSelectors", at)));
    }
    errors
}

fn rules(value: &Value, namespaced: bool) -> Errors {
    let mut errors = Errors::new();
    for (at, rule) in list(value, "rules").iter().enumerate() {
        let path = index("rules", at);
        if list(rule, "verbs").is_empty() {
            errors.push(FieldError::required(field(&path, "verbs"), "verbs must contain at least one value"));
        }
        let urls = texts(rule, "nonResourceURLs");
        if !urls.is_empty() {
            let at = field(&path, "nonResourceURLs");
            let shown = || go_syntax::raw(go_syntax::strings("[]string", &urls));
            if namespaced {
                errors.push(FieldError::invalid(
                    &at,
                    shown(),
                    "namespaced rules cannot apply to non-resource URLs",
                ));
            }
            if ["apiGroups", "resources", "resourceNames"].iter().any(|name| !list(rule, name).is_empty()) {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                errors.push(FieldError::invalid(&at, shown(), detail));
            }
            continue;
        }
        if list(rule, "apiGroups").is_empty() {
            let detail = "resource rules must supply at least one api group";
            errors.push(FieldError::required(field(&path, "apiGroups"), detail));
        }
        if list(rule, "resources").is_empty() {
            let detail = "resource rules must supply at least one resource";
            errors.push(FieldError::required(field(&path, "resources"), detail));
        }
    }
    errors
}

/// A changed Role.
pub fn role_update(new: &Value, _: &Value) -> Errors {
    role(new)
}

/// A changed ClusterRole.
pub fn cluster_role_update(new: &Value, _: &Value) -> Errors {
    cluster_role(new)
}

/// RoleBinding.
pub fn role_binding(value: &Value) -> Errors {
    binding(value, true)
}

/// ClusterRoleBinding.
pub fn cluster_role_binding(value: &Value) -> Errors {
    binding(value, false)
}

fn binding(value: &Value, namespaced: bool) -> Errors {
    let mut errors = Errors::new();
    let reference = child(value, "roleRef");
    let group = text(reference, "apiGroup");
    if group != GROUP {
        errors.push(FieldError::not_supported("roleRef.apiGroup", group, &[GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let kind = text(reference, "kind");
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported("roleRef.kind", kind, kinds));
    }
    match text(reference, "name") {
        "" => errors.push(FieldError::required("roleRef.name", "")),
        name => invalid_each(&mut errors, "roleRef.name", name, names::path_segment_name(name, false)),
    }
    for (at, subject) in list(value, "subjects").iter().enumerate() {
        subject_of(&mut errors, subject, namespaced, &index("subjects", at));
    }
    errors
}

fn subject_of(errors: &mut Errors, subject: &Value, namespaced: bool, path: &str) {
    let (kind, name, group) = (text(subject, "kind"), text(subject, "name"), text(subject, "apiGroup"));
    if name.is_empty() {
        errors.push(FieldError::required(field(path, "name"), ""));
    }
    match kind {
        "ServiceAccount" => {
            if !name.is_empty() {
                invalid_each(errors, &field(path, "name"), name, names::dns1123_subdomain(name));
            }
            if !group.is_empty() {
                errors.push(FieldError::not_supported(field(path, "apiGroup"), group, &[""]));
            }
            if !namespaced && text(subject, "namespace").is_empty() {
                errors.push(FieldError::required(field(path, "namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.push(FieldError::not_supported(field(path, "apiGroup"), group, &[GROUP]));
            }
        }
        other => errors.push(FieldError::not_supported(
            field(path, "kind"),
            other,
            &["ServiceAccount", "User", "Group"],
        )),
    }
}

fn binding_update(new: &Value, old: &Value, namespaced: bool) -> Errors {
    let mut errors = binding(new, namespaced);
    if child(new, "roleRef") != child(old, "roleRef") {
        let shown = go_syntax::raw(go_syntax::role_ref(child(new, "roleRef")));
        errors.push(FieldError::invalid("roleRef", shown, "cannot change roleRef"));
    }
    errors
}

/// A changed RoleBinding: its role stays.
pub fn role_binding_update(new: &Value, old: &Value) -> Errors {
    binding_update(new, old, true)
}

/// A changed ClusterRoleBinding.
pub fn cluster_role_binding_update(new: &Value, old: &Value) -> Errors {
    binding_update(new, old, false)
}
