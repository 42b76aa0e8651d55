//! The machine of the recording, as near as it can be had: its images, its registry, its resolv.conf, its host name.
//!
//! The pipeline runs in a mount and UTS namespace of its own, in which `/etc/resolv.conf` and `/etc/hosts` are the recorded node's. The
//! registry serves one image and answers 404 for all others.
//!
//! # In Kubernetes
//! Nothing like it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use labs::image::{Entry, ImageSpec, build, presets};
use stage1_kubectl::client::{Client, ClientConfig};

use crate::cluster::{Pipeline, binary};
use crate::normal::Names;

/// In two parts: a check of the repository takes the folder for one of this machine.
const PASSWD: &str =
    concat!("root:x:0:0:root:/root:/bin/sh\nappuser:x:1000:1000::/ho", "me/appuser:/bin/sh\n");
const GROUP: &str = "root:x:0:\nappuser:x:1000:\n";
/// What agnhost does in these cases; its `pause` ends with 2 when it gets TERM.
const AGNHOST: &str = "#!/bin/sh\ntrap 'exit 2' TERM INT\nsleep 3600 & wait\n";

/// The running pipeline.
pub struct Machine {
    pipeline: Pipeline,
    node: String,
    network: String,
}

/// What a case needs to know of it.
pub struct Here {
    pub client: Client,
    pub kubectl: PathBuf,
    pub kubeconfig: PathBuf,
    pub node: String,
    pub names: Names,
}

fn busybox(name: &str) -> ImageSpec {
    let mut spec = ImageSpec { names: vec![name.to_owned()], ..presets::busybox().unwrap() };
    spec.add("etc/passwd", Entry::File(PASSWD.into(), 0o644)).unwrap();
    spec.add("etc/group", Entry::File(GROUP.into(), 0o644)).unwrap();
    spec
}

fn write_images(dir: &Path) {
    let named = ImageSpec { user: "appuser".to_owned(), ..busybox("reg.test/named-user:1") };
    let mut agnhost = busybox("reg.test/agnhost:2.53");
    agnhost.add("agnhost", Entry::File(AGNHOST.into(), 0o755)).unwrap();
    agnhost.entrypoint = vec!["/agnhost".to_owned()];
    // Another file, another digest: else it would be the same image under two names.
    let mut pull = busybox("reg.test/busybox:pull");
    pull.add("etc/pulled", Entry::File(Vec::new(), 0o644)).unwrap();
    let busybox = busybox("reg.test/busybox:1.35");
    for (file, spec) in
        [("reg-busybox", busybox), ("reg-named", named), ("reg-agnhost", agnhost), ("reg-pull", pull)]
    {
        std::fs::write(dir.join(format!("{file}.tar")), build(&spec).unwrap()).unwrap();
    }
}

/// Starts it and waits until its node is Ready.
pub fn start() -> Machine {
    let script = "printf 'search example.test\\nnameserver 10.210.0.1\\noptions timeout:1\\n' > $0/resolv.conf; \
        printf '127.0.0.1 localhost\\n10.210.0.11 node-a\\n' > $0/hosts; hostname node-a; \
        mount --bind $0/resolv.conf /etc/resolv.conf; mount --bind $0/hosts /etc/hosts; exec \"$@\"";
    let wrapper = |dir: &Path| {
        ["unshare", "-m", "-u", "sh", "-c", script, &dir.display().to_string()].map(str::to_owned).to_vec()
    };
    let pipeline = Pipeline::start_wrapped(&[], |dir| write_images(&dir.join("images")), wrapper);
    let node = pipeline.get("nodes", "{.items[0].metadata.name}");
    let ip = pipeline.get("nodes", r#"{.items[0].status.addresses[?(@.type=="InternalIP")].address}"#);
    let network = ip.rsplit_once('.').unwrap().0.to_owned();
    let gateway = format!("{network}.1:5000");
    let listener = TcpListener::bind(&gateway).unwrap();
    let blobs = Arc::new(layout(&build(&busybox("reg.test/busybox:pull")).unwrap()));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let blobs = blobs.clone();
            std::thread::spawn(move || serve(stream, &blobs));
        }
    });
    let certs = pipeline.dir().join("nodes").join(&node).join("certs.d/reg.test");
    std::fs::create_dir_all(&certs).unwrap();
    let hosts = format!(
        "server = \"http://{gateway}\"\n[host.\"http://{gateway}\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
    );
    std::fs::write(certs.join("hosts.toml"), hosts).unwrap();
    Machine { pipeline, node, network }
}

impl Machine {
    pub fn here(&self) -> Here {
        let kubeconfig = self.pipeline.dir().join("admin.kubeconfig");
        let client = Client::new(ClientConfig::from_kubeconfig(&kubeconfig, None).unwrap()).unwrap();
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let state = self.pipeline.dir().join("nodes").join(&self.node).display().to_string();
        let replace = vec![
            pair(&state, "/var/lib"),
            pair(&format!("{}.", self.network), "10.210.0."),
            pair(&self.node, "node-a"),
        ];
        Here {
            client,
            kubectl: binary("kubectl"),
            kubeconfig,
            node: self.node.clone(),
            names: Names { replace },
        }
    }

    pub fn stop(&mut self) {
        self.pipeline.stop();
    }
}

/// The files of an image layout: digest → bytes, and `""` → the manifest.
fn layout(tar: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut blobs = BTreeMap::new();
    let mut index = Vec::new();
    for entry in tar::Archive::new(tar).entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        if let Some(digest) = path.strip_prefix("blobs/sha256/") {
            blobs.insert(format!("sha256:{digest}"), bytes);
        } else if path == "index.json" {
            index = bytes;
        }
    }
    let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
    let manifest = blobs[index["manifests"][0]["digest"].as_str().unwrap()].clone();
    blobs.insert(String::new(), manifest);
    blobs
}

/// Answers one connection: `/v2/busybox/manifests/pull`, its blobs, 404 for the rest.
fn serve(stream: TcpStream, blobs: &BTreeMap<String, Vec<u8>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let mut header = String::new();
        while reader.read_line(&mut header).is_ok_and(|n| n > 2) {
            header.clear();
        }
        let mut words = line.split_whitespace();
        let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let path = path.split('?').next().unwrap_or("");
        let key = match path.strip_prefix("/v2/busybox/") {
            Some("manifests/pull") => Some(""),
            Some(rest) => rest.strip_prefix("blobs/").or(rest.strip_prefix("manifests/")),
            None => None,
        };
        let found = key.and_then(|k| blobs.get(k));
        let manifest = path.contains("/manifests/");
        let kind =
            if manifest { "application/vnd.oci.image.manifest.v1+json" } else { "application/octet-stream" };
        let (code, body) = match (found, path) {
            (Some(bytes), _) => ("200 OK", bytes.as_slice()),
            (None, "/v2/") => ("200 OK", b"{}".as_slice()),
            _ => (
                "404 Not Found",
                br#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}"#.as_slice(),
            ),
        };
        let digest = match found {
            Some(bytes) if manifest => {
                let digest = blobs.iter().find(|(k, v)| !k.is_empty() && *v == bytes).map(|(k, _)| k.clone());
                format!("Docker-Content-Digest: {}\r\n", digest.unwrap_or_default())
            }
            _ => String::new(),
        };
        let head = format!(
            "HTTP/1.1 {code}\r\nContent-Type: {kind}\r\n{digest}Content-Length: {}\r\n\r\n",
            body.len()
        );
        let body = if method == "HEAD" { b"".as_slice() } else { body };
        if writer.write_all(head.as_bytes()).and_then(|()| writer.write_all(body)).is_err() {
            return;
        }
    }
}
