use std::net::Ipv4Addr;

use serde_json::json;

use super::*;
use crate::runtime_view::RuntimePod;

fn pod(spec: serde_json::Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec}))
        .unwrap()
}

fn status(pod: &Pod, previous: &PodStatus, errors: &StartErrors, terminal: bool) -> PodStatus {
    generate_api_pod_status(&StatusInput {
        pod,
        runtime: &RuntimePod::default(),
        previous,
        errors,
        terminal,
        evicted: None,
        host_ips: &[IpAddr::V4(Ipv4Addr::new(10, 210, 0, 11))],
        scheme: "containerd",
        now: Timestamp::from_second(100).unwrap(),
    })
}

fn told(status: &PodStatus) -> String {
    let c = |c: &k8s_openapi::api::core::v1::PodCondition| {
        format!("{}={} {}", c.type_, c.status, c.message.as_deref().unwrap_or(""))
    };
    let all: Vec<_> = status.conditions.iter().flatten().map(c).collect();
    format!("{} | {}", status.phase.as_deref().unwrap_or(""), all.join(" | "))
}

#[test]
fn a_pod_without_anything_waits_for_its_containers() {
    let p = pod(json!({"containers": [{"name": "c", "image": "i"}]}));
    let s = status(&p, &PodStatus::default(), &StartErrors::new(), false);
    assert_eq!(
        told(&s),
        "Pending | PodReadyToStartContainers=False  | Initialized=True  | Ready=False containers with unready status: [c] | \
         ContainersReady=False containers with unready status: [c] | PodScheduled=True "
    );
    let waiting = s.container_statuses.as_ref().unwrap()[0].state.clone().unwrap().waiting.unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("ContainerCreating"));
    assert_eq!(s.host_ip.as_deref(), Some("10.210.0.11"));
}

#[test]
fn init_containers_and_sidecars_are_named_in_the_messages() {
    let p = pod(
        json!({"initContainers": [{"name": "s", "image": "i", "restartPolicy": "Always"}], "containers": [{"name": "c", "image": "i"}]}),
    );
    let s = status(&p, &PodStatus::default(), &StartErrors::new(), false);
    assert!(told(&s).contains("Initialized=False containers with incomplete status: [s]"), "{}", told(&s));
    assert!(told(&s).contains("Ready=False containers with unready status: [s c]"), "{}", told(&s));
}

#[test]
fn the_reason_of_a_failed_start_is_told_and_forgotten_when_the_pod_is_deleted() {
    let mut p = pod(json!({"containers": [{"name": "c", "image": "i"}]}));
    let errors = StartErrors::from([("c".into(), ("ErrImagePull".into(), "no".into()))]);
    let reason = |s: &PodStatus| {
        s.container_statuses.as_ref().unwrap()[0].state.clone().unwrap().waiting.unwrap().reason.unwrap()
    };
    assert_eq!(reason(&status(&p, &PodStatus::default(), &errors, false)), "ErrImagePull");
    p.metadata.deletion_timestamp = Some(seconds(Timestamp::from_second(1).unwrap()));
    assert_eq!(reason(&status(&p, &PodStatus::default(), &errors, false)), "ContainerCreating");
}

#[test]
fn a_container_that_was_never_started_is_lost_when_its_pod_ends() {
    let p = pod(json!({"containers": [{"name": "c", "image": "i"}]}));
    let s = status(&p, &PodStatus::default(), &StartErrors::new(), true);
    let end = terminate_pod(&p, &s);
    assert_eq!(end.phase.as_deref(), Some("Failed"));
    let t = end.container_statuses.unwrap()[0].state.clone().unwrap().terminated.unwrap();
    assert_eq!((t.exit_code, t.reason.as_deref()), (137, Some("ContainerStatusUnknown")));
}

#[test]
fn a_terminal_phase_is_never_left() {
    let p = pod(json!({"containers": [{"name": "c", "image": "i"}]}));
    let previous =
        PodStatus { phase: Some("Failed".into()), reason: Some("Evicted".into()), ..PodStatus::default() };
    let s = status(&p, &previous, &StartErrors::new(), false);
    assert_eq!((s.phase.as_deref(), s.reason.as_deref()), (Some("Failed"), Some("Evicted")));
}

#[test]
fn a_condition_keeps_its_time_while_its_answer_stays() {
    let p = pod(json!({"containers": [{"name": "c", "image": "i"}]}));
    let mut first = status(&p, &PodStatus::default(), &StartErrors::new(), false);
    let early = seconds(Timestamp::from_second(7).unwrap());
    first.conditions.iter_mut().flatten().for_each(|c| c.last_transition_time = Some(early.clone()));
    let second = status(&p, &first, &StartErrors::new(), false);
    assert!(second.conditions.iter().flatten().all(|c| c.last_transition_time.as_ref() == Some(&early)));
}

/// Every recorded status of a stock kubelet: its container statuses must give its phase.
#[test]
#[expect(clippy::disallowed_methods, reason = "shell: reads the recorded cases")]
fn recorded_container_statuses_give_the_recorded_phase() {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/cases");
    let cases = std::env::var("STAGES_CASES_DIR").unwrap_or_else(|_| default.to_owned());
    let Ok(files) = std::fs::read_dir(format!("{cases}/kubelet")) else {
        println!("skipped: no cases");
        return;
    };
    let (mut passed, mut failed) = (0, Vec::new());
    for file in
        files.flatten().filter(|f| f.file_name().to_string_lossy().starts_with(|c: char| c.is_ascii_digit()))
    {
        let text = std::fs::read_to_string(file.path()).unwrap();
        // Times are normalised to `T+3s`, which no type accepts.
        let text = regex_free_times(&text);
        let case: serde_json::Value = serde_json::from_str(&text).unwrap();
        for s in case["statuses"].as_array().into_iter().flatten() {
            let Some(input) = case["input"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|o| o["metadata"]["name"] == s["pod"] && o["kind"] == "Pod")
            else {
                continue;
            };
            let pod: Pod = serde_json::from_value(input.clone()).unwrap();
            let recorded: PodStatus = serde_json::from_value(s["status"].clone()).unwrap();
            // Only what the kubelet computed while the pod lived: the end has rules of its own.
            let alive = s["metadata"]["deletionTimestamp"].is_null() && recorded.container_statuses.is_some();
            if !alive || matches!(recorded.phase.as_deref(), Some("Succeeded" | "Failed")) {
                continue;
            }
            let phase = get_phase(&pod, &recorded, false);
            // A terminal phase is held back until everything stopped: then `Running` stands there.
            if Some(&phase) == recorded.phase.as_ref() || matches!(phase.as_str(), "Succeeded" | "Failed") {
                passed += 1;
            } else {
                failed.push(format!(
                    "{}: {phase} instead of {:?}",
                    file.file_name().to_string_lossy(),
                    recorded.phase
                ));
            }
        }
    }
    println!("recorded phases: {passed} passed, {} failed, 0 not yet", failed.len());
    assert!(failed.is_empty() && passed >= 150, "{passed} passed, {failed:?}");
}

/// `"T+12s"` → a time.
fn regex_free_times(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(i) = rest.find("\"T+") {
        let end = rest[i + 3..].find('"').map_or(rest.len(), |e| i + 4 + e);
        out.push_str(&rest[..i]);
        out.push_str("\"2026-11-30T09:00:00Z\"");
        rest = &rest[end..];
    }
    out + rest
}
