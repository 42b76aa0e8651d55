//! Reading kubeconfig files from disk.
//!
//! `--kubeconfig` names one file that must be there. Without it the files in `KUBECONFIG` (or `~/.kube/config`) are merged,
//! and those that don't exist are skipped.
//!
//! # In Kubernetes
//! `ClientConfigLoadingRules` in `client-go/tools/clientcmd/loader.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads kubeconfig files")]

use std::path::{Path, PathBuf};

use super::{Config, ConfigError};

/// The files that are read when none is named: `KUBECONFIG`, else `~/.kube/config`.
pub fn default_paths() -> Vec<PathBuf> {
    match std::env::var_os("KUBECONFIG").filter(|v| !v.is_empty()) {
        Some(list) => {
            let mut paths: Vec<PathBuf> = Vec::new();
            for path in std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()) {
                // A file that is named twice is read once.
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
            paths
        }
        None => std::env::home_dir().map(|home| home.join(".kube/config")).into_iter().collect(),
    }
}

/// Reads and merges; files that don't exist are skipped.
///
/// # Errors
/// A file that can't be read or is no kubeconfig.
pub fn load(paths: &[PathBuf]) -> Result<Config, ConfigError> {
    let mut merged = Config::default();
    for path in paths {
        if path.exists() {
            merged.merge(load_file(path)?);
        }
    }
    Ok(merged)
}

/// Reads one file that must be there, with its paths made absolute.
///
/// # Errors
/// As [`load`], and when the file is missing.
pub fn load_file(path: &Path) -> Result<Config, ConfigError> {
    let mut config = load_as_written(path)?;
    let base = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    config.resolve_paths(base.parent().unwrap_or(Path::new("/")));
    Ok(config)
}

/// Reads one file that must be there and leaves relative paths as they are: for who writes it back.
///
/// # Errors
/// As [`load_file`].
pub fn load_as_written(path: &Path) -> Result<Config, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Read {
        path: path.display().to_string(),
        message: match error.kind() {
            std::io::ErrorKind::NotFound => "no such file or directory".into(),
            std::io::ErrorKind::PermissionDenied => "permission denied".into(),
            _ => error.to_string(),
        },
    })?;
    parse(&text).map_err(|message| ConfigError::Parse { path: path.display().to_string(), message })
}

fn parse(text: &str) -> Result<Config, String> {
    if text.trim().is_empty() {
        return Ok(Config::default());
    }
    let value: serde_json::Value = serde_yaml::from_str(text).map_err(|e| e.to_string())?;
    let config: Config = serde_json::from_value(value).map_err(|e| e.to_string())?;
    let clusters: Vec<&str> = config.clusters.iter().map(|one| one.name.as_str()).collect();
    let users: Vec<&str> = config.users.iter().map(|one| one.name.as_str()).collect();
    let contexts: Vec<&str> = config.contexts.iter().map(|one| one.name.as_str()).collect();
    for (names, list, map) in [
        (clusters, "NamedCluster", "Cluster"),
        (users, "NamedAuthInfo", "AuthInfo"),
        (contexts, "NamedContext", "Context"),
    ] {
        // Two entries of one name in one file: nobody could say which of them counts.
        if let Some(at) = (1..names.len()).find(|at| names[..*at].contains(&names[*at])) {
            let what = format!("error converting *[]{list} into *map[string]*api.{map}");
            return Err(format!("{what}: duplicate name {:?} in list", names[at]));
        }
    }
    Ok(config)
}
