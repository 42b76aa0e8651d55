//! Texts: what the page, the labs and the exercises say, by key, out of a data file.
//!
//! A translation is another such file. What stays in the code: the help texts of flags (clap's), what goes wrong at a start, and the
//! meanings of mechanisms (`kubectl why`'s). A text has places in braces (`{stage}`), which are
//! filled in one pass, so that what is filled in is never taken for a place itself.
//!
//! # Invariants
//! 1. Every key that the code names is in its file, and every text of the file is named somewhere (tested where the files are).
//!
//! # In Kubernetes
//! `k8s.io/kubectl/pkg/util/i18n`, which does it with gettext. Left out: plural forms (the texts avoid them).

use std::collections::BTreeMap;
use std::fmt::Display;

/// What stands in the places of a text.
pub type Values<'a> = &'a [(&'a str, &'a dyn Display)];

/// The texts of a language, by key.
#[derive(Debug, Clone)]
pub struct Texts(BTreeMap<String, String>);

impl Texts {
    /// The texts of a file that is part of the program.
    #[must_use]
    pub fn of_file(json: &str) -> Self {
        Self(serde_json::from_str(json).expect("a test reads every file of texts"))
    }

    /// A text.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// A text, or its key: a page with a hole is better than none.
    #[must_use]
    pub fn of<'a>(&'a self, key: &'a str) -> &'a str {
        self.get(key).unwrap_or(key)
    }

    /// A text with its places filled in; a place without a value stays visible.
    #[must_use]
    pub fn say(&self, key: &str, values: Values<'_>) -> String {
        let mut out = String::new();
        let mut rest = self.of(key);
        while let Some((before, after)) = rest.split_once('{')
            && let Some((name, behind)) = after.split_once('}')
        {
            out.push_str(before);
            match values.iter().find(|(known, _)| *known == name) {
                Some((_, value)) => out.push_str(&value.to_string()),
                None => out.push_str(&format!("{{{name}}}")),
            }
            rest = behind;
        }
        out + rest
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_in_one_pass_and_a_hole_stays_visible() {
        let texts = Texts::of_file(r#"{"a": "{x} of {y}, {x}; {none} {"}"#);
        assert_eq!(texts.say("a", &[("x", &"{y}"), ("y", &3)]), "{y} of 3, {y}; {none} {");
        assert_eq!(texts.say("b", &[]), "b");
    }
}
