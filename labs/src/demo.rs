//! The demo: a web site behind two Services, asked through both, and one pod's way through the six stages.
//!
//! *All six steps of a pod's journey.* It types what a user would type: every step is a kubectl command, printed before it
//! runs, so that a reader can repeat each of them. Nothing here reaches into the pipeline.
//!
//! # Invariants
//! 1. A step that fails ends the demo with the command and its last words.
//! 2. Each request's answer is printed: which pod served it is seen, not claimed.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes; the manifest is that of its tutorials with a readiness probe.
#![expect(clippy::disallowed_methods, reason = "shell: runs kubectl and sends requests")]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use crate::options::DemoFlags;
use crate::programs;

const MANIFEST: &str = include_str!("demo/web.yaml");
/// Enough that each of three replicas is very likely asked (a miss has odds of one in ten thousand).
const REQUESTS: usize = 24;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// kubectl with the pipeline's kubeconfig.
struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

/// Runs the demo on the pipeline of a state directory, printing as it goes; returns the last lines.
///
/// # Errors
/// When a command fails or a Service doesn't answer.
pub fn run(state_dir: Option<PathBuf>, flags: &DemoFlags) -> anyhow::Result<String> {
    let state_dir = stage1_kubectl::state_dir::StateDir::locate(state_dir);
    let program = programs::in_folder_or_path(programs::folder().ok().as_deref(), &flags.kubectl);
    let kubectl = Kubectl { program, kubeconfig: state_dir.admin_kubeconfig() };
    // At a first start the API server answers before a kubelet has registered its node, and `wait` wants something to wait for.
    kubectl.show(&["wait", "--for=create", "node/node-1", "--timeout=60s"])?;
    kubectl.show(&["wait", "--for=condition=Ready", "nodes", "--all", "--timeout=60s"])?;
    kubectl.apply(MANIFEST)?;
    kubectl.show(&["rollout", "status", "deployment/web", "--timeout=120s"])?;
    kubectl.show(&[
        "get",
        "deployments,replicasets,pods,services,endpointslices",
        "-l",
        "app=web",
        "-o",
        "wide",
    ])?;
    let pod = kubectl.read(&["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}"])?;
    let runtime = kubectl.read(&[
        "get",
        "nodes",
        "-o",
        "jsonpath={.items[0].status.nodeInfo.containerRuntimeVersion}",
    ])?;
    if runtime.starts_with("sim") {
        say(
            "\nThe containers are simulated (no runtime was found): nothing listens behind the Services, so none is asked.\n",
        );
    } else {
        ask_services(&kubectl, &pod)?;
    }
    kubectl.show(&["journey", &format!("pod/{pod}")])?;
    Ok(format!(
        "\nThe site stays up. Try:\n  export KUBECONFIG={}\n  kubectl get pods -o wide\n  kubectl delete pod {pod}\n",
        kubectl.kubeconfig.display()
    ))
}

/// Requests through both Services: from a pod to the ClusterIP, from the host to the NodePort.
fn ask_services(kubectl: &Kubectl, pod: &str) -> anyhow::Result<()> {
    let cluster_ip = kubectl.read(&["get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"])?;
    ask("ClusterIP", &format!("http://{cluster_ip}/ from pod {pod}"), || kubectl.ask_from(pod, &cluster_ip))?;
    let address = kubectl.node_port()?;
    ask("NodePort", &format!("http://{address}/ from the host"), || get(address))
}

/// Asks until every replica has answered, at most [`REQUESTS`] times, and prints who did how often.
fn ask(service: &str, from: &str, mut request: impl FnMut() -> anyhow::Result<String>) -> anyhow::Result<()> {
    let mut served: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..REQUESTS {
        let answer = request().with_context(|| format!("ask the {service} Service at {from}"))?;
        *served.entry(answer.trim().to_owned()).or_default() += 1;
    }
    say(&format!("\n{REQUESTS} requests through the {service} Service, {from}:\n"));
    for (pod, times) in &served {
        say(&format!("  {times:>3} answered by {pod}\n"));
    }
    ensure!(
        served.len() > 1,
        "only {} of three replicas answered through the {service} Service",
        served.len()
    );
    Ok(())
}

/// One HTTP request over a fresh connection: a Service chooses an endpoint per connection.
fn get(address: SocketAddr) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, REQUEST_TIMEOUT)?;
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    write!(stream, "GET / HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(64 * 1024).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is not HTTP")?;
    ensure!(head.contains(" 200 "), "the answer is {:?}", head.lines().next().unwrap_or_default());
    Ok(body.to_owned())
}

fn say(text: &str) {
    // A closed pipe is no reason to stop the demo.
    let _ = std::io::stdout().write_all(text.as_bytes());
    let _ = std::io::stdout().flush();
}

impl Kubectl {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).env("KUBECONFIG", &self.kubeconfig);
        command
    }

    /// Prints the command and lets it write to our terminal.
    fn show(&self, args: &[&str]) -> anyhow::Result<()> {
        say(&format!("\n$ kubectl {}\n", args.join(" ")));
        let status = self.command(args).stdin(Stdio::null()).status().with_context(|| self.cannot_run())?;
        ensure!(status.success(), "kubectl {} failed", args.join(" "));
        Ok(())
    }

    fn read(&self, args: &[&str]) -> anyhow::Result<String> {
        let output = self.command(args).stdin(Stdio::null()).output().with_context(|| self.cannot_run())?;
        if !output.status.success() {
            bail!("kubectl {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn apply(&self, manifest: &str) -> anyhow::Result<()> {
        say("\n$ kubectl apply -f web.yaml\n");
        let mut child = self
            .command(&["apply", "-f", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .with_context(|| self.cannot_run())?;
        child.stdin.take().context("kubectl has no stdin")?.write_all(manifest.as_bytes())?;
        ensure!(child.wait()?.success(), "kubectl apply failed");
        Ok(())
    }

    fn ask_from(&self, pod: &str, cluster_ip: &str) -> anyhow::Result<String> {
        self.read(&["exec", pod, "--", "wget", "-qO-", &format!("http://{cluster_ip}/")])
    }

    /// The first node's address and the port that both Services' nodes share.
    fn node_port(&self) -> anyhow::Result<SocketAddr> {
        let address = r#"jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}"#;
        let ip = self.read(&["get", "nodes", "-o", address])?;
        let port =
            self.read(&["get", "service", "web-nodeport", "-o", "jsonpath={.spec.ports[0].nodePort}"])?;
        format!("{ip}:{port}").parse().with_context(|| format!("node address {ip:?} and port {port:?}"))
    }

    fn cannot_run(&self) -> String {
        format!("run {}: build it (cargo build --release) or name one with --kubectl", self.program.display())
    }
}
