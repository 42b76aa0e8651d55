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
use super::grade::Diagnosis;
use super::session::Progress;
use super::texts::say;
use super::{catalog, learner, vocabulary};
use crate::texts::Values;

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
    let mut text = format!("{}\n", say("answer.mechanisms", &[]));
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
            let values: Values<'_> =
                &[("brief", &started.brief.trim_end()), ("namespace", &started.namespace), ("seed", &seed)];
            Ok(format!("{}\n", say("start.page", values)))
        }
        LabCommand::Hint => Ok(format!("{}\n", engine.hint()?.trim_end())),
        LabCommand::Answer(flags) => {
            let answer =
                Answer::parse(flags.stage, &flags.object, &flags.mechanism, &flags.evidence, &flags.healthy)?;
            Ok(show_diagnosis(&engine.answer(&answer)?))
        }
        LabCommand::Verify => {
            let verified = engine.verify()?;
            let mut text = format!("{}\n", verified.ruling);
            if verified.diagnosis_missing {
                text.push_str(&format!("{}\n", say("verify.diagnosis-missing", &[])));
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

/// The head of a column.
fn head(key: &str) -> String {
    say(key, &[])
}

fn list(progress: &Progress) -> anyhow::Result<String> {
    let [symptom, difficulty, minutes, title] =
        ["column.symptom", "column.difficulty", "column.minutes", "column.page"].map(head);
    let mut text = format!("{symptom:<20} {difficulty:<10} {minutes:>7}  {title}\n");
    for lab in engine::symptoms()? {
        let passed = progress.labs.values().any(|reached| reached.symptom == lab.symptom && reached.repaired);
        let done = if passed { say("list.repaired", &[]) } else { String::new() };
        let stars = "*".repeat(lab.difficulty.into());
        let _ = writeln!(text, "{:<20} {stars:<10} {:>7}  {}{done}", lab.symptom, lab.minutes, lab.title);
    }
    Ok(text)
}

/// A graded diagnosis as text.
pub fn show_diagnosis(diagnosis: &Diagnosis) -> String {
    let points = say("answer.points", &[("points", &diagnosis.points)]);
    let mut text = format!("{}\n{points}\n", diagnosis.ruling);
    for line in &diagnosis.evidence {
        let _ = writeln!(text, "  {}", say("answer.proof", &[("line", line)]));
    }
    text
}

/// Progress as a table.
pub fn progress(progress: &Progress) -> String {
    if progress.labs.is_empty() {
        return format!("{}\n", say("progress.nothing", &[]));
    }
    let [symptom, starts, diagnosis, repaired] =
        ["column.symptom", "column.starts", "column.diagnosis", "column.repaired"].map(head);
    let [hints, wrong, took] = ["column.hints", "column.wrong", "column.took"].map(head);
    let mut text =
        format!("{symptom:<24} {starts:>6} {diagnosis:>9} {repaired:>8} {hints:>5} {wrong:>5} {took:>12}\n");
    for (id, reached) in &progress.labs {
        // Before that, the id would tell the stage.
        let symptom = match reached.solved() {
            true => format!("{} ({id})", reached.symptom),
            false => reached.symptom.clone(),
        };
        let points = reached.diagnosis.map_or("-".to_owned(), |points| points.to_string());
        let repaired = say(if reached.repaired { "word.yes" } else { "word.no" }, &[]);
        let took = reached.times.get("repaired").map_or("-".to_owned(), |seconds| format!("{seconds} s"));
        let _ = writeln!(
            text,
            "{symptom:<24} {:>6} {points:>9} {repaired:>8} {:>5} {:>5} {took:>12}",
            reached.starts, reached.hints, reached.wrong
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
    let mut text = format!("{:<20}", head("column.learner"));
    for id in &tried {
        let _ = write!(text, " {id:>6}");
    }
    let _ = writeln!(text, "  {}  {}", head("column.repaired"), head("column.points"));
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
    // Which lab was hard for all: how many of those who tried it repaired it.
    let _ = write!(text, "{:<20}", head("row.repaired-of-tried"));
    for id in &tried {
        let of_lab: Vec<_> = class.iter().filter_map(|(_, progress)| progress.labs.get(*id)).collect();
        let repaired = of_lab.iter().filter(|reached| reached.repaired).count();
        let _ = write!(text, " {:>6}", format!("{repaired}/{}", of_lab.len()));
    }
    text.push('\n');
    Ok(text)
}

fn show_components(state_dir: &StateDir) -> anyhow::Result<String> {
    let status = std::fs::read(components::status_file(state_dir)).unwrap_or_else(|_| b"{}".to_vec());
    let status: std::collections::BTreeMap<String, super::cluster::supervisor::ComponentStatus> =
        serde_json::from_slice(&status)?;
    if !components::running(state_dir) {
        let dir = state_dir.root().display();
        return Ok(format!("{}\n", say("cluster.none", &[("dir", &dir)])));
    }
    let [component, status_head, restarts_head, message] =
        ["column.component", "column.status", "column.restarts", "column.message"].map(head);
    let mut text = format!("{component:<26} {status_head:<14} {restarts_head:>8}  {message}\n");
    let absent = say("components.absent", &[]);
    for name in components::PROGRAMS.iter().filter(|name| **name != "kubectl") {
        let (state, restarts, message) = match status.get(*name) {
            Some(known) => (known.status.as_str(), known.restarts, known.message.as_str()),
            None => ("absent", 0, absent.as_str()),
        };
        let _ = writeln!(text, "{name:<26} {state:<14} {restarts:>8}  {message}");
    }
    let (manifests, logs) = (components::dir(state_dir), state_dir.logs());
    let places: Values<'_> = &[("manifests", &manifests.display()), ("logs", &logs.display())];
    let _ = writeln!(text, "\n{}", say("components.places", places));
    Ok(text)
}

#[cfg(test)]
mod tests;
