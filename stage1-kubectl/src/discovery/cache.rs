//! What a server had when it was last asked, kept on disk for `api-resources --cached`.
//!
//! *Step 1 of a pod's journey.* Each discovery leaves the two documents in `--cache-dir` (else `KUBECACHEDIR`, else `~/.kube/cache`), in a file
//! for the server's address. Whoever wants to know the resources without asking finds them there for six hours.
//!
//! # Invariants
//! 1. The file is replaced as a whole: a reader sees one of the two states.
//! 2. A cache that can't be written or read is no error.
//!
//! # In Kubernetes
//! `client-go/discovery/cached/disk/cached_discovery.go`. Left out: other commands than `api-resources --cached` ask anew.
#![expect(clippy::disallowed_methods, reason = "shell: keeps a file")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

/// As kubectl's `--cache-dir` for discovery.
const TTL: Duration = Duration::from_secs(6 * 3600);

/// Where the documents of a server are kept.
pub fn file(cache_dir: Option<&str>, server: &str) -> Option<PathBuf> {
    let given = cache_dir.filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let dir =
        given.or_else(|| variable("KUBECACHEDIR")).or_else(|| Some(variable("HOME")?.join(".kube/cache")))?;
    Some(dir.join("discovery").join(place(server)).join("aggregated.json"))
}

/// `127.0.0.1_6443`: a server's address as the name of a folder.
fn place(server: &str) -> String {
    let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
    rest.chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-./".contains(c) { c } else { '_' })
        .collect::<String>()
        .replace("..", "_")
}

/// The documents, unless they are too old.
pub fn read(file: &Path) -> Option<Vec<Value>> {
    let written = std::fs::metadata(file).ok()?.modified().ok()?;
    written.elapsed().ok().filter(|age| *age < TTL)?;
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

/// Keeps the documents.
pub fn write(file: &Path, documents: &[Value]) {
    let Some(dir) = file.parent() else { return };
    let written = || -> std::io::Result<()> {
        std::fs::create_dir_all(dir)?;
        let mut new = tempfile::NamedTempFile::new_in(dir)?;
        serde_json::to_writer(&mut new, documents)?;
        new.flush()?;
        new.persist(file).map(drop).map_err(|error| error.error)
    };
    // Without a place for it there is no cache.
    let _ = written();
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_kept_is_found_under_the_servers_address() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(Some(dir.path().to_str().unwrap()), "https://127.0.0.1:6443").unwrap();
        assert!(file.ends_with("discovery/127.0.0.1_6443/aggregated.json"), "{}", file.display());
        assert_eq!(read(&file), None);
        write(&file, &[json!({"a": 1})]);
        assert_eq!(read(&file), Some(vec![json!({"a": 1})]));
        assert_eq!(place("https://h/../../etc"), "h/_/_/etc");
    }
}
