use serde_json::json;

use super::*;

/// What kubectl 1.32 printed for a ConfigMap with these values.
#[test]
fn texts_are_quoted_as_kubectl_quotes_them() {
    let cases = [
        ("{x", "'{x'"),
        ("a,b", "a,b"),
        ("?", "'?'"),
        ("? x", "'? x'"),
        ("-", "'-'"),
        ("-x", "-x"),
        (".5", "\".5\""),
        ("1.", "\"1.\""),
        ("a\\b", "a\\b"),
        ("x\u{1}", "\"x\\x01\""),
        ("!x", "'!x'"),
        ("null", "\"null\""),
        ("0o17", "\"0o17\""),
        ("+1", "\"+1\""),
        ("<<", "<<"),
        ("trail ", "'trail '"),
        ("x\ny ", "\"x\\ny \""),
        ("---", "'---'"),
        ("yes", "\"yes\""),
        ("multi\nline", "|-\n    multi\n    line"),
        ("a: b", "'a: b'"),
        ("12:30", "\"12:30\""),
        ("2020-01-01", "\"2020-01-01\""),
        ("it's", "it's"),
        ("t\tab", "\"t\\tab\""),
        ("a #b", "'a #b'"),
        ("", "\"\""),
        ("\"q\"", "'\"q\"'"),
        ("x:", "'x:'"),
        ("é", "é"),
        ("tail\n", "|\n    tail"),
        ("two\n\n", "|+\n    two\n"),
        ("1_000", "\"1_000\""),
        ("  lead\nx", "|2-\n      lead\n    x"),
    ];
    for (text, wanted) in cases {
        let yaml = to_yaml(&json!({"data": {"a": text}}));
        assert_eq!(yaml, format!("data:\n  a: {wanted}\n"), "{text:?}");
    }
}

#[test]
fn long_lines_are_folded_and_lists_not_indented() {
    let long =
        "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore";
    let yaml = to_yaml(&json!({"d": {"a": long}, "l": [{"b": 1, "a": []}, [1, {}]], "n": null}));
    let wanted = "d:\n  a: lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor\n    incididunt ut labore\n\
        l:\n- a: []\n  b: 1\n- - 1\n  - {}\n\"n\": null\n";
    assert_eq!(yaml, wanted);
}

#[test]
fn numbers_inside_keys_sort_by_value() {
    let yaml = to_yaml(&json!({"k10": 1, "k9": 2, "k_": 3, "kA": 4}));
    assert_eq!(yaml, "k_: 3\nk9: 2\nk10: 1\nkA: 4\n");
}
