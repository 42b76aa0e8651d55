//! The engine: start, hint, answer, verify, reset.
//!
//! Each is a short script over the parts: look (probes), judge (grade, guards), remember (session). The command line and the page with the
//! live journey both call these functions.
//!
//! A lab under way has passed three gates: the cluster was healthy, the fault was made, the symptom showed. If any of them fails the
//! lab is reset and says `HARNESS`: a learner never searches for a fault that isn't there.
//!
//! # Invariants
//! 1. After [`Engine::reset`] the cluster is as before the start, whatever happened in between; calling it again changes nothing.
//! 2. Whatever is changed is changed with the lab's own kubeconfig; the command line refuses to begin while the learner's is another.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.
#![expect(clippy::disallowed_methods, reason = "shell: waits, reads the clock and the audit log")]

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use stage1_kubectl::state_dir::StateDir;

use super::answer::Answer;
use super::catalog::{self, Lab};
use super::cluster::components;
use super::grade::{self, Diagnosis, Looked, Ruling, Verdict};
use super::probe::{Probe, Seen};
use super::real_world::RealWorld;
use super::session::{Files, Recorded, Session};
use super::variation::NAMESPACE_PREFIX;
use super::world::{World as _, values};
use super::{guards, learner, source_copy};

/// How long the fault (or health) may take to show.
const PATIENCE: Duration = Duration::from_secs(60);
const PERIOD: Duration = Duration::from_millis(150);
/// What a lab's time may add to the audit log at most.
const MAX_AUDIT_BYTES: u64 = 256 << 20;

/// The engine on one state directory.
pub struct Engine {
    state_dir: StateDir,
    files: Files,
}

/// What a start says.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Started {
    /// The page.
    pub brief: String,
    /// Where the learner looks.
    pub namespace: String,
    /// What the lab saw as the symptom.
    pub symptom: String,
}

/// What is told when both halves are passed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Verified {
    /// The verdict.
    pub ruling: Ruling,
    /// The chain from cause to symptom; only after the diagnosis was right too.
    pub debrief: Option<String>,
    /// Whether a right diagnosis is still missing.
    pub diagnosis_missing: bool,
}

impl Engine {
    /// The engine on a state directory.
    pub fn new(state_dir: StateDir) -> Self {
        let files = Files::of(&state_dir);
        Self { state_dir, files }
    }

    /// The two files.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The lab under way, with its names filled in.
    ///
    /// # Errors
    /// There is none.
    pub fn under_way(&self) -> anyhow::Result<(Lab, Session)> {
        let session =
            self.files.session()?.context("NOT_BROKEN: no lab is under way (labs start SYMPTOM)")?;
        Ok((Lab::with_seed(&session.lab, session.seed)?, session))
    }

    fn world(&self, lab: &Lab, seed: u64) -> anyhow::Result<RealWorld> {
        RealWorld::new(self.state_dir.clone(), lab.namespace(seed))
    }

    /// Starts a lab: by its id, or by a symptom.
    ///
    /// # Errors
    /// No lab cluster, another lab under way, or `HARNESS`: the fault did not show (the lab is reset then).
    pub fn start(&self, word: &str, seed: u64) -> anyhow::Result<Started> {
        ensure!(
            components::running(&self.state_dir),
            "no lab cluster runs in {}: labs cluster",
            self.state_dir.root().display()
        );
        if let Some(session) = self.files.session()? {
            bail!("{} is under way: labs verify, or labs reset", session.symptom);
        }
        let lab = Lab::find(word, seed)?;
        let world = self.world(&lab, seed)?;
        if let Some(why) = unhealthy(&world) {
            bail!("HARNESS: the cluster isn't healthy before the lab: {why} (labs reset)");
        }
        let begun = self.make(&lab, &world, seed);
        if begun.is_err() {
            self.restore(&world).context("HARNESS: the lab can't be reset")?;
        }
        let (session, seen) = begun.context("HARNESS: the lab failed, not you")?;
        self.files.change_progress(|progress| progress.started(&session))?;
        Ok(Started { brief: lab.brief.clone(), namespace: lab.namespace(seed), symptom: seen.text })
    }

    /// Objects, health, fault, symptom.
    fn make(&self, lab: &Lab, world: &RealWorld, seed: u64) -> anyhow::Result<(Session, Seen)> {
        let namespace = lab.namespace(seed);
        let create = ["create", "namespace", &namespace].map(str::to_owned);
        world.kubectl(&create).context("make the lab's namespace")?;
        if !lab.objects.is_empty() {
            world.apply(&lab.objects)?;
        }
        if let Some(healthy) = &lab.healthy {
            wait(healthy, world).context("before the fault")?;
        }
        for step in &lab.inject {
            step.run(world).context("make the fault")?;
        }
        let broken_at = Timestamp::now().to_string();
        let audit_from = std::fs::metadata(audit_file(&self.state_dir)).map_or(0, |file| file.len());
        let seen = wait(&lab.broken, world).context("the fault does not show")?;
        let session = Session {
            lab: lab.id.clone(),
            symptom: lab.symptom.clone(),
            seed,
            broken_at,
            audit_from,
            recorded: record(lab, world),
            hints: Vec::new(),
            wrong: 0,
            times: Default::default(),
        };
        self.files.set_session(Some(&session))?;
        Ok((session, seen))
    }

    /// The next hint: one that fits what the learner has done so far, else the next of the ladder.
    ///
    /// # Errors
    /// No lab is under way.
    pub fn hint(&self) -> anyhow::Result<String> {
        let (lab, mut session) = self.under_way()?;
        let world = self.world(&lab, session.seed)?;
        let fresh: Vec<_> = lab.hints.iter().filter(|hint| !session.hints.contains(&hint.text)).collect();
        let fits = fresh.iter().find(|hint| hint.when.as_ref().is_some_and(|when| when.check(&world).holds));
        let Some(hint) = fits.or_else(|| fresh.iter().find(|hint| hint.when.is_none())) else {
            return Ok(format!(
                "That was all. The last one was: {}",
                session.hints.last().cloned().unwrap_or_default()
            ));
        };
        session.hints.push(hint.text.clone());
        self.files.set_session(Some(&session))?;
        Ok(hint.text.clone())
    }

    /// Grades a diagnosis.
    ///
    /// # Errors
    /// No lab is under way.
    pub fn answer(&self, answer: &Answer) -> anyhow::Result<Diagnosis> {
        let (lab, mut session) = self.under_way()?;
        let world = self.world(&lab, session.seed)?;
        let looked: Vec<Looked> =
            answer.evidence.iter().map(|evidence| look_up(evidence, &world, &session)).collect();
        let diagnosis = grade::diagnosis(&lab, answer, &looked, session.wrong);
        let since = seconds_since(&session.broken_at);
        if answer.stage == lab.truth.stage {
            session.times.entry("stage_named".to_owned()).or_insert(since);
        }
        match diagnosis.ruling.verdict {
            Verdict::Pass => drop(session.times.entry("cause_named".to_owned()).or_insert(since)),
            _ => session.wrong += 1,
        }
        self.files.set_session(Some(&session))?;
        self.files.change_progress(|progress| progress.diagnosed(&session, &diagnosis))?;
        Ok(diagnosis)
    }

    /// Grades the repair as it stands.
    ///
    /// # Errors
    /// No lab is under way.
    pub fn verify(&self) -> anyhow::Result<Verified> {
        let (lab, mut session) = self.under_way()?;
        let world = self.world(&lab, session.seed)?;
        let audit = match lab.guards.is_empty() {
            true => String::new(),
            false => audit_log(&self.state_dir, session.audit_from)?,
        };
        let tripped = guards::tripped(&lab.guards, &audit, &lab.namespace(session.seed), &session.broken_at);
        let lost: Vec<(String, Seen)> = lab
            .keeps
            .iter()
            .map(|keep| (keep.why.clone(), keep.probe.check(&world)))
            .filter(|(_, seen)| !seen.holds)
            .collect();
        let ruling = grade::repair(&tripped, &lab.broken.check(&world), &lab.repaired.check(&world), &lost);
        if ruling.verdict == Verdict::Pass {
            let since = seconds_since(&session.broken_at);
            session.times.entry("repaired".to_owned()).or_insert(since);
            self.files.set_session(Some(&session))?;
        }
        self.files.change_progress(|progress| progress.repaired(&session, &ruling))?;
        let diagnosed = session.times.contains_key("cause_named");
        let both = ruling.verdict == Verdict::Pass && diagnosed;
        Ok(Verified {
            debrief: both.then(|| debrief(&lab)),
            diagnosis_missing: ruling.verdict == Verdict::Pass && !diagnosed,
            ruling,
        })
    }

    /// Ends the lab under way, if any, and makes the cluster as it was.
    ///
    /// # Errors
    /// The cluster doesn't become healthy again.
    pub fn reset(&self) -> anyhow::Result<String> {
        let session = self.files.session()?;
        let namespace = match &session {
            Some(session) => Lab::with_seed(&session.lab, session.seed)?.namespace(session.seed),
            None => "default".to_owned(),
        };
        let world = RealWorld::new(self.state_dir.clone(), namespace)?;
        self.restore(&world)?;
        self.files.set_session(None)?;
        let what = session.map_or_else(
            || "no lab was under way".to_owned(),
            |session| format!("{} is over", session.symptom),
        );
        Ok(format!("{what}; the cluster is healthy"))
    }

    /// Components, kubeconfig, taints and namespaces as they were.
    fn restore(&self, world: &RealWorld) -> anyhow::Result<()> {
        ensure!(
            components::running(&self.state_dir),
            "no lab cluster runs in {}: labs cluster",
            self.state_dir.root().display()
        );
        for name in components::PROGRAMS.iter().filter(|name| **name != "kubectl") {
            components::restore(&self.state_dir, name)?;
        }
        learner::write(&self.state_dir, &learner::server(&self.state_dir)?)?;
        source_copy::remove(&self.state_dir)?;
        wait(
            &Probe::Value {
                subject: "Node/node-1".into(),
                path: ".metadata.name".into(),
                is: "node-1".into(),
            },
            world,
        )?;
        for name in lab_namespaces(world)? {
            let all = ["delete", "pods", "--all", "--grace-period=1", "--wait=false", "-n", &name]
                .map(str::to_owned);
            world.kubectl(&all)?;
            world.kubectl(&["delete", "namespace", &name, "--wait=false"].map(str::to_owned))?;
        }
        let taints = [
            "patch",
            "node",
            "node-1",
            "--type=merge",
            "-p",
            r#"{"spec":{"taints":null,"unschedulable":null}}"#,
        ];
        world.kubectl(&taints.map(str::to_owned))?;
        let start = Instant::now();
        while let Some(why) = unhealthy(world) {
            ensure!(start.elapsed() < PATIENCE, "the cluster isn't healthy after the reset: {why}");
            std::thread::sleep(PERIOD);
        }
        Ok(())
    }
}

/// What is still wrong with a cluster without a lab; the healthy control of every lab.
fn unhealthy(world: &RealWorld) -> Option<String> {
    let component = |name: &str| Probe::Value {
        subject: format!("Component/{name}"),
        path: ".status".into(),
        is: "running".into(),
    };
    let mut probes: Vec<Probe> =
        components::PROGRAMS.iter().filter(|name| **name != "kubectl").map(|name| component(name)).collect();
    let ready = ".status.conditions[?(@.type==\"Ready\")].status";
    probes.push(Probe::Value { subject: "Node/node-1".into(), path: ready.into(), is: "True".into() });
    probes.push(Probe::Kubectl { args: vec!["auth".into(), "whoami".into()], prints: "*".into() });
    let seen = Probe::All(probes).check(world);
    if !seen.holds {
        return Some(seen.text);
    }
    match lab_namespaces(world) {
        Ok(left) if left.is_empty() => None,
        Ok(left) => Some(format!("namespace {} is still there", left.join(", "))),
        Err(error) => Some(format!("{error:#}")),
    }
}

fn lab_namespaces(world: &RealWorld) -> anyhow::Result<Vec<String>> {
    let names = world.kubectl(&["get", "namespaces", "-o", "name"].map(str::to_owned))?;
    let names = names.lines().filter_map(|line| line.strip_prefix("namespace/"));
    Ok(names.filter(|name| name.starts_with(NAMESPACE_PREFIX)).map(str::to_owned).collect())
}

/// Looks until a probe holds.
///
/// # Errors
/// It doesn't for too long; with what was seen last.
pub fn wait(probe: &Probe, world: &RealWorld) -> anyhow::Result<Seen> {
    let start = Instant::now();
    loop {
        let seen = probe.check(world);
        if seen.holds {
            return Ok(seen);
        }
        ensure!(start.elapsed() < PATIENCE, "waited {PATIENCE:?}: {}", seen.text);
        std::thread::sleep(PERIOD);
    }
}

/// The proof of the cause as it stands now.
fn record(lab: &Lab, world: &RealWorld) -> Vec<Recorded> {
    let value = |subject: &str, path: &str| {
        Some(values(&world.subject(subject).ok()??, path)).filter(|value| !value.is_empty())
    };
    lab.truth
        .evidence
        .iter()
        .filter_map(|key| Some(Recorded { value: value(&key.subject, &key.path)?, key: key.clone() }))
        .collect()
}

/// What stands, or stood, where a piece of evidence points.
fn look_up(evidence: &super::answer::Evidence, world: &RealWorld, session: &Session) -> Looked {
    let now = world.subject(&evidence.subject).ok().flatten().map(|value| values(&value, &evidence.path));
    let then = session
        .recorded
        .iter()
        .filter(|recorded| {
            recorded.key.path == evidence.path && recorded.key.subject.eq_ignore_ascii_case(&evidence.subject)
        })
        .map(|recorded| recorded.value.clone());
    let found = now.into_iter().chain(then).filter(|value| !value.is_empty()).collect();
    Looked { evidence: evidence.clone(), found }
}

fn audit_file(state_dir: &StateDir) -> PathBuf {
    state_dir.logs().join("audit.log")
}

/// The audit log from a place on. A guard that can't be looked at is no guard that held: an error.
fn audit_log(state_dir: &StateDir, from: u64) -> anyhow::Result<String> {
    let path = audit_file(state_dir);
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(&path)?;
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(MAX_AUDIT_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().with_context(|| format!("HARNESS: {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn seconds_since(time: &str) -> i64 {
    time.parse::<Timestamp>().map_or(0, |time| Timestamp::now().as_second() - time.as_second())
}

/// The chain from cause to symptom, and where to read on.
pub fn debrief(lab: &Lab) -> String {
    let mut text = format!("{} ({})\n{}\n", lab.title, lab.id, lab.debrief.what_happened.trim());
    for line in &lab.truth.ruled_out_by {
        text.push_str(&format!("  ruled out: {line}\n"));
    }
    if let (Some(twin), Some(difference)) = (&lab.twin, &lab.debrief.twin) {
        text.push_str(&format!("Its twin is {twin}: {}\n", difference.trim()));
    }
    text.push_str(&format!("Source: {}   Chapter: book/src/{}\n", lab.debrief.code, lab.debrief.chapter));
    text
}

/// The labs of the catalogue for a list: each symptom once.
///
/// # Errors
/// A file of the catalogue is broken.
pub fn symptoms() -> Result<Vec<Lab>, catalog::CatalogError> {
    let mut seen = std::collections::BTreeSet::new();
    Ok(catalog::all(0)?.into_iter().filter(|lab| seen.insert(lab.symptom.clone())).collect())
}
