//! Definitions: a CustomResourceDefinition, read into what serving its kind takes.
//!
//! *Before a custom object's journey.* Before: [`super::controller`] wrote that the definition is established. After: the kind is
//! served, one [`CustomKind`] a version.
//!
//! Reading is done once a definition and version of it, and everything that a request needs is in the outcome: the schema as a
//! tree, patterns compiled, the types for server-side apply, the columns. Names are the accepted ones, since those asked for may be
//! somebody else's.
//!
//! # Invariants
//! 1. Only versions that are served, of definitions that are established, become kinds.
//! 2. All versions of a definition are stored as one version.
//!
//! # In Kubernetes
//! `crdHandler.getOrCreateServingInfoFor` in `apiextensions-apiserver/pkg/apiserver/customresource_handler.go`.

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::Value;
use stage1_kubectl::object::Object;

use super::columns::Columns;
use super::conversion::Conversion;
use super::structural::Schema;
use super::{CustomKind, Scale, rules};
use crate::managed_fields::field_types::structural;
use crate::registry::{ALL_VERBS, Custom, ResourceInfo, SCALE, STATUS, StorageInfo, Subresource};
use crate::validation::fields::{at, child, flag, has, list, text, texts};

/// Verbs of a kind whose definition is going.
const TERMINATING_VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Whether a condition of a definition is `True`.
pub fn is_true(definition: &Object, condition: &str) -> bool {
    let conditions = list(child(definition.as_value(), "status"), "conditions");
    conditions.iter().any(|one| text(one, "type") == condition && text(one, "status") == "True")
}

/// The key prefix of the objects of a definition.
pub fn prefix(definition: &Object) -> String {
    let spec = child(definition.as_value(), "spec");
    format!("/registry/{}/{}", text(spec, "group"), text(child(spec, "names"), "plural"))
}

/// The kinds of a definition; none while it isn't established. `before` are those that it had.
pub fn kinds(
    definition: &Object,
    before: &[Arc<CustomKind>],
    intern: &dyn Fn(&Names<'_>) -> &'static ResourceInfo,
) -> Vec<Arc<CustomKind>> {
    if !is_true(definition, "Established") {
        return Vec::new();
    }
    let value = definition.as_value();
    let spec = child(value, "spec");
    let versions = list(spec, "versions");
    let stored = versions.iter().find(|version| flag(version, "storage")).map_or("", |v| text(v, "name"));
    let mut served: Vec<&Value> = versions.iter().filter(|version| flag(version, "served")).collect();
    served.sort_by(|a, b| compare_versions(text(b, "name"), text(a, "name")));
    let prefix = prefix(definition);
    let names_of = |version| Names { definition: value, version, stored, prefix: &prefix };
    let infos: Vec<&'static ResourceInfo> =
        served.iter().map(|version| intern(&names_of(*version))).collect();
    let is_only = versions.len() == 1;
    let before = before.iter().find_map(|kind| kind.conversion.as_ref());
    let conversion = Conversion::new(definition, before).filter(|_| !is_only);
    let make = |(version, info): (&&Value, &&'static ResourceInfo)| {
        let mut kind = custom_kind(definition, version, info, infos.clone());
        kind.is_converted = kind.has_defaults || !is_only;
        kind.conversion = conversion.clone();
        Arc::new(kind)
    };
    served.iter().zip(&infos).map(make).collect()
}

/// The entry under which a definition's objects are stored, served or not.
pub fn stored_entry(
    definition: &Object,
    intern: &dyn Fn(&Names<'_>) -> &'static ResourceInfo,
) -> Option<&'static ResourceInfo> {
    let value = definition.as_value();
    let version = list(child(value, "spec"), "versions").iter().find(|version| flag(version, "storage"))?;
    let prefix = prefix(definition);
    Some(intern(&Names { definition: value, version, stored: text(version, "name"), prefix: &prefix }))
}

fn custom_kind(
    definition: &Object,
    version: &Value,
    info: &'static ResourceInfo,
    siblings: Vec<&'static ResourceInfo>,
) -> CustomKind {
    let published = at(version, "/schema/openAPIV3Schema").clone();
    let mut schema = Schema::parse(&published);
    // The object itself is one with apiVersion, kind and metadata.
    schema.embedded_resource = true;
    rules::compile(&mut schema);
    let subresources = child(version, "subresources");
    let scale = child(subresources, "scale");
    let warning = || {
        let (group_version, kind) = (info.group_version(), info.kind);
        format!("{group_version} {kind} is deprecated")
    };
    CustomKind {
        info,
        siblings,
        object_type: structural::object_type(&published),
        has_defaults: schema.has_defaults(),
        is_converted: true,
        conversion: None,
        preserves_unknown_fields: flag(child(definition.as_value(), "spec"), "preserveUnknownFields"),
        schema,
        published,
        columns: Arc::new(Columns::parse(version)),
        selectable_fields: list(version, "selectableFields")
            .iter()
            .map(|field| text(field, "jsonPath").trim_start_matches('.').to_owned())
            .collect(),
        has_status: has(subresources, "status"),
        scale: scale.is_object().then(|| Scale {
            spec_replicas: text(scale, "specReplicasPath").to_owned(),
            status_replicas: text(scale, "statusReplicasPath").to_owned(),
            label_selector: text(scale, "labelSelectorPath").to_owned(),
        }),
        deprecation_warning: flag(version, "deprecated").then(|| match text(version, "deprecationWarning") {
            "" => warning(),
            said => said.to_owned(),
        }),
        terminating: is_true(definition, "Terminating"),
    }
}

/// What an entry of the registry is made of.
pub struct Names<'a> {
    definition: &'a Value,
    version: &'a Value,
    stored: &'a str,
    prefix: &'a str,
}

impl Names<'_> {
    /// Two entries with one identity are one entry.
    pub fn identity(&self) -> String {
        let spec = child(self.definition, "spec");
        let accepted = at(self.definition, "/status/acceptedNames");
        let version = self.version;
        let subresources = child(version, "subresources");
        let parts = [
            text(spec, "group"),
            text(spec, "scope"),
            text(version, "name"),
            self.stored,
            &accepted.to_string(),
            &format!(
                "{}{}{}",
                has(subresources, "status"),
                has(subresources, "scale"),
                self.is_terminating()
            ),
        ];
        parts.join("\n")
    }

    fn is_terminating(&self) -> bool {
        let conditions = list(child(self.definition, "status"), "conditions");
        conditions.iter().any(|one| text(one, "type") == "Terminating" && text(one, "status") == "True")
    }

    /// Kind of a list.
    pub fn list_kind(&self) -> &'static str {
        keep(text(at(self.definition, "/status/acceptedNames"), "listKind"))
    }

    /// The entry. Its texts live as long as the program: see [`super::CustomResources`].
    pub fn entry(&self, custom: &'static Custom) -> ResourceInfo {
        let spec = child(self.definition, "spec");
        let names = at(self.definition, "/status/acceptedNames");
        let subresources = child(self.version, "subresources");
        let group = keep(text(spec, "group"));
        let version = keep(text(self.version, "name"));
        let (status, scale) = (has(subresources, "status"), has(subresources, "scale"));
        let subresources: &'static [Subresource] = match (status, scale) {
            (false, false) => &[],
            (true, false) => &[STATUS],
            (false, true) => &[SCALE],
            (true, true) => &[STATUS, SCALE],
        };
        ResourceInfo {
            group,
            version,
            resource: keep(text(names, "plural")),
            singular: keep(text(names, "singular")),
            kind: keep(text(names, "kind")),
            namespaced: text(spec, "scope") == "Namespaced",
            short_names: keep_all(&texts(names, "shortNames")),
            categories: keep_all(&texts(names, "categories")),
            verbs: if self.is_terminating() { TERMINATING_VERBS } else { ALL_VERBS },
            subresources,
            storage: Some(StorageInfo { prefix: keep(self.prefix), group, version: keep(self.stored) }),
            custom: Some(custom),
        }
    }
}

fn keep(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

fn keep_all(texts: &[&str]) -> &'static [&'static str] {
    let kept: Vec<&'static str> = texts.iter().map(|text| keep(text)).collect();
    Box::leak(kept.into_boxed_slice())
}

/// Versions by maturity, then by number, then by name: `v2` > `v1` > `v2beta1` > `v1alpha1` > `foo`.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (maturity(a), maturity(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

/// `v2beta3` is (1, 2, 3).
fn maturity(version: &str) -> Option<(u8, u64, u64)> {
    let number = |text: &str| -> Option<u64> {
        let is_number =
            !text.is_empty() && !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| text.parse().ok()).flatten()
    };
    let rest = version.strip_prefix('v')?;
    for (word, rank) in [("alpha", 0), ("beta", 1)] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((rank, number(major)?, number(minor)?));
        }
    }
    Some((2, number(rest)?, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mature_versions_come_first() {
        let mut versions = ["v1alpha1", "foo", "v10", "v1beta1", "v2", "v11alpha2", "v3beta1", "v1", "bar"];
        versions.sort_by(|a, b| compare_versions(b, a));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v3beta1", "v1beta1", "v11alpha2", "v1alpha1", "bar", "foo"]
        );
    }
}
