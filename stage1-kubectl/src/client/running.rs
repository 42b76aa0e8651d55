//! A running cluster: is there one in the state directory, and how is it reached?
//!
//! *Beside the journey.* Before: a stage was started without `--kubeconfig`. After: it joins the cluster that runs in its
//! state directory, or knows that it must start the stages before it.
//!
//! # In Kubernetes
//! No counterpart: components are always told.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::{Client, ClientConfig};
use crate::state_dir::StateDir;

/// Was one of these flags typed (`--flag value` or `--flag=value`)?
pub fn flag_given(flags: &[&str]) -> bool {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    flags.iter().any(|flag| find(&words, flag).is_some())
}

/// Was a cluster named? By one of these flags, or by `KUBECONFIG` where no state directory is asked for: whoever has exported
/// the pipeline's own kubeconfig and starts it again by `--state-dir` wants the pipeline, not a part of it.
pub fn cluster_given(flags: &[&str]) -> bool {
    flag_given(flags) || (kubeconfig_variable() && !flag_given(&["--state-dir"]))
}

#[expect(clippy::disallowed_methods, reason = "shell: reads the environment")]
fn kubeconfig_variable() -> bool {
    std::env::var_os("KUBECONFIG").is_some()
}

/// The state directory of this command line, read before it is known which flags the line may have.
pub fn state_dir_given() -> StateDir {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    StateDir::locate(find(&words, "--state-dir").flatten().map(PathBuf::from))
}

/// Whether a flag is there, and its value.
fn find<'a>(words: &'a [String], flag: &str) -> Option<Option<&'a str>> {
    words.iter().enumerate().find_map(|(at, word)| match word.strip_prefix(flag) {
        Some("") => Some(words.get(at + 1).map(String::as_str)),
        Some(value) => value.strip_prefix('=').map(Some),
        None => None,
    })
}

/// The component's kubeconfig of a cluster that answers in the state directory.
pub async fn running_cluster(state_dir: &StateDir, component: &str) -> Option<PathBuf> {
    let kubeconfig = state_dir.kubeconfig(component);
    is_ready(&kubeconfig).await.then_some(kubeconfig)
}

async fn is_ready(kubeconfig: &Path) -> bool {
    let config = ClientConfig::from_kubeconfig(kubeconfig, None).ok();
    let Some(client) = config.and_then(|config| Client::new(config).ok()) else { return false };
    let request = http::Request::get("/readyz").body(Bytes::new()).expect("a fixed request");
    client.send(request).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_has_its_value_after_a_space_or_an_equals_sign() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(find(&words("p --state-dir x -v 1"), "--state-dir"), Some(Some("x")));
        assert_eq!(find(&words("p --state-dir=x"), "--state-dir"), Some(Some("x")));
        assert_eq!(find(&words("p --state-dirs=x"), "--state-dir"), None);
        assert_eq!(find(&words("p --help"), "--help"), Some(None));
    }

    #[tokio::test]
    async fn nothing_runs_in_an_empty_directory() {
        let dir = tempfile::tempdir().unwrap();
        let state_dir = StateDir::locate(Some(dir.path().to_owned()));
        assert_eq!(running_cluster(&state_dir, "admin").await, None);
    }
}
