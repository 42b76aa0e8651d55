use super::*;
use crate::page::journal::tests::journal;

const SECOND: i64 = 1_000_000;
const POD: &str = "Pod d/web-5d4-x";

type Told<'a> = (u8, &'a str, i64, &'a str, &'a str);

fn owned() -> Vec<Told<'static>> {
    vec![
        (1, "Deployment d/web", 0, "POST", "apply: the server has no such object yet"),
        (2, "Deployment d/web", 10, "committed at revision 1", ""),
        (
            3,
            "ReplicaSet d/web-5d4",
            20,
            "ReplicaSet d/web-5d4 created",
            "Deployment web has no ReplicaSet for its template yet",
        ),
        (2, POD, SECOND, "committed at revision 3", ""),
        (3, POD, SECOND + 10, "Pod d/web-5d4-x created", "ReplicaSet web-5d4 has 0 of 3 pods"),
    ]
}

fn states(steps: &[Told<'_>], object: &str) -> (Vec<State>, Option<u8>, Vec<Option<&'static str>>) {
    let journey = journey(&journal(steps), object);
    let lanes = journey.lanes.iter();
    (lanes.clone().map(|lane| lane.state).collect(), journey.next, lanes.map(|lane| lane.says).collect())
}

use State::*;

#[test]
fn a_pod_that_nobody_has_bound_waits_for_stage_four_and_nobody_behind_is_blamed() {
    let (lanes, next, says) = states(&owned(), POD);
    assert_eq!(lanes, [Done, Done, Done, Missing, Ahead, Ahead]);
    assert_eq!((next, says[3]), (Some(4), Some("missing.scheduler")));
}

#[test]
fn each_further_hop_moves_what_is_waited_for() {
    let mut steps = owned();
    let further: [(Told<'_>, Option<u8>, State); 6] = [
        ((4, POD, SECOND + 20, "filtered: 1 of 1 nodes can take the pod", ""), Some(4), Working),
        ((4, POD, SECOND + 30, "bound to node-1", ""), Some(5), Missing),
        ((5, POD, SECOND + 40, "admitted", "the node has room for it"), Some(5), Working),
        ((5, POD, SECOND + 50, "started container web", "it was not running"), Some(6), Missing),
        (
            (
                3,
                "EndpointSlice d/web-q",
                SECOND + 60,
                "EndpointSlice d/web-q changed",
                "1 endpoints stand behind Service web, ready: web-5d4-x",
            ),
            Some(6),
            Missing,
        ),
        ((6, "Service d/web", SECOND + 70, "1 endpoint programmed in 9 µs", "d/web changed"), None, Done),
    ];
    for (step, next, state) in further {
        steps.push(step);
        let drawn = journey(&journal(&steps), POD);
        assert_eq!(drawn.next, next, "after {step:?}");
        if let Some(next) = next {
            assert_eq!(drawn.lanes[usize::from(next) - 1].state, state, "after {step:?}");
        }
    }
    let done = journey(&journal(&steps), POD);
    assert!(done.lanes.iter().all(|lane| lane.state == Done), "{:?}", done.lanes);
    assert_eq!(done.services, ["Service d/web"]);
}

#[test]
fn a_refusal_is_the_next_hop_and_its_reason_is_a_step() {
    let mut steps = owned();
    steps.push((
        4,
        POD,
        SECOND + 20,
        "no node can take the pod now",
        "0/3 nodes are available: 3 Insufficient cpu.",
    ));
    let drawn = journey(&journal(&steps), POD);
    assert_eq!((drawn.next, drawn.lanes[3].state, drawn.lanes[4].state), (Some(4), Refused, Ahead));
    assert_eq!(drawn.lanes[3].steps[0].why, "0/3 nodes are available: 3 Insufficient cpu.");
    assert_eq!(drawn.lanes[3].steps[0].since_micros, SECOND + 20);
    steps.push((4, POD, 9 * SECOND, "bound to node-9", ""));
    assert_eq!(journey(&journal(&steps), POD).next, Some(5), "a later binding undoes the refusal");
}

#[test]
fn a_pod_that_failed_waits_for_nobody_but_its_kubelets_word() {
    let mut steps = owned();
    steps.extend([
        (4, POD, SECOND + 20, "bound to node-1", ""),
        (5, POD, SECOND + 30, "rejected", "Pod was rejected: the node was low on resource: memory"),
    ]);
    let (lanes, next, says) = states(&steps, POD);
    assert_eq!(lanes, [Done, Done, Done, Done, Refused, Ended]);
    assert_eq!((next, says[4]), (Some(5), Some("refused.kubelet")));
}

#[test]
fn a_pod_that_was_deleted_while_it_waited_is_over() {
    let mut steps = owned();
    steps.push((2, POD, 5 * SECOND, "deleted", "admin asked for it"));
    let (lanes, next, _) = states(&steps, POD);
    assert_eq!((lanes[3], lanes[5], next), (Ended, Ended, None));
}

#[test]
fn a_bare_pod_with_a_node_of_its_own_passes_two_stages() {
    let steps =
        [(2, "Pod d/p", 1, "committed at revision 1", ""), (5, "Pod d/p", 2, "started container p", "")];
    let (lanes, next, says) = states(&steps, "Pod d/p");
    assert_eq!(lanes, [Silent, Done, Passed, Passed, Done, Missing]);
    assert_eq!(next, Some(6));
    assert_eq!(&says[2..4], [Some("passed.controllers"), Some("passed.scheduler")]);
}

#[test]
fn a_deployment_without_a_controller_waits_for_stage_three_and_then_points_to_its_pods() {
    let (lanes, next, says) = states(&owned()[..2], "Deployment d/web");
    assert_eq!((lanes[2], next, says[2]), (Missing, Some(3), Some("missing.controllers")));
    let (lanes, next, _) = states(&owned(), "Deployment d/web");
    assert_eq!(lanes, [Done, Done, Done, Elsewhere, Elsewhere, Elsewhere]);
    assert_eq!(next, None);
}

#[test]
fn a_service_without_rules_waits_for_the_proxy() {
    let mut steps = vec![
        (2, "Service d/web", 1, "committed at revision 1", ""),
        (
            3,
            "EndpointSlice d/web-q",
            2,
            "EndpointSlice d/web-q created",
            "0 endpoints stand behind Service web",
        ),
    ];
    assert_eq!(states(&steps, "Service d/web").1, Some(6));
    steps.push((6, "Service d/web", 3, "0 endpoints programmed in 8 µs", "d/web changed"));
    assert_eq!(states(&steps, "Service d/web").1, None);
}

#[test]
fn an_object_that_nobody_has_told_of_has_six_lanes_without_steps() {
    let (lanes, next, _) = states(&[], "Pod d/ghost");
    assert_eq!(lanes, [Silent, Missing, Ahead, Ahead, Ahead, Ahead]);
    assert_eq!(next, Some(2));
}

#[test]
fn everything_that_a_lane_says_is_a_text_of_the_page() {
    let texts = crate::page::frame::english();
    for key in [
        "silent.kubectl",
        "silent.apiserver",
        "missing.apiserver",
        "passed.controllers",
        "missing.controllers",
        "passed.scheduler",
        "working.scheduler",
        "refused.scheduler",
        "missing.scheduler",
        "missing.kubelet",
        "working.kubelet",
        "refused.kubelet",
        "working.proxy",
        "missing.proxy",
        "missing.rules",
        "ahead",
        "ended",
        "elsewhere",
        "passed.other",
    ] {
        assert!(texts.get(&format!("says.{key}")).is_some(), "says.{key} is missing");
    }
}
