//! A pipeline in a fresh state directory, and the commands a user types at it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// One pipeline at a time.
static TURN: Mutex<()> = Mutex::new(());

/// The real parts that the pipeline is tested on.
const REAL_PARTS: [&str; 5] =
    ["/usr/bin/etcd", "/usr/bin/containerd", "/usr/sbin/runc", "/usr/sbin/nft", "/usr/lib/cni/bridge"];

/// Waits until no other test runs a cluster.
pub fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says why a test can't run here; with `STAGES_REQUIRE_REAL=1` that is a failure.
pub fn skip() -> bool {
    let missing: Vec<&str> = REAL_PARTS.into_iter().filter(|part| !Path::new(part).exists()).collect();
    let root = nix::unistd::geteuid().is_root();
    if missing.is_empty() && root {
        return false;
    }
    let why = if root { format!("no {}", missing.join(", ")) } else { "not root".to_owned() };
    assert!(std::env::var_os("STAGES_REQUIRE_REAL").is_none(), "real parts are required: {why}");
    println!("skipped: {why}");
    true
}

/// A binary of this workspace: cargo builds all of them beside the test's own.
pub fn binary(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_labs")).with_file_name(name);
    assert!(
        path.exists(),
        "{} is missing: run cargo build --workspace --features labs/real first",
        path.display()
    );
    path
}

/// Our kubectl and the stock ones that are here, by what to call them.
pub fn kubectls() -> Vec<(String, PathBuf)> {
    let mut found = vec![("ours".to_owned(), binary("kubectl"))];
    if let Some(dir) = std::env::var_os("STAGES_STOCK_KUBECTL_DIR") {
        for version in ["1.20", "1.32"] {
            let path = Path::new(&dir).join(format!("kubectl-{version}"));
            if path.exists() {
                found.push((format!("stock {version}"), path));
            }
        }
    }
    found
}

/// A running pipeline. Dropping it stops it.
pub struct Pipeline {
    child: Child,
    dir: tempfile::TempDir,
    kubectl: PathBuf,
    /// Command words before the program: what it is started in.
    wrapper: Vec<String>,
    /// `None`: beside another one, which holds it.
    _turn: Option<MutexGuard<'static, ()>>,
}

impl Pipeline {
    /// Starts all six stages and waits until a node is Ready.
    pub fn start(args: &[&str]) -> Self {
        Self::start_with(args, Some(turn()), |_| (), |_| Vec::new())
    }

    /// Starts it as `wrapper… kube-proxy …`, with more images.
    pub fn start_wrapped(
        args: &[&str],
        images: impl FnOnce(&Path),
        wrapper: impl FnOnce(&Path) -> Vec<String>,
    ) -> Self {
        Self::start_with(args, Some(turn()), images, wrapper)
    }

    /// Starts a second cluster while this one runs.
    pub fn start_beside(&self, args: &[&str]) -> Self {
        Self::start_with(args, None, |_| (), |_| Vec::new())
    }

    fn start_with(
        args: &[&str],
        turn: Option<MutexGuard<'static, ()>>,
        more: impl FnOnce(&Path),
        wrapper: impl FnOnce(&Path) -> Vec<String>,
    ) -> Self {
        let dir = tempfile::Builder::new().prefix("six").tempdir().unwrap();
        let images = dir.path().join("images");
        let made = Command::new(binary("labs")).args(["image", "--presets"]).arg(&images).output().unwrap();
        assert!(made.status.success(), "labs image: {}", String::from_utf8_lossy(&made.stderr));
        more(dir.path());
        let wrapper = wrapper(dir.path());
        let child = spawn(&wrapper, dir.path(), args);
        let pipeline = Self { child, dir, kubectl: binary("kubectl"), wrapper, _turn: turn };
        pipeline.wait_ready();
        pipeline
    }

    fn wait_ready(&self) {
        let start = Instant::now();
        self.wait("a node is Ready", || {
            self.get("nodes", r#"{.items[*].status.conditions[?(@.type=="Ready")].status}"#).contains("True")
        });
        println!("node Ready {:.2} s after the start", start.elapsed().as_secs_f64());
    }

    /// The state directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The pid of the pipeline's process.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Uses another kubectl from here on.
    pub fn with_kubectl(&mut self, program: &Path) {
        program.clone_into(&mut self.kubectl);
    }

    /// Ends the process as a crash does, and starts it again in the same state directory.
    pub fn crash_and_restart(&mut self, args: &[&str]) {
        kill(self.pid(), Signal::SIGKILL).unwrap();
        self.child.wait().unwrap();
        self.child = spawn(&self.wrapper, self.dir.path(), args);
        self.wait_ready();
    }

    /// Stops as Ctrl-C does, and starts again in the same state directory.
    pub fn stop_and_restart(&mut self, args: &[&str]) {
        self.stop();
        self.child = spawn(&self.wrapper, self.dir.path(), args);
        self.wait_ready();
    }

    /// Stops as Ctrl-C does; everything that it started must be gone.
    pub fn stop(&mut self) {
        kill(self.pid(), Signal::SIGINT).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success(), "the pipeline ended with {status}\n{}", self.log());
                break;
            }
            assert!(Instant::now() < deadline, "the pipeline doesn't stop\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        let left = leftovers(self.dir.path());
        assert!(left.is_empty(), "left behind after a clean stop: {left:?}");
    }

    /// The end of the pipeline's log, for a failure's message.
    pub fn log(&self) -> String {
        let text = std::fs::read_to_string(self.dir.path().join("pipeline.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// Runs kubectl.
    pub fn run(&self, args: &[&str]) -> Output {
        self.run_with_stdin(args, "")
    }

    /// Runs kubectl with a text on its stdin.
    pub fn run_with_stdin(&self, args: &[&str], stdin: &str) -> Output {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// kubectl, to be started by the caller.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command
            .args(args)
            .env("KUBECONFIG", self.dir.path().join("admin.kubeconfig"))
            .env("HOME", self.dir.path());
        command
    }

    /// Runs kubectl, which must succeed; its stdout.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "kubectl {}: {stdout}{stderr}\n{}", args.join(" "), self.log());
        stdout
    }

    /// Applies a manifest, which must succeed.
    pub fn apply(&self, manifest: &str) -> String {
        let output = self.run_with_stdin(&["apply", "-f", "-"], manifest);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "kubectl apply: {stdout}{stderr}\n{}", self.log());
        stdout
    }

    /// A JSONPath of what `kubectl get` finds, empty when it finds nothing.
    pub fn get(&self, what: &str, path: &str) -> String {
        let mut args = vec!["get"];
        args.extend(what.split(' '));
        let path = format!("jsonpath={path}");
        args.extend(["-o", &path]);
        text(&self.run(&args).stdout)
    }

    /// Waits until a condition holds.
    pub fn wait(&self, what: &str, condition: impl FnMut() -> bool) {
        self.wait_within(what, Duration::from_secs(90), condition);
    }

    /// Waits until a condition holds, no longer than `limit`.
    pub fn wait_within(&self, what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
        let deadline = Instant::now() + limit;
        while !condition() {
            if Instant::now() >= deadline {
                let all = text(
                    &self
                        .run(&[
                            "get",
                            "nodes,pods,deployments,replicasets,services,events",
                            "-A",
                            "-o",
                            "wide",
                        ])
                        .stdout,
                );
                panic!("waited {} s in vain until {what}\n{all}\n{}", limit.as_secs(), self.log());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until a Deployment has all its replicas available and no old ones.
    pub fn rolled_out(&self, name: &str) {
        println!(
            "{}",
            self.ok(&["rollout", "status", &format!("deployment/{name}"), "--timeout=90s"]).trim()
        );
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = kill(self.pid(), Signal::SIGTERM);
            let _ = self.child.wait();
        }
    }
}

fn spawn(wrapper: &[String], dir: &Path, args: &[&str]) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(dir.join("pipeline.log")).unwrap();
    let mut words = wrapper.to_vec();
    words.push(binary("kube-proxy").display().to_string());
    Command::new(&words[0])
        .args(&words[1..])
        .arg("--state-dir")
        .arg(dir)
        .args(["--secure-port", "0"])
        .args(args)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// Processes that name the state directory, and mounts below it.
pub fn leftovers(dir: &Path) -> Vec<String> {
    let name = dir.display().to_string();
    let mut left = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words = text(&words).replace('\0', " ");
        if pid != std::process::id() && words.contains(&name) && !words.contains("pipeline-") {
            left.push(words);
        }
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    left.extend(mounts.lines().filter(|line| line.contains(&name)).map(str::to_owned));
    left
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
