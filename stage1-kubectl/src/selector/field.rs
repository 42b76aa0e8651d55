//! Field selectors: `status.phase=Running,spec.nodeName!=node-1`.
//!
//! Only equality, because a server may answer from an index. Which fields a resource offers is the server's business; here
//! is only the language. `\`, `,` and `=` in a value are escaped with `\`.
//!
//! # In Kubernetes
//! `apimachinery/pkg/fields/selector.go`.

use std::fmt;

use super::SelectorError;

/// Conditions on fields that all must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSelector {
    /// (field, value, whether it must be equal).
    pub terms: Vec<(String, String, bool)>,
}

impl FieldSelector {
    /// Reads `a=b,c!=d`.
    ///
    /// # Errors
    /// [`SelectorError::Field`] names the term without an operator.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        for term in split_unescaped(text) {
            if term.is_empty() {
                continue;
            }
            let bad = || SelectorError::Field(text.to_string(), term.clone());
            let (field, value, equal) = split_operator(&term).ok_or_else(bad)?;
            terms.push((field.to_string(), unescape(value).ok_or_else(bad)?, equal));
        }
        Ok(FieldSelector { terms })
    }

    /// One equality.
    pub fn equals(field: &str, value: &str) -> Self {
        FieldSelector { terms: vec![(field.to_string(), value.to_string(), true)] }
    }

    /// Whether an object whose fields `lookup` reads meets every condition; a missing field is the empty text.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms.iter().all(|(field, value, equal)| (lookup(field).unwrap_or_default() == value) == *equal)
    }

    /// The value that `field` must have, when there is such a condition: for indices.
    pub fn required_value(&self, field: &str) -> Option<&str> {
        let mut terms = self.terms.iter();
        terms.find(|(f, _, equal)| f == field && *equal).map(|(_, v, _)| v.as_str())
    }

    /// Whether it has no condition.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escape = |v: &str| v.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
        let term = |(field, value, equal): &(String, String, bool)| {
            format!("{field}{}{}", if *equal { "=" } else { "!=" }, escape(value))
        };
        let terms: Vec<String> = self.terms.iter().map(term).collect();
        f.write_str(&terms.join(","))
    }
}

fn split_unescaped(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        let last = terms.last_mut().expect("never empty");
        if c == ',' && !escaped {
            terms.push(String::new());
        } else {
            last.push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    terms
}

/// The first of `!=`, `==` and `=` splits the term.
fn split_operator(term: &str) -> Option<(&str, &str, bool)> {
    let at = term.find('=')?;
    if let Some(field) = term[..at].strip_suffix('!') {
        return Some((field, &term[at + 1..], false));
    }
    let value = &term[at + 1..];
    Some((&term[..at], value.strip_prefix('=').unwrap_or(value), true))
}

fn unescape(value: &str) -> Option<String> {
    let mut plain = String::new();
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next()? {
                c @ ('\\' | ',' | '=') => plain.push(c),
                _ => return None,
            },
            ',' | '=' => return None,
            c => plain.push(c),
        }
    }
    Some(plain)
}
