//! The scripts beside this file, each against a cluster of its own.

use std::path::Path;
use std::time::Duration;

use tokio::process::Command;

use super::raw::cluster;
use super::stock;

/// More than ten times what a script takes.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs a script, which must succeed.
async fn passes(program: &Path, script: &Path, packages: Option<&Path>) {
    let cluster = cluster().await;
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    command.arg(script).current_dir(packages.unwrap_or(directory.path())).kill_on_drop(true);
    command.env("KUBECONFIG", cluster.cluster.kubeconfig("admin").unwrap()).env("HOME", directory.path());
    let output = tokio::time::timeout(LIMIT, command.output()).await.expect("in time").unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    println!("{}", text(&output.stdout));
    assert!(output.status.success(), "{}: {}", script.display(), text(&output.stderr));
    cluster.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_reads_writes_watches_and_applies() {
    if let Some(python) = stock::python() {
        passes(&python, &stock::folder("python").join("client_test.py"), None).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_made_with_kopf_does_its_work() {
    if let Some(python) = stock::python() {
        passes(&python, &stock::folder("python").join("kopf_test.py"), None).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn informers_of_the_javascript_client_see_what_happens() {
    if let Some(packages) = stock::node_packages() {
        passes(Path::new("node"), &stock::folder("node").join("informer_test.mjs"), Some(&packages)).await;
    }
}
