//! Stop and start again, by Ctrl-C and by `kill -9`: nothing that was acknowledged is lost, the state converges.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cluster::{Pipeline, skip};
use crate::registry::run_dir;

const MANIFEST: &str = include_str!("../../src/demo/web.yaml");

#[test]
fn everything_is_back_after_a_stop_and_after_a_crash() {
    if skip() {
        return;
    }
    for store in ["etcd", "embedded"] {
        println!("== store: {store}");
        let args = ["--store", store];
        let mut pipeline = Pipeline::start(&args);
        pipeline.apply(MANIFEST);
        pipeline.rolled_out("web");
        let addresses =
            || pipeline.get("services", "{.items[*].spec.clusterIP} {.items[*].spec.ports[0].nodePort}");
        let before = (addresses(), pipeline.get("deployment web", "{.metadata.uid}"));

        pipeline.stop_and_restart(&args);
        check(&pipeline, &before);
        // The stop ended the containers: they count as restarted, each in a new sandbox.
        pipeline.wait("the restarts are counted", || restarts(&pipeline) == "1 1 1");
        pipeline.wait("the new sandboxes are told", || {
            let events = pipeline.ok(&["get", "events", "--field-selector", "reason=SandboxChanged"]);
            events.contains("Pod sandbox changed, it will be killed and re-created.")
        });
        pipeline.crash_and_restart(&args);
        check(&pipeline, &before);
        // The crash didn't: a starting kubelet removes nothing that the API server lists, though it hasn't heard of it yet.
        pipeline.wait("the restarts are as before", || restarts(&pipeline) == "1 1 1");
        pipeline.stop();
    }
}

fn check(pipeline: &Pipeline, before: &(String, String)) {
    pipeline.rolled_out("web");
    let addresses = pipeline.get("services", "{.items[*].spec.clusterIP} {.items[*].spec.ports[0].nodePort}");
    assert_eq!((addresses, pipeline.get("deployment web", "{.metadata.uid}")), *before);
    let cluster_ip = pipeline.get("service web", "{.spec.clusterIP}");
    let pod = pipeline.get("pods -l app=web", "{.items[0].metadata.name}");
    pipeline.wait("the Service answers again", || {
        pipeline.run(&["exec", &pod, "--", "wget", "-qO-", &format!("http://{cluster_ip}/")]).status.success()
    });
}

fn restarts(pipeline: &Pipeline) -> String {
    pipeline.get("pods -l app=web", "{.items[*].status.containerStatuses[0].restartCount}")
}

#[test]
fn a_killed_containerd_comes_back_and_its_pods_run_on() {
    if skip() {
        return;
    }
    let mut pipeline = Pipeline::start(&[]);
    let run = |name: &str| {
        pipeline.ok(&["run", name, "--image=busybox:1.36", "--command", "--", "sleep", "3600"]);
        pipeline.wait(&format!("{name} runs"), || {
            pipeline.get(&format!("pod {name}"), "{.status.containerStatuses[0].ready}") == "true"
        });
    };
    run("steady");
    let container = || pipeline.get("pod steady", "{.status.containerStatuses[0].containerID}");
    let pid = || std::fs::read_to_string(run_dir(&pipeline).join("containerd.pid")).unwrap();
    // Twice: the second one is not the process that the pipeline began with.
    for _ in 0..2 {
        let before = (container(), pid());
        kill(Pid::from_raw(before.1.trim().parse().unwrap()), Signal::SIGKILL).unwrap();
        pipeline.wait("another containerd is there", || pid() != before.1);
        pipeline.wait("the pod can be asked", || {
            pipeline.run(&["exec", "steady", "--", "true"]).status.success()
        });
        pipeline.wait("the node is Ready", || {
            pipeline.get("nodes", r#"{.items[*].status.conditions[?(@.type=="Ready")].status}"#) == "True"
        });
        assert_eq!(container(), before.0, "the container is the same");
    }
    assert_eq!(pipeline.get("pod steady", "{.status.containerStatuses[0].restartCount}"), "0");
    run("later");
    pipeline.stop();
}
