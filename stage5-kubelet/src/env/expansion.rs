//! Expansion: `$(NAME)` in values, commands and arguments.
//!
//! *Step 5 of a pod's journey.* Before: the text as the user wrote it. After: the text with variables filled in.
//!
//! # Invariants
//! 1. An unknown name stays as it was written: nothing is silently emptied.
//! 2. `$$` becomes `$` and is never looked at again.
//!
//! # In Kubernetes
//! `third_party/forked/golang/expansion/expand.go`.

/// Replaces `$(NAME)` by what `lookup` knows.
pub fn expand(input: &str, lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(input.len());
    let mut rest = input;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|r| r.split_once(')')) {
            match lookup(name) {
                Some(value) => out.push_str(&value),
                None => out.push_str(&format!("$({name})")),
            }
            rest = after;
        } else {
            // Not the beginning of a reference: both characters are ordinary.
            out.push('$');
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_and_everything_else_stays() {
        let lookup = |n: &str| (n == "A").then(|| "1".to_owned());
        for (input, output) in [
            ("$(A)", "1"),
            ("x$(A)y", "x1y"),
            ("$(NOPE)", "$(NOPE)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$(", "$("),
            ("$()", "$()"),
            ("$A", "$A"),
            ("$", "$"),
            ("$$", "$"),
            ("a$(A)$(A)b", "a11b"),
        ] {
            assert_eq!(expand(input, lookup), output, "{input}");
        }
    }
}
