//! Go templates: `-o go-template='{{range .items}}{{.metadata.name}}{{"\n"}}{{end}}'`.
//!
//! *Step 1 of a pod's journey, on the way back.* Before: objects as JSON. After: text in the user's form.
//!
//! A template is text with actions in double braces: fields (`.a.b`), variables (`$x`), pipelines (`.a | len`), and the
//! blocks `if`, `range`, `with`, `define`. It is read into a tree ([`parser`]) and then evaluated ([`eval`]).
//!
//! # Invariants
//! 1. A field that isn't there is no error, unless `--allow-missing-template-keys=false`: it prints `<no value>`.
//! 2. Numbers are floats, as they are after Go has read JSON: a million prints `1e+06`.
//!
//! # In Kubernetes
//! `text/template`, `cli-runtime/pkg/printers/template.go`. Left out: methods, `break`, `continue`, `call`, complex
//! numbers, and the exact places in error texts.

use serde_json::Value;

mod eval;
mod functions;
mod printf;

pub(crate) use functions::float;
mod parser;

pub use parser::{Template, parse};

/// The text of a template for a value.
///
/// # Errors
/// What is wrong with the template, or what can't be done with the value.
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
    let parsed = parse(template).map_err(|e| format!("error parsing template {template}, {e}"))?;
    eval::render(&parsed, value, strict).map_err(|e| {
        let object = crate::patch::go_value(value);
        format!("error executing template {template:?}: {e}. Printing more information for debugging the template:\n\ttemplate was:\n\t\t{template}\n\traw data was:\n\t\t{value}\n\tobject given to template engine was:\n\t\t{object}\n\n")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn templates_select_loop_and_compare() {
        let value = json!({"kind": "List", "n": 3, "big": 1_000_000, "m": {"a-b": "x"}, "items": [
            {"name": "a", "c": [1, 2]}, {"name": "b", "c": []},
        ]});
        let cases = [
            ("{{range .items}}{{.name}} {{len .c}}{{\"\\n\"}}{{end}}", "a 2\nb 0\n"),
            ("{{.x.y.z}}", "<no value>"),
            ("{{.n}} {{.big}}", "3 1000000"),
            ("{{if eq .kind \"List\"}}yes{{else}}no{{end}}", "yes"),
            ("{{if .none}}a{{else if gt .n 2}}b{{else}}c{{end}}", "b"),
            ("{{range $i, $e := .items}}{{$i}}={{$e.name}};{{end}}", "0=a;1=b;"),
            ("{{range .none}}x{{else}}empty{{end}}", "empty"),
            ("{{with index .items 1}}{{.name}}{{end}}", "b"),
            ("{{index .m \"a-b\"}}", "x"),
            ("a {{- /* c */ -}} b {{- .kind -}} c", "abListc"),
            ("{{$x := .kind}}{{$x | printf \"%s-%v\" \"q\"}}", "q-List"),
            ("{{base64decode \"aGk=\"}} {{.m | len}}", "hi 1"),
            ("{{define \"t\"}}[{{.}}]{{end}}{{template \"t\" .kind}}", "[List]"),
            ("{{(index .items 0).name}} {{not true}} {{and .n .kind}} {{or .none \"d\"}}", "a false List d"),
            ("{{.m}}", "map[a-b:x]"),
            ("{{if exists . \"m\" \"a-b\"}}there{{end}}", "there"),
            ("{{range $k, $v := .m}}{{$k}}:{{$v}}{{end}}", "a-b:x"),
        ];
        for (template, wanted) in cases {
            assert_eq!(render(template, &value), Ok(wanted.to_string()), "{template}");
        }
        for (broken, why) in [
            ("{{range .a}}", "1: unexpected EOF"),
            ("{{.a", "1: unclosed action"),
            ("a\n{{end}}", "2: unexpected {{end}}"),
            ("{{else}}", "1: unexpected {{else}}"),
            ("{{nofunction .a}}", "1: function \"nofunction\" not defined"),
            ("\n\n{{\"a}}", "3: unterminated quoted string"),
            ("{{if}}x{{end}}", "1: missing value for if"),
        ] {
            let wanted = format!("error parsing template {broken}, template: output:{why}");
            assert_eq!(render(broken, &value), Err(wanted));
        }
    }
}
