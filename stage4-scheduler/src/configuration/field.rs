//! Field errors: what is wrong with a field of the configuration file, in Kubernetes' words.
//!
//! # In Kubernetes
//! `apimachinery/pkg/util/validation/field/{errors,path}.go`, `apimachinery/pkg/util/errors` (`Aggregate`).

use std::fmt::Display;

/// All that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors(Vec<String>);

impl Errors {
    /// Nothing so far.
    pub fn new() -> Self {
        Errors::default()
    }

    /// `PATH: Invalid value: VALUE: DETAIL`.
    pub fn invalid(&mut self, path: impl Display, value: impl Value, detail: impl Display) {
        self.0.push(format!("{path}: Invalid value: {}: {detail}", value.shown()));
    }

    /// `PATH: Required value: DETAIL`.
    pub fn required(&mut self, path: impl Display, detail: &str) {
        self.0.push(format!("{path}: Required value{}{detail}", if detail.is_empty() { "" } else { ": " }));
    }

    /// `PATH: Forbidden: DETAIL`.
    pub fn forbidden(&mut self, path: impl Display, detail: &str) {
        self.0.push(format!("{path}: Forbidden: {detail}"));
    }

    /// `PATH: Duplicate value: VALUE`.
    pub fn duplicate(&mut self, path: impl Display, value: impl Value) {
        self.0.push(format!("{path}: Duplicate value: {}", value.shown()));
    }

    /// `PATH: Unsupported value: VALUE: supported values: …`.
    pub fn not_supported(&mut self, path: impl Display, value: &str, supported: &[&str]) {
        let quoted: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        self.0.push(format!("{path}: Unsupported value: {value:?}: supported values: {}", quoted.join(", ")));
    }

    /// An error in words of its own.
    pub fn push(&mut self, error: impl Into<String>) {
        self.0.push(error.into());
    }

    /// All of them as one sentence, `None` if there is none. The same one twice is said once.
    pub fn aggregate(mut self) -> Option<String> {
        let mut seen = std::collections::BTreeSet::new();
        self.0.retain(|error| seen.insert(error.clone()));
        match self.0.as_slice() {
            [] => None,
            [only] => Some(only.clone()),
            several => Some(format!("[{}]", several.join(", "))),
        }
    }
}

/// A value as an error shows it: text in quotes, numbers bare.
pub trait Value {
    /// The text.
    fn shown(&self) -> String;
}

impl Value for &str {
    fn shown(&self) -> String {
        format!("{self:?}")
    }
}

impl Value for &String {
    fn shown(&self) -> String {
        format!("{self:?}")
    }
}

impl Value for i32 {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Value for i64 {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Value for usize {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Value for &serde_json::Value {
    fn shown(&self) -> String {
        self.to_string()
    }
}

/// What is wrong with a label's name (`example.com/key`), in Kubernetes' words; empty if nothing is.
pub fn qualified_name_errors(name: &str) -> Vec<String> {
    const NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    const PREFIX: &str = "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let ends = |text: &str| {
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        edge(text.chars().next()) && edge(text.chars().last())
    };
    let mut errors = Vec::new();
    let parts: Vec<&str> = name.split('/').collect();
    let last = match parts.as_slice() {
        [only] => only,
        [prefix, last] => {
            let lower = |part: &str| {
                ends(part) && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            };
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else if !prefix.split('.').all(lower) {
                errors.push(PREFIX.to_owned());
            }
            last
        }
        _ => return vec!["a valid label key must consist of alphanumeric characters, '-', '_' or '.', with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')".to_owned()],
    };
    if last.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if last.len() > 63 {
        errors.push("name part must be no more than 63 characters".to_owned());
    }
    if !ends(last) || !last.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        errors.push(NAME.to_owned());
    }
    errors
}
