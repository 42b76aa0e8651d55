//! The suite against a real etcd, started by [`EtcdProcess`].
//!
//! # In Kubernetes
//! `apiserver/pkg/storage/etcd3/store_test.go` starts an etcd for each test as well.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

use super::super::etcd_process::{EtcdOptions, EtcdProcess, Keeper};
use super::*;

/// The `etcd` program, or a note that it is missing.
fn etcd_program() -> Option<std::path::PathBuf> {
    let found =
        ["/usr/bin/etcd", "/usr/local/bin/etcd"].iter().map(std::path::PathBuf::from).find(|p| p.exists());
    if found.is_none() {
        assert!(std::env::var_os("STAGES_REQUIRE_REAL").is_none(), "etcd is required but not installed");
        println!("skipped: no etcd");
    }
    found
}

fn options(program: std::path::PathBuf, dir: &std::path::Path) -> EtcdOptions {
    let pki = crate::pki::Pki::open(&dir.join("pki"), jiff::Timestamp::now()).unwrap();
    let files = pki.etcd_files().unwrap();
    EtcdOptions {
        program,
        data_dir: dir.join("etcd"),
        log_file: dir.join("etcd.log"),
        ca_file: files.ca,
        cert_file: files.server_certificate,
        key_file: files.server_key,
        client_pem: files.client_pem,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_storage_passes_the_suite() {
    let Some(program) = etcd_program() else { return };
    let dir = tempfile::tempdir().unwrap();
    let process = EtcdProcess::start(&options(program, dir.path())).await.unwrap();
    let storage = EtcdStorage::connect(process.config.clone()).await.unwrap();
    crate::storage::suite::run(Arc::new(storage), "/registry/").await;
    process.stop().await;
}

/// Processes that were started for a data directory.
fn started_for(data_dir: &std::path::Path) -> usize {
    let is_for_it = |entry: &std::fs::DirEntry| {
        let command_line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        command_line.split(|b| *b == 0).any(|argument| argument == data_dir.as_os_str().as_encoded_bytes())
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter(is_for_it).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_cannot_be_noted_does_not_stay() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    // What stands in for etcd keeps its arguments, so that it could be found.
    let program = dir.path().join("etcd.sh");
    std::fs::write(&program, "#!/bin/sh\nwhile :; do sleep 1; done\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let options = options(program, dir.path());
    std::fs::create_dir_all(options.data_dir.join("client.json")).unwrap();
    let refused = EtcdProcess::start(&options).await.unwrap_err().to_string();
    assert!(refused.contains("starting etcd: writing ") && refused.contains("client.json"), "{refused}");
    assert_eq!(started_for(&options.data_dir), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_still_runs_is_found_and_its_data_outlive_it() {
    let Some(program) = etcd_program() else { return };
    let dir = tempfile::tempdir().unwrap();
    let options = options(program, dir.path());
    let first = EtcdProcess::start(&options).await.unwrap();
    let storage = EtcdStorage::connect(first.config.clone()).await.unwrap();
    let value = Write::Put(Bytes::from_static(b"1"));
    let revision = storage.commit("/registry/a", Expect::Absent, value).await.unwrap();
    // The pipeline dies without stopping its etcd; the next one finds it.
    let second = EtcdProcess::start(&options).await.unwrap();
    assert_eq!(first.pid(), second.pid());
    first.stop().await; // (the same process: our own child, so that it is reaped)
    drop(storage);
    let third = EtcdProcess::start(&options).await.unwrap();
    assert_ne!(third.pid(), second.pid());
    let storage = EtcdStorage::connect(third.config.clone()).await.unwrap();
    assert_eq!(storage.get("/registry/a").await.unwrap().unwrap().revision, revision);
    third.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_that_is_killed_comes_back_with_everything_and_watches_go_on() {
    let Some(program) = etcd_program() else { return };
    let dir = tempfile::tempdir().unwrap();
    let options = options(program, dir.path());
    let process = EtcdProcess::start(&options).await.unwrap();
    let storage = EtcdStorage::connect(process.config.clone()).await.unwrap();
    let put = |text: &'static [u8]| Write::Put(Bytes::from_static(text));
    let before = storage.commit("/registry/a", Expect::Absent, put(b"1")).await.unwrap();
    let mut watch = storage.watch("/registry/", before);
    let pid = nix::unistd::Pid::from_raw(process.pid());
    let keeper = Keeper::start(process, options);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    let after = loop {
        match storage.commit("/registry/b", Expect::Anything, put(b"2")).await {
            Ok(revision) => break revision,
            Err(error) => assert!(tokio::time::Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(after > before);
    assert_eq!(storage.get("/registry/a").await.unwrap().unwrap().revision, before);
    let event = tokio::time::timeout(Duration::from_secs(30), watch.next()).await.expect("an event");
    println!("{event:?}");
    assert!(format!("{event:?}").contains("/registry/b"));
    keeper.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_of_ours_refuses_clients_without_a_certificate() {
    let Some(program) = etcd_program() else { return };
    let dir = tempfile::tempdir().unwrap();
    let process = EtcdProcess::start(&options(program, dir.path())).await.unwrap();
    let stranger = EtcdConfig { client_pem: None, ..process.config.clone() };
    let refused = tokio::time::timeout(Duration::from_secs(10), async {
        let mut kv = stranger.connect().await?.kv_client();
        current_revision(&mut kv).await
    });
    assert!(!matches!(refused.await, Ok(Ok(_))), "a stranger must not read");
    process.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_bootstrapped_on_etcd_and_lists_are_consistent() {
    let Some(program) = etcd_program() else { return };
    let dir = tempfile::tempdir().unwrap();
    let process = EtcdProcess::start(&options(program, dir.path())).await.unwrap();
    let storage = Arc::new(EtcdStorage::connect(process.config.clone()).await.unwrap());
    let stores = crate::store::Stores::new(crate::watch_cache::Caches::new(storage.clone()));
    let server = crate::bootstrap::kubernetes_service::Server {
        service_ip: "10.96.0.1".parse().unwrap(),
        addresses: vec!["10.210.0.1".parse().unwrap()],
        port: 6443,
    };
    let client_ca_pem = "PEM".to_owned();
    let config =
        crate::bootstrap::Config { server, front_proxy_ca_pem: client_ca_pem.clone(), client_ca_pem };
    crate::bootstrap::run(&stores, &config).await.unwrap();
    let before = current_revision(&mut storage.kv.clone()).await.unwrap();
    crate::bootstrap::run(&stores, &config).await.unwrap();
    assert_eq!(current_revision(&mut storage.kv.clone()).await.unwrap(), before, "nothing to do twice");

    let info = crate::registry::find("", "v1", "configmaps").unwrap();
    let store = stores.of(info);
    let list = crate::watch_cache::ListOptions {
        scope: info.key_prefix(Some("default")),
        selector: None,
        at: crate::watch_cache::At::Consistent,
        limit: 0,
        continue_token: String::new(),
    };
    for n in 1..=50 {
        let object = serde_json::json!({"metadata": {"name": format!("c{n}"), "namespace": "default"}});
        let object = stage1_kubectl::object::Object::from_value(object).unwrap();
        let created = store.create(object, false).await.unwrap();
        let listed = store.list(&list).await.unwrap();
        assert_eq!((listed.items.len(), listed.revision), (n, created.revision));
    }
    process.stop().await;
}
