//! The lab on a copy of the source: a bug-hunt in the reflector.
//!
//! The reflector is a state machine that needs nothing but the standard library, so a copy of its file compiles by itself in a second.
//! The copy has one arm changed: `410 Gone` no longer leads back to a list. With it lies a trace, made by running a mutant
//! of the same machine over a history that was compacted meanwhile. The learner mends the copy; the judge is the reflector's own test module.
//!
//! # Invariants
//! 1. The project's own source is never touched.
//! 2. Tests that the learner's copy holds don't count; those of the original do.
//!
//! # In Kubernetes
//! `client-go/tools/cache/reflector.go`; its relist on `apierrors.IsResourceExpired`.
#![expect(clippy::disallowed_methods, reason = "shell: writes files and runs the compiler")]

use std::io;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use stage1_kubectl::state_dir::StateDir;
use stage3_controllers::reflector::{Heard, Reflector, Request};

use super::texts::say;

const SOURCE: &str = include_str!("../../../stage3-controllers/src/reflector.rs");
const TESTS_BEGIN: &str = "#[cfg(test)]\nmod tests {";
/// The arm that brings a watch back after 410.
const SOUND: &str = "            (Reflector::Watching { progressed, .. }, Heard::Gone) => {
                (Reflector::Listing { consistent: !progressed }, None)
            }
";
/// What the lab makes of it.
const MUTANT: &str = "            (state @ Reflector::Watching { .. }, Heard::Gone) => (state, None),
";

/// The folder of the copy.
pub fn dir(state_dir: &StateDir) -> PathBuf {
    state_dir.root().join("lab-source")
}

/// The source without its tests, with the bug.
fn mutated() -> String {
    let (code, _) = SOURCE.split_once(TESTS_BEGIN).unwrap_or((SOURCE, ""));
    code.replace(SOUND, MUTANT)
}

/// The learner's source with the original's tests.
fn with_tests(copy: &str) -> String {
    let (_, tests) = SOURCE.split_once(TESTS_BEGIN).unwrap_or_default();
    format!("{copy}\n#[cfg(test)]\nmod the_originals_tests {{{tests}")
}

/// Writes `reflector.rs` and `trace.json`.
///
/// # Errors
/// They can't be written.
pub fn lay_out(state_dir: &StateDir) -> io::Result<()> {
    let dir = dir(state_dir);
    std::fs::create_dir_all(&dir)?;
    std::fs::write(dir.join("reflector.rs"), mutated())?;
    std::fs::write(dir.join("trace.json"), serde_json::to_vec_pretty(&trace())?)
}

/// Removes the copy.
///
/// # Errors
/// It can't be removed.
pub fn remove(state_dir: &StateDir) -> io::Result<()> {
    match std::fs::remove_dir_all(dir(state_dir)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What was heard and asked, up to the compaction and after it.
pub fn trace() -> Value {
    let mut reflector = Reflector::new();
    let mut steps = Vec::new();
    let history: [(&str, Heard<&str>); 5] = [
        ("list at 5: web", Heard::Listed { items: vec!["web"], resource_version: "5".into() }),
        ("web changed at 7", Heard::Changed("web", "7".into())),
        ("410 Gone: the store was compacted at 40", Heard::Gone),
        ("410 Gone: the store was compacted at 40", Heard::Gone),
        ("410 Gone: the store was compacted at 90", Heard::Gone),
    ];
    for (heard, event) in history {
        let asked = show(&reflector.request());
        // The mutant: 410 changes nothing.
        if !matches!(event, Heard::Gone) {
            reflector = reflector.step(event).0;
        }
        steps.push(json!({ "asked": asked, "heard": heard, "next": show(&reflector.request()) }));
    }
    json!({ "afterGone": show(&reflector.request()), "knows": ["web"], "store": ["web", "new"], "steps": steps })
}

fn show(request: &Request) -> String {
    match request {
        Request::List { resource_version } => format!("list at {resource_version:?}"),
        Request::Watch { resource_version } => format!("watch from {resource_version}"),
    }
}

/// Compiles the learner's copy with the original's tests and runs them.
///
/// # Errors
/// What the compiler or the tests said, cut to its first lines.
pub fn check(state_dir: &StateDir) -> Result<(), String> {
    let path = dir(state_dir).join("reflector.rs");
    let copy = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let work = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (source, program) = (work.path().join("reflector.rs"), work.path().join("tests"));
    std::fs::write(&source, with_tests(&copy)).map_err(|error| error.to_string())?;
    let mut compile = bounded("rustc");
    compile.args(["--edition=2024", "--test", "--cap-lints=allow", "-o"]).arg(&program).arg(&source);
    said(compile, &say("copy.no-compile", &[]))?;
    said(bounded(&program), &say("copy.tests-fail", &[]))
}

/// A command that ends within a minute: the learner's copy may loop for ever.
fn bounded(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command.arg("60").arg(program);
    command
}

fn said(mut command: Command, failed: &str) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(());
    }
    if output.status.code() == Some(124) {
        return Err(say("copy.too-long", &[("failed", &failed)]));
    }
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let telling =
        |line: &&str| line.starts_with("error") || line.contains("FAILED") || line.contains("panicked at");
    let lines: Vec<&str> = text.lines().filter(telling).take(4).collect();
    Err(format!("{failed}: {}", lines.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_has_the_bug_and_the_original_passes() {
        assert_eq!(SOURCE.matches(SOUND).count(), 1, "the reflector changed: change the mutant too");
        let dir = tempfile::tempdir().unwrap();
        let state_dir = StateDir::new(Some(dir.path().to_owned())).unwrap();
        lay_out(&state_dir).unwrap();
        let failed = check(&state_dir).unwrap_err();
        assert!(failed.starts_with("the reflector's tests fail on your copy: "), "{failed}");
        let path = super::dir(&state_dir).join("reflector.rs");
        std::fs::write(&path, mutated().replace(MUTANT, SOUND)).unwrap();
        assert_eq!(check(&state_dir), Ok(()));
        std::fs::write(&path, "fn main() { nonsense }").unwrap();
        assert!(check(&state_dir).unwrap_err().starts_with("the copy doesn't compile: "));
        remove(&state_dir).unwrap();
        remove(&state_dir).unwrap();
    }

    #[test]
    fn the_trace_shows_a_watch_that_starts_from_the_same_revision_for_ever() {
        assert_eq!(trace()["afterGone"], "watch from 7");
    }
}
