//! The programs to measure: kube-proxy with the real parts, and the one that cargo builds without any feature.
//!
//! Both are called `target/release/kube-proxy`, so each is copied away before the other is built. What isn't named by a flag
//! is built here: measuring yesterday's program is worse than waiting.
//!
//! # Invariants
//! 1. The real parts are built last: what lies in `target/release` afterwards is what `labs/up` wants.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.
#![expect(clippy::disallowed_methods, reason = "shell: runs cargo")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use crate::options::MeasureFlags;
use crate::programs;

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Programs {
    /// All six stages with etcd and containerd; `None`: this `labs` was built without them.
    pub real: Option<PathBuf>,
    /// All six stages, embedded store, simulated containers.
    pub featureless: PathBuf,
    /// Our kubectl.
    pub kubectl: PathBuf,
}

/// Finds or builds them; copies go into `scratch`.
///
/// # Errors
/// cargo fails, or a named file isn't there.
pub fn find(flags: &MeasureFlags, scratch: &Path) -> anyhow::Result<Programs> {
    let featureless = match &flags.featureless {
        Some(path) => given(path)?,
        None => build(&[], &scratch.join("featureless"))?,
    };
    let real = match &flags.real {
        Some(path) => Some(given(path)?),
        None if cfg!(feature = "real") => {
            Some(build(&["--features", "stage6-proxy/real"], &scratch.join("real"))?)
        }
        None => None,
    };
    let measured = real.as_deref().unwrap_or(&featureless).parent();
    let kubectl = programs::in_folder_or_path(measured, Path::new("kubectl"));
    Ok(Programs { real, featureless, kubectl })
}

fn given(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path)
        .and_then(|path| path.metadata().map(|_| path))
        .with_context(|| format!("find {}", path.display()))
}

/// Builds kube-proxy and kubectl and copies them into `to`; returns kube-proxy's copy.
fn build(features: &[&str], to: &Path) -> anyhow::Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    // Set by `cargo run`: the very cargo that built us.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "-p", "stage6-proxy", "-p", "stage1-kubectl"]).args(features);
    command.arg("--manifest-path").arg(&manifest).args(["--message-format", "json-render-diagnostics"]);
    super::say(&format!("Building kube-proxy {}", features.join(" ")));
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("run cargo build")?;
    ensure!(output.status.success(), "cargo build failed");
    std::fs::create_dir_all(to).with_context(|| format!("create {}", to.display()))?;
    for built in executables(&String::from_utf8_lossy(&output.stdout)) {
        let copy = to.join(built.file_name().context("a program has a name")?);
        std::fs::copy(&built, &copy).with_context(|| format!("copy {}", built.display()))?;
    }
    given(&to.join("kube-proxy"))
}

/// The programs that cargo's messages name.
fn executables(messages: &str) -> Vec<PathBuf> {
    let parsed = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    parsed.filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_are_those_that_cargo_names() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"x"},"executable":null}
not json
{"reason":"compiler-artifact","executable":"/t/release/kube-proxy"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executables(messages), [PathBuf::from("/t/release/kube-proxy")]);
    }
}
