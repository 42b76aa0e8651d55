//! Tests of the queue: order, pauses, wake-ups.

use super::*;
use crate::node_info::NodeInfo;
use serde_json::json;

fn pod(name: &str, priority: i32) -> Arc<PodInfo> {
    let pod = json!({
        "metadata": {"name": name, "namespace": "w"},
        "spec": {"priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    });
    Arc::new(PodInfo::new(Arc::new(serde_json::from_value(pod).unwrap())))
}

fn node(cpu: &str) -> Arc<NodeInfo> {
    let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": cpu, "pods": "10"}}});
    Arc::new(NodeInfo::of(Arc::new(serde_json::from_value(node).unwrap())))
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn queue(pods: &[(&str, i32)]) -> SchedulingQueue {
    let mut queue = SchedulingQueue::new(Arc::default());
    for (at, (name, priority)) in pods.iter().enumerate() {
        queue.set(pod(name, *priority), s(at as u64));
    }
    queue
}

fn refuse(queue: &mut SchedulingQueue, plugin: &'static str, now: Duration) {
    let pod = queue.pop(now).unwrap();
    queue.return_refused(pod, BTreeSet::from([plugin]), now);
}

#[test]
fn higher_priority_goes_first_then_who_waited_longest() {
    let mut queue = queue(&[("a", 0), ("b", 5), ("c", 0), ("d", 5)]);
    let order: Vec<_> =
        std::iter::from_fn(|| queue.pop(s(9))).map(|pod| pod.info.name().to_owned()).collect();
    assert_eq!(order, ["b", "d", "a", "c"]);
}

#[test]
fn a_refused_pod_sleeps_until_an_event_that_can_help() {
    let mut queue = queue(&[("a", 0)]);
    refuse(&mut queue, "NodeResourcesFit", s(1));
    queue.on_event(ClusterEvent::NodeAdded(node("500m")), s(60));
    assert_eq!(queue.pop(s(60)).map(|pod| pod.attempts), None, "the node is too small to help");
    queue.on_event(ClusterEvent::NodeAdded(node("2")), s(60));
    assert_eq!(queue.pop(s(60)).map(|pod| pod.attempts), Some(2));
}

#[test]
fn an_event_during_the_try_is_not_lost() {
    let mut queue = queue(&[("a", 0)]);
    let tried = queue.pop(s(1)).unwrap();
    queue.on_event(ClusterEvent::NodeAdded(node("2")), s(1));
    queue.return_refused(tried, BTreeSet::from(["NodeResourcesFit"]), s(1));
    assert_eq!(queue.pending(), Pending { backoff: 1, ..Pending::default() });
    assert!(queue.in_flight.events.is_empty(), "no pod in flight, no events kept");
}

#[test]
fn an_error_pauses_longer_each_time_up_to_the_maximum() {
    let mut queue = queue(&[("a", 0)]);
    let mut now = s(0);
    for expected in [1, 2, 4, 8, 10, 10] {
        let tried = queue.pop(now).unwrap();
        queue.return_failed(tried, now);
        assert_eq!(queue.next_deadline(), Some(now + s(expected)));
        assert!(queue.pop(now).is_none(), "an error keeps its pause");
        now += s(expected);
    }
}

#[test]
fn a_sleeper_is_tried_after_five_minutes_whatever_the_hints_say() {
    let mut queue = queue(&[("a", 0)]);
    refuse(&mut queue, "NodeResourcesFit", s(0));
    queue.flush_sleeping(s(300));
    assert_eq!(queue.pending().unschedulable, 1);
    queue.flush_sleeping(s(301));
    assert_eq!(queue.pending().active, 1);
}

#[test]
fn a_gated_pod_waits_for_its_gates_and_for_nothing_else() {
    let mut queue = queue(&[]);
    let mut gated = (*pod("a", 0).pod).clone();
    gated.spec.as_mut().unwrap().scheduling_gates =
        Some(vec![k8s_openapi::api::core::v1::PodSchedulingGate { name: "quota".to_owned() }]);
    queue.set(Arc::new(PodInfo::new(Arc::new(gated))), s(0));
    queue.on_event(ClusterEvent::Anything, s(1));
    queue.flush_sleeping(s(1000));
    assert_eq!(queue.pending(), Pending { gated: 1, ..Pending::default() });
    queue.set(pod("a", 0), s(1001));
    assert_eq!(queue.pending().active, 1);
}

#[test]
fn a_pod_deleted_in_flight_does_not_come_back() {
    let mut queue = queue(&[("a", 0)]);
    let tried = queue.pop(s(0)).unwrap();
    queue.delete("w/a");
    queue.return_failed(tried, s(0));
    assert_eq!(queue.pending(), Pending::default());
}

#[test]
fn each_way_into_a_queue_is_counted_under_what_brought_the_pod_there() {
    let mut queue = queue(&[("a", 0)]);
    refuse(&mut queue, "NodeResourcesFit", s(0));
    queue.on_event(ClusterEvent::NodeAdded(node("2")), s(0));
    queue.wake(s(60));
    refuse(&mut queue, "NodeResourcesFit", s(60));
    queue.flush_sleeping(s(400));
    let failed = queue.pop(s(400)).unwrap();
    queue.return_failed(failed, s(400));
    let counted: Vec<_> = queue
        .take_incoming()
        .into_iter()
        .map(|((queue, why), pods)| (queue, [why.0, why.1].concat(), pods))
        .collect();
    let expected = [
        ("active", "BackoffComplete", 1),
        ("active", "UnschedulablePodAdd", 1),
        ("active", "UnschedulableTimeout", 1),
        ("backoff", "NodeAdd", 1),
        ("backoff", "ScheduleAttemptFailure", 1),
        ("unschedulable", "ScheduleAttemptFailure", 2),
    ];
    assert_eq!(counted, expected.map(|(queue, why, pods)| (queue, why.to_owned(), pods)));
    assert!(queue.take_incoming().is_empty(), "each is counted once");
}
