//! The learner's kubeconfig: the only door to the lab cluster, and one that labs may break.
//!
//! `lab.kubeconfig` in the state directory: user `learner`, who may do everything, so that the audit log tells a learner's requests from the
//! components' and the lab's own. A command that would touch a cluster first checks that the learner's `KUBECONFIG` is this very
//! file: nobody's other cluster is ever the target of a lab.
//!
//! # Invariants
//! 1. Another context than the lab's is refused, with the line to type.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.
#![expect(clippy::disallowed_methods, reason = "shell: reads and writes the kubeconfig")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;
use stage1_kubectl::state_dir::{StateDir, write_private};
use stage2_apiserver::pki::{Identity, Pki};

use super::guards::HARNESS_USER;
use super::texts::say;

/// The user of the learner's kubeconfig.
pub const LEARNER: &str = "learner";

/// The learner's kubeconfig.
pub fn kubeconfig(state_dir: &StateDir) -> PathBuf {
    state_dir.root().join("lab.kubeconfig")
}

/// The lab's own kubeconfig.
pub fn harness_kubeconfig(state_dir: &StateDir) -> PathBuf {
    state_dir.kubeconfig(HARNESS_USER)
}

/// What a learner is told when the cluster is ready.
#[must_use]
pub fn welcome(state_dir: &StateDir) -> String {
    format!("{}\n", say("cluster.ready", &[("kubeconfig", &kubeconfig(state_dir).display())]))
}

/// Checks that commands typed in this shell go to the lab cluster.
///
/// # Errors
/// In words, with what to type.
pub fn refuse_other_context(given: Option<&OsStr>, lab: &Path) -> Result<(), String> {
    let right = |given: &OsStr| std::path::absolute(given).is_ok_and(|path| path == lab);
    match given.filter(|given| !given.is_empty()) {
        Some(given) if right(given) => Ok(()),
        Some(given) => Err(say("context.other", &[("given", &given.display()), ("lab", &lab.display())])),
        None => Err(say("context.none", &[("lab", &lab.display())])),
    }
}

/// Writes both kubeconfigs, sound ones.
///
/// # Errors
/// The cluster's CA can't be read, or a file can't be written.
pub fn write(state_dir: &StateDir, server: &str) -> anyhow::Result<()> {
    let pki = Pki::open(&state_dir.pki(), Timestamp::now())?;
    let masters = ["system:masters"];
    pki.kubeconfig(
        &harness_kubeconfig(state_dir),
        HARNESS_USER,
        &Identity::new(HARNESS_USER, &masters),
        server,
    )?;
    pki.kubeconfig(&kubeconfig(state_dir), LEARNER, &Identity::new(LEARNER, &masters), server)?;
    Ok(())
}

/// Where the API server is, as the state directory remembers it.
///
/// # Errors
/// No API server has run there.
pub fn server(state_dir: &StateDir) -> anyhow::Result<String> {
    let path = state_dir.root().join("apiserver.port");
    let port =
        std::fs::read_to_string(&path).with_context(|| say("cluster.never", &[("path", &path.display())]))?;
    Ok(format!("https://127.0.0.1:{}", port.trim()))
}

/// Fault 1-B: another port, where nothing listens.
///
/// # Errors
/// The file can't be read or written.
pub fn move_endpoint(state_dir: &StateDir) -> anyhow::Result<()> {
    let path = kubeconfig(state_dir);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let server = server(state_dir)?;
    // A port that the system has just given and taken back: nothing listens there.
    let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let moved = text.replace(&server, &format!("https://{free}"));
    write_private(&path, moved.as_bytes()).with_context(|| path.display().to_string())
}

/// Fault 1-C: a certificate that ended yesterday. It is issued as the cluster would have issued it a year and a day ago.
///
/// # Errors
/// The CA can't be read or the file can't be written.
pub fn expire(state_dir: &StateDir) -> anyhow::Result<()> {
    let a_year_and_two_days = jiff::Span::new().hours(24 * (365 + 2));
    let pki = Pki::open(&state_dir.pki(), Timestamp::now() - a_year_and_two_days)?;
    let identity = Identity::new(LEARNER, &["system:masters"]);
    pki.kubeconfig(&kubeconfig(state_dir), "learner-expired", &identity, &server(state_dir)?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_other_context_is_refused_with_the_line_to_type() {
        let lab = Path::new("/state/lab.kubeconfig");
        assert_eq!(refuse_other_context(Some(OsStr::new("/state/lab.kubeconfig")), lab), Ok(()));
        let other = refuse_other_context(Some(OsStr::new("/root/.kube/config")), lab).unwrap_err();
        assert!(other.contains("export KUBECONFIG=/state/lab.kubeconfig"), "{other}");
        for given in
            [None, Some(OsStr::new("")), Some(OsStr::new("/state/lab.kubeconfig:/root/.kube/config"))]
        {
            assert!(refuse_other_context(given, lab).is_err(), "{given:?}");
        }
    }
}
