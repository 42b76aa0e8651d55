//! Manifests of public projects, read and printed again: byte for byte what a stock kubectl prints.
//!
//! `kubectl create --dry-run=client --validate=false -o json -f FILE` reads YAML 1.1 in all its forms, finds the kind among
//! the server's resources, sets the namespace and prints. The manifests and the recorded answers live beside the workspace
//! (`STAGES_CASES_DIR`); without them the test says so and passes. A small server answers discovery, from the recorded
//! documents. The floor only rises: a file that passed must not fail again.
#![expect(clippy::disallowed_methods, reason = "a test that starts kubectl and a server")]
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// At least so many files pass.
const FLOOR: usize = 409;

fn cases() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases");
    let dir = std::env::var_os("STAGES_CASES_DIR").map_or(beside, PathBuf::from);
    dir.join("golden/CR-KINDS.json").exists().then_some(dir)
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The recorded discovery documents with the custom kinds added.
fn discovery(dir: &Path) -> Value {
    let mut documents = read_json(&dir.join("oracle/discovery.json"));
    for kind in read_json(&dir.join("golden/CR-KINDS.json")).as_array().unwrap() {
        let kind_of = json!({"group": kind["group"], "version": kind["version"], "kind": kind["kind"]});
        let resource = json!({
            "resource": kind["plural"], "responseKind": kind_of, "scope": kind["scope"], "singularResource": "",
            "verbs": ["create", "get"],
        });
        let versions = json!([{"version": kind["version"], "resources": [resource]}]);
        let group = json!({"metadata": {"name": kind["group"]}, "versions": versions});
        documents["apis"]["items"].as_array_mut().unwrap().push(group);
    }
    documents
}

/// Answers one request.
fn answer(mut stream: TcpStream, documents: &Value) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    let first = lines.next()?.ok()?;
    let path = first.split(' ').nth(1)?.split('?').next()?.to_string();
    while lines.next()?.ok()?.trim() != "" {}
    let body = documents[path.trim_matches('/')].to_string();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .ok()
}

/// Serves discovery; gives the address.
fn serve(documents: Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer(stream, &documents);
        }
    });
    address
}

fn files(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => files(&path, into),
            path => into.push(path),
        }
    }
}

/// What differs from the recording, if something does.
fn difference(dir: &Path, golden: &Path, server: &str) -> Option<String> {
    let name = golden.strip_prefix(dir.join("golden")).unwrap().to_str().unwrap();
    let endings = [".compact.json", ".json", ".err"];
    let (file, ending) = endings.iter().find_map(|e| Some((name.strip_suffix(e)?, *e)))?;
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl"))
        .args([
            "create",
            "--dry-run=client",
            "--validate=false",
            "-o",
            "json",
            "--server",
            server,
            "-f",
            file,
        ])
        .current_dir(dir.join("manifests"))
        .env("KUBECONFIG", "/nonexistent/kubeconfig")
        // Nothing is kept of a server whose port is another one's tomorrow.
        .env_remove("HOME")
        .output()
        .unwrap();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let wanted = fs::read_to_string(golden).unwrap();
    let parse = |text: &str| -> Vec<Value> {
        serde_json::Deserializer::from_str(text).into_iter::<Value>().map_while(Result::ok).collect()
    };
    let same = match ending {
        ".json" => stdout == wanted,
        ".err" => format!("rc={}\n{stderr}", output.status.code().unwrap_or(-1)).trim() == wanted.trim(),
        _ => parse(&stdout) == parse(&wanted),
    };
    (!same).then(|| format!("{name}: {stderr}"))
}

#[test]
fn manifests_of_public_projects_are_read_as_kubectl_reads_them() {
    let Some(dir) = cases() else {
        println!("skipped: no cases");
        return;
    };
    let server = serve(discovery(&dir));
    let mut golden = Vec::new();
    files(&dir.join("golden"), &mut golden);
    golden.retain(|path| !path.ends_with("CR-KINDS.json"));
    golden.sort();
    let failing: Vec<String> = golden.iter().filter_map(|path| difference(&dir, path, &server)).collect();
    let passed = golden.len() - failing.len();
    println!("golden manifests: {passed} passed, {} failed\n{}", failing.len(), failing.join("\n"));
    assert!(passed >= FLOOR, "{passed} files pass, the floor is {FLOOR}:\n{}", failing.join("\n"));
}
