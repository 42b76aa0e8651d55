//! Regular expressions as Go reads them.
//!
//! Patterns in definitions and rules are Go's (RE2). Rust's are nearly the same; what differs is that `\d`, `\w` and `\s` mean ASCII in Go,
//! and how a mistake is put into words.
//!
//! # In Kubernetes
//! Go's `regexp`. Left out: `\Q…\E` and `\C`.

use std::cell::RefCell;
use std::collections::HashMap;

use regex::{Regex, RegexBuilder};

/// Patterns that a thread remembers at most.
const REMEMBERED: usize = 128;
/// What a remembered pattern takes when it is compiled, and again while it is searched with, at most: patterns come from users' objects.
const REMEMBERED_BYTES: usize = 512 * 1024;

thread_local! {
    /// Rules are judged over and over, often once an item: their patterns are compiled once.
    static COMPILED: RefCell<HashMap<String, Regex>> = RefCell::default();
}

/// Compiles a pattern, or gives the one that was compiled before.
///
/// # Errors
/// What Go says of it.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    if let Some(regex) = COMPILED.with_borrow(|known| known.get(pattern).cloned()) {
        return Ok(regex);
    }
    let written = ascii_classes(pattern);
    let small =
        RegexBuilder::new(&written).size_limit(REMEMBERED_BYTES).dfa_size_limit(REMEMBERED_BYTES).build();
    let regex = match small {
        Err(regex::Error::CompiledTooBig(_)) => {
            return Regex::new(&written).map_err(|error| in_the_words_of_go(pattern, &error.to_string()));
        }
        built => built.map_err(|error| in_the_words_of_go(pattern, &error.to_string()))?,
    };
    COMPILED.with_borrow_mut(|known| {
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(pattern.to_owned(), regex.clone());
    });
    Ok(regex)
}

/// Writes out the Perl classes, which are ASCII in Go.
fn ascii_classes(pattern: &str) -> String {
    let mut written = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    let mut in_class = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                let class = letters.next();
                let (body, negated) = match class {
                    Some('d') => ("0-9", false),
                    Some('w') => ("0-9A-Za-z_", false),
                    Some('s') => ("\\t\\n\\f\\r ", false),
                    Some('D') => ("0-9", true),
                    Some('W') => ("0-9A-Za-z_", true),
                    Some('S') => ("\\t\\n\\f\\r ", true),
                    Some(other) => {
                        written.push('\\');
                        written.push(other);
                        continue;
                    }
                    None => {
                        written.push('\\');
                        continue;
                    }
                };
                match (in_class, negated) {
                    (true, false) => written.push_str(body),
                    (_, true) => written.push_str(&format!("[^{body}]")),
                    (false, false) => written.push_str(&format!("[{body}]")),
                }
            }
            '[' if in_class => {
                // A bracket in a class is itself in Go, unless it begins a named class.
                let rest = letters.as_str();
                written.push_str(if rest.starts_with(':') { "[" } else { "\\[" });
            }
            '[' => {
                in_class = true;
                written.push('[');
                if let Some(rest) = letters.as_str().strip_prefix('^') {
                    written.push('^');
                    letters = rest.chars();
                }
                if let Some(rest) = letters.as_str().strip_prefix(']') {
                    written.push_str("\\]");
                    letters = rest.chars();
                }
            }
            ']' if in_class && !written.ends_with(':') => {
                in_class = false;
                written.push(']');
            }
            '&' | '~' if in_class => {
                written.push('\\');
                written.push(letter);
            }
            letter => written.push(letter),
        }
    }
    written
}

fn in_the_words_of_go(pattern: &str, error: &str) -> String {
    let why = match error {
        e if e.contains("unclosed group") => format!("missing closing ): `{pattern}`"),
        e if e.contains("unopened group") => format!("unexpected ): `{pattern}`"),
        e if e.contains("unclosed character class") => {
            format!("missing closing ]: `{}`", pattern.find('[').map_or(pattern, |at| &pattern[at..]))
        }
        e if e.contains("repetition operator missing expression") => {
            let operator = pattern.chars().find(|c| matches!(c, '*' | '+' | '?')).unwrap_or('*');
            format!("missing argument to repetition operator: `{operator}`")
        }
        e if e.contains("look-around") => {
            let at = pattern.find("(?").unwrap_or(0);
            format!("invalid or unsupported Perl syntax: `{}`", pattern.get(at..at + 3).unwrap_or(pattern))
        }
        e if e.contains("incomplete escape sequence") => {
            "trailing backslash at end of expression: ``".to_owned()
        }
        e if e.contains("unrecognized escape sequence") => {
            let at = pattern.find('\\').unwrap_or(0);
            format!("invalid escape sequence: `{}`", pattern.get(at..at + 2).unwrap_or(pattern))
        }
        _ => format!("invalid pattern: `{pattern}`"),
    };
    format!("error parsing regexp: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perl_classes_are_ascii() {
        assert!(compile(r"^\d+[\w.]*$").expect("compiles").is_match("12ab."));
        assert!(!compile(r"^\d$").expect("compiles").is_match("٣"));
        assert!(compile(r"^[^]a]+[[:alpha:]]$").expect("compiles").is_match("bcD"));
        assert!(compile(r"^[a\-z&&]+$").expect("compiles").is_match("a-&"));
    }

    #[test]
    fn few_patterns_are_remembered_and_no_large_ones() {
        for number in 0..2 * REMEMBERED {
            compile(&format!("a{number}")).expect("compiles");
        }
        let large = r"\pL{100}";
        assert!(compile(large).expect("compiles").is_match(&"é".repeat(100)));
        COMPILED.with_borrow(|known| assert!(known.len() <= REMEMBERED && !known.contains_key(large)));
    }

    #[test]
    fn mistakes_are_told_as_go_tells_them() {
        let told = |pattern| compile(pattern).expect_err("a mistake");
        assert_eq!(told("("), "error parsing regexp: missing closing ): `(`");
        assert_eq!(told("a)"), "error parsing regexp: unexpected ): `a)`");
        assert_eq!(told("[a"), "error parsing regexp: missing closing ]: `[a`");
        assert_eq!(told("*a"), "error parsing regexp: missing argument to repetition operator: `*`");
        assert_eq!(told("(?=a)"), "error parsing regexp: invalid or unsupported Perl syntax: `(?=`");
    }
}
