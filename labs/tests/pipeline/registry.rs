//! A registry to pull from: Debian's `docker-registry`, and a way to fill it.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use stage1_kubectl::state_dir::StateDir;

use crate::cluster::{Pipeline, binary, text};

/// The user that a private registry knows.
pub const USER: &str = "six";
/// The user's password.
pub const PASSWORD: &str = "secret";
/// `htpasswd -Bbn six secret`.
const HTPASSWD: &str = "six:$2b$05$qN3h6Jrnrl5OBW4IyVOztOgvN2S5JH7cEE74qKLTRzccqVDDYAg92\n";

/// Says why a registry can't be had; with `STAGES_REQUIRE_REAL=1` that is a failure.
pub fn skip() -> bool {
    if crate::cluster::skip() {
        return true;
    }
    let here = Path::new("/usr/bin/docker-registry").exists();
    assert!(
        here || std::env::var_os("STAGES_REQUIRE_REAL").is_none(),
        "real parts are required: no docker-registry"
    );
    if !here {
        println!("skipped: no docker-registry");
    }
    !here
}

/// What a registry is like.
#[derive(Default)]
pub struct Kind<'a> {
    /// It asks for a user and a password.
    pub private: bool,
    /// It speaks TLS, with this certificate and key.
    pub tls: Option<(&'a Path, &'a Path)>,
    /// It listens at this address of this namespace; else on the host's loopback.
    pub elsewhere: Option<(&'a str, &'a str)>,
}

/// A running registry. Dropping it ends it.
pub struct Registry {
    child: Child,
    dir: tempfile::TempDir,
    /// `127.0.0.1:40123`, the first part of its images' names.
    pub address: String,
    private: bool,
    tls: bool,
}

impl Registry {
    /// Starts a registry with no image in it.
    pub fn start(kind: &Kind) -> Self {
        let dir = tempfile::Builder::new().prefix("six-registry").tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let ip = kind.elsewhere.map_or("127.0.0.1", |(_, ip)| ip);
        let address = format!("{ip}:{port}");
        let mut config = format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {address}\n",
            dir.path().join("data").display()
        );
        if let Some((certificate, key)) = kind.tls {
            let (certificate, key) = (certificate.display(), key.display());
            config.push_str(&format!("  tls:\n    certificate: {certificate}\n    key: {key}\n"));
        }
        if kind.private {
            let users = dir.path().join("htpasswd");
            std::fs::write(&users, HTPASSWD).unwrap();
            config.push_str(&format!("auth:\n  htpasswd:\n    realm: six\n    path: {}\n", users.display()));
        }
        let file = dir.path().join("config.yml");
        std::fs::write(&file, config).unwrap();
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let mut command = match kind.elsewhere {
            Some((namespace, _)) => {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net=/run/netns/{namespace}")).arg("docker-registry");
                command
            }
            None => Command::new("docker-registry"),
        };
        command.arg("serve").arg(file).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap();
        let registry = Self { child, dir, address, private: kind.private, tls: kind.tls.is_some() };
        let socket: SocketAddr = registry.address.parse().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect_timeout(&socket, Duration::from_secs(1)).is_err() {
            assert!(Instant::now() < deadline, "the registry does not listen: {}", registry.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        registry
    }

    /// What it was asked.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Makes an image that says `motd` in /etc/motd, pushes it as `name` and lets the node forget it. The full name.
    pub fn push(&self, pipeline: &Pipeline, name: &str, motd: &str) -> String {
        let image = format!("{}/{name}", self.address);
        let tar = self.dir.path().join("image.tar");
        let made = Command::new(binary("labs"))
            .arg("image")
            .arg("--gzip")
            .arg(&tar)
            .arg(&image)
            .args(["--file", "/usr/bin/busybox:bin/busybox:755", "--text", &format!("etc/motd={motd}\n")])
            .args(["--link", "busybox:bin/sh", "--link", "busybox:bin/cat", "--link", "busybox:bin/sleep"])
            .args(["--cmd", "sleep", "--cmd", "3600"])
            .output()
            .unwrap();
        assert!(made.status.success(), "labs image: {}", text(&made.stderr));
        ctr(pipeline, &["import", tar.to_str().unwrap()]);
        let mut push = vec!["push", if self.tls { "--skip-verify" } else { "--plain-http" }];
        let user = format!("{USER}:{PASSWORD}");
        if self.private {
            push.extend(["--user", &user]);
        }
        push.push(&image);
        ctr(pipeline, &push);
        ctr(pipeline, &["rm", "--sync", &image]);
        image
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where the first node's containerd keeps its socket and pid.
pub fn run_dir(pipeline: &Pipeline) -> PathBuf {
    let state_dir = StateDir::new(Some(pipeline.dir().to_owned())).unwrap();
    state_dir.run_dir().unwrap().join("node-1")
}

/// `ctr images …` on the first node's containerd; the connections are the host's.
fn ctr(pipeline: &Pipeline, args: &[&str]) {
    let output: Output = Command::new("ctr")
        .arg("--address")
        .arg(run_dir(pipeline).join("containerd.sock"))
        .args(["--namespace", "k8s.io", "images"])
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "ctr images {}: {}", args.join(" "), text(&output.stderr));
}

/// A network that the host reaches and nodes don't: a namespace behind a veth pair of its own.
pub struct Outside {
    namespace: String,
}

impl Outside {
    /// The registry's side.
    pub const ADDRESS: &str = "198.51.100.2";

    /// Makes it.
    pub fn new() -> Self {
        let outside = Self { namespace: format!("six-outside-{}", std::process::id()) };
        let (name, link) = (outside.namespace.as_str(), "sixout");
        ip(&["netns", "add", name]);
        ip(&["link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name]);
        ip(&["addr", "add", "198.51.100.1/30", "dev", link]);
        ip(&["link", "set", link, "up"]);
        for inside in ["addr add 198.51.100.2/30 dev eth0", "link set eth0 up", "link set lo up"] {
            let words: Vec<&str> = ["-n", name].into_iter().chain(inside.split(' ')).collect();
            ip(&words);
        }
        outside
    }

    /// Its name below /run/netns.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        // The veth pair goes with it.
        let _ = Command::new("ip").args(["netns", "del", &self.namespace]).status();
    }
}

fn ip(args: &[&str]) {
    let output = Command::new("ip").args(args).output().unwrap();
    assert!(output.status.success(), "ip {}: {}", args.join(" "), text(&output.stderr));
}
