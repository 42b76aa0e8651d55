//! Stock kubectl against this server: old ones (OpenAPI v2 as protobuf) and new ones (field validation by the server).
//!
//! `STAGES_STOCK_KUBECTL` names the programs, separated by colons; without it the `kubectl` of the PATH is taken.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test: runs kubectl")]

mod support {
    pub mod raw;
}

use std::path::PathBuf;

use support::raw::cluster;

const MANIFEST: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {a: b}}
spec:
  containers:
  - {name: c, image: nginx, ports: [{containerPort: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 2
  selector: {matchLabels: {a: d}}
  template:
    metadata: {labels: {a: d}}
    spec:
      containers:
      - {name: c, image: nginx, env: [{name: A, value: "1"}]}
---
apiVersion: v1
kind: Service
metadata: {name: s}
spec:
  selector: {a: d}
  ports: [{port: 80, targetPort: 80}]
"#;

fn programs() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).unwrap_or_default();
    let named: Vec<PathBuf> =
        std::env::split_paths(&variable("STAGES_STOCK_KUBECTL")).filter(|p| p.is_file()).collect();
    if !named.is_empty() {
        return named;
    }
    let on_path = std::env::split_paths(&variable("PATH")).map(|d| d.join("kubectl")).find(|p| p.is_file());
    if on_path.is_none() {
        println!("skipped: no kubectl");
    }
    on_path.into_iter().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_apply_says_unchanged() {
    for program in programs() {
        let cluster = cluster().await;
        let kubeconfig = cluster.cluster.kubeconfig("admin").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("all.yaml");
        let kubectl = async |arguments: &[&str], manifest: &str| {
            std::fs::write(&file, manifest).unwrap();
            let mut command = tokio::process::Command::new(&program);
            command.args(arguments).arg("-f").arg(&file);
            command.env("KUBECONFIG", &kubeconfig).env("HOME", directory.path());
            let output = command.output().await.unwrap();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert!(output.status.success(), "{} {arguments:?}: {}", program.display(), text(&output.stderr));
            text(&output.stdout)
        };
        let said = |what: &str| format!("pod/web {what}\ndeployment.apps/d {what}\nservice/s {what}\n");
        assert_eq!(kubectl(&["create"], MANIFEST).await, said("created"));
        kubectl(&["delete", "--grace-period=0", "--force"], MANIFEST).await;
        assert_eq!(kubectl(&["apply"], MANIFEST).await, said("created"));
        assert_eq!(kubectl(&["apply"], MANIFEST).await, said("unchanged"), "{}", program.display());
        let changed = MANIFEST.replace("value: \"1\"", "value: \"2\"");
        let answer = kubectl(&["apply"], &changed).await;
        assert_eq!(answer, "pod/web unchanged\ndeployment.apps/d configured\nservice/s unchanged\n");
        cluster.cluster.stop().await;
    }
}
