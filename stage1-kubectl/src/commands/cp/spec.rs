//! File specs: `[namespace/]pod:path` or a local path, and the arithmetic of paths in a container.
//!
//! A container's path is a Linux path whatever this machine is, so it is text here and never touches the file system.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/cp/filespec.go`, `extractFileSpec` in `cp.go`. Left out: backslashes as separators.

use crate::failure::Failure;

/// Where a copy begins or ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileSpec {
    /// On this machine.
    Local(String),
    /// In a container.
    Remote { namespace: Option<String>, pod: String, file: String },
}

impl FileSpec {
    pub(super) fn file(&self) -> &str {
        match self {
            FileSpec::Local(file) | FileSpec::Remote { file, .. } => file,
        }
    }
}

/// Reads `[[namespace/]pod:]path`.
pub(super) fn parse(text: &str) -> Result<FileSpec, Failure> {
    let bad = || Failure::message("filespec must match the canonical format: [[namespace/]pod:]file/path");
    let Some((pod, file)) = text.split_once(':') else {
        return Ok(FileSpec::Local(without_slash(text)));
    };
    let file = without_slash(file);
    match pod.split('/').collect::<Vec<_>>()[..] {
        [""] => Err(bad()),
        [pod] => Ok(FileSpec::Remote { namespace: None, pod: pod.into(), file }),
        [namespace, pod] => Ok(FileSpec::Remote { namespace: Some(namespace.into()), pod: pod.into(), file }),
        _ => Err(bad()),
    }
}

fn without_slash(path: &str) -> String {
    path.strip_suffix('/').unwrap_or(path).to_string()
}

/// A path without `.`, `..` and double slashes, as Go's `path.Clean`.
pub(super) fn clean_remote(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if matches!(parts.last(), Some(last) if *last != "..") => drop(parts.pop()),
            ".." if rooted => {}
            part => parts.push(part),
        }
    }
    match (rooted, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".into(),
        (false, false) => parts.join("/"),
    }
}

/// The folder and the last name of a cleaned path.
pub(super) fn split_remote(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((folder, name)) => (folder, name),
        None => (".", path),
    }
}

/// What every name in the archive of a path begins with: `tar` drops the leading slash; ways up past the root go nowhere.
pub(super) fn archive_prefix(file: &str) -> String {
    let cleaned = clean_remote(file.trim_start_matches('/'));
    let mut path = cleaned.as_str();
    while let Some(rest) = path.strip_prefix("../") {
        path = rest;
    }
    match path {
        "." | ".." => String::new(),
        path => path.trim_start_matches('/').to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_makes_a_path_remote() {
        assert_eq!(parse("/tmp/a/").unwrap(), FileSpec::Local("/tmp/a".into()));
        let remote = |ns: Option<&str>, file: &str| FileSpec::Remote {
            namespace: ns.map(String::from),
            pod: "web".into(),
            file: file.into(),
        };
        assert_eq!(parse("web:/tmp/a").unwrap(), remote(None, "/tmp/a"));
        assert_eq!(parse("ns/web:a:b").unwrap(), remote(Some("ns"), "a:b"));
        assert!(parse(":a").is_err() && parse("a/b/c:d").is_err());
    }

    #[test]
    fn paths_are_cleaned_and_the_archives_prefix_is_found() {
        assert_eq!(clean_remote("/a/../../b//c/."), "/b/c");
        assert_eq!(clean_remote("../a"), "../a");
        assert_eq!(split_remote("/a"), ("/", "a"));
        assert_eq!(split_remote("a"), (".", "a"));
        assert_eq!(archive_prefix("/var/log/"), "var/log");
        assert_eq!(archive_prefix("../../etc/passwd"), "etc/passwd");
        assert_eq!(archive_prefix("/"), "");
    }
}
