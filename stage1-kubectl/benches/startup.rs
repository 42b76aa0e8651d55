//! Time and memory beside a stock kubectl, in one run. `cargo bench -p stage1-kubectl --bench startup`.
//!
//! Two things that people wait for: `version --client`, which is start-up and nothing else, and `get pods` of 5,000 pods, which the server
//! sends as a Table in pieces of 500. A small server of this program's own answers both programs with the same bytes. Of several runs the
//! fastest counts; memory is the largest resident set that was seen (`VmHWM` of the child).
//!
//! Without a stock kubectl (`STAGES_STOCK_KUBECTL_DIR/kubectl-1.32`) only ours is measured.
#![expect(clippy::disallowed_methods, reason = "a bench that starts programs and a server")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const PODS: usize = 5000;
const PAGE: usize = 500;
const RUNS: usize = 7;

/// One page of the table, as an API server makes it.
fn page(from: usize) -> Value {
    let titles = ["Name", "Ready", "Status", "Restarts", "Age"];
    let columns: Vec<Value> =
        titles.iter().map(|t| json!({"name": t, "type": "string", "format": if *t == "Name" { "name" } else { "" }, "description": "", "priority": 0})).collect();
    let row = |at: usize| {
        let name = format!("web-7d4b9c6f5d-{at:05}");
        let metadata = json!({
            "name": name, "namespace": "default", "uid": format!("00000000-0000-4000-8000-{at:012}"), "resourceVersion": "1000",
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web", "pod-template-hash": "7d4b9c6f5d"}, "generateName": "web-7d4b9c6f5d-",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c6f5d", "uid": "u", "controller": true}],
        });
        let object =
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
        json!({"cells": [name, "1/1", "Running", "0", "5d"], "object": object})
    };
    let next = from + PAGE;
    let metadata = match next < PODS {
        true => {
            json!({"resourceVersion": "1000", "continue": next.to_string(), "remainingItemCount": PODS - next})
        }
        false => json!({"resourceVersion": "1000"}),
    };
    let rows: Vec<Value> = (from..next).map(row).collect();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns, "rows": rows})
}

fn discovery(groups: Value) -> Value {
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": groups})
}

/// Answers the requests of one connection.
fn answer(stream: TcpStream, pages: &[String]) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let path = line.split(' ').nth(1)?.to_string();
        while line.trim() != "" {
            line.clear();
            reader.read_line(&mut line).ok()?;
        }
        let kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let pods = json!({"resource": "pods", "responseKind": {"group": "", "version": "v1", "kind": "Pod"}, "scope": "Namespaced",
            "singularResource": "pod", "verbs": ["get", "list", "watch"], "shortNames": ["po"]});
        let (kind, body) = match path.split('?').next()? {
            "/api" => (kind, discovery(json!([{"metadata": {}, "versions": [{"version": "v1", "freshness": "Current", "resources": [pods]}]}])).to_string()),
            "/apis" => (kind, discovery(json!([])).to_string()),
            _ => {
                let from = path.split("continue=").nth(1).and_then(|t| t.split('&').next()?.parse::<usize>().ok());
                ("application/json", pages[from.unwrap_or(0) / PAGE].clone())
            }
        };
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n", body.len());
        writer.write_all(head.as_bytes()).and_then(|()| writer.write_all(body.as_bytes())).ok()?;
    }
}

fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let address = format!("http://{}", listener.local_addr().expect("bound"));
    let pages: Vec<String> = (0..PODS).step_by(PAGE).map(|from| page(from).to_string()).collect();
    let pages: &'static [String] = Vec::leak(pages);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream, pages));
        }
    });
    address
}

/// The fastest time, and the largest resident set in KiB.
fn measure(kubectl: &Path, home: &Path, arguments: &[&str]) -> (Duration, u64) {
    let (mut best, mut memory) = (Duration::MAX, 0);
    for _ in 0..RUNS {
        let before = Instant::now();
        let mut child = Command::new(kubectl)
            .args(arguments)
            .env_clear()
            .env("HOME", home)
            .env("KUBECONFIG", "/nonexistent")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("kubectl starts");
        let status = PathBuf::from(format!("/proc/{}/status", child.id()));
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        // The high-water mark is in /proc only while the program lives, so it is read again and again until it is gone.
        let watching = std::thread::spawn(move || {
            let mut highest = 0;
            while !ended.load(Ordering::Relaxed) {
                highest = highest.max(resident(&status));
                std::thread::sleep(Duration::from_micros(200));
            }
            highest
        });
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let lines = output.lines().map_while(Result::ok).count();
        assert!(child.wait().expect("kubectl ends").success(), "{} {arguments:?} fails", kubectl.display());
        best = best.min(before.elapsed());
        over.store(true, Ordering::Relaxed);
        memory = memory.max(watching.join().expect("the watcher ends"));
        assert!(arguments[0] != "get" || lines == PODS + 1, "{} printed {lines} lines", kubectl.display());
    }
    (best, memory)
}

fn resident(status: &Path) -> u64 {
    let text = fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.trim().trim_end_matches(" kB").trim().parse().ok()).unwrap_or(0)
}

fn main() {
    let ours = PathBuf::from(env!("CARGO_BIN_EXE_kubectl"));
    let stock =
        std::env::var_os("STAGES_STOCK_KUBECTL_DIR").map(|dir| PathBuf::from(dir).join("kubectl-1.32"));
    let stock = stock.filter(|file| file.exists());
    let home = tempfile::tempdir().expect("a folder");
    let server = serve();
    let cases: [(&str, Vec<&str>); 2] = [
        ("version --client", vec!["version", "--client"]),
        ("get pods (5000)", vec!["get", "pods", "--server", &server]),
    ];
    for (name, arguments) in cases {
        let (time, memory) = measure(&ours, home.path(), &arguments);
        println!("{name}: ours {:.1} ms, {memory} KiB", time.as_secs_f64() * 1000.0);
        let Some(stock) = &stock else {
            println!("{name}: skipped: no stock kubectl 1.32");
            continue;
        };
        let (their_time, their_memory) = measure(stock, home.path(), &arguments);
        println!("{name}: stock {:.1} ms, {their_memory} KiB", their_time.as_secs_f64() * 1000.0);
        let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
        println!(
            "{name}: time {:.3}, memory {:.3} of the stock kubectl's",
            ratio(time.as_secs_f64(), their_time.as_secs_f64()),
            ratio(memory as f64, their_memory as f64)
        );
    }
}
