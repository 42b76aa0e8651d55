//! The triage page of the book and the crate's README against the rules themselves.
#![expect(clippy::disallowed_methods, reason = "a test that reads the pages")]

use std::path::Path;

use stage1_kubectl::journey::page::sign;
use stage1_kubectl::why::rules::ALL;

fn page(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[test]
fn every_rule_has_its_line_on_the_triage_page_and_no_line_is_without_a_rule() {
    let page = page("../book/src/triage.md");
    for rule in ALL {
        let lab = if rule.lab.is_empty() { "–" } else { rule.lab };
        let line = format!(
            "| {} | `{}` | `{}` | `{}` | {lab} | {} |",
            cell(rule.symptom).replace('<', "\\<"),
            cell(rule.first_command),
            rule.id,
            rule.mechanism.word(),
            cell(rule.ruled_out_by)
        );
        assert!(page.lines().any(|one| one == line), "the triage page should have the line\n{line}");
    }
    let lines = page.lines().filter(|line| line.starts_with("| ") && line.matches(" | ").count() >= 5);
    assert_eq!(lines.filter(|line| !line.starts_with("| symptom")).count(), ALL.len());
}

#[test]
fn every_rule_has_its_line_in_the_readme() {
    let page = page("README.md");
    let lines: Vec<&str> = page
        .lines()
        .filter(|line| {
            line.starts_with("| ①")
                || line.starts_with("| ②")
                || line.starts_with("| ③")
                || line.starts_with("| ④")
                || line.starts_with("| ⑤")
                || line.starts_with("| ⑥")
        })
        .collect();
    for rule in ALL {
        let begin = format!("| {} | `{}` | ", sign(rule.stage), rule.id);
        let end = format!(" | {} |", if rule.lab.is_empty() { "–" } else { rule.lab });
        assert!(
            lines.iter().any(|line| line.starts_with(&begin) && line.ends_with(&end)),
            "no line {begin}…{end}"
        );
    }
    assert_eq!(lines.len(), ALL.len());
}

#[test]
fn the_first_wave_of_labs_has_a_rule_each() {
    let labs: Vec<&str> = ALL.iter().map(|rule| rule.lab).collect();
    let wave = [
        "1-B", "1-C", "2-A", "2-B", "2-E", "2-F", "3-A", "4-A", "4-B", "4-D", "5-D", "5-E", "5-F", "6-A",
        "6-B",
    ];
    for lab in wave {
        assert!(labs.contains(&lab), "no rule for lab {lab}");
    }
}
