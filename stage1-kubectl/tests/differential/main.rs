//! Ours beside a stock kubectl: the same generated command lines, the same answers.
//!
//! Where a stock kubectl 1.32 is installed (`STAGES_STOCK_KUBECTL_DIR/kubectl-1.32`), both are run on generated patches, generators'
//! flags, kubeconfigs, YAML, paths, templates, selectors, quantities, and must print and send the same, byte for byte. And ours must know every
//! command and every flag of the stock one. Without it the test says so and passes.
//!
//! A run of the test draws a few dozen inputs a kind, always the same ones. `STAGES_DIFFERENTIAL_CASES=3000` draws so many, and
//! `STAGES_DIFFERENTIAL_SEED=7` others.
#![expect(clippy::disallowed_methods, reason = "a test that starts kubectl")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

mod asking;
mod config;
mod flags;
mod local;
mod printing;
mod server;

const OURS: &str = env!("CARGO_BIN_EXE_kubectl");

fn stock() -> Option<PathBuf> {
    let dir = std::env::var_os("STAGES_STOCK_KUBECTL_DIR").map(PathBuf::from)?;
    let found = Some(dir.join("kubectl-1.32")).filter(|file| file.exists());
    if found.is_none() {
        println!("skipped: no stock kubectl 1.32");
    }
    found
}

/// Exit code, stdout, stderr.
fn run(kubectl: &Path, dir: &Path, arguments: &[String], stdin: &str) -> (i32, String, String) {
    run_with(kubectl, dir, arguments, stdin, &dir.join("config").display().to_string())
}

fn run_with(
    kubectl: &Path,
    dir: &Path,
    arguments: &[String],
    stdin: &str,
    config: &str,
) -> (i32, String, String) {
    let mut child = Command::new(kubectl)
        .args(arguments)
        .current_dir(dir)
        .env_clear()
        .env("HOME", dir)
        .env("PATH", "/usr/bin:/bin")
        .env("KUBECONFIG", config)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl starts");
    // A command that ends before it reads is right, too.
    let _ = child.stdin.take().expect("a pipe").write_all(stdin.as_bytes());
    let output = child.wait_with_output().expect("kubectl ends");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// A small seeded generator: the same cases on every machine.
struct Dice(u64);

impl Dice {
    fn new(kind: u64) -> Self {
        let seed = std::env::var("STAGES_DIFFERENTIAL_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
        Dice(kind + 1000 * seed.unwrap_or(0))
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % end
    }

    fn one<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    fn some(&mut self, all: &[&str]) -> Vec<String> {
        all.iter().filter(|_| self.below(2) == 0).map(|s| s.to_string()).collect()
    }

    /// How many inputs: those of every run, or as many as are asked for.
    fn rounds(&self, usual: usize) -> usize {
        let asked = std::env::var("STAGES_DIFFERENTIAL_CASES").ok().and_then(|count| count.parse().ok());
        asked.unwrap_or(usual)
    }

    fn cases(&mut self, usual: usize, make: impl Fn(&mut Dice) -> Case) -> Vec<Case> {
        (0..self.rounds(usual)).map(|_| make(self)).collect()
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').filter(|word| !word.is_empty()).map(String::from).collect()
}

/// A command line, and what it reads.
#[derive(Debug, Clone, Default)]
struct Case {
    arguments: Vec<String>,
    stdin: String,
    /// Whether there is a server.
    asks: bool,
    /// Whether the output holds ages, which a second may change.
    ages: bool,
    /// Whether the same outcome is enough where the stock kubectl fails: its words name places inside of a template.
    outcome: bool,
    /// Whether lines come in any order, and other requests may lead to them.
    loose: bool,
}

impl Case {
    fn local(arguments: Vec<String>, stdin: String) -> Self {
        Case { arguments, stdin, ..Case::default() }
    }

    fn asking(words: &[&str]) -> Self {
        let arguments = words.iter().map(|word| word.to_string()).collect();
        Case { arguments, asks: true, ..Case::default() }
    }
}

/// Exit code, stdout, stderr, and what was sent.
type Seen = (i32, String, String, Vec<String>);

fn seen(kubectl: &Path, case: &Case, server: &server::Server, world: &BTreeMap<String, Value>) -> Seen {
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("d.yaml"), DEPLOYMENT).expect("written");
    let (number, url) = server.world(world);
    let mut arguments = case.arguments.clone();
    if case.asks {
        arguments.insert(1, format!("--server={url}"));
    }
    let (code, stdout, stderr) = run(kubectl, dir.path(), &arguments, &case.stdin);
    let mut texts = [stdout, stderr]
        .map(|text| text.replace(&url, "URL").replace(&format!("{}", dir.path().display()), "DIR"));
    if case.ages {
        let age = regex::Regex::new(r"\b\d+[smhdy](\d+[smhd])?\b").expect("a constant pattern");
        texts = texts.map(|text| age.replace_all(&text, "AGE").into_owned());
    }
    let [stdout, stderr] = texts;
    if case.loose {
        let mut lines: Vec<String> =
            stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        lines.sort();
        return (code, lines.join("\n"), stderr, Vec::new());
    }
    if case.outcome && code != 0 && stderr.contains("xecuting") {
        // What a path finds wrong while it is followed is told with places, or finds nothing here.
        return (0, String::new(), String::new(), Vec::new());
    }
    (code, stdout, stderr, server.log(number))
}

/// Runs each case with both and tells what differs.
fn compare(stock: &Path, cases: &[Case], world: &BTreeMap<String, Value>) {
    static SERVER: std::sync::OnceLock<server::Server> = std::sync::OnceLock::new();
    let server = SERVER.get_or_init(server::Server::start);
    let (next, differing) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let wanted = seen(stock, case, server, world);
                    let got = seen(Path::new(OURS), case, server, world);
                    // Which generators ask a server first is the stock kubectl's matter; here there is none to ask.
                    let asked_in_vain = !case.asks && wanted.2.contains("memcache.go");
                    let untold = asked_in_vain || case.outcome && wanted == Seen::default();
                    if wanted != got && !untold {
                        let text =
                            format!("{:?}\n{}\nwant {wanted:#?}\ngot  {got:#?}", case.arguments, case.stdin);
                        differing.lock().expect("no thread panics").push(text);
                    }
                }
            });
        }
    });
    let differing = differing.into_inner().expect("no thread panics");
    let (all, bad) = (cases.len(), differing.len());
    if let Some(file) = std::env::var_os("STAGES_DIFFERENTIAL_LOG").filter(|_| bad > 0) {
        let mut file = fs::File::options().create(true).append(true).open(file).expect("a file to log to");
        writeln!(file, "{}", differing.join("\n\n")).expect("written");
        return;
    }
    assert!(bad == 0, "{bad} of {all} differ, the first:\n{}", differing[..bad.min(3)].join("\n\n"));
}

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {a: x, b: z}}
spec:
  replicas: 2
  selector: {matchLabels: {a: x}}
  template:
    metadata: {labels: {a: x}}
    spec:
      containers:
      - name: web
        image: nginx
        env: [{name: A, value: one}, {name: B, value: two}]
        ports: [{containerPort: 80}, {containerPort: 443}]
      - {name: side, image: busybox}
      volumes: [{name: v, emptyDir: {}}]
";
