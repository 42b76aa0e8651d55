//! Names: which of the names that a definition asks for it gets, and what its status says about that.
//!
//! *Before a custom object's journey.* Before: somebody created a definition. After: its names are accepted, and a moment later it is
//! established, or another definition of its group has them already.
//!
//! One group can't have two resources of one name, nor two kinds. Who comes second keeps asking: when the first one goes, its
//! names are free. Names once accepted stay accepted until they are changed to others that are free.
//!
//! Everything here is a function from definitions to a status, so that several API servers on one store that do the same at the
//! same time write the same.
//!
//! # Invariants
//! 1. A name is accepted for one definition of a group at a time.
//! 2. A definition that was established stays so.
//!
//! # In Kubernetes
//! `apiextensions-apiserver/pkg/controller/{status/naming_controller,establish/establishing_controller,apiapproval/apiapproval_controller}.go`.
//! Left out: `NonStructuralSchema` (v1 doesn't let such schemas in).

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::status::quote;

use crate::registry;
use crate::validation::fields::{at, child, list, text, texts};

/// The annotation without which nobody defines kinds in Kubernetes' own groups.
pub const API_APPROVED: &str = "api-approved.kubernetes.io";

/// Names that are taken in a group.
#[derive(Debug, Default)]
struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Taken {
    fn by_others(definition: &Object, all: &[&Object]) -> Taken {
        let group = definition.get_str("/spec/group");
        let mut taken = Taken::default();
        // What is built in can't be defined once more.
        for info in registry::all().filter(|info| Some(info.group) == group) {
            taken.resources.extend([info.resource, info.singular].map(str::to_owned));
            taken.resources.extend(info.short_names.iter().map(|name| (*name).to_owned()));
            taken.kinds.extend([info.kind.to_owned(), info.list_kind()]);
        }
        let others = all.iter().filter(|other| other.name() != definition.name());
        for other in others.filter(|other| other.get_str("/spec/group") == group) {
            let names = at(other.as_value(), "/status/acceptedNames");
            let resources = [text(names, "plural"), text(names, "singular")].into_iter();
            taken.resources.extend(resources.chain(texts(names, "shortNames")).map(str::to_owned));
            taken.kinds.extend([text(names, "kind"), text(names, "listKind")].map(str::to_owned));
        }
        taken
    }
}

// ANCHOR: accept-names
/// The status that a definition should have, given all others; times are only set where something changes.
pub fn status(definition: &Object, all: &[&Object], now: Timestamp) -> Value {
    let value = definition.as_value();
    let mut status = child(value, "status").clone();
    let (names, conflict) =
        accepted(child(value, "spec"), at(value, "/status/acceptedNames"), definition, all);
    status["acceptedNames"] = names;
    let is_accepted = conflict.is_none();
    let accepted = match conflict {
        Some((reason, message)) => condition("NamesAccepted", false, reason, &message),
        None => condition("NamesAccepted", true, "NoConflicts", "no conflicts found"),
    };
    let before = find(child(value, "status"), "Established");
    let established = match before {
        Some(before) if text(before, "status") == "True" => None,
        // A first round says that it is on its way, a second that it is there: whoever watches sees both.
        Some(before) if is_accepted && text(before, "reason") == "Installing" => Some(condition(
            "Established",
            true,
            "InitialNamesAccepted",
            "the initial names have been accepted",
        )),
        _ if is_accepted => {
            Some(condition("Established", false, "Installing", "the initial names have been accepted"))
        }
        None => Some(condition("Established", false, "NotAccepted", "not all names are accepted")),
        Some(_) => None,
    };
    set(&mut status, accepted, now);
    established.into_iter().for_each(|condition| set(&mut status, condition, now));
    approval(definition).into_iter().for_each(|condition| set(&mut status, condition, now));
    status
}
// ANCHOR_END: accept-names

type Conflict = (&'static str, String);

fn accepted(spec: &Value, before: &Value, definition: &Object, all: &[&Object]) -> (Value, Option<Conflict>) {
    let wanted = child(spec, "names");
    let taken = Taken::by_others(definition, all);
    let mut names = if before.is_object() { before.clone() } else { json!({}) };
    let mut conflict: Option<Conflict> = None;
    let in_use = |name: &str| format!("{} is already in use", quote(name));
    for (field, taken, reason) in [
        ("plural", &taken.resources, "PluralConflict"),
        ("singular", &taken.resources, "SingularConflict"),
        ("kind", &taken.kinds, "KindConflict"),
        ("listKind", &taken.kinds, "ListKindConflict"),
    ] {
        let name = text(wanted, field);
        if name == text(before, field) || !taken.contains(name) {
            names[field] = json!(name);
        } else {
            conflict = Some((reason, in_use(name)));
        }
    }
    let short = texts(wanted, "shortNames");
    let has_already = texts(before, "shortNames");
    let clash: Vec<String> = short
        .iter()
        .filter(|name| !has_already.contains(*name) && taken.resources.contains(**name))
        .map(|name| in_use(name))
        .collect();
    match clash.as_slice() {
        [] => put_list(&mut names, "shortNames", &short),
        [one] => conflict = Some(("ShortNamesConflict", one.clone())),
        several => conflict = Some(("ShortNamesConflict", format!("[{}]", several.join(", ")))),
    }
    put_list(&mut names, "categories", &texts(wanted, "categories"));
    (names, conflict)
}

fn put_list(names: &mut Value, field: &str, values: &[&str]) {
    if let Some(names) = names.as_object_mut() {
        match values.is_empty() {
            true => drop(names.remove(field)),
            false => drop(names.insert(field.to_owned(), json!(values))),
        }
    }
}

/// What is said of a definition in one of Kubernetes' own groups.
fn approval(definition: &Object) -> Option<Value> {
    if !is_protected(definition.get_str("/spec/group").unwrap_or_default()) {
        return None;
    }
    let kind = "KubernetesAPIApprovalPolicyConformant";
    let approved = definition.annotation(API_APPROVED).unwrap_or_default();
    Some(match approved {
        "" => condition(
            kind,
            false,
            "MissingAnnotation",
            &format!(
                "protected groups must have approval annotation {}, see https://github.com/kubernetes/enhancements/pull/1111",
                quote(API_APPROVED)
            ),
        ),
        skipped if skipped.starts_with("unapproved") => {
            condition(kind, false, "UnapprovedAnnotation", &format!("not approved: {}", quote(skipped)))
        }
        url => condition(kind, true, "ApprovedAnnotation", &format!("approved in {url}")),
    })
}

/// Kubernetes' own groups.
pub fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|own| group == *own || group.ends_with(&format!(".{own}")))
}

/// A condition without its time.
pub fn condition(kind: &str, holds: bool, reason: &str, message: &str) -> Value {
    let status = if holds { "True" } else { "False" };
    json!({ "type": kind, "status": status, "reason": reason, "message": message })
}

fn find<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    list(status, "conditions").iter().find(|one| text(one, "type") == kind)
}

/// Puts a condition into a status. Its time is the one of its last change of status.
pub fn set(status: &mut Value, mut condition: Value, now: Timestamp) {
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let kind = text(&condition, "type").to_owned();
    let before = find(status, &kind);
    let time = before
        .filter(|before| before["status"] == condition["status"])
        .map(|b| b["lastTransitionTime"].clone());
    condition["lastTransitionTime"] = time.unwrap_or_else(|| json!(now));
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let conditions = status["conditions"].as_array_mut().expect("made a list just above");
    match conditions.iter_mut().find(|one| text(one, "type") == kind) {
        Some(slot) => *slot = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(name: &str, names: Value) -> Object {
        let value = json!({
            "metadata": { "name": name },
            "spec": { "group": "example.com", "names": names },
            "status": { "conditions": null, "acceptedNames": { "plural": "", "kind": "" } },
        });
        Object::from_value(value).expect("an object")
    }

    fn settled(mut definition: Object, all: &[&Object]) -> Object {
        for _ in 0..3 {
            let status = status(&definition, all, Timestamp::UNIX_EPOCH);
            definition.set("/status", status);
        }
        definition
    }

    fn shown(definition: &Object) -> Vec<String> {
        let conditions = list(child(definition.as_value(), "status"), "conditions").iter();
        conditions
            .map(|c| format!("{}={} {}", text(c, "type"), text(c, "status"), text(c, "message")))
            .collect()
    }

    #[test]
    fn names_are_accepted_first_and_established_then() {
        let names =
            json!({ "plural": "ws", "singular": "w", "kind": "W", "listKind": "WList", "shortNames": ["x"] });
        let mut ws = definition("ws.example.com", names);
        ws.set("/status", status(&ws, &[&ws.clone()], Timestamp::UNIX_EPOCH));
        assert_eq!(
            shown(&ws),
            [
                "NamesAccepted=True no conflicts found",
                "Established=False the initial names have been accepted"
            ]
        );
        assert_eq!(ws.get_str("/status/conditions/1/reason"), Some("Installing"));
        let ws = settled(ws, &[]);
        assert_eq!(ws.get_str("/status/conditions/1/reason"), Some("InitialNamesAccepted"));
        assert_eq!(ws.get("/status/acceptedNames"), ws.get("/spec/names"));
    }

    #[test]
    fn the_second_of_two_waits_for_its_names() {
        let names =
            |kind: &str| json!({ "plural": "ws", "singular": "w", "kind": kind, "listKind": "WList" });
        let first = settled(definition("ws.example.com", names("W")), &[]);
        let second = settled(definition("vs.example.com", names("V")), &[&first]);
        assert_eq!(
            shown(&second),
            [
                "NamesAccepted=False \"WList\" is already in use",
                "Established=False not all names are accepted"
            ]
        );
        assert_eq!(second.get_str("/status/acceptedNames/kind"), Some("V"));
        let freed = settled(second, &[]);
        assert_eq!(freed.get_str("/status/conditions/1/status"), Some("True"));
    }
}
