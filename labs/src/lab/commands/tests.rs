//! The texts of lists and tables.

use expect_test::expect;

use super::*;
use crate::lab::session::Reached;

fn reached(symptom: &str, points: Option<u32>, repaired: bool) -> Reached {
    let mut reached =
        Reached { symptom: symptom.to_owned(), starts: 1, diagnosis: points, repaired, ..Reached::default() };
    if repaired {
        reached.times.insert("repaired".to_owned(), 95);
    }
    reached
}

#[test]
fn the_list_names_symptoms_and_never_a_stage() {
    let text = list(&Progress::default()).unwrap();
    for line in ["silent-pending", "keeps-restarting", "nobody-answers", "service-dead"] {
        assert_eq!(text.matches(line).count(), 1, "{text}");
    }
    for lab in catalog::all(0).unwrap() {
        assert!(!text.contains(&lab.id) && !text.contains(&lab.truth.mechanism), "{text}");
    }
}

#[test]
fn a_classs_table_has_a_line_a_learner() {
    let dir = tempfile::tempdir().unwrap();
    let mut ada = Progress { learner: String::new(), ..Progress::default() };
    ada.labs.insert("4-B".to_owned(), reached("silent-pending", Some(100), true));
    ada.labs.insert("2-E".to_owned(), reached("no-pods", Some(45), false));
    let mut bob = Progress { learner: "Bob".to_owned(), ..Progress::default() };
    bob.labs.insert("4-B".to_owned(), reached("silent-pending", None, true));
    std::fs::create_dir(dir.path().join("ada")).unwrap();
    std::fs::write(dir.path().join("ada/progress.json"), serde_json::to_vec(&ada).unwrap()).unwrap();
    std::fs::write(dir.path().join("b.json"), serde_json::to_vec(&bob).unwrap()).unwrap();
    std::fs::write(dir.path().join("notes.txt"), "not progress").unwrap();
    expect![[r#"
        LEARNER                 2-E    4-B  REPAIRED  POINTS
        ada                      45   100+         1     145
        Bob                       -     ?+         1       0
        repaired of tried       0/1    2/2
    "#]]
    .assert_eq(&grade(dir.path()).unwrap());
    std::fs::write(dir.path().join("c.json"), "{").unwrap();
    assert!(format!("{:#}", grade(dir.path()).unwrap_err()).contains("c.json"));
}

#[test]
fn progress_is_readable() {
    let mut mine = Progress::default();
    assert_eq!(progress(&mine), "Nothing yet: labs list, labs start SYMPTOM\n");
    let mut solved = reached("silent-pending", Some(90), true);
    solved.times.insert("cause_named".to_owned(), 40);
    mine.labs.insert("4-B".to_owned(), solved);
    mine.labs.insert("9-Z".to_owned(), reached("no-pods", Some(45), false));
    expect![[r#"
        SYMPTOM                  STARTS DIAGNOSIS REPAIRED HINTS WRONG  REPAIR TOOK
        silent-pending (4-B)          1        90      yes     0     0         95 s
        no-pods                       1        45       no     0     0            -
    "#]]
    .assert_eq(&progress(&mine));
}

#[test]
fn answers_help_lists_every_mechanism() {
    let text = mechanisms();
    assert!(vocabulary::mechanisms().all(|(word, _)| text.contains(word)));
}
