use super::*;

/// A step, as short as a test can say it.
pub(in crate::page) fn step(stage: u8, object: &str, at_micros: i64, decided: &str, why: &str) -> Step {
    let stage = Stage::try_from(stage).unwrap();
    let source = "stage4-scheduler/src/binding_cycle.rs:84".into();
    Step { stage, object: object.into(), decided: decided.into(), why: why.into(), at_micros, source }
}

pub(in crate::page) fn journal(steps: &[(u8, &str, i64, &str, &str)]) -> Journal {
    let mut journal = Journal::default();
    for (stage, object, at, decided, why) in steps {
        journal.push(step(*stage, object, *at, decided, why));
    }
    journal
}

const SET: &str = "ReplicaSet d/web-5d4";
const POD: &str = "Pod d/web-5d4-x";

fn web() -> Journal {
    journal(&[
        (2, "Deployment d/web", 1, "committed at revision 1", ""),
        (
            3,
            SET,
            2,
            "ReplicaSet d/web-5d4 created",
            "Deployment web has no ReplicaSet for its template yet: revision 1",
        ),
        (2, POD, 3, "committed at revision 3", ""),
        (3, POD, 4, "Pod d/web-5d4-x created", "ReplicaSet web-5d4 has 0 of 3 pods"),
        (2, "Event d/web.1", 5, "committed at revision 4", ""),
        (
            3,
            "EndpointSlice d/web-q",
            6,
            "EndpointSlice d/web-q created",
            "1 endpoints stand behind Service web, ready: web-5d4-x",
        ),
    ])
}

#[test]
fn reasons_tell_who_made_whom_and_which_service_reaches_a_pod() {
    let journal = web();
    assert_eq!(journal.owners(POD), [SET, "Deployment d/web"]);
    assert_eq!(journal.children("Deployment d/web"), [SET]);
    assert_eq!(journal.children(SET), [POD]);
    assert_eq!(journal.services(POD), ["Service d/web"]);
    assert_eq!(journal.owners("Pod d/stranger"), Vec::<String>::new());
    let unready = journal.services("Pod d/web-5d4-y");
    assert!(unready.is_empty(), "{unready:?}");
}

#[test]
fn the_list_begins_with_the_newest_and_the_choice_with_the_newest_living_pod() {
    let mut journal = web();
    let objects: Vec<String> = journal.listed().into_iter().map(|one| one.object).collect();
    assert_eq!(objects, ["EndpointSlice d/web-q", POD, SET, "Deployment d/web"]);
    assert_eq!(first_choice(&journal.listed()).unwrap().object, POD);
    journal.push(step(2, POD, 9, "deleted", "admin asked for it"));
    assert_eq!(first_choice(&journal.listed()).unwrap().object, "Deployment d/web");
    assert_eq!(first_choice(&[]), None);
}

#[test]
fn the_list_keeps_its_order_as_lives_begin_again_and_its_version_counts_births_and_deaths_only() {
    let mut journal = web();
    let version = journal.version();
    journal.push(step(4, POD, 9, "bound to n", ""));
    journal.push(step(2, "Event d/web.2", 9, "committed at revision 9", ""));
    assert_eq!(journal.version(), version, "a step of a known object changes no list");
    journal.push(step(2, "Deployment d/web", 10, "deleted", ""));
    assert_eq!(journal.version(), version + 1);
    journal.push(step(2, "Deployment d/web", 11, "committed at revision 11", ""));
    assert!(journal.version() > version + 1);
    let listed: Vec<(String, i64)> =
        journal.listed().into_iter().map(|one| (one.object, one.born_at_micros)).collect();
    assert_eq!(listed.first().unwrap(), &("Deployment d/web".to_owned(), 11));
    assert_eq!(listed.len(), 4, "{listed:?}");
    let mut sorted = listed.clone();
    sorted.sort_by(|a, b| (b.1, &b.0).cmp(&(a.1, &a.0)));
    assert_eq!(listed, sorted);
    journal.push(step(1, POD, 2, "POST", "a step that comes late is still the first"));
    assert_eq!(journal.listed().iter().find(|one| one.object == POD).unwrap().born_at_micros, 2);
}

#[test]
fn a_name_that_is_used_again_begins_a_new_life() {
    let mut journal = journal(&[
        (2, "Pod d/p", 1, "committed at revision 1", ""),
        (4, "Pod d/p", 2, "bound to n", ""),
        (2, "Pod d/p", 3, "deleted", ""),
        (5, "Pod d/p", 4, "Succeeded", "containers changed"),
    ]);
    assert!(journal.ended("Pod d/p"), "the kubelet's late word revives nothing");
    assert_eq!(journal.of("Pod d/p").len(), 4);
    journal.push(step(2, "Pod d/p", 5, "committed at revision 9", ""));
    assert!(!journal.ended("Pod d/p"));
    assert_eq!(journal.of("Pod d/p").iter().map(|step| step.at_micros).collect::<Vec<_>>(), [5]);
}

#[test]
fn a_replay_sees_only_what_had_happened() {
    let journal = web();
    assert_eq!(journal.first(3).owners(POD), Vec::<String>::new());
    assert_eq!(journal.first(4).owners(POD), [SET, "Deployment d/web"]);
    assert_eq!(journal.first(99).len(), journal.len());
}

#[test]
fn memory_is_bounded_and_the_newest_stay() {
    let mut journal = Journal::default();
    for at in 0..=MAX_STEPS {
        journal.push(step(2, if at % 2 == 0 { "Pod d/a" } else { "Pod d/b" }, at as i64, "committed", ""));
    }
    assert_eq!(journal.len(), MAX_STEPS / 2 + 1);
    assert_eq!(journal.of("Pod d/a").last().unwrap().at_micros, MAX_STEPS as i64);
}
