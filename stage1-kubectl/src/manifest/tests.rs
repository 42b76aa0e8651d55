use serde_json::json;

use super::*;

#[test]
fn documents_and_lists_are_taken_apart() {
    let text = "# comment\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n--- # second\n\
        apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: b}}\n---\n";
    let names: Vec<String> = parse(text, "f").unwrap().iter().map(|m| m.object.name().to_string()).collect();
    assert_eq!(names, ["a", "b"]);
    let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}} {"apiVersion":"v1","kind":"Pod"}"#;
    assert_eq!(parse(json, "f").unwrap().len(), 2);
}

#[test]
fn yaml_is_read_as_version_1_1() {
    let text = "a: yes\nb: 0644\nc: 1_000\nd: \"80\"\ne: off\nf: 0o17\ng: 190:20:30\nh: ~\n";
    let wanted =
        json!({"a": true, "b": 420, "c": 1000, "d": "80", "e": false, "f": 15, "g": "190:20:30", "h": null});
    assert_eq!(documents(text, "f").unwrap(), vec![wanted]);
}

#[test]
fn keys_are_what_they_say_before_they_are_texts() {
    let text = "no: a\n0x10: b\n2.50: c\n'on': d\n1: e\n1_000: f\nx: {yes: 1}\n";
    let wanted =
        json!({"false": "a", "16": "b", "2.5": "c", "on": "d", "1": "e", "1000": "f", "x": {"true": 1}});
    assert_eq!(documents(text, "f").unwrap(), vec![wanted]);
}

#[test]
fn mistakes_are_named() {
    let cases = [
        ("a:\n\tb: 1\n", "yaml: line 2: found character that cannot start any token"),
        ("a:\n  b: 1\n   c: 2\n", "yaml: line 3: mapping values are not allowed in this context"),
        ("a:\n  b: 1\n c: 2\n", "yaml: line 2: did not find expected key"),
        ("x: 1\na: [b, c\nd: 1\n", "yaml: line 2: did not find expected ',' or ']'"),
        ("x: 1\na: [\"b\" \"c\"]\n", "yaml: line 1: did not find expected ',' or ']'"),
        ("x: 1\na\n  b: 1\n", "yaml: line 3: could not find expected ':'"),
        ("x: 1\na: 'b\n", "yaml: line 3: found unexpected end of stream"),
        ("x: 1\na: *b\n", "yaml: unknown anchor 'b' referenced"),
        ("a: {{ .x }}\n", "yaml: invalid map key: map[interface {}]interface {}{\".x\":interface {}(nil)}"),
        ("a: b: c", "yaml: mapping values are not allowed in this context"),
        ("x: 1\na: \"b\" c\n", "yaml: line 1: did not find expected key"),
    ];
    for (text, wanted) in cases {
        let error = parse(text, "f").unwrap_err().to_string();
        assert_eq!(error, format!("error parsing f: error converting YAML to JSON: {wanted}"), "{text}");
    }
    let json = parse(r#"{"a":"b",}"#, "f").unwrap_err().to_string();
    let wanted = "json: offset 10: invalid character '}' looking for beginning of object key string";
    assert_eq!(json, format!("error parsing f: {wanted}"));
}

#[test]
fn what_stands_before_a_mistake_is_read() {
    let text =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\nmetadata: {}\n---\napiVersion: v1\nkind: Pod\n";
    let kinds = |check| -> Vec<bool> { parse_each(text, "f", check).iter().map(Result::is_ok).collect() };
    assert_eq!(kinds(Check::Decode), [true, false, true]);
    assert_eq!(kinds(Check::Validate), [true, false]);
    let text = |check| parse_each("a: 1", "f", check).remove(0).unwrap_err().to_string();
    assert_eq!(text(Check::Decode), "unable to decode \"f\": Object 'Kind' is missing in '{\"a\":1}'");
    assert!(text(Check::Validate).contains("error validating data: [apiVersion not set, kind not set]; if"));
}

#[test]
fn invariant_1_an_alias_bomb_is_refused() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let previous = level - 1;
        let refs = vec![format!("*a{previous}"); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{refs}]\n"));
    }
    assert!(documents(&bomb, "f").is_err());
}
