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

#[test]
fn why_names_the_stage_of_a_fault_and_is_silent_without_one() {
    if skip() {
        return;
    }
    let mut pipeline = Pipeline::start(&[]);
    pipeline.apply(SITE);
    pipeline.rolled_out("site");
    pipeline.wait("nothing is wrong", || causes(&pipeline, &["-n", "default"]).is_empty());
    assert_eq!(pipeline.ok(&["why", "deployment/site"]), "", "why is silent about a healthy workload");

    let typo = SITE.replace("selector: {app: site}\n  ports", "selector: {app: siet}\n  ports");
    pipeline.apply(&typo);
    pipeline
        .wait("the selector is blamed", || causes(&pipeline, &["service/site"]) == ["6 selector-mismatch"]);
    pipeline.apply(SITE);
    pipeline.wait("the repair is seen", || causes(&pipeline, &["service/site"]).is_empty());

    pipeline.ok(&["set", "image", "deployment/site", "web=busybox:1.63"]);
    pipeline.wait("the tag is blamed", || causes(&pipeline, &["deployment/site"]) == ["5 image-not-found"]);
    pipeline.ok(&["rollout", "undo", "deployment/site"]);
    pipeline.rolled_out("site");

    pipeline.ok(&["set", "resources", "deployment/site", "--requests=cpu=1000"]);
    pipeline.wait("the request is blamed", || {
        causes(&pipeline, &["deployment/site"]) == ["4 insufficient-resource"]
    });
    let page = text(&pipeline.run(&["why", "deployment/site"]).stdout);
    println!("{page}");
    assert!(page.contains("requests 1k cpu") && page.contains("no node is as large"), "{page}");
    pipeline.stop();
}

const SITE: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: site}
spec:
  replicas: 1
  selector: {matchLabels: {app: site}}
  template:
    metadata: {labels: {app: site}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: busybox:1.36
        command: [sh, -c, 'httpd -f -p 8080']
        ports: [{containerPort: 8080}]
---
apiVersion: v1
kind: Service
metadata: {name: site}
spec:
  selector: {app: site}
  ports: [{port: 80, targetPort: 8080}]
";

/// The stage and the rule of each cause that `kubectl why` finds, warnings and worse.
fn causes(pipeline: &Pipeline, about: &[&str]) -> Vec<String> {
    let output = pipeline.run(&[&["why"], about, &["-o", "json"]].concat());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", text(&output.stdout), text(&output.stderr)));
    assert_eq!(output.status.code().map(i64::from), report["exitCode"].as_i64(), "{report}");
    let causes =
        report["causes"].as_array().into_iter().flatten().filter(|cause| cause["severity"] != "info");
    causes.map(|cause| format!("{} {}", cause["stage"], cause["rule"].as_str().unwrap_or_default())).collect()
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
