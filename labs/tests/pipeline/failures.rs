//! What goes wrong in every cluster: a dead process, a wrong image, too large a request. And input that is wrong.

use crate::cluster::{Pipeline, skip, text};

#[test]
fn troubles_are_told_in_the_words_of_kubernetes() {
    if skip() {
        return;
    }
    let mut pipeline = Pipeline::start(&[]);
    killed_process(&pipeline);
    wrong_image(&pipeline);
    too_large(&pipeline);
    bad_manifests(&pipeline);
    pipeline.stop();
}

fn killed_process(pipeline: &Pipeline) {
    pipeline.ok(&[
        "run",
        "mortal",
        "--image=busybox:1.36",
        "--command",
        "--",
        "sh",
        "-c",
        "trap 'exit 1' TERM; while :; do sleep 1; done",
    ]);
    pipeline.wait("mortal runs", || pipeline.get("pod mortal", "{.status.phase}") == "Running");
    pipeline.ok(&["exec", "mortal", "--", "kill", "1"]);
    pipeline.wait("mortal is restarted", || {
        pipeline.get("pod mortal", "{.status.containerStatuses[0].restartCount}") == "1"
    });
    pipeline.wait("mortal runs again", || {
        pipeline.get("pod mortal", "{.status.containerStatuses[0].ready}") == "true"
    });
    println!("{}", pipeline.ok(&["get", "pod", "mortal"]));
    pipeline.ok(&["delete", "pod", "mortal", "--grace-period=1"]);
}

fn wrong_image(pipeline: &Pipeline) {
    pipeline.ok(&["run", "lost", "--image=127.0.0.1:9/nowhere:1"]);
    let waiting = || pipeline.get("pod lost", "{.status.containerStatuses[0].state.waiting.reason}");
    let mut seen = Vec::new();
    pipeline.wait("ErrImagePull, then ImagePullBackOff", || {
        let reason = waiting();
        if !reason.is_empty() && seen.last() != Some(&reason) {
            seen.push(reason);
        }
        seen.iter().any(|reason| reason == "ErrImagePull")
            && seen.iter().any(|reason| reason == "ImagePullBackOff")
    });
    println!("lost: {seen:?}");
    let page = pipeline.ok(&["describe", "pod", "lost"]);
    for part in [
        "Failed to pull image \"127.0.0.1:9/nowhere:1\"",
        "Error: ErrImagePull",
        "Back-off pulling image \"127.0.0.1:9/nowhere:1\"",
        "Error: ImagePullBackOff",
    ] {
        assert!(page.contains(part), "no {part:?} in\n{page}");
    }
    pipeline.ok(&["delete", "pod", "lost", "--grace-period=1"]);
}

fn too_large(pipeline: &Pipeline) {
    let overrides = r#"{"spec":{"containers":[{"name":"large","image":"busybox:1.36","resources":{"requests":{"cpu":"1000"}}}]}}"#;
    let manifest =
        format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"large"}},{}"#, &overrides[1..]);
    pipeline.apply(&manifest);
    let message = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    pipeline.wait("the scheduler says why", || {
        pipeline.ok(&["get", "events", "--field-selector", "reason=FailedScheduling"]).contains(message)
    });
    assert_eq!(pipeline.get("pod large", "{.status.phase}"), "Pending");
    assert_eq!(pipeline.get("pod large", "{.status.conditions[0].reason}"), "Unschedulable");
    pipeline.ok(&["delete", "pod", "large"]);
}

fn bad_manifests(pipeline: &Pipeline) {
    let cases = [
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n\tname: tab\n",
            "error converting YAML to JSON: yaml: line 4: found character that cannot start any token",
        ),
        ("apiVersion: v1\nmetadata:\n  name: x\n", "kind not set"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndatta: {}\n", "unknown field \"datta\""),
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\nspec:\n  containers:\n  - name: a\n",
            "spec.containers[0].image: Required value",
        ),
    ];
    for (manifest, expected) in cases {
        let output = pipeline.run_with_stdin(&["create", "-f", "-"], manifest);
        let said = text(&output.stderr);
        println!("{}", said.trim());
        assert!(!output.status.success() && said.contains(expected), "no {expected:?} in {said:?}");
    }
    assert_eq!(pipeline.ok(&["get", "--raw", "/readyz"]), "ok");
}
