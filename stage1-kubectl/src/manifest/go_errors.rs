//! What is wrong with a manifest, in the words of Go's readers.
//!
//! People search for these sentences (`did not find expected key`), so the errors of our YAML reader are said again as
//! go-yaml says them. Both readers descend from libyaml and find the same faults at the same places; they differ in words
//! and in how they count: go-yaml names the line before, when its parser (not its scanner) finds the fault.
//!
//! # In Kubernetes
//! `goyaml.v2/{scannerc,parserc,decode}.go`, `encoding/json/scanner.go`. Left out: line numbers that go-yaml gets wrong in
//! other ways.

use serde_json::Value;

use crate::patch::go_syntax;

/// A tab where YAML wants spaces, if that may be the fault found at a line (from 1).
pub(super) fn tab(text: &str, found_at: usize) -> Option<String> {
    let near = found_at.saturating_sub(2)..found_at.max(1);
    let line = text.lines().enumerate().position(|(number, line)| {
        let rest = line.trim_start_matches(' ');
        near.contains(&number)
            && rest.starts_with('\t')
            && !rest.trim().is_empty()
            && !rest.trim_start().starts_with('#')
    })?;
    // After the first entry of a list item the scanner waits for a key, and says so in other words.
    let before = text.lines().take(line).last().unwrap_or_default();
    let why = match before.trim_end().ends_with(':') || before.trim().is_empty() {
        true => "found character that cannot start any token",
        false => "found a tab character that violates indentation",
    };
    Some(format!("yaml: line {}: {why}", line + 1))
}

/// The go-yaml text for a fault that our reader found at a line and column (both from 1).
pub(super) fn yaml(text: &str, message: &str, line: usize, column: usize) -> String {
    let has = |words: &str| message.contains(words);
    let scanner = |why: &str| match line {
        0 | 1 => format!("yaml: {why}"),
        line => format!("yaml: line {line}: {why}"),
    };
    let parser = |why: &str| match line {
        0 | 1 => format!("yaml: {why}"),
        line => format!("yaml: line {}: {why}", line - 1),
    };
    if has("non-finite float") {
        let sign = if at(text, line, column).starts_with('-') { '-' } else { '+' };
        return format!("json: unsupported value: {sign}Inf");
    }
    if has("null into string") {
        let value = at(text, line, column).lines().next().unwrap_or_default();
        let value = value.split_once(':').map_or("", |(_, value)| value.trim());
        return format!("unsupported map key of type: %!s(<nil>), key: <nil>, value: {value:?}");
    }
    if has("is only valid inside a block") {
        return format!("yaml: line {}: could not find expected ':'", line + 2);
    }
    if has("mapping values are not allowed") {
        return scanner("mapping values are not allowed in this context");
    }
    if has("unexpected character") || has("tab") {
        return scanner("found character that cannot start any token");
    }
    if has("simple key expected") || has("could not find expected ':'") {
        return format!("yaml: line {}: could not find expected ':'", line + 1);
    }
    if has("unclosed quote") {
        return format!("yaml: line {}: found unexpected end of stream", text.lines().count() + 1);
    }
    if has("unknown anchor") {
        let name: String = at(text, line, column)
            .trim_start_matches('*')
            .chars()
            .take_while(|c| c.is_alphanumeric() || "-_".contains(*c))
            .collect();
        return format!("yaml: unknown anchor '{name}' referenced");
    }
    if has("expected string scalar") {
        return format!("yaml: invalid map key: {}", complex_key(at(text, line, column)));
    }
    if has("budget") || has("alias expansion") || has("replay") {
        return "yaml: document contains excessive aliasing".to_string();
    }
    let bracket = open_bracket(text, line, column);
    if let Some(close) = bracket
        && (has("invalid trailing content") || has("illegal placement") || has("unclosed bracket"))
    {
        return parser(&format!("did not find expected ',' or '{close}'"));
    }
    if has("did not find expected <document start>") {
        return parser("did not find expected <document start>");
    }
    if has("invalid trailing content") || has("misplaced bracket") {
        return parser("did not find expected key");
    }
    let why = message.rsplit(", ").next().unwrap_or(message);
    match message.contains("while parsing a") && !message.contains("quoted scalar") {
        true if has("flow sequence") => parser("did not find expected ',' or ']'"),
        true if has("flow mapping") => parser("did not find expected ',' or '}'"),
        true => parser(why),
        false => scanner(why.trim_start_matches(|c: char| !c.is_alphabetic())),
    }
}

/// The text from a place on.
fn at(text: &str, line: usize, column: usize) -> &str {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let rest = text.get(start..).unwrap_or_default();
    let skip = rest.char_indices().nth(column.saturating_sub(1)).map_or(0, |(at, _)| at);
    &rest[skip..]
}

/// The bracket that would close the innermost flow collection that is open at a place. Quotes and comments aren't read:
/// this only chooses words.
fn open_bracket(text: &str, line: usize, column: usize) -> Option<char> {
    let rest = at(text, line, column);
    let mut open = Vec::new();
    for c in text[..text.len() - rest.len()].chars() {
        match c {
            '[' => open.push(']'),
            '{' => open.push('}'),
            ']' | '}' => drop(open.pop()),
            _ => {}
        }
    }
    open.pop()
}

/// A map or list that is used as a key, as Go prints it: `{{ x }}` is one.
fn complex_key(rest: &str) -> String {
    let mut depth = 0;
    let end = rest.char_indices().find(|(_, c)| {
        depth += match c {
            '[' | '{' => 1,
            ']' | '}' => -1,
            _ => 0,
        };
        depth == 0
    });
    let text = end.map_or("", |(at, _)| &rest[..=at]);
    let value: Value = serde_yaml::from_str(text).unwrap_or_default();
    // go-yaml's maps have keys of any type.
    go_syntax(&value).replace("map[string]", "map[interface {}]")
}

/// The encoding/json text for a fault in JSON.
pub(super) fn json(text: &str, error: &serde_json::Error) -> String {
    let message = error.to_string();
    let has = |words: &str| message.contains(words);
    if error.is_eof() {
        return "unexpected EOF".to_string();
    }
    let start: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let offset = start + error.column();
    let found = text.as_bytes().get(offset.saturating_sub(1)).map_or(' ', |b| char::from(*b));
    let found = match found {
        '\'' => "'\\''".to_string(),
        '"' => "'\"'".to_string(),
        c => format!("'{}'", c.escape_default()),
    };
    let place = match () {
        () if has("key must be a string") => "looking for beginning of object key string",
        () if has("trailing comma") && found == "'}'" => "looking for beginning of object key string",
        () if has("expected `:`") => "after object key",
        () if has("expected `,` or `}`") => "after object key:value pair",
        () if has("expected `,` or `]`") => "after array element",
        () if has("control character") => "in string literal",
        () if has("invalid escape") => "in string escape code",
        () if has("invalid number") => "in numeric literal",
        () => "looking for beginning of value",
    };
    format!("json: offset {offset}: invalid character {found} {place}")
}
