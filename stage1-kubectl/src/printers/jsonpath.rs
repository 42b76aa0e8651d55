//! JSONPath templates: `{range .items[*]}{.metadata.name}{"\n"}{end}`.
//!
//! Kubernetes' dialect: text outside braces is copied, inside are paths, quoted texts and `range … end`. A path is a chain of
//! fields, positions, slices, wildcards, filters and recursive descent.
//!
//! # Invariants
//! 1. Lists and maps are printed as JSON, texts as they are.
//!
//! # In Kubernetes
//! `client-go/util/jsonpath/{parser,jsonpath}.go`.

use serde_json::Value;

mod eval;
mod parser;

pub use eval::{find_all, text};
pub use parser::{Node, Step, parse};

/// The text of a template for a value.
///
/// # Errors
/// What is wrong with the template, or what it doesn't find.
pub fn render(template: &str, value: &Value) -> Result<String, String> {
    render_with(template, value, false)
}

/// As [`render`], but a field that isn't there is an error.
///
/// # Errors
/// As [`render`].
pub fn render_strict(template: &str, value: &Value) -> Result<String, String> {
    render_with(template, value, true)
}

fn render_with(template: &str, value: &Value, strict: bool) -> Result<String, String> {
    let nodes = parse(template).map_err(|e| format!("error parsing jsonpath {template}, {e}"))?;
    eval::render(&nodes, value, strict).map_err(|e| {
        let object = crate::patch::go_syntax(value);
        format!("error executing jsonpath {template:?}: Error executing template: {e}. Printing more information for debugging the template:\n\ttemplate was:\n\t\t{template}\n\tobject given to jsonpath engine was:\n\t\t{object}\n\n")
    })
}

/// `.a.b`, `a.b` and `{.a.b}` all mean the same in custom columns and `--sort-by`.
///
/// # Errors
/// Unbalanced braces.
pub fn relaxed(path: &str) -> Result<String, String> {
    let inner = match (path.strip_prefix('{'), path.ends_with('}')) {
        (Some(rest), true) => &rest[..rest.len() - 1],
        (None, false) => path,
        _ => {
            return Err(format!(
                "unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{{name1.name2}}' or '{{.name1.name2}}', got {path:?}"
            ));
        }
    };
    let inner = if inner.starts_with(['.', '[', '$', '@']) { inner.to_string() } else { format!(".{inner}") };
    Ok(format!("{{{inner}}}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn templates_select_filter_and_loop() {
        let value = json!({"kind": "List", "items": [
            {"metadata": {"name": "a", "labels": {"x.y/z": "1"}}, "n": 1, "c": [{"i": "p"}, {"i": "q"}]},
            {"metadata": {"name": "b"}, "n": 2, "c": [{"i": "r"}]},
        ]});
        let cases = [
            ("{.items[*].metadata.name}", "a b"),
            ("{range .items[*]}{.metadata.name}{\"\\n\"}{end}", "a\nb\n"),
            ("{.items[0].c[-1:].i}", "q"),
            ("{.items[?(@.n>1)].metadata.name}", "b"),
            ("{.items[?(@.metadata.name==\"a\")].n}", "1"),
            ("{..i}", "p q r"),
            ("{.items[0].metadata.labels.x\\.y/z}", "1"),
            ("{.items[0]['n','kind']}", "1"),
            ("{.items[0].metadata}", "{\"labels\":{\"x.y/z\":\"1\"},\"name\":\"a\"}"),
            ("{\"quoted\"} {@.kind} {$.kind}", "quoted List List"),
            ("{.items[0:2].n}", "1 2"),
            ("plain", "plain"),
        ];
        for (template, wanted) in cases {
            assert_eq!(render(template, &value), Ok(wanted.to_string()), "{template}");
        }
        assert!(render("{.items[", &value).is_err());
    }
}
