use serde_json::json;

use super::resources::{linux_resources, milli_cpu_to_quota, milli_cpu_to_shares, oom_score_adj};
use super::*;
use crate::cri::{NamespaceMode, SecurityProfile};

fn pod(spec: serde_json::Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec}))
        .unwrap()
}

fn node() -> NodeFacts {
    NodeFacts {
        pod_logs_dir: "/var/log/pods".into(),
        seccomp_dir: "/var/lib/kubelet/seccomp".into(),
        memory_bytes: 1 << 30,
        ..NodeFacts::default()
    }
}

#[test]
fn kernel_minimums_hold() {
    assert_eq!([milli_cpu_to_shares(0), milli_cpu_to_shares(1), milli_cpu_to_shares(1000)], [2, 2, 1024]);
    assert_eq!([milli_cpu_to_quota(0), milli_cpu_to_quota(5), milli_cpu_to_quota(500)], [0, 1000, 50_000]);
}

#[test]
fn oom_scores_rank_the_qos_classes() {
    let score = |r: serde_json::Value| {
        let p = pod(json!({"containers": [{"name": "c", "resources": r}]}));
        oom_score_adj(&p, &p.containers()[0], 1 << 30)
    };
    assert_eq!(score(json!({})), 1000);
    assert_eq!(score(json!({"requests": {"memory": "512Mi"}})), 500);
    assert_eq!(score(json!({"requests": {"memory": "1"}})), 999);
    assert_eq!(score(json!({"limits": {"cpu": "1", "memory": "512Mi"}})), -997);
}

#[test]
fn a_limit_without_request_counts_as_request() {
    let p = pod(
        json!({"containers": [{"name": "c", "resources": {"limits": {"cpu": "500m", "memory": "16Mi"}}}]}),
    );
    let r = linux_resources(&p, &p.containers()[0], &node());
    assert_eq!((r.cpu_shares, r.cpu_quota, r.memory_limit_bytes), (512, 50_000, 16 << 20));
}

#[test]
fn run_as_non_root_is_refused_with_the_words_users_know() {
    let p = pod(json!({"securityContext": {"runAsNonRoot": true}, "containers": [{"name": "c"}]}));
    let named = ImageUser { uid: None, username: "appuser".into() };
    assert_eq!(
        verify_run_as_non_root(&p, &p.containers()[0], &named).unwrap_err(),
        "container has runAsNonRoot and image has non-numeric user (appuser), cannot verify user is non-root (pod: \"p_ns(u)\", container: c)"
    );
    let numeric = ImageUser { uid: Some(5), username: String::new() };
    assert_eq!(verify_run_as_non_root(&p, &p.containers()[0], &numeric), Ok(()));
}

#[test]
fn a_container_carries_what_the_kubelet_must_know_later() {
    let p = pod(json!({"containers": [{"name": "c", "image": "i", "command": ["sh", "$(A)"]}]}));
    let inputs = ContainerInputs {
        attempt: 2,
        env: BTreeMap::from([("A".to_owned(), "x".to_owned())]),
        ..ContainerInputs::default()
    };
    let c = container_config(&p, &p.containers()[0], &inputs, &node()).unwrap();
    assert_eq!(c.command, ["sh", "x"]);
    assert_eq!(c.log_path, "c/2.log");
    assert_eq!(c.labels[labels::POD_UID], "u");
    assert_eq!(c.annotations[labels::RESTART_COUNT], "2");
    assert_eq!(c.security.namespaces.pid, NamespaceMode::Container);
    assert_eq!(c.security.seccomp, SecurityProfile::Unconfined);
    assert!(!c.security.masked_paths.is_empty());
}

#[test]
fn a_host_network_sandbox_has_no_hostname_and_no_host_ports() {
    let p = pod(
        json!({"hostNetwork": true, "containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": 1}]}]}),
    );
    let s = pod_sandbox_config(&p, 0, "/kubepods/besteffort/podu", &node());
    assert_eq!((s.hostname.as_str(), s.port_mappings.len()), ("", 0));
    assert_eq!(s.security.namespaces.network, NamespaceMode::Node);
    assert_eq!(s.log_directory, "/var/log/pods/ns_p_u");
}
