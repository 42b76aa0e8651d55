//! The ways to run it: nftables and iptables, two clusters side by side, and nothing real at all.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, chown};

use crate::cluster::{Pipeline, binary, skip, text};

const MANIFEST: &str = include_str!("../../src/demo/web.yaml");

/// A pod of busybox that waits for commands.
fn busybox(pipeline: &Pipeline) {
    pipeline.ok(&["run", "asker", "--image=busybox:1.36", "--command", "--", "sleep", "3600"]);
    pipeline.wait("asker runs", || pipeline.get("pod asker", "{.status.phase}") == "Running");
}

fn in_asker(pipeline: &Pipeline, words: &[&str]) -> String {
    let output = pipeline.run(&[&["exec", "asker", "--"], words].concat());
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn names_and_services_work_in_both_modes() {
    if skip() {
        return;
    }
    for mode in ["nftables", "iptables"] {
        println!("== {mode}");
        let mut pipeline = Pipeline::start(&["--proxy-mode", mode]);
        pipeline.apply(MANIFEST);
        busybox(&pipeline);
        pipeline.rolled_out("web");
        let cluster_ip = pipeline.get("service web", "{.spec.clusterIP}");
        pipeline.wait("the Service's address answers", || {
            in_asker(&pipeline, &["timeout", "3", "wget", "-qO-", &format!("http://{cluster_ip}/")])
                .contains("web-")
        });
        for name in ["web", "web.default", "web.default.svc.cluster.local"] {
            pipeline.wait("the Service's name answers", || {
                in_asker(&pipeline, &["timeout", "3", "wget", "-qO-", &format!("http://{name}/")])
                    .contains("web-")
            });
        }
        // busybox's nslookup asks by UDP, at the address of Service kube-dns.
        // (It completes names without a dot only; the names for wget above are completed by the C library.)
        let api = in_asker(&pipeline, &["nslookup", "kubernetes.default.svc.cluster.local"]);
        println!("{api}");
        assert!(api.contains("10.96.0.10") && api.contains("10.96.0.1\n"), "{api}");
        let web = in_asker(&pipeline, &["nslookup", "web.default.svc.cluster.local"]);
        assert!(web.contains(&cluster_ip), "{web}");
        let node_ip =
            pipeline.get("nodes", r#"{.items[0].status.addresses[?(@.type=="InternalIP")].address}"#);
        pipeline.wait("the node port answers", || {
            let url = format!("http://{node_ip}:30080/");
            let words = ["timeout", "3", "busybox", "wget", "-qO-", &url];
            text(&Command::new("busybox").args(words).output().unwrap().stdout).contains("web-")
        });
        pipeline.stop();
    }
}

#[test]
fn two_clusters_run_side_by_side() {
    if skip() {
        return;
    }
    let mut first = Pipeline::start(&[]);
    let mut second = first.start_beside(&["--store", "embedded"]);
    for pipeline in [&first, &second] {
        pipeline.apply(MANIFEST);
        busybox(pipeline);
    }
    let addresses = [&first, &second].map(|pipeline| {
        pipeline.rolled_out("web");
        pipeline.wait("the Service answers by name", || {
            in_asker(pipeline, &["timeout", "3", "wget", "-qO-", "http://web/"]).contains("web-")
        });
        pipeline.get("nodes", r#"{.items[0].status.addresses[?(@.type=="InternalIP")].address}"#)
    });
    assert_ne!(addresses[0], addresses[1]);
    // The end of one isn't the end of the other.
    first.stop();
    second.wait("the Service still answers", || {
        in_asker(&second, &["timeout", "3", "wget", "-qO-", "http://web/"]).contains("web-")
    });
    second.stop();
}

#[test]
fn an_ordinary_user_without_any_package_sees_simulated_pods_run() {
    let nobody = User::from_name("nobody").unwrap().unwrap();
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: not root, which it takes to become another user");
        return;
    }
    let dir = tempfile::Builder::new().prefix("six").tempdir().unwrap();
    chown(dir.path(), Some(nobody.uid), Some(nobody.gid)).unwrap();
    // Copied to where that user may read them.
    let program = |name: &str| {
        let path = dir.path().join(name);
        std::fs::copy(binary(name), &path).unwrap();
        path
    };
    let (kube_proxy, kubectl) = (program("kube-proxy"), program("kubectl"));
    let log = std::fs::File::create(dir.path().join("log")).unwrap();
    let as_nobody = |path: &std::path::Path| {
        let mut command = Command::new("runuser");
        command.args(["-u", "nobody", "--"]).arg(path).env("HOME", dir.path()).env_remove("KUBECONFIG");
        command.env_remove("XDG_RUNTIME_DIR").current_dir(dir.path());
        command
    };
    let state = dir.path().join("state");
    let mut child = as_nobody(&kube_proxy)
        .arg("--state-dir")
        .arg(&state)
        .args(["--secure-port", "0", "--store", "embedded"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    let ask = |args: &[&str]| {
        let output =
            as_nobody(&kubectl).env("KUBECONFIG", state.join("admin.kubeconfig")).args(args).output();
        text(&output.unwrap().stdout)
    };
    std::fs::write(dir.path().join("web.yaml"), MANIFEST).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        while !ask(&["apply", "-f", "web.yaml"]).contains("deployment.apps/web") {
            assert!(Instant::now() < deadline, "no cluster");
            std::thread::sleep(Duration::from_millis(100));
        }
        let rolled_out = ask(&["rollout", "status", "deployment/web", "--timeout=60s"]);
        assert!(rolled_out.contains("successfully rolled out"), "{rolled_out}");
    }));
    // runuser passes the signal on.
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    child.wait().unwrap();
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    println!("{}", log.lines().take(6).collect::<Vec<_>>().join("\n"));
    outcome.unwrap_or_else(|_| panic!("{log}"));
    assert!(log.contains("Simulated: no container runs") && log.contains("apt-get install"), "{log}");
}
