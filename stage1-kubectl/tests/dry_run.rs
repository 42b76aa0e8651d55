//! A dry run writes nothing: whatever the command, no request but reads, or writes that say `dryRun=All`.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

const OBJECT: &str = "/api/v1/namespaces/default/configmaps/a";

/// A server with one ConfigMap, that answers every PATCH with a conflict and writes down who asked for what.
struct Server {
    url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let log = log.clone();
                std::thread::spawn(move || while answer(&stream, &log).is_some() {});
            }
        });
        Self { url, seen }
    }
}

fn answer(mut stream: &TcpStream, log: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim().to_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if header.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (method, target) = line.split_once(' ')?;
    let target = target.split(' ').next()?;
    log.lock().unwrap().push(format!("{method} {target} {}", String::from_utf8_lossy(&body)));
    let (code, body) = reply(method, target.split('?').next()?);
    let body = body.to_string();
    write!(
        stream,
        "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .ok()
}

fn reply(method: &str, path: &str) -> (u16, Value) {
    let resource = json!({"name": "configmaps", "singularName": "configmap", "namespaced": true, "kind": "ConfigMap",
        "verbs": ["create", "delete", "get", "list", "patch", "update"]});
    match (method, path) {
        ("GET", "/api") => (200, json!({"kind": "APIVersions", "versions": ["v1"]})),
        ("GET", "/apis") => (200, json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []})),
        ("GET", "/api/v1") => {
            (200, json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [resource]}))
        }
        ("PATCH", OBJECT) => (
            409,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
            "reason": "Conflict", "code": 409, "message": "changed"}),
        ),
        (_, path) if path.starts_with("/api/v1/namespaces/default/configmaps") => (200, config_map()),
        _ => (
            404,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}),
        ),
    }
}

fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "old"},
        "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7"}})
}

#[test]
fn no_command_writes_in_a_dry_run() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cm.yaml");
    std::fs::write(&file, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: new}\n").unwrap();
    let file = file.to_str().unwrap();
    let commands: [&[&str]; 13] = [
        &["create", "-f", file],
        &["create", "configmap", "b"],
        &["apply", "-f", file],
        &["apply", "--force", "-f", file],
        &["apply", "--server-side", "-f", file],
        &["replace", "-f", file],
        &["replace", "--force", "-f", file],
        &["delete", "-f", file],
        &["delete", "configmap", "a"],
        &["label", "configmap", "a", "x=y"],
        &["annotate", "configmap", "a", "x=y"],
        &["patch", "configmap", "a", "--type=merge", "-p", r#"{"data":{"k":"z"}}"#],
        &["patch", "configmap", "a", "-p", r#"{"data":{"k":"z"}}"#],
    ];
    let mut reached = 0;
    for command in commands {
        for how in ["--dry-run=client", "--dry-run=server"] {
            server.seen.lock().unwrap().clear();
            let run = |flags: &[&str]| {
                let kubectl = Command::new(env!("CARGO_BIN_EXE_kubectl"))
                    .args(command)
                    .args([how, "--server", &server.url])
                    .args(flags)
                    .env("KUBECONFIG", "/nonexistent/kubeconfig")
                    .env("HOME", dir.path())
                    .output();
                String::from_utf8_lossy(&kubectl.unwrap().stderr).into_owned()
            };
            let mut said = run(&["--validate=false"]);
            if said.contains("--validate") {
                // Not a flag of this command.
                said = run(&[]);
            }
            let seen = server.seen.lock().unwrap().clone();
            let writes: Vec<&String> = seen.iter().filter(|one| !one.starts_with("GET ")).collect();
            println!("{command:?} {how}: {writes:?} {said}");
            // A deletion says it in its body, all others in the query.
            let honest = |one: &&String| one.contains("dryRun=All") || one.contains(r#""dryRun":["All"]"#);
            let allowed = how == "--dry-run=server";
            assert!(writes.iter().all(|one| allowed && honest(one)), "{command:?} {how}: {writes:?}");
            reached += writes.len();
        }
    }
    assert!(reached > 5, "the commands didn't reach the server: {reached}");
}

#[test]
fn what_has_no_dry_run_says_so_in_kubectls_words() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cm.yaml");
    std::fs::write(&file, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n").unwrap();
    let file = file.to_str().unwrap();
    for (args, text) in [
        (
            ["replace", "--force", "--dry-run=client"],
            "error: --dry-run can not be used when --force is set\n",
        ),
        (
            ["replace", "--force", "--dry-run=server"],
            "error: --dry-run can not be used when --force is set\n",
        ),
        (["apply", "--force", "--dry-run=server"], "error: --dry-run=server cannot be used with --force\n"),
        (
            ["apply", "--server-side", "--dry-run=client"],
            "error: --dry-run=client doesn't work with --server-side (did you mean --dry-run=server instead?)\n",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_kubectl"))
            .args(args)
            .args(["-f", file, "--server", "http://127.0.0.1:1"])
            .env("KUBECONFIG", "/nonexistent/kubeconfig")
            .env("HOME", dir.path())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), text, "{args:?}");
    }
}
