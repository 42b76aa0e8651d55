//! What a terminal would obey: the escape character and the return to a line's start.
//!
//! An annotation, an event's message, a cell of a custom kind's table: anybody who may write an object chooses their bytes, and somebody else's
//! terminal shows them. A sequence behind an escape character can hide lines, or type. So pages and tables show both characters as text;
//! `-o json|yaml|jsonpath|go-template` are for programs and give what is there.
//!
//! # Invariants
//! 1. No page and no table holds an escape character that an object brought.
//!
//! # In Kubernetes
//! `cli-runtime/pkg/printers/terminal.go`.

use std::borrow::Cow;

/// The text with `^[` and `\r` in place of the two characters.
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    match text.contains(['\u{1b}', '\r']) {
        false => Cow::Borrowed(text),
        true => Cow::Owned(text.replace('\u{1b}', "^[").replace('\r', "\\r")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::escaped;
    use crate::describe::doc::Doc;
    use crate::printers::{custom_columns, table};

    #[test]
    fn invariant_1_what_a_terminal_would_obey_is_shown_as_text() {
        assert_eq!(escaped("a\u{1b}[31mb\rc"), "a^[[31mb\\rc");
        let lines = [vec!["A".to_string(), "B".into()], vec!["\u{1b}[2K".into(), "b".into()]];
        assert_eq!(table::align(&lines), "A       B\n^[[2K   b\n");
        let items = [json!({"a": "e\u{1b}[31m\rz"})];
        assert_eq!(custom_columns::render("X:.a", &items).unwrap(), "X\ne^[[31m\\rz\n");
        let mut doc = Doc::new(jiff::Timestamp::UNIX_EPOCH);
        doc.field(0, "Note", "\u{1b}[1A");
        assert_eq!(doc.finish(), "Note:  ^[[1A\n");
    }
}
