//! `kubectl why` on a cluster that has the troubles that everybody meets: each is named, and nothing else is.

use super::objects::reader_config;
use super::said;
use crate::cluster::Pipeline;

/// Objects with a trouble each.
const TROUBLES: &str = include_str!("troubles.yaml");

/// What is asked about, and the rule that must be blamed.
const BLAMED: [(&str, &str); 23] = [
    ("pod/crash", "crash-loop"),
    ("pod/typo", "image-never"),
    ("pod/name", "image-name-invalid"),
    ("pod/nowhere", "registry-unreachable"),
    ("pod/env", "config-missing"),
    ("pod/volume", "volume-missing"),
    ("pod/mount", "mount-failed"),
    ("pod/start", "start-error"),
    ("pod/init", "init-blocked"),
    ("pod/root", "security-context"),
    ("pod/unready", "readiness-fails"),
    ("pod/gate", "readiness-gate"),
    ("pod/late", "deadline-exceeded"),
    ("pod/large", "insufficient-resource"),
    ("pod/elsewhere", "affinity-unsatisfied"),
    ("pod/lonely", "neighbours-unsatisfied"),
    ("pod/gated", "scheduling-gated"),
    ("pod/unscheduled", "scheduler-unknown"),
    ("pod/port", "ports-taken"),
    ("pod/claim", "volume-unavailable"),
    ("pvc/claim", "claim-pending"),
    ("deployment/account", "service-account-missing"),
    ("ingress/front", "backend-missing"),
];

/// In namespaces of their own, since their rules hold for all pods there.
const BLAMED_ELSEWHERE: [(&str, &str, &str); 3] = [
    ("tight", "deployment/large", "limit-range"),
    ("strict", "deployment/plain", "pod-security"),
    ("strict", "deployment/waits", "paused"),
];

pub(super) fn all(pipeline: &Pipeline) {
    pipeline.apply(TROUBLES);
    for (about, rule) in BLAMED {
        wait_for(pipeline, rule, &[about]);
    }
    for (namespace, about, rule) in BLAMED_ELSEWHERE {
        wait_for(pipeline, rule, &["-n", namespace, about]);
    }
    pipeline.run_with_stdin(&["delete", "--force", "--wait=false", "-f", "-"], TROUBLES);
    on_the_way(pipeline);
}

fn wait_for(pipeline: &Pipeline, rule: &str, about: &[&str]) {
    let mut last = Vec::new();
    pipeline.wait(&format!("why blames {rule} for {about:?}"), || {
        let found = blamed(pipeline, about);
        if found != last {
            println!("why {about:?}: {found:?}, to be {rule}");
        }
        last = found;
        last == [rule]
    });
}

/// What goes wrong before a request is answered.
fn on_the_way(pipeline: &Pipeline) {
    let rejected = reader_config(pipeline, "no-such-token").display().to_string();
    let lost = lost_config(pipeline, &rejected);
    let file = pipeline.dir().join("unsent.yaml");
    std::fs::write(
        &file,
        "apiVersion: v1\nkind: Pod\nmetadata: {name: unsent}\nspec: {containers: [{name: c, image: x}]}\n",
    )
    .unwrap();
    let cases: [(&[&str], &str); 7] = [
        (&["--as=nobody", "pod/cat"], "forbidden"),
        (&["--kubeconfig", &rejected, "pod/cat"], "credential-rejected"),
        (&["--context=nosuch", "pod/cat"], "kubeconfig-unusable"),
        (&["--tls-server-name=other.example", "pod/cat"], "tls-mismatch"),
        // The address that the kubeconfig has would answer.
        (&["--server=https://none.invalid:1", "pod/cat"], "endpoint-wrong"),
        (&["--kubeconfig", &lost, "pod/cat"], "server-name-unresolved"),
        (&["-f", file.to_str().unwrap()], "not-applied"),
    ];
    for (about, rule) in cases {
        assert_eq!(
            blamed(pipeline, about),
            [rule],
            "kubectl why {about:?}: {}",
            said(pipeline, &[&["why"], about].concat()).0
        );
    }
}

/// A kubeconfig whose only server has a name that there isn't.
fn lost_config(pipeline: &Pipeline, like: &str) -> String {
    let mut config: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(like).unwrap()).unwrap();
    config["clusters"][0]["cluster"]["server"] = "https://none.invalid:1".into();
    let file = pipeline.dir().join("lost.kubeconfig");
    std::fs::write(&file, config.to_string()).unwrap();
    file.display().to_string()
}

/// The rules that `kubectl why` blames.
pub(super) fn blamed(pipeline: &Pipeline, about: &[&str]) -> Vec<String> {
    let output = pipeline.run(&[&["why", "-o", "json"], about].concat());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let causes = report["causes"].as_array().into_iter().flatten();
    let serious = causes.filter(|one| one["severity"] != "info");
    serious.filter_map(|one| one["rule"].as_str()).map(String::from).collect()
}
