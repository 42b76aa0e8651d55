//! What a kustomization may say; an unknown field is an error, because a misspelt one would change nothing in silence.
//!
//! # In Kubernetes
//! `kustomize/api/types/kustomization.go`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::manifest;

/// A `kustomization.yaml`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Kustomization {
    pub api_version: String,
    pub kind: String,
    pub metadata: Value,
    pub resources: Vec<String>,
    pub bases: Vec<String>,
    pub components: Vec<String>,
    pub namespace: String,
    pub name_prefix: String,
    pub name_suffix: String,
    pub labels: Vec<Labels>,
    pub common_labels: Map<String, Value>,
    pub common_annotations: Map<String, Value>,
    pub images: Vec<Image>,
    pub replicas: Vec<Replicas>,
    pub patches: Vec<Patch>,
    pub patches_strategic_merge: Vec<String>,
    #[serde(rename = "patchesJson6902")]
    pub patches_json6902: Vec<Patch>,
    pub config_map_generator: Vec<Generator>,
    pub secret_generator: Vec<Generator>,
    pub generator_options: Options,
    pub replacements: Vec<Replacement>,
    pub sort_options: Value,
    pub build_metadata: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Labels {
    pub pairs: Map<String, Value>,
    pub include_selectors: bool,
    pub include_templates: bool,
    pub fields: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Image {
    pub name: String,
    pub new_name: String,
    pub new_tag: String,
    pub tag_suffix: String,
    pub digest: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Replicas {
    pub name: String,
    pub count: i64,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Patch {
    pub path: String,
    pub patch: String,
    pub target: Option<Selector>,
    pub options: Option<BTreeMap<String, bool>>,
}

/// Which objects; every part that is given must fit.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Selector {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub name: String,
    pub namespace: String,
    pub label_selector: String,
    pub annotation_selector: String,
    /// Only in the source of a replacement.
    pub field_path: String,
    pub options: Option<FieldOptions>,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Generator {
    pub name: String,
    pub namespace: String,
    pub behavior: String,
    pub literals: Vec<String>,
    pub files: Vec<String>,
    pub envs: Vec<String>,
    pub env: String,
    pub r#type: String,
    pub options: Options,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Options {
    pub labels: Map<String, Value>,
    pub annotations: Map<String, Value>,
    pub disable_name_suffix_hash: bool,
    pub immutable: bool,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Replacement {
    pub path: String,
    pub source: Selector,
    pub source_value: Option<String>,
    pub targets: Vec<Target>,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Target {
    pub select: Selector,
    pub reject: Vec<Selector>,
    pub field_paths: Vec<String>,
    pub options: FieldOptions,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FieldOptions {
    pub delimiter: String,
    pub index: i64,
    pub create: bool,
}

impl Kustomization {
    /// Reads a file's text.
    ///
    /// # Errors
    /// It is no YAML, or has a field that there isn't.
    pub fn parse(text: &str) -> Result<Self, String> {
        let documents = manifest::documents(text, "kustomization.yaml").map_err(|e| e.to_string())?;
        let Some(document) = documents.into_iter().next() else {
            return Err("kustomization.yaml is empty".into());
        };
        let mut plan: Kustomization = serde_json::from_value(document).map_err(|error| {
            let why = error.to_string();
            let unknown = why.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
            match unknown {
                Some(field) => format!("invalid Kustomization: json: unknown field {field:?}"),
                None => format!("invalid Kustomization: {why}"),
            }
        })?;
        plan.resources.splice(0..0, std::mem::take(&mut plan.bases));
        Ok(plan)
    }
}
