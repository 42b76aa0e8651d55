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
fn mistakes_are_named() {
    assert!(matches!(parse("metadata: {}", "f"), Err(ManifestError::NoKind(_))));
    let tab = parse("a:\n\tb: 1\n", "f").unwrap_err().to_string();
    assert!(tab.contains("line 2: found character that cannot start any token"), "{tab}");
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
