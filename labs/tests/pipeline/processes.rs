//! All stages as processes of their own, as on a real cluster; and each joining the ones before it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stage1_kubectl::state_dir::StateDir;

use crate::cluster::{binary, text};

/// The processes of a cluster by name, each startable again by the same words.
struct Parts {
    dir: PathBuf,
    commands: BTreeMap<&'static str, Vec<String>>,
    running: BTreeMap<&'static str, Child>,
}

impl Parts {
    fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), commands: BTreeMap::new(), running: BTreeMap::new() }
    }

    /// Starts a part; `prefix` is what enters a namespace, or nothing.
    fn start(&mut self, name: &'static str, prefix: &[&str], args: &[&str]) {
        let program = binary(name).display().to_string();
        let words = prefix.iter().copied().chain([program.as_str()]).chain(args.iter().copied());
        self.commands.insert(name, words.map(str::to_owned).collect());
        self.start_again(name);
    }

    fn start_again(&mut self, name: &'static str) {
        let path = self.dir.join(format!("{name}.log"));
        let log = std::fs::File::options().create(true).append(true).open(path).unwrap();
        let words = &self.commands[name];
        let child = Command::new(&words[0])
            .args(&words[1..])
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.running.insert(name, child);
    }

    fn end(&mut self, name: &str, signal: Signal) {
        let mut child = self.running.remove(name).unwrap();
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        child.wait().unwrap();
    }

    fn kubectl(&self, args: &[&str], stdin: &str) -> Output {
        let mut child = Command::new(binary("kubectl"))
            .args(args)
            .env("KUBECONFIG", self.dir.join("admin.kubeconfig"))
            .env("HOME", &self.dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    fn ok(&self, args: &[&str], stdin: &str) -> String {
        let output = self.kubectl(args, stdin);
        assert!(output.status.success(), "kubectl {args:?}: {}\n{}", text(&output.stderr), self.logs());
        text(&output.stdout)
    }

    fn get(&self, what: &str, path: &str) -> String {
        let path = format!("jsonpath={path}");
        let args: Vec<&str> = ["get"].into_iter().chain(what.split(' ')).chain(["-o", &path]).collect();
        text(&self.kubectl(&args, "").stdout)
    }

    fn wait(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let start = Instant::now();
        while !condition() {
            if start.elapsed() > Duration::from_secs(90) {
                let all = self.kubectl(&["get", "nodes,pods,deployments,services,events", "-A"], "");
                panic!("waited in vain until {what}\n{}\n{}", text(&all.stdout), self.logs());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        println!("{what}: {:.1} s", start.elapsed().as_secs_f64());
    }

    /// The last lines of every part.
    fn logs(&self) -> String {
        let tail = |name: &&str| {
            let text = std::fs::read_to_string(self.dir.join(format!("{name}.log"))).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            format!("--- {name}\n{}\n", lines[lines.len().saturating_sub(8)..].join("\n"))
        };
        self.commands.keys().map(tail).collect()
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // The API server last: the others say goodbye to it.
        let last = self.running.remove("kube-apiserver");
        for mut child in std::mem::take(&mut self.running).into_values().chain(last) {
            let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
            let _ = child.wait();
        }
    }
}

#[test]
fn each_stage_joins_the_ones_that_run_in_its_state_directory() {
    let dir = tempfile::Builder::new().prefix("six").tempdir().unwrap();
    let state = dir.path().display().to_string();
    let mut parts = Parts::new(dir.path());
    let state_dir = ["--state-dir", &state];
    let with = |more: &[&'static str]| [state_dir.as_slice(), more].concat();
    // Stage 3 starts stage 2 where nothing runs; 4 and 5 find both.
    parts.start("kube-controller-manager", &[], &with(&["--secure-port", "0", "--store", "memory"]));
    parts.wait("the API server answers", || parts.kubectl(&["get", "--raw", "/readyz"], "").status.success());
    parts.start("kube-scheduler", &[], &with(&["--secure-port", "0"]));
    parts.start("kubelet", &[], &with(&["--runtime", "sim", "--hostname-override", "joined", "--port", "0"]));
    parts.wait("the node is Ready", || {
        parts.get("node joined", r#"{.status.conditions[?(@.type=="Ready")].status}"#) == "True"
    });
    parts.ok(&["create", "deployment", "web", "--image=nginx:1.25", "--replicas=2"], "");
    parts.wait("two pods run", || parts.get("deployment web", "{.status.availableReplicas}") == "2");
    assert_eq!(parts.get("pods", "{.items[*].spec.nodeName}"), "joined joined");
    parts.end("kubelet", Signal::SIGTERM);
    parts.end("kube-scheduler", Signal::SIGTERM);
    parts.end("kube-controller-manager", Signal::SIGTERM);
}

#[cfg(feature = "real")]
#[test]
fn six_processes_lose_nothing_when_one_after_the_other_is_killed() {
    use stage5_kubelet::options::RuntimeKind;
    use stage5_kubelet::pipeline::{Nodes, RuntimeChoice};

    if crate::cluster::skip() {
        return;
    }
    let _turn = crate::cluster::turn();
    let dir = tempfile::Builder::new().prefix("six").tempdir().unwrap();
    let images = dir.path().join("images");
    assert!(
        Command::new(binary("labs")).args(["image", "--presets"]).arg(&images).status().unwrap().success()
    );
    let state_dir = StateDir::new(Some(dir.path().to_owned())).unwrap();
    // The machine of the node: its namespace and its containerd. All the rest is started below.
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let choice = RuntimeChoice::new(Some(RuntimeKind::Containerd), &state_dir).unwrap();
    let mut nodes = tokio.block_on(async { Nodes::create(&state_dir, 1, &choice) }).unwrap();
    let started = tokio.block_on(async {
        let started = nodes.start_runtimes(&choice).await;
        nodes.images_imported().await;
        started
    });
    nodes.set_pod_cidrs(&[("node-1".to_owned(), "10.244.0.0/24".parse().unwrap())]);
    let machine = Machine {
        gateway: nodes.gateway().unwrap().to_string(),
        ip: nodes.handles()[0].ip.to_string(),
        netns: nodes.handles()[0].netns.clone().unwrap(),
        cgroup_root: format!("/{}", nodes.unique_name("node-1")),
    };
    // A failure must not leave the namespace and containerd behind.
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        started.unwrap();
        six_processes(&state_dir, &machine);
    }));
    tokio.block_on(nodes.stop());
    assert!(!machine.netns.exists(), "the namespace is left");
    outcome.unwrap();
}

#[cfg(feature = "real")]
struct Machine {
    gateway: String,
    ip: String,
    netns: PathBuf,
    cgroup_root: String,
}

#[cfg(feature = "real")]
fn six_processes(state_dir: &StateDir, machine: &Machine) {
    let root = state_dir.root();
    let state = root.display().to_string();
    let mut parts = Parts::new(root);
    let addresses = format!("127.0.0.1,{}", machine.gateway);
    parts.start(
        "kube-apiserver",
        &[],
        &[
            "--state-dir",
            &state,
            "--secure-port",
            "0",
            "--bind-address",
            &addresses,
            "--advertise-address",
            &machine.gateway,
        ],
    );
    parts.wait("the API server answers", || parts.kubectl(&["get", "--raw", "/readyz"], "").status.success());
    let kubeconfig = |name: &str| state_dir.kubeconfig(name).display().to_string();
    for name in ["kube-controller-manager", "kube-scheduler"] {
        parts.start(name, &[], &["--kubeconfig", &kubeconfig(name), "--secure-port", "0"]);
    }
    let port = std::fs::read_to_string(root.join("apiserver.port")).unwrap();
    let server = format!("https://{}:{}", machine.gateway, port.trim());
    let node = stage3_controllers::pipeline::node_kubeconfig(state_dir, "node-1", &server).unwrap();
    let socket = state_dir.run_dir().unwrap().join("node-1/containerd.sock");
    let node_dir = state_dir.node("node-1").join("kubelet");
    let net = format!("--net={}", machine.netns.display());
    let enter = ["nsenter", net.as_str()];
    parts.start(
        "kubelet",
        &enter,
        &[
            "--kubeconfig",
            &node.display().to_string(),
            "--container-runtime-endpoint",
            &format!("unix://{}", socket.display()),
            "--hostname-override",
            "node-1",
            "--node-ip",
            &machine.ip,
            "--root-dir",
            &node_dir.display().to_string(),
            "--cgroup-root",
            &machine.cgroup_root,
            "--client-ca-file",
            &state_dir.pki().join("ca.crt").display().to_string(),
        ],
    );
    let proxy = std::fs::read_to_string(state_dir.kubeconfig("kube-proxy")).unwrap();
    let at_node = root.join("kube-proxy-node.kubeconfig");
    std::fs::write(&at_node, proxy.replace("127.0.0.1", &machine.gateway)).unwrap();
    parts.start(
        "kube-proxy",
        &enter,
        &["--kubeconfig", &at_node.display().to_string(), "--hostname-override", "node-1"],
    );
    parts.ok(&["apply", "-f", "-"], include_str!("../../src/demo/web.yaml"));
    let converged = |parts: &Parts, replicas: usize| {
        parts.wait(&format!("{replicas} replicas serve"), || serving(parts, machine) == replicas);
        assert_eq!(parts.get("deployment web", "{.status.replicas}"), replicas.to_string());
    };
    converged(&parts, 3);
    let uid = parts.get("deployment web", "{.metadata.uid}");
    let mut replicas = 3;
    for name in ["kube-proxy", "kube-scheduler", "kubelet", "kube-controller-manager", "kube-apiserver"] {
        println!("== kill -9 {name}");
        parts.end(name, Signal::SIGKILL);
        replicas = if replicas == 3 { 2 } else { 3 };
        let scale = ["scale", "deployment/web", &format!("--replicas={replicas}")];
        if name == "kube-apiserver" {
            parts.start_again(name);
            parts.wait("the API server answers", || parts.kubectl(&scale, "").status.success());
        } else {
            // What changes while a part is down is what it must find when it is back.
            parts.ok(&scale, "");
            parts.start_again(name);
        }
        converged(&parts, replicas);
        assert_eq!(parts.get("deployment web", "{.metadata.uid}"), uid);
    }
}

/// How many replicas answer at the Service's address, asked from the node; 0 while others are there than are Ready.
#[cfg(feature = "real")]
fn serving(parts: &Parts, machine: &Machine) -> usize {
    let wanted = parts.get("deployment web", "{.spec.replicas}");
    let ready = parts.get("deployment web", "{.status.availableReplicas} {.status.replicas}");
    if ready != format!("{wanted} {wanted}") {
        return 0;
    }
    let url = format!("http://{}/", parts.get("service web", "{.spec.clusterIP}"));
    let net = format!("--net={}", machine.netns.display());
    let ask = || {
        let words = [&net, "busybox", "timeout", "2", "busybox", "wget", "-qO-", &url];
        text(&Command::new("nsenter").args(words).output().unwrap().stdout).trim().to_owned()
    };
    let answers: std::collections::BTreeSet<String> = (0..30).map(|_| ask()).collect();
    if answers.contains("") { 0 } else { answers.len() }
}
