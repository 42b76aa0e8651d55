//! Pods driven by hand, without an API server: on the simulated runtime, and on containerd where it is installed.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test with real containers")]

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};
use serde_json::json;
use stage5_kubelet::cri::SharedRuntime;
use stage5_kubelet::kubelet::Kubelet;
use stage5_kubelet::pod::PodExt;

#[path = "support/node.rs"]
mod node;
use node::{BUSYBOX, Driven, on_sim};

fn ready(s: &PodStatus) -> bool {
    s.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
}

fn container<'a>(s: &'a PodStatus, name: &str) -> &'a ContainerStatus {
    stage5_kubelet::pod_status::all_container_statuses(s).find(|c| c.name == name).unwrap()
}

fn waiting(s: &PodStatus, name: &str) -> String {
    let state = container(s, name).state.clone().unwrap_or_default();
    state.waiting.and_then(|w| w.reason).unwrap_or_default()
}

/// A pod with an init container, a sidecar and a main container reaches Ready and stays as it is.
async fn a_pod_becomes_ready_and_stays(_: SharedRuntime, kubelet: Arc<Kubelet>) {
    let long = json!(["sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"]);
    let mut p = Driven::new(
        &kubelet,
        json!({
            "initContainers": [
                {"name": "i", "image": BUSYBOX, "command": ["true"]},
                {"name": "s", "image": BUSYBOX, "command": long, "restartPolicy": "Always"},
            ],
            "containers": [{"name": "c", "image": BUSYBOX, "command": long}],
            "terminationGracePeriodSeconds": 2,
        }),
    );
    let status = p.until("ready", ready).await;
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert!(status.pod_ip.is_some());
    assert_eq!(container(&status, "i").state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 0);
    let before = kubelet.view(p.pod.pod_uid()).await.unwrap();
    // Another kubelet, that knows nothing: it finds everything and changes nothing.
    p.memory = Default::default();
    p.settle().await;
    let after = kubelet.view(p.pod.pod_uid()).await.unwrap();
    let ids = |v: &stage5_kubelet::runtime_view::RuntimePod| {
        v.containers.iter().map(|c| c.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&before), ids(&after));
    p.remove().await;
}

#[tokio::test]
async fn on_sim_a_pod_becomes_ready_and_stays() {
    on_sim(a_pod_becomes_ready_and_stays).await;
}

#[tokio::test]
async fn on_sim_a_pod_that_ends_succeeds() {
    on_sim(|_, kubelet| async move {
        let spec = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": BUSYBOX}]});
        let mut p = Driven::new(&kubelet, spec);
        p.settle().await;
        let outcome = p.settle().await;
        assert!(outcome.terminal);
        assert_eq!(p.status().phase.as_deref(), Some("Succeeded"));
    })
    .await;
}

#[cfg(feature = "containerd")]
#[test]
fn on_containerd_pods_run_restart_and_say_why_they_wait() {
    node::on_containerd("sync", |runtime, kubelet| async move {
        a_pod_becomes_ready_and_stays(runtime.clone(), kubelet.clone()).await;
        a_killed_container_is_restarted(&kubelet).await;
        reasons_for_waiting(&kubelet).await;
        the_machine_as_the_pod_sees_it(&runtime, &kubelet).await;
    });
}

#[cfg(feature = "containerd")]
async fn a_killed_container_is_restarted(kubelet: &Arc<Kubelet>) {
    let spec = json!({"containers": [{"name": "c", "image": BUSYBOX, "command": ["sh", "-c", "echo hello; exit 3"]}]});
    let mut p = Driven::new(kubelet, spec);
    let status = p.until("restarted", |s| container(s, "c").restart_count >= 1).await;
    let status = if waiting(&status, "c") == "CrashLoopBackOff" {
        status
    } else {
        p.until("back-off", |s| waiting(s, "c") == "CrashLoopBackOff").await
    };
    let last = container(&status, "c").last_state.clone().unwrap().terminated.unwrap();
    assert_eq!((last.exit_code, last.reason.as_deref()), (3, Some("Error")));
    let message = container(&status, "c").state.clone().unwrap().waiting.unwrap().message.unwrap();
    assert!(message.starts_with("back-off 10s restarting failed container=c pod=p_default("), "{message}");
    let view = kubelet.view(p.pod.pod_uid()).await.unwrap();
    assert_eq!(stage5_kubelet::server::logs::tail_of_file(&view.containers[0].log_path, 10), b"hello\n");
    p.remove().await;
}

#[cfg(feature = "containerd")]
async fn reasons_for_waiting(kubelet: &Arc<Kubelet>) {
    for (reason, container_spec) in [
        ("ErrImageNeverPull", json!({"name": "c", "image": "reg.test/none:1", "imagePullPolicy": "Never"})),
        ("RunContainerError", json!({"name": "c", "image": BUSYBOX, "command": ["nope"]})),
        (
            "CreateContainerConfigError",
            json!({"name": "c", "image": BUSYBOX, "securityContext": {"runAsNonRoot": true, "runAsUser": 0}}),
        ),
    ] {
        let mut p = Driven::new(kubelet, json!({"restartPolicy": "Always", "containers": [container_spec]}));
        p.until(reason, |s| waiting(s, "c") == reason).await;
        p.remove().await;
    }
}

#[cfg(feature = "containerd")]
async fn the_machine_as_the_pod_sees_it(runtime: &SharedRuntime, kubelet: &Arc<Kubelet>) {
    let limits = json!({"limits": {"cpu": "200m", "memory": "32Mi"}});
    let mut p = Driven::new(
        kubelet,
        json!({
            "hostname": "h", "subdomain": "sub", "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["foo.test"]}],
            "securityContext": {"runAsUser": 1000, "runAsGroup": 3000, "fsGroup": 2000},
            "containers": [{"name": "c", "image": BUSYBOX, "command": ["sleep", "3600"], "resources": limits,
                "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                "volumeMounts": [{"name": "e", "mountPath": "/e"}, {"name": "m", "mountPath": "/m"}, {"name": "d", "mountPath": "/d"},
                    {"name": "e", "mountPath": "/sub", "subPath": "a/b"}]}],
            "volumes": [{"name": "e", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}},
                {"name": "d", "downwardAPI": {"items": [{"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}}]}}],
        }),
    );
    let status = p.until("ready", ready).await;
    let id = container(&status, "c").container_id.clone().unwrap();
    let id = id.split_once("://").unwrap().1.to_owned();
    let sh = async |line: &str| {
        let cmd = ["sh", "-c", line].map(str::to_owned);
        let out = runtime.exec_sync(&id, &cmd, std::time::Duration::from_secs(10)).await.unwrap();
        String::from_utf8(out.stdout).unwrap() + &String::from_utf8(out.stderr).unwrap()
    };
    let ip = status.pod_ip.clone().unwrap();
    assert_eq!(
        sh("id -u; id -G; hostname; echo $IP; cat /d/ns").await,
        format!("1000\n3000 2000\nh\n{ip}\ndefault")
    );
    let hosts = sh("cat /etc/hosts").await;
    assert!(hosts.contains(&format!("{ip}\th.sub.default.svc.cluster.local\th\n")), "{hosts}");
    assert!(hosts.contains("1.2.3.4\tfoo.test\n"), "{hosts}");
    assert_eq!(
        sh("touch /e/x /sub/y && ls /e /e/a/b && stat -c %g /e/x; grep -c 'tmpfs /m ' /proc/mounts").await,
        "/e:\na\nx\n\n/e/a/b:\ny\n2000\n1\n"
    );
    let uid = p.pod.pod_uid().to_owned();
    let cgroups = kubelet.cgroups.pod_uids();
    assert!(cgroups.contains(&uid), "{cgroups:?}");
    if !kubelet.cgroups.is_v2() {
        let parent = kubelet.cgroups.parent_of(&p.pod);
        let read = |f: &str| {
            std::fs::read_to_string(format!("/sys/fs/cgroup/{f}")).unwrap_or_default().trim().to_owned()
        };
        assert_eq!(read(&format!("memory{parent}/memory.limit_in_bytes")), (32 << 20).to_string());
        assert_eq!(read(&format!("cpu{parent}/cpu.cfs_quota_us")), "20000");
    }
    p.remove().await;
    assert!(!kubelet.cgroups.pod_uids().contains(&uid), "the pod's cgroup is removed");
    assert!(!kubelet.pod_dir(&uid).exists(), "the pod's folder is removed");
}
