//! Templates that stand in files: `-o jsonpath-file=F`, `-o custom-columns-file=F`.
//!
//! # In Kubernetes
//! `NewJSONPathPrintFlags` in `cli-runtime/pkg/genericclioptions`, `NewCustomColumnsPrinterFromTemplate` in `kubectl/pkg/cmd/get`.
#![expect(clippy::disallowed_methods, reason = "shell: reads templates")]

use crate::failure::Failure;

/// The text of a template file.
pub(super) fn read(path: &str) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path);
    text.map_err(|e| Failure::message(format!("error reading --template {path}, {e}")))
}

/// Two lines, titles and paths, become `TITLE:path,…`.
pub(super) fn columns(text: &str) -> String {
    let mut lines = text.lines().map(str::split_whitespace);
    let (titles, paths) = (lines.next(), lines.next());
    let pairs = titles.into_iter().flatten().zip(paths.into_iter().flatten());
    pairs.map(|(title, path)| format!("{title}:{path}")).collect::<Vec<_>>().join(",")
}
