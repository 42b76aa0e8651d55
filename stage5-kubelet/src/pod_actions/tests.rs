use serde_json::json;

use super::*;
use crate::cri::{PodSandboxMetadata, PodSandboxStatus};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn pod(spec: serde_json::Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec}))
        .unwrap()
}

fn two_inits(policy: &str) -> Pod {
    pod(json!({"restartPolicy": policy,
        "initContainers": [{"name": "i1", "image": "x"}, {"name": "s", "image": "x", "restartPolicy": "Always"}, {"name": "i2", "image": "x"}],
        "containers": [{"name": "c", "image": "x"}]}))
}

fn one(policy: &str) -> Pod {
    pod(json!({"restartPolicy": policy, "containers": [{"name": "c", "image": "x"}]}))
}

/// `c=run`, `c=0` (exited 0), `c=1` (exited 1), `c=made`, `c=lost`; newest first.
fn world(pod: &Pod, states: &[&str]) -> RuntimePod {
    let sandbox = PodSandboxStatus {
        id: "sb".into(),
        metadata: PodSandboxMetadata { attempt: 0, ..PodSandboxMetadata::default() },
        state: SandboxState::Ready,
        created_at: at(0),
        ips: vec!["10.0.0.2".into()],
        host_network: false,
    };
    let container = |s: &&str| {
        let (name, word) = s.split_once('=').unwrap();
        let spec = pod.all_containers().find(|c| c.name == name).unwrap();
        let (state, exit_code) = match word {
            "run" => (ContainerState::Running, 0),
            "made" => (ContainerState::Created, 0),
            "lost" => (ContainerState::Unknown, 0),
            code => (ContainerState::Exited, code.parse().unwrap()),
        };
        RuntimeContainer {
            id: format!("id-{name}"),
            name: name.into(),
            image: "x".into(),
            image_id: String::new(),
            state,
            created_at: at(1),
            started_at: Some(at(1)),
            finished_at: (state == ContainerState::Exited).then(|| at(5)),
            exit_code,
            reason: String::new(),
            message: String::new(),
            restart_count: 0,
            hash: hash_container(spec),
            log_path: String::new(),
            liveness: None,
            startup: None,
            readiness: None,
            termination_message: None,
        }
    };
    RuntimePod {
        uid: "u".into(),
        ips: sandbox.ips.clone(),
        sandboxes: vec![sandbox],
        containers: states.iter().map(container).collect(),
    }
}

/// The actions in short: `kill-pod`, `kill c`, `sandbox 1`, `init 0`, `start 0`, `wait c 10`.
fn short(actions: &[PodAction]) -> String {
    let one = |a: &PodAction| match a {
        PodAction::KillPod => "kill-pod".to_owned(),
        PodAction::KillContainer { name, .. } => format!("kill {name}"),
        PodAction::CreateSandbox { attempt } => format!("sandbox {attempt}"),
        PodAction::StartEphemeralContainer(i) => format!("ephemeral {i}"),
        PodAction::StartInitContainer(i) => format!("init {i}"),
        PodAction::StartContainer(i) => format!("start {i}"),
        PodAction::BackOff { container, until, .. } => format!("wait {container} {}", until.as_second()),
    };
    actions.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn actions(pod: &Pod, states: &[&str]) -> String {
    short(&compute_pod_actions(pod, &world(pod, states), &Backoffs::default(), at(6)))
}

#[test]
fn a_new_pod_gets_a_sandbox_and_its_first_container() {
    let nothing =
        |p: &Pod| short(&compute_pod_actions(p, &RuntimePod::default(), &Backoffs::default(), at(0)));
    assert_eq!(nothing(&one("Always")), "sandbox 0, start 0");
    assert_eq!(nothing(&two_inits("Always")), "sandbox 0, init 0");
}

#[test]
fn init_containers_run_one_after_another_and_sidecars_stay() {
    let p = two_inits("Always");
    for (states, wanted) in [
        (&[][..], "init 0"),
        (&["i1=run"], ""),
        (&["i1=0"], "init 1"),
        (&["s=run", "i1=0"], "init 2"),
        (&["s=made", "i1=0"], "init 1"),
        (&["i2=run", "s=run", "i1=0"], ""),
        (&["i2=run", "s=1", "i1=0"], "init 1"),
        (&["i2=0", "s=run", "i1=0"], "start 0"),
        (&["i2=1", "s=run", "i1=0"], "init 2"),
        (&["c=run", "i2=0", "s=run", "i1=0"], ""),
        (&["c=run", "i2=0", "s=0", "i1=0"], "init 1"),
        (&["c=run"], "init 1"),
    ] {
        assert_eq!(actions(&p, states), wanted, "{states:?}");
    }
}

#[test]
fn a_failed_init_container_ends_a_pod_that_is_not_restarted() {
    assert_eq!(actions(&two_inits("Never"), &["i1=1"]), "kill-pod");
    assert_eq!(actions(&two_inits("OnFailure"), &["i1=1"]), "init 0");
}

#[test]
fn the_restart_policy_decides_about_ended_containers() {
    for (policy, state, wanted) in [
        ("Always", "c=0", "start 0"),
        ("Always", "c=1", "start 0"),
        ("OnFailure", "c=1", "start 0"),
        ("OnFailure", "c=0", "kill-pod"),
        ("Never", "c=1", "kill-pod"),
        ("Always", "c=run", ""),
        ("Never", "c=made", "start 0"),
        ("Always", "c=lost", "kill c, start 0"),
    ] {
        assert_eq!(actions(&one(policy), &[state]), wanted, "{policy} {state}");
    }
}

#[test]
fn sidecars_end_when_the_work_is_done() {
    assert_eq!(actions(&two_inits("Never"), &["c=0", "i2=0", "s=run", "i1=0"]), "kill-pod");
}

#[test]
fn a_dead_sandbox_is_replaced_by_the_next_attempt() {
    let p = one("Always");
    let mut w = world(&p, &["c=137"]);
    w.sandboxes[0].state = SandboxState::NotReady;
    let go = |p: &Pod, w: &RuntimePod| short(&compute_pod_actions(p, w, &Backoffs::default(), at(6)));
    assert_eq!(go(&p, &w), "kill-pod, sandbox 1, start 0");
    assert_eq!(go(&one("Never"), &w), "kill-pod");
    w.sandboxes[0].state = SandboxState::Ready;
    w.sandboxes[0].ips.clear();
    assert_eq!(go(&p, &w), "kill-pod, sandbox 1, start 0");
}

#[test]
fn a_changed_image_and_failed_probes_replace_a_running_container() {
    let p = one("Always");
    let kill = |change: fn(&mut RuntimeContainer)| {
        let mut w = world(&p, &["c=run"]);
        change(&mut w.containers[0]);
        match &compute_pod_actions(&p, &w, &Backoffs::default(), at(6))[..] {
            [PodAction::KillContainer { message, .. }, PodAction::StartContainer(0)] => message.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(kill(|c| c.hash = "old".into()), "Container c definition changed, will be restarted");
    assert_eq!(
        kill(|c| c.liveness = Some(ProbeResult::Failure)),
        "Container c failed liveness probe, will be restarted"
    );
    assert_eq!(
        kill(|c| c.startup = Some(ProbeResult::Failure)),
        "Container c failed startup probe, will be restarted"
    );
}

#[test]
fn a_container_that_fails_again_waits() {
    let p = one("Always");
    let mut b = Backoffs::default();
    b.next(&back_off_key(&p, &p.containers()[0]), at(1), at(2));
    let w = world(&p, &["c=1"]);
    let actions = compute_pod_actions(&p, &w, &b, at(6));
    assert_eq!(short(&actions), "wait c 15");
    let PodAction::BackOff { message, .. } = &actions[0] else { panic!() };
    assert_eq!(message, "back-off 10s restarting failed container=c pod=p_ns(u)");
    assert_eq!(short(&compute_pod_actions(&p, &w, &b, at(15))), "start 0");
}

#[test]
fn a_container_that_a_probe_condemns_again_waits_like_one_that_fails() {
    let p = one("Always");
    let mut b = Backoffs::default();
    let mut w = world(&p, &["c=run", "c=1"]);
    w.containers[0].liveness = Some(ProbeResult::Failure);
    assert_eq!(short(&compute_pod_actions(&p, &w, &b, at(8))), "kill c, start 0");
    b.next(&back_off_key(&p, &p.containers()[0]), at(5), at(8));
    assert_eq!(short(&compute_pod_actions(&p, &w, &b, at(9))), "kill c, wait c 15");
    w.containers.truncate(1);
    assert_eq!(short(&compute_pod_actions(&p, &w, &b, at(9))), "kill c, start 0", "its first end");
}

#[test]
fn a_deleted_pod_starts_nothing() {
    let mut p = two_inits("Always");
    p.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(1)));
    for states in [&[][..], &["i1=0"], &["c=1"], &["s=1", "c=run"]] {
        let list = compute_pod_actions(&p, &world(&p, states), &Backoffs::default(), at(6));
        let starts = |a: &PodAction| {
            matches!(
                a,
                PodAction::StartContainer(_)
                    | PodAction::StartInitContainer(_)
                    | PodAction::CreateSandbox { .. }
            )
        };
        assert!(!list.iter().any(starts), "{states:?}: {}", short(&list));
    }
    assert_eq!(
        short(&compute_pod_actions(&p, &RuntimePod::default(), &Backoffs::default(), at(0))),
        "kill-pod"
    );
}
