//! The embedded store by etcd's own command line: keys, a watch, a snapshot from which etcd's tools read everything again.
//!
//! Skipped where `etcdctl` isn't installed.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

mod support {
    pub mod raw;
}

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::json;
use stage2_apiserver::pipeline::{self, ClusterFlags, StoreKind};
use support::raw::{Raw, TestCluster};

fn etcdctl(root: &Path, port: u16) -> Command {
    let pki = root.join("pki");
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3").arg(format!("--endpoints=https://127.0.0.1:{port}"));
    for (flag, file) in [
        ("cacert", "etcd/ca.crt"),
        ("cert", "apiserver-etcd-client.crt"),
        ("key", "apiserver-etcd-client.key"),
    ] {
        command.arg(format!("--{flag}={}", pki.join(file).display()));
    }
    command
}

fn text(output: Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    out.into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_looks_into_the_embedded_store() {
    if Command::new("etcdctl").arg("version").output().is_err() {
        println!("skipped: no etcdctl");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().to_owned();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let flags = ClusterFlags {
        state_dir: Some(root.clone()),
        store: Some(StoreKind::Embedded),
        secure_port: 0,
        store_client_port: Some(port),
        ..ClusterFlags::default()
    };
    let cluster = TestCluster::new(pipeline::start(&flags).await.unwrap(), directory);
    let mut client = Raw::admin(&cluster);
    let map = |name: &str| json!({ "metadata": { "name": name }, "data": { "a": "1" } });
    let path = "/api/v1/namespaces/default/configmaps";
    assert_eq!(client.json("POST", path, &map("one")).await.code, 201);
    let run = |args: &[&str]| text(etcdctl(&root, port).args(args).output().unwrap());
    let keys = run(&["get", "/", "--prefix", "--keys-only"]);
    assert!(keys.lines().any(|line| line == "/registry/configmaps/default/one"), "{keys}");
    let value = run(&["get", "/registry/configmaps/default/one", "--print-value-only"]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&value).unwrap()["data"]["a"], "1");
    assert!(run(&["endpoint", "status"]).contains("3.5.0"));

    let mut watching = etcdctl(&root, port)
        .args(["watch", "/registry/configmaps/default/", "--prefix", "--rev=1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    assert_eq!(client.json("DELETE", &format!("{path}/one"), &json!({})).await.code, 200);
    let seen: Vec<String> =
        lines.by_ref().map_while(Result::ok).take_while(|line| line != "DELETE").collect();
    assert!(seen.contains(&"PUT".to_owned()), "{seen:?}");
    watching.kill().unwrap();
    watching.wait().unwrap();

    let file = root.join("snapshot.db");
    run(&["snapshot", "save", file.to_str().unwrap()]);
    let status = run(&["snapshot", "status", file.to_str().unwrap(), "--write-out=json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let keys = run(&["get", "/", "--prefix", "--keys-only"]);
    let count = keys.lines().filter(|line| !line.is_empty()).count();
    // Three keys of the snapshot are about the store itself.
    assert_eq!(status["totalKey"].as_u64().unwrap(), count as u64 + 3);
    let data = root.join("restored");
    run(&["snapshot", "restore", file.to_str().unwrap(), "--data-dir", data.to_str().unwrap()]);
    assert!(data.join("member/snap/db").exists());

    let stranger = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .arg(format!("--endpoints=https://127.0.0.1:{port}"))
        .args(["--insecure-skip-tls-verify", "get", "/"])
        .args(["--command-timeout=2s", "--dial-timeout=2s"])
        .output()
        .unwrap();
    assert!(!stranger.status.success(), "nobody gets in without a certificate");
}
