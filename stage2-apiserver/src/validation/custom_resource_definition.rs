//! CustomResourceDefinition: is this a kind that can be served?
//!
//! A definition is checked as Kubernetes' internal form of it, and so are the paths in messages: what all versions have in common is
//! spoken of once (`spec.validation.openAPIV3Schema`), and only versions that differ are named (`spec.versions[0].schema.…`).
//!
//! Three kinds of rules, a file each: names, versions and conversion here; whether the schema is structural in [`structural`]; what
//! OpenAPI and the vendor extensions allow in [`openapi_schema`].
//!
//! # Invariants
//! 1. What may not change of a definition that is established is refused, whoever asks.
//!
//! # In Kubernetes
//! `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`. Left out: ratcheting of schemas that earlier releases let in.

pub mod openapi_schema;
mod parts;
pub mod rule_forms;
pub mod structural;

use serde_json::Value;

use super::fields::{at, child, flag, has, list, opt_flag, text, texts};
use super::{Errors, FieldError, field, go_syntax, immutable, index, names};
use crate::custom_resources::names::{API_APPROVED, is_protected};
use parts::{columns, conversion, names_of, subresources};

/// Rules for a new definition.
pub fn definition(value: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = child(value, "spec");
    let required = format!("{}.{}", text(child(spec, "names"), "plural"), text(spec, "group"));
    let name = text(child(value, "metadata"), "name");
    if name != required {
        let why = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", name, why));
    }
    errors.extend(whole(value));
    approval(&mut errors, value, None);
    if opt_flag(spec, "preserveUnknownFields") == Some(true) {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, why));
    }
    errors
}

/// Rules for a change.
pub fn definition_update(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let (spec, before) = (child(new, "spec"), child(old, "spec"));
    errors.extend(spec_of(spec));
    let conditions = list(child(old, "status"), "conditions");
    if conditions.iter().any(|c| text(c, "type") == "Established" && text(c, "status") == "True") {
        immutable(&mut errors, child(spec, "scope"), child(before, "scope"), "spec.scope");
        immutable(&mut errors, at(spec, "/names/kind"), at(before, "/names/kind"), "spec.names.kind");
    }
    immutable(&mut errors, child(spec, "group"), child(before, "group"), "spec.group");
    immutable(&mut errors, at(spec, "/names/plural"), at(before, "/names/plural"), "spec.names.plural");
    names_of(&mut errors, at(new, "/status/acceptedNames"), "status.acceptedNames");
    stored_versions(&mut errors, new);
    approval(&mut errors, new, Some(old));
    let was_set = opt_flag(before, "preserveUnknownFields") == Some(true);
    if opt_flag(spec, "preserveUnknownFields") == Some(true) && !was_set {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, why));
    }
    errors
}

fn whole(value: &Value) -> Errors {
    let mut errors = spec_of(child(value, "spec"));
    names_of(&mut errors, at(value, "/status/acceptedNames"), "status.acceptedNames");
    stored_versions(&mut errors, value);
    errors
}

fn spec_of(spec: &Value) -> Errors {
    let mut errors = Errors::new();
    let group = text(spec, "group");
    let bad_group = names::dns1123_subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !bad_group.is_empty() {
        errors.push(FieldError::invalid("spec.group", group, bad_group.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
    super::values::one_of(&mut errors, spec, "scope", "spec", &["Cluster", "Namespaced"]);
    versions(&mut errors, spec);
    let wanted = child(spec, "names");
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(wanted, name).is_empty() {
            errors.push(FieldError::required(field("spec.names", name), ""));
        }
    }
    names_of(&mut errors, wanted, "spec.names");
    // What all versions share is looked at once, and said of the whole.
    if let Some(first) = list(spec, "versions").first() {
        let shared = Shared::of(spec);
        if shared.schema {
            let has_status =
                list(spec, "versions").iter().any(|version| has(child(version, "subresources"), "status"));
            openapi_schema::validation(&mut errors, child(first, "schema"), has_status, "spec.validation");
        }
        if shared.subresources {
            subresources(&mut errors, child(first, "subresources"), "spec.subresources");
        }
        if shared.columns {
            columns(&mut errors, first, "spec");
        }
        if shared.selectable {
            openapi_schema::selectable_fields(&mut errors, first, "spec");
        }
    }
    conversion(&mut errors, child(spec, "conversion"));
    errors
}

/// What is the same in all versions.
struct Shared {
    schema: bool,
    subresources: bool,
    columns: bool,
    selectable: bool,
}

impl Shared {
    fn of(spec: &Value) -> Shared {
        let versions = list(spec, "versions");
        let same =
            |name: &str| versions.iter().all(|version| child(version, name) == child(&versions[0], name));
        Shared {
            schema: same("schema"),
            subresources: same("subresources"),
            columns: same("additionalPrinterColumns"),
            selectable: same("selectableFields"),
        }
    }
}

fn versions(errors: &mut Errors, spec: &Value) {
    let versions = list(spec, "versions");
    let shared = if versions.is_empty() { None } else { Some(Shared::of(spec)) };
    for (at, version) in versions.iter().enumerate() {
        if !has(child(version, "schema"), "openAPIV3Schema") {
            let path = format!("{}.schema.openAPIV3Schema", index("spec.versions", at));
            errors.push(FieldError::required(path, "schemas are required"));
        }
    }
    for (at, version) in versions.iter().enumerate() {
        let path = index("spec.versions", at);
        let name = text(version, "name");
        let bad = names::dns1035_label(name);
        if !bad.is_empty() {
            errors.push(FieldError::invalid(field(&path, "name"), name, bad.join(",")));
        }
        deprecation(errors, version, &path);
        let Some(shared) = &shared else { continue };
        if !shared.schema {
            let has_status = has(child(version, "subresources"), "status");
            openapi_schema::validation(errors, child(version, "schema"), has_status, &field(&path, "schema"));
        }
        if !shared.subresources {
            subresources(errors, child(version, "subresources"), &field(&path, "subresources"));
        }
        if !shared.columns {
            columns(errors, version, &path);
        }
        if !shared.selectable {
            openapi_schema::selectable_fields(errors, version, &path);
        }
    }
    let all: Vec<&str> = versions.iter().map(|version| text(version, "name")).collect();
    let is_unique = all.iter().enumerate().all(|(at, name)| !all[..at].contains(name));
    let shown = || go_versions(versions, shared.as_ref());
    if !is_unique {
        errors.push(FieldError::invalid("spec.versions", shown(), "must contain unique version names"));
    }
    if versions.iter().filter(|version| flag(version, "storage")).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", shown(), why));
    }
    if let Some(first) = all.first().filter(|first| !first.is_empty()) {
        let bad = names::dns1035_label(first);
        if !bad.is_empty() {
            errors.push(FieldError::invalid("spec.version", *first, bad.join(",")));
        }
    }
}

fn deprecation(errors: &mut Errors, version: &Value, path: &str) {
    let Some(warning) = child(version, "deprecationWarning").as_str() else { return };
    let path = field(path, "deprecationWarning");
    let mut refuse = |why: &str| errors.push(FieldError::invalid(path.clone(), warning, why));
    if !flag(version, "deprecated") {
        return refuse("can only be set for deprecated versions");
    }
    if warning.len() > 256 {
        refuse("must be <= 256 characters long");
    }
    if warning.is_empty() {
        refuse("must not be an empty string");
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
        refuse(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        ));
    }
}

/// The versions as Go source, as far as they differ.
fn go_versions(versions: &[Value], shared: Option<&Shared>) -> Value {
    if versions.is_empty() {
        return go_syntax::raw("[]apiextensions.CustomResourceDefinitionVersion(nil)");
    }
    let or_pointer = |is_there: bool, kind: &str| match is_there {
        true => format!("(*apiextensions.{kind})(0x0)"),
        false => format!("(*apiextensions.{kind})(nil)"),
    };
    let differs = |version: &Value, name: &str, is_shared: bool| has(version, name) && !is_shared;
    let shown: Vec<String> = versions
        .iter()
        .map(|v| {
            let shared = shared.expect("there are versions");
            format!(
                "apiextensions.CustomResourceDefinitionVersion{{Name:{}, Served:{}, Storage:{}, Deprecated:{}, DeprecationWarning:(*string)(nil), Schema:{}, Subresources:{}, AdditionalPrinterColumns:[]apiextensions.CustomResourceColumnDefinition(nil), SelectableFields:[]apiextensions.SelectableField(nil)}}",
                stage1_kubectl::status::quote(text(v, "name")),
                flag(v, "served"),
                flag(v, "storage"),
                flag(v, "deprecated"),
                or_pointer(differs(v, "schema", shared.schema), "CustomResourceValidation"),
                or_pointer(differs(v, "subresources", shared.subresources), "CustomResourceSubresources"),
            )
        })
        .collect();
    go_syntax::raw(format!("[]apiextensions.CustomResourceDefinitionVersion{{{}}}", shown.join(", ")))
}

/// Every version that objects may still be stored in must stay defined.
fn stored_versions(errors: &mut Errors, value: &Value) {
    let path = "status.storedVersions";
    let stored = texts(child(value, "status"), "storedVersions");
    let shown = || go_syntax::raw(go_syntax::strings("[]string", &stored));
    if stored.is_empty() {
        let shown = go_syntax::raw("[]string(nil)");
        errors.push(FieldError::invalid(path, shown, "must have at least one stored version"));
        return;
    }
    let mut left: Vec<(usize, &str)> = stored.iter().copied().enumerate().collect();
    for version in list(child(value, "spec"), "versions") {
        let name = text(version, "name");
        let known = left.iter().position(|(_, stored)| *stored == name);
        if flag(version, "storage") && known.is_none() {
            errors.push(FieldError::invalid(path, shown(), format!("must have the storage version {name}")));
        }
        known.map(|known| left.remove(known));
    }
    for (at, version) in left {
        let why = format!(
            "missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {version} and removes {version} from status.storedVersions"
        );
        errors.push(FieldError::invalid(index(path, at), version, why));
    }
}

/// Kubernetes' own groups are for who has been allowed to use them.
fn approval(errors: &mut Errors, value: &Value, old: Option<&Value>) {
    let annotation = |value: &Value| {
        let annotations = at(value, "/metadata/annotations");
        text(annotations, API_APPROVED).to_owned()
    };
    if !is_protected(text(child(value, "spec"), "group")) {
        return;
    }
    let approved = annotation(value);
    if old.is_some_and(|old| annotation(old) == approved) {
        return;
    }
    let path = format!("metadata.annotations[{API_APPROVED}]");
    if approved.is_empty() {
        let why = format!(
            "protected groups must have approval annotation {}, see https://github.com/kubernetes/enhancements/pull/1111",
            stage1_kubectl::status::quote(API_APPROVED)
        );
        errors.push(FieldError::required(path, why));
    } else if !approved.starts_with("unapproved") && !approved.starts_with("http") {
        let why = format!(
            "protected groups must have approval annotation {} with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111",
            stage1_kubectl::status::quote(API_APPROVED)
        );
        errors.push(FieldError::invalid(path, approved, why));
    }
}
