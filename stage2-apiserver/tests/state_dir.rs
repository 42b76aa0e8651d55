//! A state directory whose objects are in another store than the one to be opened: refused, and nothing is made beside them.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test: runs the server")]

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the server, which must refuse; what it said.
fn refused(state_dir: &Path, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kube-apiserver"))
        .args(["--secure-port", "0", "--state-dir"])
        .arg(state_dir)
        .args(args)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

#[test]
fn a_store_that_would_hide_the_objects_of_etcd_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("etcd/member/wal")).unwrap();
    let mut ways = vec![vec!["--store", "embedded"]];
    if cfg!(not(feature = "etcd")) {
        ways.push(Vec::new());
    }
    for args in ways {
        let said = refused(dir.path(), &args);
        println!("{}", said.lines().last().unwrap());
        assert!(said.contains("this cluster's objects are in etcd"), "{said}");
        assert!(said.contains(dir.path().to_str().unwrap()) && said.contains("--state-dir"), "{said}");
        assert!(!dir.path().join("store").exists(), "an empty store was made");
    }
}

#[test]
fn a_store_that_would_hide_the_objects_of_the_embedded_store_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("store")).unwrap();
    std::fs::write(dir.path().join("store/store.redb"), "").unwrap();
    for args in [["--store", "etcd"], ["--etcd-servers", "https://127.0.0.1:1"]] {
        let said = refused(dir.path(), &args);
        println!("{}", said.lines().last().unwrap());
        assert!(said.contains("this cluster's objects are in the embedded store"), "{said}");
        assert!(said.contains(dir.path().to_str().unwrap()) && said.contains("--state-dir"), "{said}");
        assert!(!dir.path().join("etcd").exists(), "an empty etcd was made");
    }
}
