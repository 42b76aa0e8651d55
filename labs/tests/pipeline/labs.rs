//! The gate of every lab: healthy, broken, wrong answers, right answer, repaired, reset; twice, with different names.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use labs::lab::catalog::{self, Lab};
use labs::lab::session::Session;
use labs::lab::variation;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cluster::{binary, leftovers, skip, text, turn};

/// A lab cluster. Dropping it stops it.
struct LabCluster {
    child: Child,
    dir: tempfile::TempDir,
}

impl LabCluster {
    fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("six").tempdir().unwrap();
        let log = std::fs::File::create(dir.path().join("cluster.log")).unwrap();
        let mut child = Command::new(binary("labs"))
            .args(["cluster", "--state-dir"])
            .arg(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let start = Instant::now();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let cluster = Self { child, dir };
        assert!(first.starts_with("The lab cluster is ready"), "{first}{}", cluster.logs());
        println!("lab cluster ready after {:.1} s", start.elapsed().as_secs_f64());
        cluster
    }

    fn labs(&self, args: &[&str]) -> Output {
        Command::new(binary("labs"))
            .args(args)
            .arg("--state-dir")
            .arg(self.dir.path())
            .env("KUBECONFIG", self.dir.path().join("lab.kubeconfig"))
            .output()
            .unwrap()
    }

    /// What `labs …` prints; it must succeed.
    fn ok(&self, args: &[&str]) -> String {
        let output = self.labs(args);
        assert!(output.status.success(), "labs {args:?}: {}\n{}", text(&output.stderr), self.logs());
        text(&output.stdout)
    }

    fn session(&self) -> Session {
        serde_json::from_slice(&std::fs::read(self.dir.path().join("lab.json")).unwrap()).unwrap()
    }

    fn solve(&self, script: &str) {
        let bin = binary("kubectl");
        let path = format!("{}:{}", bin.parent().unwrap().display(), std::env::var("PATH").unwrap());
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", script])
            .env("PATH", path)
            .env("KUBECONFIG", self.dir.path().join("lab.kubeconfig"))
            .env("STATE", self.dir.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{script}\n{}\n{}", text(&output.stderr), self.logs());
    }

    /// The last lines of every component.
    fn logs(&self) -> String {
        let dir = std::fs::read_dir(self.dir.path().join("logs")).into_iter().flatten().flatten();
        let files = dir.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "log"));
        let tail = |path: &Path| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            format!("--- {}\n{}\n", path.display(), lines[lines.len().saturating_sub(5)..].join("\n"))
        };
        let own = tail(&self.dir.path().join("cluster.log"));
        files.filter(|path| !path.ends_with("audit.log")).map(|path| tail(&path)).chain([own]).collect()
    }

    fn stop(mut self) {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        let left = leftovers(self.dir.path());
        assert!(left.is_empty(), "left behind after a clean stop: {left:?}");
    }
}

impl Drop for LabCluster {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT);
        let _ = self.child.wait();
    }
}

#[test]
fn every_lab_breaks_is_graded_is_repaired_and_is_reset_twice() {
    if skip() {
        return;
    }
    let _turn = turn();
    let cluster = LabCluster::start();
    refuses_other_contexts(&cluster);
    for seed in [1, 2] {
        for lab in catalog::all(seed).unwrap() {
            if std::env::var("STAGES_LABS").is_ok_and(|only| !only.split(',').any(|id| id == lab.id)) {
                continue;
            }
            gate(&cluster, &lab, seed);
        }
    }
    println!("{}", cluster.ok(&["progress"]));
    cluster.stop();
}

#[test]
fn a_lab_cluster_that_is_stopped_while_it_starts_leaves_nothing() {
    if skip() {
        return;
    }
    let _turn = turn();
    let dir = tempfile::Builder::new().prefix("six").tempdir().unwrap();
    let mut child = Command::new(binary("labs"))
        .args(["cluster", "--state-dir"])
        .arg(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    // The first component runs: the machine is there, the cluster is not.
    while !dir.path().join("components/kube-apiserver.yaml").exists() {
        assert!(start.elapsed() < Duration::from_secs(120), "no component was started");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    let left = leftovers(dir.path());
    assert!(left.is_empty(), "left behind: {left:?}");
}

fn refuses_other_contexts(cluster: &LabCluster) {
    for other in ["", "/elsewhere/config"] {
        let output = Command::new(binary("labs"))
            .args(["start", "4-B", "--state-dir"])
            .arg(cluster.dir.path())
            .env("KUBECONFIG", other)
            .output()
            .unwrap();
        assert!(!output.status.success());
        assert!(text(&output.stderr).contains("export KUBECONFIG="), "{}", text(&output.stderr));
    }
    let nothing = cluster.labs(&["verify"]);
    assert!(text(&nothing.stderr).contains("NOT_BROKEN"), "{}", text(&nothing.stderr));
}

fn gate(cluster: &LabCluster, lab: &Lab, seed: u64) {
    let id = &lab.id;
    let seed_text = seed.to_string();
    let start = Instant::now();
    let page = cluster.ok(&["start", id, "--seed", &seed_text]);
    let started = start.elapsed();
    assert!(page.contains(lab.brief.trim()), "{page}");
    let again = cluster.labs(&["start", id]);
    assert!(text(&again.stderr).contains("is under way"), "{id}: {}", text(&again.stderr));
    let control = lab.truth.stage == 0;
    if !control {
        let verdict = cluster.ok(&["verify"]);
        assert!(verdict.starts_with("STILL_BROKEN: "), "{id}: {verdict}");
    }
    why_names_the_stage(cluster, lab, seed);
    answers(cluster, lab);
    let hint = cluster.ok(&["hint"]);
    assert!(lab.hints.iter().any(|known| known.text.trim() == hint.trim()), "{id}: {hint}");
    cluster.solve(&variation::fill(&lab.solution, &variation::names(id, seed)));
    let verified = repaired(cluster, id);
    assert!(verified.contains(lab.debrief.what_happened.lines().next().unwrap()), "{id}: {verified}");
    let start = Instant::now();
    println!("{}", cluster.ok(&["reset"]).trim());
    println!(
        "{id} seed {seed}: start {:.1} s, reset {:.1} s",
        started.as_secs_f64(),
        start.elapsed().as_secs_f64()
    );
    assert!(cluster.ok(&["reset"]).starts_with("no lab was under way"));
}

/// `kubectl why`, with the learner's kubeconfig, names the stage; on a control it has nothing to say.
fn why_names_the_stage(cluster: &LabCluster, lab: &Lab, seed: u64) {
    // A bug in a copy of the source is nothing that a look at the cluster could find.
    if lab.id == "2-F" {
        return;
    }
    let namespace = lab.namespace(seed);
    let why = |format: &[&str]| {
        let output = Command::new(binary("kubectl"))
            .args(["why", "-n", &namespace])
            .args(format)
            .env("KUBECONFIG", cluster.dir.path().join("lab.kubeconfig"))
            .env("STAGES_STATE_DIR", cluster.dir.path())
            .output()
            .unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    if lab.truth.stage == 0 {
        assert_eq!(why(&[]), (Some(0), String::new(), String::new()), "{}", lab.id);
        return;
    }
    // What has only just begun is no fault yet: a rule may want to see it last for some seconds.
    let start = Instant::now();
    loop {
        let (_, report, said) = why(&["-o", "json"]);
        let report: serde_json::Value =
            serde_json::from_str(&report).unwrap_or_else(|_| panic!("{}: {said}", lab.id));
        if report["stage"] == lab.truth.stage {
            let (rule, took) = (&report["causes"][0]["rule"], start.elapsed().as_secs_f64());
            println!("{}: why says stage {}, {rule}, {took:.1} s later", lab.id, lab.truth.stage);
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{}: {report:#}", lab.id);
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Every wrong answer gets its verdict, and the right one, with evidence that was recorded, passes.
fn answers(cluster: &LabCluster, lab: &Lab) {
    let submit = |stage: u8, object: &str, mechanism: &str, evidence: &[String]| {
        let stage = stage.to_string();
        let mut args = vec!["answer", "--stage", &stage, "--object", object, "--mechanism", mechanism];
        for proof in evidence {
            args.extend(["--evidence", proof]);
        }
        cluster.ok(&args)
    };
    for wrong in &lab.wrong_answers {
        let verdict = submit(wrong.stage, &wrong.object, &wrong.mechanism, &[]);
        assert!(verdict.starts_with(&format!("{}: ", wrong.verdict.word())), "{}: {verdict}", lab.id);
    }
    let recorded = cluster.session().recorded;
    assert!(lab.truth.evidence.is_empty() || !recorded.is_empty(), "{}: no proof was there", lab.id);
    let proof = recorded.iter().map(|seen| format!("{} {}={}", seen.key.subject, seen.key.path, seen.value));
    let verdict = submit(
        lab.truth.stage,
        &lab.truth.objects[0],
        &lab.truth.mechanism,
        &proof.take(3).collect::<Vec<_>>(),
    );
    let points = 100 - 10 * lab.wrong_answers.len();
    assert!(verdict.starts_with("PASS: "), "{}: {verdict}", lab.id);
    assert!(verdict.contains(&format!("\n{points} of 100 points\n")), "{}: {verdict}", lab.id);
}

fn repaired(cluster: &LabCluster, id: &str) -> String {
    let start = Instant::now();
    loop {
        let verdict = cluster.ok(&["verify"]);
        if verdict.starts_with("PASS: ") {
            return verdict;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{id}: {verdict}\n{}", cluster.logs());
        std::thread::sleep(Duration::from_millis(200));
    }
}
