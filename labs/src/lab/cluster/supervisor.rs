//! Supervisor: keeps running what the manifests say.
//!
//! [`plan`] is the kubelet's idea in twenty lines: compare what should run with what runs, and name the difference. The shell
//! around it looks at the folder and at its children five times a second, and writes `status.json` when something has changed.
//!
//! # Invariants
//! 1. A changed manifest stops the old process before the new one starts.
//! 2. A process that ends by itself is started again after a back-off that doubles up to ten seconds, and starts anew with a changed manifest.
//! 3. While nothing changes, nothing is written and no file is read: the folder's own entries are compared.
//!
//! # In Kubernetes
//! The kubelet's static pods. Left out: events of the file system (the folder's entries are compared, five times a second).
#![expect(clippy::disallowed_methods, reason = "shell: runs processes and reads the clock")]

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use stage1_kubectl::state_dir::StateDir;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use super::components::{self, Manifest};

const PERIOD: Duration = Duration::from_millis(200);
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(10);
/// A process that ran for so long has recovered.
const STEADY: Duration = Duration::from_secs(30);
/// How long a process may take to say goodbye.
const GRACE: Duration = Duration::from_secs(10);

/// How a component is, as `status.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentStatus {
    /// `running`, `crash-looping` or `invalid`.
    pub status: String,
    /// The process.
    #[serde(default)]
    pub pid: Option<u32>,
    /// How often it ended by itself.
    #[serde(default)]
    pub restarts: u32,
    /// Why it isn't running.
    #[serde(default)]
    pub message: String,
}

/// A component that is, or was, run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// With what.
    pub manifest: Manifest,
    /// Is there a process?
    pub alive: bool,
    /// When it may be started again, if it ended by itself.
    pub not_before: Option<Instant>,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Stop this component.
    Stop(String),
    /// Start this component.
    Start(Manifest),
}

// ANCHOR: component-plan
/// The difference between what should run and what runs.
pub fn plan(
    desired: &BTreeMap<String, Manifest>,
    known: &BTreeMap<String, Known>,
    now: Instant,
) -> Vec<Action> {
    let mut actions = Vec::new();
    for (name, known) in known {
        if known.alive && desired.get(name) != Some(&known.manifest) {
            actions.push(Action::Stop(name.clone()));
        }
    }
    for (name, manifest) in desired {
        let start = match known.get(name) {
            None => true,
            Some(known) if known.manifest != *manifest => true,
            Some(known) => !known.alive && known.not_before.is_none_or(|at| now >= at),
        };
        if start {
            actions.push(Action::Start(manifest.clone()));
        }
    }
    actions
}
// ANCHOR_END: component-plan

/// What goes wrong at each look is told once: again only when it is something else, or after it had ended.
#[derive(Debug, Default)]
struct Trouble(Option<String>);

impl Trouble {
    /// The trouble, if it isn't what was told last.
    fn news(&mut self, trouble: String) -> Option<&str> {
        if self.0.as_ref() == Some(&trouble) {
            return None;
        }
        Some(self.0.insert(trouble).as_str())
    }

    fn ended(&mut self) {
        self.0 = None;
    }
}

/// One component's process and its history.
struct Process {
    manifest: Manifest,
    child: Option<Child>,
    started: Instant,
    backoff: Duration,
    not_before: Option<Instant>,
    restarts: u32,
    message: String,
}

/// Keeps the components of a state directory running until `shutdown`; then stops them, the API server last.
pub async fn run(state_dir: StateDir, shutdown: CancellationToken) {
    let mut processes: BTreeMap<String, Process> = BTreeMap::new();
    let mut folder = components::Folder::default();
    let mut told = Vec::new();
    let (mut trouble, mut unwritten) = (Trouble::default(), Trouble::default());
    let mut period = tokio::time::interval(PERIOD);
    while !shutdown.is_cancelled() {
        tokio::select! {
            _ = period.tick() => {}
            () = shutdown.cancelled() => break,
        }
        for process in processes.values_mut() {
            process.notice_end();
        }
        let manifests = match folder.look(&state_dir) {
            Ok(manifests) => {
                trouble.ended();
                manifests
            }
            // Not to be read is not the same as empty: nothing is stopped for it.
            Err(error) => {
                if let Some(error) = trouble.news(error.to_string()) {
                    tracing::warn!(error, "Cannot read the manifests");
                }
                continue;
            }
        };
        let sound =
            manifests.iter().filter_map(|(name, read)| Some((name.clone(), read.clone().ok()?))).collect();
        let known = processes.iter().map(|(name, process)| (name.clone(), process.known())).collect();
        for action in plan(&sound, &known, Instant::now()) {
            match action {
                Action::Stop(name) => {
                    if let Some(process) = processes.remove(&name) {
                        process.stop().await;
                    }
                }
                Action::Start(manifest) => {
                    let before = processes.remove(&manifest.name);
                    processes.insert(manifest.name.clone(), Process::start(&state_dir, manifest, before));
                }
            }
        }
        processes.retain(|name, _| manifests.contains_key(name));
        if let Err(error) = write_status(&state_dir, manifests, &processes, &mut told) {
            if let Some(error) = unwritten.news(error.to_string()) {
                tracing::warn!(error, "Cannot write the components' status");
            }
        } else {
            unwritten.ended();
        }
    }
    let last = processes.remove("kube-apiserver");
    futures::future::join_all(processes.into_values().map(Process::stop)).await;
    if let Some(api_server) = last {
        api_server.stop().await;
    }
}

impl Process {
    /// Starts a component; `before` is its earlier life with the same or another manifest.
    fn start(state_dir: &StateDir, manifest: Manifest, before: Option<Process>) -> Self {
        let before = before.filter(|before| before.manifest == manifest);
        let mut process = Self {
            child: None,
            started: Instant::now(),
            backoff: before.as_ref().map_or(FIRST_BACKOFF, |before| before.backoff),
            not_before: None,
            restarts: before.as_ref().map_or(0, |before| before.restarts),
            message: before.map(|before| before.message).unwrap_or_default(),
            manifest,
        };
        match spawn(state_dir, &process.manifest) {
            Ok(child) => process.child = Some(child),
            Err(error) => process.ended(format!("{}: {error}", process.manifest.command.join(" "))),
        }
        process
    }

    fn known(&self) -> Known {
        Known { manifest: self.manifest.clone(), alive: self.child.is_some(), not_before: self.not_before }
    }

    fn notice_end(&mut self) {
        let Some(child) = &mut self.child else { return };
        if let Ok(Some(status)) = child.try_wait() {
            self.child = None;
            self.ended(status.to_string());
        }
    }

    fn ended(&mut self, message: String) {
        self.backoff =
            if self.started.elapsed() > STEADY { FIRST_BACKOFF } else { (self.backoff * 2).min(MAX_BACKOFF) };
        self.not_before = Some(Instant::now() + self.backoff);
        self.restarts += 1;
        self.message = message;
    }

    async fn stop(self) {
        let Some(mut child) = self.child else { return };
        if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
            let _ = child.kill().await;
        }
    }
}

fn spawn(state_dir: &StateDir, manifest: &Manifest) -> std::io::Result<Child> {
    stage1_kubectl::state_dir::make_private(&state_dir.logs())?;
    let path = state_dir.logs().join(format!("{}.log", manifest.name));
    let log = std::fs::File::options().create(true).append(true).open(path)?;
    let (program, args) = manifest.command.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
    Command::new(program)
        .args(args)
        .env_remove("KUBECONFIG")
        .env_remove("STAGES_STATE_DIR")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        // Ctrl-C in the supervisor's terminal is for the supervisor, which stops them in order.
        .process_group(0)
        .spawn()
}

/// Writes how the components are, unless that is what was `told` last.
fn write_status(
    state_dir: &StateDir,
    manifests: &BTreeMap<String, Result<Manifest, String>>,
    processes: &BTreeMap<String, Process>,
    told: &mut Vec<u8>,
) -> std::io::Result<()> {
    let status = |name: &String, read: &Result<Manifest, String>| match (read, processes.get(name)) {
        (Err(message), _) => {
            ComponentStatus { status: "invalid".into(), pid: None, restarts: 0, message: message.clone() }
        }
        (Ok(_), process) => {
            let pid = process.and_then(|process| process.child.as_ref()).and_then(Child::id);
            ComponentStatus {
                status: if pid.is_some() { "running" } else { "crash-looping" }.into(),
                pid,
                restarts: process.map_or(0, |process| process.restarts),
                message: process.map(|process| process.message.clone()).unwrap_or_default(),
            }
        }
    };
    let all: BTreeMap<&String, ComponentStatus> =
        manifests.iter().map(|(name, read)| (name, status(name, read))).collect();
    let path = components::status_file(state_dir);
    let new = path.with_extension("json.new");
    let text = serde_json::to_vec_pretty(&all).expect("texts and numbers are JSON");
    // Somebody may have removed the file; that is seen at the next change.
    if text != *told {
        std::fs::write(&new, &text)?;
        std::fs::rename(&new, &path)?;
        *told = text;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, flag: &str) -> Manifest {
        Manifest { name: name.to_owned(), command: vec![name.to_owned(), flag.to_owned()] }
    }

    fn map<T>(entries: Vec<(&str, T)>) -> BTreeMap<String, T> {
        entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    #[test]
    fn what_has_a_manifest_runs_and_what_has_none_stops() {
        let now = Instant::now();
        let desired = map(vec![("a", manifest("a", "--x")), ("b", manifest("b", "--y"))]);
        assert_eq!(
            plan(&desired, &BTreeMap::new(), now),
            [Action::Start(manifest("a", "--x")), Action::Start(manifest("b", "--y"))]
        );
        let running = |flag| Known { manifest: manifest("a", flag), alive: true, not_before: None };
        assert_eq!(plan(&map(vec![("a", manifest("a", "--x"))]), &map(vec![("a", running("--x"))]), now), []);
        assert_eq!(
            plan(&BTreeMap::new(), &map(vec![("a", running("--x"))]), now),
            [Action::Stop("a".to_owned())]
        );
        assert_eq!(
            plan(&map(vec![("a", manifest("a", "--new"))]), &map(vec![("a", running("--x"))]), now),
            [Action::Stop("a".to_owned()), Action::Start(manifest("a", "--new"))]
        );
    }

    #[test]
    fn the_status_is_written_when_it_changes_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let state_dir = StateDir::new(Some(dir.path().to_owned())).unwrap();
        std::fs::create_dir_all(components::dir(&state_dir)).unwrap();
        let path = components::status_file(&state_dir);
        let (mut told, none) = (Vec::new(), BTreeMap::new());
        let mut write = |manifests: &BTreeMap<String, Result<Manifest, String>>| {
            write_status(&state_dir, manifests, &none, &mut told).unwrap();
            let there = path.exists();
            let _ = std::fs::remove_file(&path);
            there
        };
        let one = map(vec![("a", Ok(manifest("a", "--x")))]);
        assert_eq!([write(&one), write(&one), write(&BTreeMap::new())], [true, false, true]);
    }

    #[test]
    fn a_trouble_that_lasts_is_told_once_and_again_after_it_had_ended() {
        let mut trouble = Trouble::default();
        let mut told = |what: &str| trouble.news(what.to_owned()).is_some();
        assert_eq!(
            [told("no folder"), told("no folder"), told("no rights"), told("no folder")],
            [true, false, true, true]
        );
        trouble.ended();
        assert!(trouble.news("no folder".to_owned()).is_some());
    }

    #[test]
    fn what_ended_waits_for_its_back_off_unless_its_manifest_changed() {
        let now = Instant::now();
        let ended = Known {
            manifest: manifest("a", "--bad"),
            alive: false,
            not_before: Some(now + Duration::from_secs(5)),
        };
        let known = map(vec![("a", ended)]);
        let same = map(vec![("a", manifest("a", "--bad"))]);
        assert_eq!(plan(&same, &known, now), []);
        assert_eq!(
            plan(&same, &known, now + Duration::from_secs(5)),
            [Action::Start(manifest("a", "--bad"))]
        );
        let mended = manifest("a", "--good");
        assert_eq!(plan(&map(vec![("a", mended.clone())]), &known, now), [Action::Start(mended)]);
    }
}
