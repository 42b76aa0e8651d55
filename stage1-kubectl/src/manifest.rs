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
//! `cli-runtime/pkg/resource/{builder,visitor}.go`, `apimachinery/pkg/util/yaml/decoder.go`.

use std::path::Path;

use serde_json::Value;

use crate::object::Object;

mod go_errors;
mod read;
mod tree;

pub use read::{read_each, read_paths};

/// Files larger than this are refused.
pub const MAX_FILE_BYTES: usize = 64 << 20;

/// Why a manifest can't be read. The texts are kubectl's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The path isn't there.
    #[error("the path \"{0}\" does not exist")]
    NotFound(String),
    /// A document is not YAML or JSON: what follows it in the file can't be read either.
    #[error("error parsing {source_name}: {message}")]
    Parse {
        /// The file.
        source_name: String,
        /// What is wrong.
        message: String,
    },
    /// A document was checked before it was decoded, and lacks what every object has.
    #[error(
        "error validating \"{source_name}\": error validating data: {message}; if you choose to ignore these errors, turn validation off with --validate=false"
    )]
    Invalid {
        /// The file.
        source_name: String,
        /// What is wrong.
        message: String,
    },
    /// A document is not an object.
    #[error("unable to decode \"{source_name}\": {message}")]
    Undecodable {
        /// The file.
        source_name: String,
        /// What is wrong.
        message: String,
    },
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

/// Whether documents are checked before they are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// As `--validate` asks for: the first document that is no object ends the file.
    Validate,
    /// Decode only.
    Decode,
}

/// The objects in a text of one or more documents.
///
/// # Errors
/// The first [`ManifestError`], with the name of the source.
pub fn parse(text: &str, source: &str) -> Result<Vec<Manifest>, ManifestError> {
    parse_each(text, source, Check::Decode).into_iter().collect()
}

/// Each object in a text, or why a document isn't one, in the order of the text.
pub fn parse_each(text: &str, source: &str, check: Check) -> Vec<Result<Manifest, ManifestError>> {
    let mut found = Vec::new();
    let (documents, broken) = read_documents(text);
    for (document, shown) in documents {
        match objects(document, &shown, source, check) {
            Ok(manifests) => found.extend(manifests.into_iter().map(Ok)),
            Err(error @ ManifestError::Invalid { .. }) => {
                found.push(Err(error));
                return found;
            }
            Err(error) => found.push(Err(error)),
        }
    }
    let bad = |message| Err(ManifestError::Parse { source_name: source.to_string(), message });
    found.extend(broken.map(bad));
    found
}

/// The object in a document, or those of a list.
fn objects(document: Value, shown: &str, source: &str, check: Check) -> Result<Vec<Manifest>, ManifestError> {
    let source_name = source.to_string();
    if let (Check::Validate, Some(message)) = (check, invalid(&document)) {
        return Err(ManifestError::Invalid { source_name, message: message.to_string() });
    }
    if let Some(message) = undecodable(&document, shown) {
        return Err(ManifestError::Undecodable { source_name, message });
    }
    let is_list = |value: &Value| value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    let items = document["items"].as_array().filter(|_| is_list(&document)).cloned();
    let mut manifests = Vec::new();
    for item in items.unwrap_or_else(|| vec![document]) {
        if item["items"].is_array() && is_list(&item) {
            let why = "*unstructured.Unstructured is not a list: no Items field in this object";
            return Err(ManifestError::Other(why.to_string()));
        }
        if item["kind"].as_str().unwrap_or_default().is_empty() {
            let why = "unable to get type info from the object \"*unstructured.Unstructured\": Object 'Kind' is missing in 'object has no kind field '";
            return Err(ManifestError::Other(why.to_string()));
        }
        let object = Object::from_value(item).map_err(|e| ManifestError::Other(e.to_string()))?;
        manifests.push(Manifest { object, source: source_name.clone() });
    }
    Ok(manifests)
}

/// What validation says of a document that can't be an object.
fn invalid(document: &Value) -> Option<&'static str> {
    let missing = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().is_empty();
    let items = document["items"].as_array().filter(|_| document["kind"] == "List");
    match document {
        Value::Object(_) if missing(document, "apiVersion") && missing(document, "kind") => {
            Some("[apiVersion not set, kind not set]")
        }
        Value::Object(_) if missing(document, "apiVersion") => Some("apiVersion not set"),
        Value::Object(_) if missing(document, "kind") => Some("kind not set"),
        Value::Object(_) => items.into_iter().flatten().find_map(invalid),
        _ => Some("invalid object to validate"),
    }
}

/// What Go's decoder says of a document that isn't an object.
fn undecodable(document: &Value, shown: &str) -> Option<String> {
    let kind = match document {
        Value::Object(_) => match document["kind"].as_str() {
            Some(kind) if !kind.is_empty() => return wrong_metadata(document),
            _ => return Some(format!("Object 'Kind' is missing in '{shown}'")),
        },
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        _ => "number",
    };
    Some(format!("json: cannot unmarshal {kind} into Go value of type unstructured.detector"))
}

/// Labels and annotations are maps of text.
fn wrong_metadata(document: &Value) -> Option<String> {
    for field in ["labels", "annotations"] {
        for value in document["metadata"][field].as_object()?.values() {
            let kind = match value {
                Value::Number(_) => "number",
                Value::Bool(_) => "bool",
                Value::Array(_) => "array",
                Value::Object(_) => "object",
                Value::String(_) | Value::Null => continue,
            };
            return Some(format!(
                "json: cannot unmarshal {kind} into Go struct field ObjectMeta.metadata.{field} of type string"
            ));
        }
    }
    None
}

/// The documents of a YAML or JSON text as JSON values; empty ones are left out.
///
/// # Errors
/// [`ManifestError::Parse`].
pub fn documents(text: &str, source: &str) -> Result<Vec<Value>, ManifestError> {
    match read_documents(text) {
        (documents, None) => Ok(documents.into_iter().map(|(document, _)| document).collect()),
        (_, Some(message)) => Err(ManifestError::Parse { source_name: source.to_string(), message }),
    }
}

/// The documents as values and as JSON texts, and what is wrong with the one after the last of them.
fn read_documents(text: &str) -> (Vec<(Value, String)>, Option<String>) {
    let mut documents = Vec::new();
    if text.trim_start().starts_with('{') {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        loop {
            let start = values.byte_offset();
            match values.next() {
                None => return (documents, None),
                Some(Ok(Value::Null)) => {}
                Some(Ok(value)) => {
                    let shown = text.get(start..values.byte_offset()).unwrap_or_default().trim();
                    documents.push((value, shown.to_string()));
                }
                Some(Err(error)) => return (documents, Some(go_errors::json(text, &error))),
            }
        }
    }
    for document in split_documents(text) {
        match read_yaml(&document) {
            Ok(Value::Null) => {}
            Ok(value) => {
                let shown = value.to_string();
                documents.push((value, shown));
            }
            Err(error) => return (documents, Some(format!("error converting YAML to JSON: {error}"))),
        }
    }
    (documents, None)
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

/// Reads one YAML document as version 1.1. Of a key that is there twice the last counts.
///
/// # Errors
/// What go-yaml would say.
pub fn read_yaml(text: &str) -> Result<Value, String> {
    yaml_with(text, serde_yaml::DuplicateKeyPolicy::LastWins).map_err(|error| {
        let shown = error.to_string();
        let message = shown.lines().next().unwrap_or_default();
        let (line, column) = error.location().map_or((0, 0), |at| (at.line() as usize, at.column() as usize));
        go_errors::tab(text, line).unwrap_or_else(|| go_errors::yaml(text, message, line, column))
    })
}

/// The first key of a readable document that is there twice, in the words of go-yaml's strict reader.
pub fn duplicate_key(text: &str) -> Option<String> {
    let error = yaml_with(text, serde_yaml::DuplicateKeyPolicy::Error).err()?;
    read_yaml(text).ok()?;
    let line = error.location().map_or(0, |at| at.line());
    let shown = error.to_string();
    let key = shown.split_once("duplicate mapping key: ")?.1.lines().next()?.trim();
    let key = key.split(", set ").next()?.trim_matches(['"', '`', '\'']);
    Some(format!("yaml: unmarshal errors:\n  line {line}: key {key:?} already set in map"))
}

fn yaml_with(text: &str, duplicate_keys: serde_yaml::DuplicateKeyPolicy) -> Result<Value, serde_yaml::Error> {
    let options = serde_yaml::options! {
        legacy_octal_numbers: true,
        strict_booleans: false,
        duplicate_keys: duplicate_keys,
    };
    serde_yaml::from_str_with_options::<tree::Tree>(text, options).map(|tree| tree.0)
}

/// Whether a file's name says that it is a manifest.
fn is_manifest(path: &Path) -> bool {
    path.extension().and_then(|e| e.to_str()).is_some_and(|e| matches!(e, "json" | "yaml" | "yml"))
}

#[cfg(test)]
mod tests;
