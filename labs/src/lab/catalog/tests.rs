//! Every lab of the catalogue is sound: words, twins, files, wrong answers.

use std::path::Path;

use super::*;
use crate::lab::answer::Answer;
use crate::lab::grade;
use crate::lab::vocabulary::is_mechanism;

#[test]
fn every_lab_is_complete_with_any_seed() {
    for seed in [0, 1, 77] {
        for lab in all(seed).unwrap() {
            let id = &lab.id;
            assert!((1..=5).contains(&lab.difficulty) && lab.minutes > 0, "{id}");
            assert!(lab.truth.stage <= 6 && is_mechanism(&lab.truth.mechanism), "{id}");
            assert_eq!(
                lab.truth.evidence.is_empty(),
                lab.truth.stage == 0,
                "{id}: only a control needs no proof"
            );
            assert!(lab.hints.iter().any(|hint| hint.when.is_none()), "{id}: the ladder has no rung");
            assert!(lab.truth.stage == 0 || !lab.solution.is_empty(), "{id}");
            let objects = stage1_kubectl::manifest::parse(&lab.objects, id).unwrap();
            assert!(!objects.is_empty() || !lab.inject.is_empty(), "{id}");
            let left = format!("{lab:?}");
            assert!(!left.contains("${"), "{id}: a name was not filled in");
        }
    }
}

#[test]
fn twins_have_one_symptom_and_name_each_other() {
    let labs = all(0).unwrap();
    for lab in &labs {
        let Some(twin) = &lab.twin else { continue };
        let twin = labs.iter().find(|other| other.id == *twin).expect("the twin is a lab");
        assert_eq!(twin.twin.as_ref(), Some(&lab.id));
        assert_eq!((&twin.symptom, &twin.title), (&lab.symptom, &lab.title), "{}", lab.id);
        assert!(lab.debrief.twin.is_some(), "{}", lab.id);
        assert_ne!((twin.truth.stage, &twin.truth.mechanism), (lab.truth.stage, &lab.truth.mechanism));
    }
}

#[test]
fn every_stage_has_labs_and_a_healthy_control() {
    let labs = all(0).unwrap();
    for stage in 1..=6 {
        assert!(labs.iter().any(|lab| lab.truth.stage == stage), "{stage}");
    }
    assert_eq!(labs.iter().filter(|lab| lab.truth.stage == 0).count(), 6);
    assert!(labs.iter().filter(|lab| lab.truth.stage > 0).count() >= 15);
}

#[test]
fn what_a_debrief_points_to_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for lab in all(0).unwrap() {
        for path in [root.join(&lab.debrief.code), root.join("book/src").join(&lab.debrief.chapter)] {
            assert!(path.exists(), "{}: {}", lab.id, path.display());
        }
    }
}

#[test]
fn the_right_answer_passes_and_each_wrong_one_gets_its_verdict() {
    for lab in all(3).unwrap() {
        let answer =
            |stage, object: &str, mechanism: &str| Answer::parse(stage, object, mechanism, &[], &[]).unwrap();
        let verdict = |answer: &Answer| grade::diagnosis(&lab, answer, &[], 0).ruling.verdict;
        let truth = &lab.truth;
        assert_eq!(
            verdict(&answer(truth.stage, &truth.objects[0], &truth.mechanism)),
            Verdict::Pass,
            "{}",
            lab.id
        );
        assert!(!lab.wrong_answers.is_empty(), "{}", lab.id);
        for wrong in &lab.wrong_answers {
            let given = answer(wrong.stage, &wrong.object, &wrong.mechanism);
            assert_eq!(verdict(&given), wrong.verdict, "{}: {given:?}", lab.id);
        }
    }
}

#[test]
fn a_symptom_draws_one_of_its_labs_by_the_seed() {
    let drawn: std::collections::BTreeSet<String> =
        (0..12).map(|seed| Lab::find("silent-pending", seed).unwrap().id).collect();
    assert_eq!(drawn.into_iter().collect::<Vec<_>>(), ["0-D", "4-A", "4-B"]);
    assert_eq!(Lab::find("4-b", 5).unwrap().id, "4-B");
    let error = Lab::find("gremlins", 0).unwrap_err().to_string();
    assert_eq!(error, "there is no lab \"gremlins\": labs list shows them");
}
