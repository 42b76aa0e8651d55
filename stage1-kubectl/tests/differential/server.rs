//! A small API server for both kubectls: discovery, stored objects, and a record of what was sent.
//!
//! Each run has a world of its own behind a path of its own (`/w/7/api/v1/…`), so that runs can go side by side.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// What one run of kubectl meets.
#[derive(Debug, Default, Clone)]
pub struct World {
    /// Objects by path, collections by path.
    pub answers: BTreeMap<String, Value>,
    /// `METHOD path?query body` of everything but discovery.
    pub log: Vec<String>,
}

/// The server; it runs until the test program ends.
pub struct Server {
    address: String,
    worlds: Arc<Mutex<Vec<World>>>,
}

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let address = format!("http://{}", listener.local_addr().expect("bound"));
        let worlds = Arc::new(Mutex::new(Vec::new()));
        let shared = worlds.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let worlds = shared.clone();
                std::thread::spawn(move || answer(stream, &worlds));
            }
        });
        Server { address, worlds }
    }

    /// A new world: its number and its URL.
    pub fn world(&self, answers: &BTreeMap<String, Value>) -> (usize, String) {
        let mut worlds = self.worlds.lock().expect("no thread panics while it holds the lock");
        worlds.push(World { answers: answers.clone(), log: Vec::new() });
        (worlds.len() - 1, format!("{}/w/{}", self.address, worlds.len() - 1))
    }

    /// What was asked in a world.
    pub fn log(&self, world: usize) -> Vec<String> {
        self.worlds.lock().expect("no thread panics while it holds the lock")[world].log.clone()
    }
}

const KINDS: [(&str, &str, &str, &str, bool); 9] = [
    ("", "v1", "pods", "Pod", true),
    ("", "v1", "services", "Service", true),
    ("", "v1", "configmaps", "ConfigMap", true),
    ("", "v1", "nodes", "Node", false),
    ("", "v1", "resourcequotas", "ResourceQuota", true),
    ("", "v1", "limitranges", "LimitRange", true),
    ("", "v1", "events", "Event", true),
    ("apps", "v1", "deployments", "Deployment", true),
    ("x.y", "v1", "foos", "Foo", true),
];

fn discovery(core: bool) -> Value {
    let mut groups: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (group, _, resource, kind, namespaced) in KINDS.into_iter().filter(|kind| kind.0.is_empty() == core) {
        groups.entry(group).or_default().push(json!({
            "resource": resource, "responseKind": {"group": group, "version": "v1", "kind": kind},
            "scope": if namespaced { "Namespaced" } else { "Cluster" }, "singularResource": kind.to_lowercase(),
            "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
        }));
    }
    let groups: Vec<Value> = groups
        .into_iter()
        .map(|(name, resources)| {
            let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
            json!({"metadata": metadata, "versions": [{"version": "v1", "freshness": "Current", "resources": resources}]})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": groups})
}

/// Answers the requests of one connection.
fn answer(stream: TcpStream, worlds: &Mutex<Vec<World>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        let (mut line, mut length) = (String::new(), 0);
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let mut words = line.split(' ').map(String::from);
        let (method, target) = (words.next()?, words.next()?);
        while line.trim() != "" {
            line.clear();
            reader.read_line(&mut line).ok()?;
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let (number, path) = target.strip_prefix("/w/")?.split_once('/')?;
        let (code, kind, answer) = reply(worlds, number.parse().ok()?, &method, &format!("/{path}"), &body);
        let answer = answer.to_string();
        let head =
            format!("HTTP/1.1 {code} X\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n", answer.len());
        writer.write_all(head.as_bytes()).and_then(|()| writer.write_all(answer.as_bytes())).ok()?;
    }
}

fn reply(
    worlds: &Mutex<Vec<World>>,
    number: usize,
    method: &str,
    target: &str,
    body: &[u8],
) -> (u16, &'static str, Value) {
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let path = target.split('?').next().unwrap_or_default();
    let missing = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 404,
        "reason": "NotFound", "message": "the server could not find the requested resource"});
    match path {
        "/api" => return (200, aggregated, discovery(true)),
        "/apis" => return (200, aggregated, discovery(false)),
        path if path.starts_with("/openapi") => return (404, "application/json", missing),
        _ => {}
    }
    let mut worlds = worlds.lock().expect("no thread panics while it holds the lock");
    let world = &mut worlds[number];
    world.log.push(format!("{method} {target} {}", String::from_utf8_lossy(body)));
    match world.answers.get(path) {
        Some(value) => (200, "application/json", value.clone()),
        None => (404, "application/json", missing),
    }
}
