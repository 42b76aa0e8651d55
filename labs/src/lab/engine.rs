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
#![expect(clippy::disallowed_methods, reason = "shell: waits and reads the clock")]

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use stage1_kubectl::state_dir::StateDir;

use super::answer::Answer;
use super::catalog::{self, Lab};
use super::grade::{self, Diagnosis, Looked, Ruling, Verdict};
use super::probe::{Probe, Seen};
use super::real_world::RealWorld;
use super::session::{Files, Progress, Reached, Session};
use super::texts::say;
use super::{guards, learner};
use crate::texts::Values;

/// Proof: what stood where the learner points, and the API server's audit log.
mod evidence;
/// What a cluster without a lab looks like, and how it gets there again.
mod health;

/// How long the fault (or health) may take to show.
const PATIENCE: Duration = Duration::from_secs(60);
const PERIOD: Duration = Duration::from_millis(150);
/// Among a session's times: when the learner first asked the cluster for anything.
const FIRST_LOOK: &str = "first_look";

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
        let none = || Ruling::new(Verdict::NotBroken, "verify.no-lab", &[]);
        let session = self.files.session()?.ok_or_else(none)?;
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
        health::ensure_running(&self.state_dir)?;
        if let Some(session) = self.files.session()? {
            bail!(say("start.under-way", &[("symptom", &session.symptom)]));
        }
        let lab = Lab::find(word, seed)?;
        let world = self.world(&lab, seed)?;
        if let Some(why) = health::unhealthy(&world) {
            return Err(Ruling::new(Verdict::Harness, "harness.unhealthy", &[("why", &why)]).into());
        }
        let begun = self.make(&lab, &world, seed);
        let harness = |key: &str, why: anyhow::Error| {
            Ruling::new(Verdict::Harness, key, &[("why", &format!("{why:#}"))])
        };
        if begun.is_err() {
            health::restore(&world).map_err(|why| harness("harness.no-reset", why))?;
        }
        let (session, seen) = begun.map_err(|why| harness("harness.failed", why))?;
        self.files.change_progress(|progress| progress.started(&session))?;
        Ok(Started { brief: lab.brief.clone(), namespace: lab.namespace(seed), symptom: seen.text })
    }

    /// Objects, health, fault, symptom.
    fn make(&self, lab: &Lab, world: &RealWorld, seed: u64) -> anyhow::Result<(Session, Seen)> {
        let namespace = lab.namespace(seed);
        let create = ["create", "namespace", &namespace].map(str::to_owned);
        world.kubectl(&create).with_context(|| say("step.namespace", &[]))?;
        if !lab.objects.is_empty() {
            world.apply(&lab.objects)?;
        }
        if let Some(healthy) = &lab.healthy {
            wait(healthy, world).with_context(|| say("step.healthy", &[]))?;
        }
        for step in &lab.inject {
            step.run(world).with_context(|| say("step.fault", &[]))?;
        }
        let broken_at = Timestamp::now().to_string();
        let audit_from = evidence::audit_length(&self.state_dir);
        let seen = wait(&lab.broken, world).with_context(|| say("step.symptom", &[]))?;
        let session = Session {
            lab: lab.id.clone(),
            symptom: lab.symptom.clone(),
            seed,
            broken_at,
            audit_from,
            recorded: evidence::record(lab, world),
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
            let last = session.hints.last().cloned().unwrap_or_default();
            return Ok(say("hint.all", &[("last", &last)]));
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
            answer.evidence.iter().map(|given| evidence::look_up(given, &world, &session)).collect();
        let diagnosis = grade::diagnosis(&lab, answer, &looked, session.wrong);
        let since = seconds_since(&session.broken_at);
        if !session.times.contains_key(FIRST_LOOK) {
            let audit = evidence::audit_log(&self.state_dir, session.audit_from).unwrap_or_default();
            note_first_look(&mut session, &audit);
        }
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
        // Read once, for the guards and for the learner's first look. Only the guards can't do without.
        let audit = match evidence::audit_log(&self.state_dir, session.audit_from) {
            Err(why) if !lab.guards.is_empty() => {
                let why = format!("{why:#}");
                return Err(Ruling::new(Verdict::Harness, "harness.audit", &[("why", &why)]).into());
            }
            read => read.unwrap_or_default(),
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
            note_first_look(&mut session, &audit);
            session.times.entry("repaired".to_owned()).or_insert(since);
            self.files.set_session(Some(&session))?;
        }
        self.files.change_progress(|progress| progress.repaired(&session, &ruling))?;
        let diagnosed = session.times.contains_key("cause_named");
        let both = ruling.verdict == Verdict::Pass && diagnosed;
        Ok(Verified {
            debrief: both.then(|| debrief(&lab, &self.files.progress().unwrap_or_default())),
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
        health::restore(&world)?;
        self.files.set_session(None)?;
        Ok(match session {
            Some(session) => say("reset.over", &[("symptom", &session.symptom)]),
            None => say("reset.none", &[]),
        })
    }
}

/// When the learner first asked the cluster for anything, by the audit log; a cluster that can't be asked has no such time.
fn note_first_look(session: &mut Session, audit: &str) {
    if session.times.contains_key(FIRST_LOOK) {
        return;
    }
    if let Some(at) = guards::first_request(audit, learner::LEARNER, &session.broken_at) {
        session.times.insert(FIRST_LOOK.to_owned(), at);
    }
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
        ensure!(
            start.elapsed() < PATIENCE,
            say("step.waited", &[("seconds", &PATIENCE.as_secs()), ("seen", &seen.text)])
        );
        std::thread::sleep(PERIOD);
    }
}

fn seconds_since(time: &str) -> i64 {
    time.parse::<Timestamp>().map_or(0, |time| Timestamp::now().as_second() - time.as_second())
}

/// The chain from cause to symptom, and where to read on. What tells a look-alike apart would give the other one away, so it is told when both are solved.
pub fn debrief(lab: &Lab, progress: &Progress) -> String {
    let mut text = format!("{} ({})\n{}\n", lab.title, lab.id, lab.debrief.what_happened.trim());
    for line in &lab.truth.ruled_out_by {
        text.push_str(&format!("  {}\n", say("debrief.ruled-out", &[("line", line)])));
    }
    if let (Some(twin), Some(difference)) = (&lab.twin, &lab.debrief.twin) {
        let solved = progress.labs.get(twin).is_some_and(Reached::solved);
        let told = match solved {
            true => say("debrief.twin", &[("twin", twin), ("difference", &difference.trim())]),
            false => say("debrief.look-alike", &[("symptom", &lab.symptom)]),
        };
        text.push_str(&format!("{told}\n"));
    }
    let places: Values<'_> = &[("code", &lab.debrief.code), ("chapter", &lab.debrief.chapter)];
    text.push_str(&format!("{}\n", say("debrief.places", places)));
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
