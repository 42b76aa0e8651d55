//! Manifests: files, folders and standard input become objects.
//!
//! *Step 1 of a pod's journey: the very beginning.* Before: a YAML file. After: [`crate::object`]s with their source.
//!
//! A file holds several documents, separated by `---`, in YAML or JSON; a `List` in a document is taken apart. YAML is read
//! as version 1.1, because that is what manifests were written for: `yes` is a boolean, `0644` is octal.
//!
//! # Invariants
//! 1. Reading is bounded: in bytes, in nodes and in how much aliases may multiply (an alias bomb is refused).
//! 2. Objects come out in the order of the documents, files in the order of their names.
//!
//! # In Kubernetes
//! `cli-runtime/pkg/resource/{builder,visitor}.go`, `apimachinery/pkg/util/yaml/decoder.go`. Left out: URLs, `--kustomize`.

use std::path::Path;

use serde_json::Value;

use crate::object::Object;

mod read;

pub use read::read_paths;

/// Files larger than this are refused.
pub const MAX_FILE_BYTES: usize = 64 << 20;

/// Why a manifest can't be read. The texts are kubectl's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The path isn't there.
    #[error("the path \"{0}\" does not exist")]
    NotFound(String),
    /// A document is not YAML or JSON.
    #[error("error parsing {source_name}: {message}")]
    Parse {
        /// The file.
        source_name: String,
        /// What is wrong.
        message: String,
    },
    /// A document has no kind.
    #[error(
        "error validating \"{0}\": error validating data: kind not set; if you choose to ignore these errors, turn validation off with --validate=false"
    )]
    NoKind(String),
    /// A document has no apiVersion.
    #[error(
        "error validating \"{0}\": error validating data: apiVersion not set; if you choose to ignore these errors, turn validation off with --validate=false"
    )]
    NoApiVersion(String),
    /// There was nothing to read.
    #[error("no objects passed to {0}")]
    NoObjects(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// An object and where it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The object.
    pub object: Object,
    /// The file, or `STDIN`.
    pub source: String,
}

/// The objects in a text of one or more documents.
///
/// # Errors
/// [`ManifestError`] with the name of the source.
pub fn parse(text: &str, source: &str) -> Result<Vec<Manifest>, ManifestError> {
    let mut manifests = Vec::new();
    for document in documents(text, source)? {
        let object = Object::from_value(document)
            .map_err(|e| ManifestError::Parse { source_name: source.to_string(), message: e.to_string() })?;
        flatten(object, source, &mut manifests)?;
    }
    Ok(manifests)
}

/// Takes lists apart; every object must say what it is.
fn flatten(object: Object, source: &str, into: &mut Vec<Manifest>) -> Result<(), ManifestError> {
    match (object.kind().is_empty(), object.api_version().is_empty()) {
        (true, _) => return Err(ManifestError::NoKind(source.to_string())),
        (_, true) => return Err(ManifestError::NoApiVersion(source.to_string())),
        _ => {}
    }
    let is_list = object.kind().ends_with("List");
    match object.get("/items").and_then(Value::as_array).filter(|_| is_list) {
        None => into.push(Manifest { object, source: source.to_string() }),
        Some(items) => {
            for item in items.clone() {
                let item = Object::from_value(item).map_err(|e| ManifestError::Other(e.to_string()))?;
                flatten(item, source, into)?;
            }
        }
    }
    Ok(())
}

/// The documents of a YAML or JSON text as JSON values; empty ones are left out.
///
/// # Errors
/// [`ManifestError::Parse`].
pub fn documents(text: &str, source: &str) -> Result<Vec<Value>, ManifestError> {
    let bad = |message: String| ManifestError::Parse { source_name: source.to_string(), message };
    if text.trim_start().starts_with('{') {
        let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let values: Result<Vec<Value>, _> = values.collect();
        if let Ok(values) = values {
            return Ok(values.into_iter().filter(|v| !v.is_null()).collect());
        }
    }
    let mut documents = Vec::new();
    for document in split_documents(text) {
        let value: Value =
            read_yaml(&document).map_err(|e| bad(format!("error converting YAML to JSON: {e}")))?;
        if !value.is_null() {
            documents.push(value);
        }
    }
    Ok(documents)
}

/// Splits at lines that begin with `---`; what is only comments is dropped.
fn split_documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        match line.strip_prefix("---") {
            Some(rest) if rest.trim().is_empty() || rest.trim_start().starts_with('#') => {
                documents.push(String::new())
            }
            _ => {
                let last = documents.last_mut().expect("never empty");
                last.push_str(line);
                last.push('\n');
            }
        }
    }
    let is_content = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    documents.retain(|document| document.lines().any(is_content));
    documents
}

/// Reads one YAML document as version 1.1.
fn read_yaml(text: &str) -> Result<Value, String> {
    if let Some(line) = text.lines().position(|line| line.trim_start_matches(' ').starts_with('\t')) {
        return Err(format!("yaml: line {}: found character that cannot start any token", line + 1));
    }
    let options = serde_yaml::options! {
        legacy_octal_numbers: true,
        strict_booleans: false,
        duplicate_keys: serde_yaml::DuplicateKeyPolicy::LastWins,
    };
    serde_yaml::from_str_with_options(text, options).map_err(|e| {
        let shown = e.to_string();
        let message = shown.lines().next().unwrap_or_default().to_string();
        match e.location() {
            Some(at) => format!("yaml: line {}: {message}", at.line()),
            None => format!("yaml: {message}"),
        }
    })
}

/// Whether a file's name says that it is a manifest.
fn is_manifest(path: &Path) -> bool {
    path.extension().and_then(|e| e.to_str()).is_some_and(|e| matches!(e, "json" | "yaml" | "yml"))
}

#[cfg(test)]
mod tests;
