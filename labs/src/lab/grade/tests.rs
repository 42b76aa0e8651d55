//! Verdicts and points.

use expect_test::expect;

use super::*;
use crate::lab::catalog::Lab;

fn lab() -> Lab {
    Lab::with_seed("4-B", 1).unwrap()
}

fn looked(path: &str, value: &str, found: &str) -> Looked {
    let evidence =
        Evidence { subject: "Pod/web-*".to_owned(), path: path.to_owned(), value: value.to_owned() };
    Looked { evidence, found: [found].into_iter().filter(|f| !f.is_empty()).map(str::to_owned).collect() }
}

#[test]
fn all_four_parts_give_a_hundred_points_and_wrong_submissions_cost() {
    let lab = lab();
    let scheduler = lab.truth.evidence[0].matches.clone();
    let mut proof = looked(".spec.schedulerName", &scheduler, &scheduler);
    proof.evidence.subject.clone_from(&lab.truth.evidence[0].subject);
    let answer = Answer::parse(4, &lab.truth.objects[0], "unknown-scheduler", &[], &[]).unwrap();
    let graded = diagnosis(&lab, &answer, std::slice::from_ref(&proof), 0);
    assert_eq!((graded.points, graded.ruling.verdict), (100, Verdict::Pass));
    assert_eq!(diagnosis(&lab, &answer, std::slice::from_ref(&proof), 2).points, 80);
    assert_eq!(diagnosis(&lab, &answer, &[proof], 50).points, 0);
    assert_eq!(diagnosis(&lab, &answer, &[], 0).points, 80);
    let lower = Answer { object: answer.object.replace("Deployment", "deployment"), ..answer };
    assert_eq!(diagnosis(&lab, &lower, &[], 0).ruling.verdict, Verdict::Pass);
}

#[test]
fn evidence_must_have_been_there_and_must_prove_the_cause() {
    let lab = lab();
    let right = lab.truth.evidence[0].matches.clone();
    let judge = |looked: Looked| judge_evidence(&lab.truth, &looked);
    let mut proof = looked(".spec.schedulerName", &right, &right);
    proof.evidence.subject.clone_from(&lab.truth.evidence[0].subject);
    assert!(judge(proof.clone()).0);
    let invented = Looked { found: vec!["default-scheduler".to_owned()], ..proof.clone() };
    assert!(judge(invented).1.ends_with("what stands there is default-scheduler"));
    assert!(judge(Looked { found: Vec::new(), ..proof }).1.ends_with("nothing is there"));
    let symptom = judge(looked(".status.phase", "Pending", "Pending"));
    assert_eq!(
        symptom,
        (false, "Pod/web-* .status.phase=Pending: true, but it proves a symptom, not the cause".to_owned())
    );
}

#[test]
fn an_empty_value_proves_nothing() {
    let lab = lab();
    let mut empty = looked(".spec.schedulerName", "", "anything");
    empty.evidence.subject.clone_from(&lab.truth.evidence[0].subject);
    assert!(!judge_evidence(&lab.truth, &empty).0);
}

#[test]
fn verdict_texts() {
    let lab = lab();
    let text = |stage, object: &str, mechanism: &str| {
        let answer = Answer::parse(stage, object, mechanism, &[], &[]).unwrap();
        let ruling = diagnosis(&lab, &answer, &[], 0).ruling;
        format!("{:?}: {}\n", ruling.verdict, ruling.text)
    };
    let all = [
        text(0, "none", "healthy"),
        text(5, "Component/kubelet", "component-not-running"),
        text(4, "Component/kube-scheduler", "component-not-running"),
        text(4, "Pod/elsewhere", "unknown-scheduler"),
    ];
    expect![[r#"
        WrongStage: you say that nothing is broken; the symptom is real. Follow the chain from the first stage that did not act.
        WrongStage: stage 5 (kubelet) does its work here. Which stage is the first that doesn't, if any?
        WrongObject: the stage is right (scheduler); Component/kube-scheduler is not where it breaks
        WrongObject: the stage is right (scheduler); Pod/elsewhere is not where it breaks
    "#]]
    .assert_eq(&all.concat());
}

#[test]
fn a_repair_is_ruled_by_guards_first_and_by_what_was_lost_last() {
    let seen = |holds, text: &str| Seen { holds, text: text.to_owned() };
    let (yes, no) = (seen(true, "3 of 3 ready"), seen(false, "0 of 3 ready"));
    let rule = |tripped: &[String], broken: &Seen, repaired: &Seen, lost: &[(String, Seen)]| {
        let ruling = repair(tripped, broken, repaired, lost);
        format!("{:?}: {}\n", ruling.verdict, ruling.text)
    };
    let lost = [("there is no limit any more".to_owned(), seen(false, "limit is not set"))];
    let all = [
        rule(&["the quota is there for a reason".to_owned()], &no, &yes, &[]),
        rule(&[], &seen(true, "pods are Pending"), &no, &[]),
        rule(&[], &seen(false, "pods are Running"), &no, &lost),
        rule(&[], &no, &yes, &lost),
        rule(&[], &no, &yes, &[]),
    ];
    expect![[r#"
        GuardTripped: the quota is there for a reason
        StillBroken: the symptom is still there: pods are Pending
        StillBroken: not as it should be yet: 0 of 3 ready
        RightCauseWrongFix: it works, but there is no limit any more (limit is not set)
        Pass: repaired: 3 of 3 ready
    "#]]
    .assert_eq(&all.concat());
}
