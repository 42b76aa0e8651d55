//! Reading manifests from disk and standard input.
//!
//! # In Kubernetes
//! `FilenameOptions`, `ExpandPathsToFileVisitors` in `cli-runtime/pkg/resource`.
#![expect(clippy::disallowed_methods, reason = "shell: reads manifests")]

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::client::download::download_blocking;

use super::{Check, MAX_FILE_BYTES, Manifest, ManifestError, is_manifest, parse_each};

/// The objects in files, folders and standard input (`-`).
///
/// # Errors
/// The first thing that can't be read.
pub fn read_paths(paths: &[String], recursive: bool) -> Result<Vec<Manifest>, ManifestError> {
    read_each(paths, recursive, Check::Decode)?.into_iter().collect()
}

/// Each object in files, folders and standard input, or why a document isn't one.
///
/// # Errors
/// A file that isn't there.
pub fn read_each(
    paths: &[String],
    recursive: bool,
    check: Check,
) -> Result<Vec<Result<Manifest, ManifestError>>, ManifestError> {
    let mut texts = Vec::new();
    for path in paths {
        if path == "-" {
            let mut text = String::new();
            let mut limited = std::io::stdin().lock().take(MAX_FILE_BYTES as u64);
            limited
                .read_to_string(&mut text)
                .map_err(|e| ManifestError::Other(format!("read STDIN: {e}")))?;
            texts.push(("STDIN".to_string(), text));
        } else if path.starts_with("http://") || path.starts_with("https://") {
            let body = download_blocking(path, MAX_FILE_BYTES).map_err(ManifestError::Other)?;
            texts.push((path.clone(), text_of(&body)));
        } else {
            for file in files(Path::new(path), recursive)? {
                texts.push((file.display().to_string(), read_file(&file)?));
            }
        }
    }
    Ok(texts.iter().flat_map(|(source, text)| parse_each(text, source, check)).collect())
}

fn read_file(path: &Path) -> Result<String, ManifestError> {
    let name = path.display().to_string();
    let failed = |e: std::io::Error| ManifestError::Other(format!("read {name}: {e}"));
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > MAX_FILE_BYTES as u64 {
        return Err(ManifestError::Other(format!("{name} is larger than {MAX_FILE_BYTES} bytes")));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    Ok(text_of(&bytes))
}

/// The text in a file, without the mark that some editors put before it.
fn text_of(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.strip_prefix('\u{feff}').unwrap_or(&text).to_string()
}

/// The file itself, or a folder's manifests in the order of their names.
fn files(path: &Path, recursive: bool) -> Result<Vec<PathBuf>, ManifestError> {
    let shown = path.display().to_string();
    if !path.exists() {
        return Err(ManifestError::NotFound(shown));
    }
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let entries = std::fs::read_dir(path).map_err(|e| ManifestError::Other(format!("read {shown}: {e}")))?;
    let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    let mut found = Vec::new();
    for entry in entries {
        match (entry.is_dir(), recursive) {
            (true, true) => found.extend(files(&entry, true)?),
            (true, false) => {}
            (false, _) if is_manifest(&entry) => found.push(entry),
            (false, _) => {}
        }
    }
    Ok(found)
}
