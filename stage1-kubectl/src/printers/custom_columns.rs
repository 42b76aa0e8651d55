//! `-o custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image`.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/get/customcolumn.go`. Left out: `custom-columns-file`.

use serde_json::Value;

use super::{jsonpath, table};

/// The table of the given columns.
///
/// # Errors
/// A column without a title or path.
pub fn render(spec: &str, items: &[Value]) -> Result<String, String> {
    let mut columns = Vec::new();
    for part in spec.split(',') {
        let bad = || format!("unexpected custom-columns spec: {part}, expected <header>:<json-path-expr>");
        let (title, path) = part.split_once(':').ok_or_else(bad)?;
        columns.push((title.to_string(), jsonpath::parse(&jsonpath::relaxed(path)?)?));
    }
    let mut lines = vec![columns.iter().map(|(title, _)| title.clone()).collect::<Vec<_>>()];
    for item in items {
        let mut line = Vec::new();
        for (_, path) in &columns {
            let found = jsonpath::find_all(path, item).unwrap_or_default();
            let texts: Vec<String> = found.iter().map(jsonpath::text).collect();
            line.push(if texts.is_empty() { "<none>".to_string() } else { texts.join(",") });
        }
        lines.push(line);
    }
    Ok(table::align(&lines))
}
