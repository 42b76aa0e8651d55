//! The subcommands of the labs, and their texts.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.
#![expect(clippy::disallowed_methods, reason = "shell: reads the environment and a class's files")]

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use stage1_kubectl::state_dir::StateDir;

use super::answer::Answer;
use super::cluster::components;
use super::engine::{self, Engine};
use super::grade::{Diagnosis, Verdict};
use super::session::Progress;
use super::{catalog, learner, vocabulary};

/// What to do with labs.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// List the labs by their symptoms
    List,
    /// Start a lab: by a symptom of the list, or by its id
    Start(StartFlags),
    /// Give a hint: one that fits what you have done so far, else the next
    Hint,
    /// Hand in a diagnosis
    Answer(AnswerFlags),
    /// Check the repair
    Verify,
    /// End the lab and make the cluster as it was
    Reset,
    /// Show what you have reached
    Progress,
    /// Make a table of a class's progress.json files: one folder or file a learner
    Grade {
        /// The folder with the files
        dir: std::path::PathBuf,
    },
    /// Show the lab cluster's components
    Components,
}

/// Flags of `labs start`.
#[derive(Debug, Args)]
pub struct StartFlags {
    /// A symptom of `labs list`, or an id (4-B)
    pub lab: String,
    /// Names and numbers come from it; the same seed gives the same lab
    #[arg(long)]
    pub seed: Option<u64>,
}

/// Flags of `labs answer`.
#[derive(Debug, Args)]
#[command(after_help = mechanisms())]
pub struct AnswerFlags {
    /// The stage: 1 kubectl, 2 kube-apiserver, 3 controller-manager, 4 scheduler, 5 kubelet, 6 kube-proxy and Services; 0 healthy
    #[arg(long)]
    pub stage: u8,
    /// The object: Deployment/web, Component/kube-scheduler, Kubeconfig; none if all is healthy
    #[arg(long)]
    pub object: String,
    /// The mechanism, a word of the list below
    #[arg(long)]
    pub mechanism: String,
    /// What proves it: 'SUBJECT PATH=VALUE', as in 'Pod/web-* .spec.schedulerName=gpu' (up to three times)
    #[arg(long)]
    pub evidence: Vec<String>,
    /// Stages that you ruled out
    #[arg(long, value_delimiter = ',')]
    pub healthy: Vec<u8>,
}

fn mechanisms() -> String {
    let mut text = "Mechanisms:\n".to_owned();
    for (word, meaning) in vocabulary::mechanisms() {
        let _ = writeln!(text, "  {word:<26} {meaning}");
    }
    text
}

/// Runs a subcommand; answers with what to print.
///
/// # Errors
/// In words for the learner.
pub fn run(state_dir: Option<std::path::PathBuf>, command: &LabCommand) -> anyhow::Result<String> {
    let state_dir = StateDir::new(state_dir)?;
    let engine = Engine::new(state_dir.clone());
    if matches!(
        command,
        LabCommand::Start(_)
            | LabCommand::Answer(_)
            | LabCommand::Hint
            | LabCommand::Verify
            | LabCommand::Reset
    ) {
        let given = std::env::var_os("KUBECONFIG");
        learner::refuse_other_context(given.as_deref(), &learner::kubeconfig(&state_dir))
            .map_err(anyhow::Error::msg)?;
    }
    match command {
        LabCommand::List => list(&engine.files().progress()?),
        LabCommand::Start(flags) => {
            let seed = flags.seed.unwrap_or_else(|| u64::from(std::process::id()));
            let started = engine.start(&flags.lab, seed)?;
            Ok(format!(
                "{}\nNamespace: {}   (seed {seed})\nNext: labs hint | labs answer --help | labs verify | labs reset\n",
                started.brief.trim_end(),
                started.namespace
            ))
        }
        LabCommand::Hint => Ok(format!("{}\n", engine.hint()?.trim_end())),
        LabCommand::Answer(flags) => {
            let answer =
                Answer::parse(flags.stage, &flags.object, &flags.mechanism, &flags.evidence, &flags.healthy)?;
            Ok(show_diagnosis(&engine.answer(&answer)?))
        }
        LabCommand::Verify => {
            let verified = engine.verify()?;
            let mut text = format!("{}: {}\n", word(verified.ruling.verdict), verified.ruling.text);
            if verified.diagnosis_missing {
                text.push_str("The diagnosis is still missing: labs answer --help\n");
            }
            text.push_str(&verified.debrief.map(|debrief| format!("\n{debrief}")).unwrap_or_default());
            Ok(text)
        }
        LabCommand::Reset => Ok(format!("{}\n", engine.reset()?)),
        LabCommand::Progress => Ok(progress(&engine.files().progress()?)),
        LabCommand::Grade { dir } => grade(dir),
        LabCommand::Components => show_components(&state_dir),
    }
}

/// A verdict's word: `STILL_BROKEN`.
pub fn word(verdict: Verdict) -> String {
    serde_json::to_value(verdict).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn list(progress: &Progress) -> anyhow::Result<String> {
    let mut text =
        format!("{:<20} {:<10} {:>7}  {}\n", "SYMPTOM", "DIFFICULTY", "MINUTES", "WHAT THE PAGE SAYS");
    for lab in engine::symptoms()? {
        let passed = progress.labs.values().any(|reached| reached.symptom == lab.symptom && reached.repaired);
        let done = if passed { " (repaired)" } else { "" };
        let stars = "*".repeat(lab.difficulty.into());
        let _ = writeln!(text, "{:<20} {stars:<10} {:>7}  {}{done}", lab.symptom, lab.minutes, lab.title);
    }
    Ok(text)
}

/// A graded diagnosis as text.
pub fn show_diagnosis(diagnosis: &Diagnosis) -> String {
    let mut text = format!(
        "{}: {}\n{} of 100 points\n",
        word(diagnosis.ruling.verdict),
        diagnosis.ruling.text,
        diagnosis.points
    );
    for line in &diagnosis.evidence {
        let _ = writeln!(text, "  evidence {line}");
    }
    text
}

/// Progress as a table.
pub fn progress(progress: &Progress) -> String {
    if progress.labs.is_empty() {
        return "Nothing yet: labs list, labs start SYMPTOM\n".to_owned();
    }
    let mut text = format!(
        "{:<20} {:>6} {:>9} {:>8} {:>5} {:>5} {:>12}\n",
        "SYMPTOM", "STARTS", "DIAGNOSIS", "REPAIRED", "HINTS", "WRONG", "REPAIR TOOK"
    );
    for reached in progress.labs.values() {
        let points = reached.diagnosis.map_or("-".to_owned(), |points| points.to_string());
        let repaired = if reached.repaired { "yes" } else { "no" };
        let took = reached.times.get("repaired").map_or("-".to_owned(), |seconds| format!("{seconds} s"));
        let _ = writeln!(
            text,
            "{:<20} {:>6} {points:>9} {repaired:>8} {:>5} {:>5} {took:>12}",
            reached.symptom, reached.starts, reached.hints, reached.wrong
        );
    }
    text
}

/// A class's results: a line a learner, a column a lab (points, and `+` for a repair).
fn grade(dir: &Path) -> anyhow::Result<String> {
    let mut class: Vec<(String, Progress)> = Vec::new();
    let mut entries: Vec<_> =
        std::fs::read_dir(dir).with_context(|| dir.display().to_string())?.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::path);
    for entry in entries {
        let path = entry.path();
        let file = if path.is_dir() { path.join("progress.json") } else { path.clone() };
        if file.extension().is_none_or(|extension| extension != "json") || !file.exists() {
            continue;
        }
        let text = std::fs::read(&file).with_context(|| file.display().to_string())?;
        let progress: Progress = serde_json::from_slice(&text).with_context(|| file.display().to_string())?;
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        class.push((if progress.learner.is_empty() { name } else { progress.learner.clone() }, progress));
    }
    let labs: Vec<String> = catalog::all(0)?.into_iter().map(|lab| lab.id).collect();
    let tried: Vec<&String> =
        labs.iter().filter(|id| class.iter().any(|(_, progress)| progress.labs.contains_key(*id))).collect();
    let mut text = format!("{:<20}", "LEARNER");
    for id in &tried {
        let _ = write!(text, " {id:>6}");
    }
    text.push_str("  REPAIRED  POINTS\n");
    for (name, progress) in &class {
        let _ = write!(text, "{name:<20}");
        for id in &tried {
            let cell = progress.labs.get(*id).map_or("-".to_owned(), |reached| {
                let points = reached.diagnosis.map_or("?".to_owned(), |points| points.to_string());
                if reached.repaired { format!("{points}+") } else { points }
            });
            let _ = write!(text, " {cell:>6}");
        }
        let repaired = progress.labs.values().filter(|reached| reached.repaired).count();
        let points: u32 = progress.labs.values().filter_map(|reached| reached.diagnosis).sum();
        let _ = writeln!(text, "  {repaired:>8}  {points:>6}");
    }
    Ok(text)
}

fn show_components(state_dir: &StateDir) -> anyhow::Result<String> {
    let status = std::fs::read(components::status_file(state_dir)).unwrap_or_else(|_| b"{}".to_vec());
    let status: std::collections::BTreeMap<String, super::cluster::supervisor::ComponentStatus> =
        serde_json::from_slice(&status)?;
    if !components::running(state_dir) {
        return Ok(format!("no lab cluster runs in {}: labs cluster\n", state_dir.root().display()));
    }
    let mut text = format!("{:<26} {:<14} {:>8}  {}\n", "COMPONENT", "STATUS", "RESTARTS", "MESSAGE");
    for name in components::PROGRAMS.iter().filter(|name| **name != "kubectl") {
        let (state, restarts, message) = match status.get(*name) {
            Some(known) => (known.status.as_str(), known.restarts, known.message.as_str()),
            None => ("absent", 0, "no manifest"),
        };
        let _ = writeln!(text, "{name:<26} {state:<14} {restarts:>8}  {message}");
    }
    let _ = writeln!(
        text,
        "\nManifests: {}   Logs: {}",
        components::dir(state_dir).display(),
        state_dir.logs().display()
    );
    Ok(text)
}

#[cfg(test)]
mod tests;
