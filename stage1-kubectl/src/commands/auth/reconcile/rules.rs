//! What a role or binding becomes, and why: a pure function of the live object and the wanted one.
//!
//! # Invariants
//! 1. Reconciling twice changes nothing the second time.
//!
//! # In Kubernetes
//! `component-helpers/auth/rbac/reconciliation/reconcile_{role,rolebindings}.go`, `…/validation/policy_comparator.go`.

use serde_json::{Value, json};

use crate::object::Object;

/// What must be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Nothing,
    Create,
    Update,
    /// A binding's role can't be changed.
    Recreate,
}

/// What is done, and what it adds and removes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    pub operation: Operation,
    pub protected: bool,
    missing: Vec<Value>,
    extra: Vec<Value>,
    word: &'static str,
}

impl Outcome {
    /// The lines for stderr.
    pub(super) fn report(&self) -> String {
        let operation = match self.operation {
            Operation::Nothing => return String::new(),
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::Recreate => "recreate",
        };
        let caveat = match self.protected {
            true => ", but object opted out (rbac.authorization.kubernetes.io/autoupdate: false)",
            false => "",
        };
        let mut text = format!("\treconciliation required {operation}{caveat}\n");
        for (list, done) in [(&self.missing, "missing"), (&self.extra, "extra")] {
            if !list.is_empty() {
                let verb = if done == "missing" { "added" } else { "removed" };
                text += &format!("\t{done} {} {verb}:\n", self.word);
                list.iter().for_each(|one| text += &format!("\t\t{}\n", go(self.word, one)));
            }
        }
        text
    }
}

/// A rule or a subject as Go's `%+v` prints it.
fn go(word: &str, value: &Value) -> String {
    let list = |field: &str| {
        let words = value[field].as_array().into_iter().flatten().filter_map(Value::as_str);
        format!("[{}]", words.collect::<Vec<_>>().join(" "))
    };
    let text = |field: &str| value[field].as_str().unwrap_or_default().to_string();
    match word {
        "rules" => format!(
            "{{Verbs:{} APIGroups:{} Resources:{} ResourceNames:{} NonResourceURLs:{}}}",
            list("verbs"),
            list("apiGroups"),
            list("resources"),
            list("resourceNames"),
            list("nonResourceURLs")
        ),
        _ => format!(
            "{{Kind:{} APIGroup:{} Name:{} Namespace:{}}}",
            text("kind"),
            text("apiGroup"),
            text("name"),
            text("namespace")
        ),
    }
}

fn items(object: &Object, field: &str) -> Vec<Value> {
    object.get(field).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// What the object becomes; `remove_extra` takes away what the wanted one doesn't grant.
// ANCHOR: reconcile-rbac
pub(super) fn reconcile(live: Option<&Object>, wanted: &Object, remove_extra: bool) -> (Object, Outcome) {
    let is_role = matches!(wanted.kind(), "Role" | "ClusterRole");
    let (field, word) = if is_role { ("/rules", "rules") } else { ("/subjects", "subjects") };
    let expected = items(wanted, field);
    let mut outcome = Outcome {
        operation: Operation::Create,
        protected: false,
        missing: expected.clone(),
        extra: Vec::new(),
        word,
    };
    let Some(live) = live else { return (wanted.clone(), outcome) };
    outcome.protected = live.annotation("rbac.authorization.kubernetes.io/autoupdate") == Some("false");
    if !is_role && live.get("/roleRef") != wanted.get("/roleRef") {
        let nothing = Vec::new();
        return (wanted.clone(), Outcome { operation: Operation::Recreate, missing: nothing, ..outcome });
    }
    let existing = items(live, field);
    (outcome.missing, outcome.extra) = match is_role {
        true => (uncovered(&existing, &expected), uncovered(&expected, &existing)),
        false => (without(&expected, &existing), without(&existing, &expected)),
    };
    if !remove_extra {
        outcome.extra.clear();
    }
    let mut object = live.clone();
    for map in ["labels", "annotations"] {
        for (key, value) in wanted.string_map(&format!("/metadata/{map}")) {
            let pointer = format!("/metadata/{map}/{}", crate::object::escape(&key));
            if object.get(&pointer).is_none() {
                object.set(&pointer, value);
            }
        }
    }
    if let Some(aggregation) = wanted.get("/aggregationRule") {
        object.set("/aggregationRule", aggregation.clone());
    } else if remove_extra && !outcome.extra.is_empty() {
        object.set(field, json!(expected));
    } else if !outcome.missing.is_empty() {
        let all: Vec<Value> = existing.into_iter().chain(outcome.missing.iter().cloned()).collect();
        object.set(field, if remove_extra { json!(expected) } else { json!(all) });
    }
    outcome.operation = if object == *live { Operation::Nothing } else { Operation::Update };
    (object, outcome)
}
// ANCHOR_END: reconcile-rbac

fn without(list: &[Value], other: &[Value]) -> Vec<Value> {
    list.iter().filter(|one| !other.contains(one)).cloned().collect()
}

/// The simple rules of `wanted` that no rule of `granted` covers.
fn uncovered(granted: &[Value], wanted: &[Value]) -> Vec<Value> {
    let simple = wanted.iter().flat_map(simple_rules);
    simple.filter(|rule| !granted.iter().any(|owner| covers(owner, rule))).collect()
}

fn words(rule: &Value, field: &str) -> Vec<String> {
    let list = rule[field].as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(String::from).collect()
}

/// A rule as rules of one verb and one resource each.
fn simple_rules(rule: &Value) -> Vec<Value> {
    let mut simple = Vec::new();
    let names = words(rule, "resourceNames");
    for group in words(rule, "apiGroups") {
        for resource in words(rule, "resources") {
            for verb in words(rule, "verbs") {
                let one = json!({"verbs": [verb], "apiGroups": [group], "resources": [resource]});
                match names.is_empty() {
                    true => simple.push(one),
                    false => simple.extend(names.iter().map(|name| {
                        let mut one = one.clone();
                        one["resourceNames"] = json!([name]);
                        one
                    })),
                }
            }
        }
    }
    for url in words(rule, "nonResourceURLs") {
        for verb in words(rule, "verbs") {
            simple.push(json!({"verbs": [verb], "nonResourceURLs": [url]}));
        }
    }
    simple
}

/// Whether a rule grants what a simple rule grants.
fn covers(owner: &Value, rule: &Value) -> bool {
    let has = |field: &str| {
        let (owned, wanted) = (words(owner, field), words(rule, field));
        owned.iter().any(|one| one == "*") || wanted.iter().all(|one| owned.contains(one))
    };
    let resources = || {
        let owned = words(owner, "resources");
        let fits = |wanted: &String| {
            let any_parent = wanted.split_once('/').map(|(_, sub)| format!("*/{sub}"));
            owned.contains(wanted) || any_parent.is_some_and(|pattern| owned.contains(&pattern))
        };
        owned.iter().any(|one| one == "*") || words(rule, "resources").iter().all(fits)
    };
    let names = || {
        let (owned, wanted) = (words(owner, "resourceNames"), words(rule, "resourceNames"));
        owned.is_empty() || (!wanted.is_empty() && wanted.iter().all(|name| owned.contains(name)))
    };
    let urls = || {
        let owned = words(owner, "nonResourceURLs");
        let fits = |wanted: &String| {
            let prefix = |one: &String| one.strip_suffix('*').is_some_and(|start| wanted.starts_with(start));
            owned.iter().any(|one| one == wanted || prefix(one))
        };
        words(rule, "nonResourceURLs").iter().all(fits)
    };
    has("verbs") && has("apiGroups") && resources() && names() && urls()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(rules: Value) -> Object {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "a", "namespace": "n"}, "rules": rules});
        Object::from_value(role).unwrap()
    }

    #[test]
    fn what_is_missing_is_added_and_what_is_too_much_goes_when_asked() {
        let live = role(json!([{"verbs": ["get", "watch"], "apiGroups": [""], "resources": ["pods"]}]));
        let wanted = role(json!([
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["list"], "apiGroups": ["apps"], "resources": ["deployments"]},
        ]));
        let (object, outcome) = reconcile(Some(&live), &wanted, false);
        assert_eq!(items(&object, "/rules").len(), 2);
        let report = "\treconciliation required update\n\tmissing rules added:\n\t\t{Verbs:[list] APIGroups:[apps] Resources:[deployments] ResourceNames:[] NonResourceURLs:[]}\n";
        assert_eq!(outcome.report(), report);
        assert_eq!(reconcile(Some(&object), &wanted, false).1.operation, Operation::Nothing);
        let (exact, outcome) = reconcile(Some(&live), &wanted, true);
        assert_eq!(exact.get("/rules"), wanted.get("/rules"));
        assert!(outcome.report().contains("extra rules removed:\n\t\t{Verbs:[watch]"));
    }

    #[test]
    fn a_star_covers_everything_and_a_name_only_itself() {
        let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        let one = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]});
        let any = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        assert!(covers(&all, &one) && covers(&any, &one) && !covers(&one, &any));
        let log = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["*/log"]});
        assert!(covers(&log, &json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]})));
        let url = json!({"verbs": ["get"], "nonResourceURLs": ["/healthz*"]});
        assert!(covers(&url, &json!({"verbs": ["get"], "nonResourceURLs": ["/healthz/etcd"]})));
    }

    #[test]
    fn a_binding_to_another_role_is_made_anew() {
        let binding = |role: &str| {
            let value = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": {"name": "b"}, "roleRef": {"name": role}, "subjects": []});
            Object::from_value(value).unwrap()
        };
        let (object, outcome) = reconcile(Some(&binding("x")), &binding("y"), false);
        assert_eq!((object, outcome.operation), (binding("y"), Operation::Recreate));
    }
}
